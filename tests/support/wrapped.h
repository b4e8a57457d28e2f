/* wrapped.h - the system calls of files, for tests that are linked with -Wl,--wrap=NAME for some of them.
 *
 * Such a test defines __wrap_NAME, which the program then calls; __real_NAME is the call itself. */
#ifndef SUPPORT_WRAPPED_H
#define SUPPORT_WRAPPED_H

#include <sys/types.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __real_pread(int fd, void *data, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_close(int fd);
int __wrap_close(int fd);
/* NOLINTEND(bugprone-reserved-identifier) */

#endif
