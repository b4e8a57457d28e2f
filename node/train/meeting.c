/* meeting.c - see meeting.h. */
#include "node/train/meeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "nn/files/disk.h"
#include "node/base/host.h"
#include "node/base/parse.h"

void
meeting_setup(const struct config *config, struct mesh_setup *setup)
{
    setup->group = config->mesh.group;
    setup->interface = config->mesh.interface[0] ? config->mesh.interface : NULL;
    setup->port = (uint16_t)config->mesh.port;
    setup->beacon_port = (uint16_t)config->mesh.beacon_port;
    setup->seeds = config->mesh.seed;
    setup->seed_count = config->mesh.seed_count;
    host_name(config->name, setup->hello.name, sizeof setup->hello.name);
}

static bool
write_peers(const struct mesh_status *status, FILE *file)
{
    for (size_t i = 0; i < status->core.contact_count; i++) {
        char at[PROTO_WHO_MAX];
        if (status->core.contacts[i].here)
            fprintf(file, "%s\n", parse_endpoint_text(&status->core.contacts[i].at, at));
    }
    bool whole = ferror(file) == 0;
    return fclose(file) == 0 && whole;
}

void
meeting_remember(struct mesh *mesh, const char *dir)
{
    struct mesh_status status;
    char path[DISK_PATH_MAX], temp[DISK_PATH_MAX + sizeof DISK_TEMP];
    snprintf(path, sizeof path, "%s/peers", dir);
    snprintf(temp, sizeof temp, "%s" DISK_TEMP, path);
    mesh_status(mesh, &status);
    FILE *file = fopen(temp, "we");
    if (!file || !write_peers(&status, file) || rename(temp, path) != 0)
        remove(temp);
}

void
meeting_recall(struct mesh *mesh, const char *dir)
{
    char path[DISK_PATH_MAX], line[PROTO_HOST_MAX + 16];
    struct proto_endpoint at;
    snprintf(path, sizeof path, "%s/peers", dir);
    FILE *file = fopen(path, "re");
    for (int i = 0; file && i < PROTO_PEERS_MAX && fgets(line, sizeof line, file); i++) {
        line[strcspn(line, "\n")] = '\0';
        if (parse_endpoint(line, &at) == 0)
            mesh_known(mesh, &at);
    }
    if (file)
        fclose(file);
}

static void
identity_path(const char *dir, char out[DISK_PATH_MAX])
{
    snprintf(out, DISK_PATH_MAX, "%s/identity", dir);
}

static uint64_t
identity_read(const char *path)
{
    uint64_t identity = 0;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%16" SCNx64, &identity) != 1)
        identity = 0;
    if (file)
        fclose(file);
    return identity;
}

uint64_t
meeting_identity(const char *dir)
{
    char path[DISK_PATH_MAX];
    identity_path(dir, path);
    uint64_t identity = identity_read(path);
    if (identity == 0)
        randombytes_buf(&identity, sizeof identity);
    return identity;
}

void
meeting_keep(const char *dir, uint64_t identity)
{
    char path[DISK_PATH_MAX], temp[DISK_PATH_MAX + sizeof DISK_TEMP];
    identity_path(dir, path);
    if (identity_read(path) == identity)
        return;
    snprintf(temp, sizeof temp, "%s" DISK_TEMP, path);
    FILE *file = fopen(temp, "we");
    bool whole = file && fprintf(file, "%016" PRIx64 "\n", identity) > 0;
    if (!file || fclose(file) != 0 || !whole || rename(temp, path) != 0)
        remove(temp);
}

void
meeting_forget(const char *dir)
{
    char path[DISK_PATH_MAX];
    identity_path(dir, path);
    remove(path);
}
