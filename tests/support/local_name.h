/* local_name.h - a name of this machine for tests of look-ups. A bare installation has no /etc/hosts. */
#ifndef TESTS_LOCAL_NAME_H
#define TESTS_LOCAL_NAME_H

#include <netdb.h>
#include <stddef.h>

/* "localhost" where that can be looked up, else the address. */
static inline const char *
local_name(void)
{
    struct addrinfo *found = NULL;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
        return "127.0.0.1";
    freeaddrinfo(found);
    return "localhost";
}

#endif
