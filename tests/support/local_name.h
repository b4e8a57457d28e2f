/* local_name.h - a name of this machine for tests of look-ups, and a port. A bare installation has no /etc/hosts. */
#ifndef TESTS_LOCAL_NAME_H
#define TESTS_LOCAL_NAME_H

#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* A port of our own, so that nodes outside this test do not mix in. */
static inline uint16_t
free_udp_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), rc = bind(fd, (struct sockaddr *)&at, sizeof at);
    assert(rc == 0);
    rc = getsockname(fd, (struct sockaddr *)&at, &size);
    assert(rc == 0);
    close(fd);
    return ntohs(at.sin_port);
}

#endif
