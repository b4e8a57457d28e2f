/* cache.h - the sizes of this machine's caches, as the kernel tells them. */
#ifndef NN_CACHE_H
#define NN_CACHE_H

#include <stddef.h>

/* Bytes of the cache for data that is on `level` (1, 2, 3), of the first CPU; 0: unknown. */
size_t cache_size(unsigned level);
/* The same from the folder `dir`, which is made like /sys/devices/system/cpu/cpu0/cache. */
size_t cache_size_in(const char *dir, unsigned level);

#endif
