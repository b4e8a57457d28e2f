/* discover_resolve.c - a thread that turns names into addresses, over and over. */
#include "mesh/net/discover_resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/clock.h"
#include "proto/text.h"

struct name {
    struct proto_endpoint endpoint;
    bool failed; /* looked up in vain, and never known */
    bool told;   /* that it failed */
    size_t count;
    char address[RESOLVE_ADDRESSES_MAX][INET6_ADDRSTRLEN + IF_NAMESIZE];
};

struct resolve {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    int holders; /* the owner and the thread; the last one frees */
    bool ending;
    bool busy; /* the thread looks something up, for who knows how long */
    bool has_thread;
    pthread_t thread; /* the owner's, not guarded */
    size_t count;
    struct name *names;
};

bool
resolve_numeric(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr out;
    size_t size = strcspn(host, "%");
    if (size >= sizeof address)
        return false;
    memcpy(address, host, size);
    address[size] = '\0';
    return (host[size] == '\0' && inet_pton(AF_INET, host, &out) == 1) ||
           inet_pton(AF_INET6, address, &out) == 1;
}

static void
let_go(struct resolve *resolve)
{
    pthread_mutex_lock(&resolve->lock);
    bool last = --resolve->holders == 0;
    pthread_mutex_unlock(&resolve->lock);
    if (!last)
        return;
    pthread_cond_destroy(&resolve->changed);
    pthread_mutex_destroy(&resolve->lock);
    free(resolve->names);
    free(resolve);
}

/* Without the lock: this may take long. */
static void
look_up(struct name *name)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *all = NULL;
    name->count = 0;
    if (getaddrinfo(name->endpoint.host, NULL, &want, &all) != 0)
        return;
    for (struct addrinfo *at = all; at && name->count < RESOLVE_ADDRESSES_MAX; at = at->ai_next)
        if (getnameinfo(at->ai_addr, at->ai_addrlen, name->address[name->count],
                        sizeof name->address[0], NULL, 0, NI_NUMERICHOST) == 0)
            name->count++;
    freeaddrinfo(all);
}

static void
look_up_all(struct resolve *resolve) /* called and returns with the lock */
{
    for (size_t i = 0; i < resolve->count && !resolve->ending; i++) {
        struct name name = resolve->names[i];
        if (resolve_numeric(name.endpoint.host))
            continue;
        resolve->busy = true;
        pthread_mutex_unlock(&resolve->lock);
        look_up(&name);
        pthread_mutex_lock(&resolve->lock);
        resolve->busy = false;
        if (name.count) /* what was once known stays known while the name server is away */
            memcpy(resolve->names[i].address, name.address, sizeof name.address);
        if (name.count)
            resolve->names[i].count = name.count;
        resolve->names[i].failed = resolve->names[i].count == 0;
    }
}

static void *
resolve_run(void *arg)
{
    struct resolve *resolve = arg;
    pthread_mutex_lock(&resolve->lock);
    while (!resolve->ending) {
        look_up_all(resolve);
        if (!resolve->ending)
            clock_wait(&resolve->changed, &resolve->lock, RESOLVE_PERIOD_MS * 1000);
    }
    pthread_mutex_unlock(&resolve->lock);
    let_go(resolve);
    return NULL;
}

static int
start(struct resolve *resolve)
{
    resolve->holders++;
    int rc = pthread_create(&resolve->thread, NULL, resolve_run, resolve);
    resolve->has_thread = rc == 0;
    if (rc != 0)
        resolve->holders--;
    return -rc;
}

static void
resolve_fill(struct resolve *resolve, const struct proto_endpoint *names, size_t count,
             bool *need_thread)
{
    resolve->count = count;
    for (size_t i = 0; i < count; i++) {
        struct name *name = &resolve->names[i];
        name->endpoint = names[i];
        if (!resolve_numeric(names[i].host)) {
            *need_thread = true;
            continue;
        }
        snprintf(name->address[0], sizeof name->address[0], "%s", names[i].host);
        name->count = 1;
    }
}

int
resolve_new(struct resolve **out, const struct proto_endpoint *names, size_t count)
{
    bool need_thread = false;
    struct resolve *resolve = calloc(1, sizeof *resolve);
    *out = NULL;
    if (!resolve)
        return -ENOMEM;
    clock_cond_init(&resolve->changed);
    pthread_mutex_init(&resolve->lock, NULL);
    resolve->holders = 1;
    resolve->names = calloc(count ? count : 1, sizeof *resolve->names);
    int rc = resolve->names ? 0 : -ENOMEM;
    if (rc == 0)
        resolve_fill(resolve, names, count, &need_thread);
    if (rc == 0 && need_thread)
        rc = start(resolve);
    if (rc == 0)
        *out = resolve;
    else
        let_go(resolve);
    return rc;
}

void
resolve_destroy(struct resolve **out)
{
    struct resolve *resolve = out ? *out : NULL;
    if (!resolve)
        return;
    pthread_mutex_lock(&resolve->lock);
    resolve->ending = true;
    bool busy = resolve->busy;
    pthread_cond_signal(&resolve->changed);
    pthread_mutex_unlock(&resolve->lock);
    if (resolve->has_thread && busy)
        pthread_detach(resolve->thread);
    else if (resolve->has_thread)
        pthread_join(resolve->thread, NULL);
    let_go(resolve);
    *out = NULL;
}

bool
resolve_news(struct resolve *resolve, struct proto_endpoint *name, char address[PROTO_HOST_MAX])
{
    bool any = false;
    pthread_mutex_lock(&resolve->lock);
    for (size_t i = 0; i < resolve->count && !any; i++) {
        struct name *at = &resolve->names[i];
        any = at->failed != at->told;
        if (!any)
            continue;
        at->told = at->failed;
        *name = at->endpoint;
        snprintf(address, PROTO_HOST_MAX, "%s", at->count ? at->address[0] : "");
    }
    pthread_mutex_unlock(&resolve->lock);
    return any;
}

static bool
all_loopback(const struct name *name)
{
    size_t a = 0;
    while (a < name->count &&
           (strncmp(name->address[a], "127.", 4) == 0 || strcmp(name->address[a], "::1") == 0))
        a++;
    return name->count > 0 && a == name->count;
}

size_t
resolve_names(struct resolve *resolve, struct network_name *out, size_t max)
{
    pthread_mutex_lock(&resolve->lock);
    size_t count = resolve->count < max ? resolve->count : max;
    for (size_t i = 0; i < count; i++) {
        const struct name *name = &resolve->names[i];
        out[i] = (struct network_name){.given = name->endpoint,
                                       .failed = name->failed,
                                       .pending = name->count == 0 && !name->failed,
                                       .loopback = all_loopback(name)};
        if (name->count)
            text_copy(out[i].address, sizeof out[i].address, name->address[0]);
    }
    pthread_mutex_unlock(&resolve->lock);
    return count;
}

size_t
resolve_known(struct resolve *resolve, struct proto_endpoint *out, size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&resolve->lock);
    for (size_t i = 0; i < resolve->count; i++)
        for (size_t a = 0; a < resolve->names[i].count && count < max; a++) {
            struct proto_endpoint *to = &out[count++];
            to->control_port = resolve->names[i].endpoint.control_port;
            snprintf(to->host, sizeof to->host, "%s", resolve->names[i].address[a]);
        }
    pthread_mutex_unlock(&resolve->lock);
    return count;
}
