/* static.c - only in the static program (make static): what it has in place of libraries and plug-ins.
 *
 * It contains all that it needs, and loads nothing. So three things are otherwise than in the usual program:
 *   - glibc would look up names with the plug-ins that /etc/nsswitch.conf lists, those of this machine, which another
 *     glibc made. Here names come from /etc/hosts and from DNS, for which glibc needs none.
 *   - No library can be loaded: OpenBLAS is never there (nn/arithmetic/blas.h).
 *   - Debian's libzmq and CZMQ can use PGM, NORM, GSSAPI and systemd, and we use none of them. The Makefile gives what
 *     they would call there the name absent; what they call in any case is here. */
#include <stdbool.h>
#include <stdlib.h>

#include "node/base/term.h"

/* Declared here: a machine need not have the headers of these libraries, and CZMQ's flags hide those of plug-ins. */
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __nss_configure_lookup(const char *database, const char *sources);
static void __attribute__((constructor)) names_without_plugins(void);
void absent(void);
bool pgm_init(void *error);
bool pgm_shutdown(void);
int sd_listen_fds(int unset);
void *dlopen(const char *file, int mode);
void *dlsym(void *handle, const char *name);

static void
names_without_plugins(void)
{
    if (__nss_configure_lookup("hosts", "files dns") != 0)
        abort();
}

void
absent(void)
{
    term_fail("libzmq called a function of a library that the static program does without");
    abort();
}

bool
pgm_init(void *error)
{
    (void)error;
    return true;
}

bool
pgm_shutdown(void)
{
    return true;
}

/* So many sockets did systemd open for us. */
int
sd_listen_fds(int unset)
{
    (void)unset;
    return 0;
}

void *
dlopen(const char *file, int mode)
{
    (void)file;
    (void)mode;
    return NULL;
}

void *
dlsym(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    return NULL;
}
