/* Names of seeds that the name server does not know at first: told once, and once more when it does.
 * LDFLAGS: -Wl,--wrap=getaddrinfo */
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>

#include "mesh/net/discover_resolve.h"
#include "tests/support/test.h"

enum { DEADLINE_MS = 60000 };

static atomic_uint asked;

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *want,
                       struct addrinfo **all);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *want,
                       struct addrinfo **all);

/* The second look-up of a name finds it. */
int
__wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *want,
                   struct addrinfo **all)
{
    if (strcmp(host, "pc3") != 0)
        return EAI_NONAME;
    if (atomic_fetch_add(&asked, 1) == 0)
        return EAI_NONAME;
    return __real_getaddrinfo("127.0.0.9", service, want, all);
}

static bool
wait_for_news(struct resolve *resolve, struct proto_endpoint *name, char address[PROTO_HOST_MAX])
{
    bool any = false;
    for (int ms = 0; !any && ms < DEADLINE_MS; ms += 10) {
        any = resolve_news(resolve, name, address);
        poll(NULL, 0, any ? 0 : 10);
    }
    return any;
}

TEST(a_name_that_is_found_late_is_told_twice)
{
    const struct proto_endpoint names[] = {{"pc3", 20000}, {"127.0.0.1", 20001}};
    struct proto_endpoint name;
    char address[PROTO_HOST_MAX];
    OWNED(resolve_destroy) struct resolve *resolve;
    assert_int_equal(resolve_new(&resolve, names, 2), 0);
    assert_true(wait_for_news(resolve, &name, address));
    assert_string_equal(name.host, "pc3");
    assert_string_equal(address, "");
    assert_true(wait_for_news(resolve, &name, address));
    assert_string_equal(name.host, "pc3");
    assert_string_equal(address, "127.0.0.9");
    assert_false(resolve_news(resolve, &name, address));
    struct proto_endpoint known[4];
    assert_int_equal(resolve_known(resolve, known, 4), 2);
}
