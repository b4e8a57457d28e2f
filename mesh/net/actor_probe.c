/* actor_probe.c - a node that only looks around: it hears beacons, exchanges HELLOs, and tries the connections on which
 * nothing is heard otherwise: those that do not come up, and those for bodies. */
#include "mesh/net/actor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "mesh/net/discover.h"

enum {
    LOOK_MS = 100,   /* between two looks at whom there is */
    SLOW_MS = 4200,  /* so long somebody who accepts connections may say nothing */
    FIRST_MS = 400,  /* until then beacons alone are waited for */
    BUSY_MS = 20000, /* for all, on a machine where its threads wait for a CPU */
};

struct probe {
    struct mesh *mesh;
    struct mesh_status *status;
    uint64_t since_us; /* moves on while a thread waits for a CPU: who does not run hears nobody */
    struct starve starve;
    size_t count;
    struct network_try tries[NETWORK_TRIES_MAX];
    int fd[NETWORK_TRIES_MAX];
};

/* The socket of a connection that begins, or -errno. */
static int
dial(const struct proto_endpoint *to)
{
    char port[8];
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *at = NULL;
    snprintf(port, sizeof port, "%u", to->control_port);
    if (getaddrinfo(to->host, port, &want, &at) != 0)
        return -EINVAL;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : connect(fd, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(at);
    if (fd < 0 || rc == 0 || errno == EINPROGRESS)
        return fd < 0 ? rc : fd;
    rc = -errno;
    close(fd);
    return rc;
}

static bool
tried(const struct probe *probe, const struct proto_endpoint *to)
{
    for (size_t i = 0; i < probe->count; i++)
        if (probe->tries[i].to.control_port == to->control_port &&
            strcmp(probe->tries[i].to.host, to->host) == 0)
            return true;
    return false;
}

static void
try_begin(struct probe *probe, const struct proto_endpoint *to, uint16_t port, bool bulk)
{
    struct proto_endpoint at = *to;
    at.control_port = port;
    if (port == 0 || probe->count == NETWORK_TRIES_MAX || tried(probe, &at))
        return;
    size_t i = probe->count++;
    int fd = dial(&at);
    probe->tries[i] = (struct network_try){at, bulk, fd < 0 ? -fd : -1};
    probe->fd[i] = fd;
}

static void
try_end(struct probe *probe, size_t i, int error)
{
    probe->tries[i].error = error;
    close(probe->fd[i]);
    probe->fd[i] = -1;
}

/* Is one still under way? */
static bool
tries_go_on(struct probe *probe, bool end)
{
    bool any = false;
    for (size_t i = 0; i < probe->count; i++) {
        struct pollfd poll_fd = {.fd = probe->fd[i], .events = POLLOUT};
        int error = 0;
        socklen_t size = sizeof error;
        if (probe->fd[i] < 0)
            continue;
        if (poll(&poll_fd, 1, 0) == 1) {
            getsockopt(probe->fd[i], SOL_SOCKET, SO_ERROR, &error, &size);
            try_end(probe, i, error);
        } else if (end) {
            try_end(probe, i, ETIMEDOUT);
        }
        any |= probe->fd[i] >= 0;
    }
    return any;
}

/* Nothing is open with it: it answered, or refused. */
static bool
contact_done(const struct core_contact *contact)
{
    return !contact->heard || contact->refused || (contact->linked && contact->greeted);
}

/* Of names: whoever answers there has said HELLO from that address. */
static void
mark_names(struct mesh_status *status)
{
    for (size_t i = 0; i < status->network.name_count; i++) {
        struct network_name *name = &status->network.names[i];
        for (size_t k = 0; k < status->core.contact_count; k++) {
            const struct core_contact *contact = &status->core.contacts[k];
            name->answers |= (contact->greeted || contact->refused) &&
                             contact->at.control_port == name->given.control_port &&
                             strcmp(contact->at.host, name->address) == 0;
        }
    }
}

/* Tries what is due. Is all that can be known known? */
static bool
probe_look(struct probe *probe, uint64_t now)
{
    struct mesh_status *status = probe->status;
    actor_status(probe->mesh, status);
    mark_names(status);
    bool done = status->core.contact_count > 0;
    for (size_t i = 0; i < status->core.contact_count; i++) {
        const struct core_contact *contact = &status->core.contacts[i];
        done &= contact_done(contact);
        if (now - probe->since_us < FIRST_MS * 1000 || !contact->heard)
            continue;
        if (!contact->linked && !contact->refused)
            try_begin(probe, &contact->at, contact->at.control_port, false);
        if (contact->linked && !contact->hello.wants_job)
            try_begin(probe, &contact->at, contact->hello.bulk_port, true);
    }
    for (size_t i = 0; i < status->network.name_count; i++) {
        const struct network_name *name = &status->network.names[i];
        struct proto_endpoint to = {.control_port = name->given.control_port};
        snprintf(to.host, sizeof to.host, "%s", name->address);
        done &= name->answers || name->failed;
        if (!name->answers && name->address[0] && now - probe->since_us >= FIRST_MS * 1000)
            try_begin(probe, &to, to.control_port, false);
    }
    return done;
}

/* Does somebody accept connections, and has said nothing yet? A busy machine may need longer. */
static bool
is_slow(const struct probe *probe)
{
    const struct core_status *core = &probe->status->core;
    for (size_t i = 0; i < core->contact_count; i++)
        for (size_t k = 0; k < probe->count; k++)
            if (!contact_done(&core->contacts[i]) && probe->tries[k].error == 0 &&
                !probe->tries[k].bulk &&
                strcmp(core->contacts[i].at.host, probe->tries[k].to.host) == 0)
                return true;
    return false;
}

static uint64_t
probe_end(const struct probe *probe)
{
    return probe->since_us + 1000 * (is_slow(probe) ? SLOW_MS : MESH_PROBE_MOST_MS);
}

static void
probe_run(struct probe *probe)
{
    uint64_t look_at = 0, now = probe->since_us, most = now + 1000 * BUSY_MS;
    bool done = false, open = true;
    while (now < most && now < probe_end(probe) &&
           (now < probe->since_us + MESH_PROBE_LEAST_MS * 1000 || !done || open)) {
        actor_turn(probe->mesh, true);
        now = clock_us();
        if (now >= look_at) {
            done = probe_look(probe, now);
            look_at = now + LOOK_MS * 1000;
            probe->since_us += starve_us(&probe->starve);
        }
        open = tries_go_on(probe, false);
    }
    tries_go_on(probe, true);
    probe_look(probe, now);
    tries_go_on(probe, true);
    probe->status->network.starved = now >= most;
    probe->status->network.try_count = probe->count;
    memcpy(probe->status->network.tries, probe->tries, sizeof probe->tries);
}

int
mesh_probe(const struct mesh_setup *setup, struct mesh_status *status, struct why *why)
{
    struct probe probe = {.status = status};
    struct mesh_setup curious = *setup;
    curious.curious = true;
    int rc = actor_open_observer(&probe.mesh, &curious, why);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&probe.mesh->lock);
    probe.since_us = clock_us();
    probe_run(&probe);
    actor_goodbye(probe.mesh);
    pthread_mutex_unlock(&probe.mesh->lock);
    actor_close(&probe.mesh, ACTOR_GOODBYE_MS);
    return 0;
}
