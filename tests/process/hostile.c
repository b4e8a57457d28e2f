/* hostile.c - a member that lies: the program, linked with -Wl,--wrap for the two functions that give messages of the
 * engine push, or items of stages, to a connection. For test_hostile.sh and test_stages_hostile.sh.
 *
 * It takes part as any node does. Beside each true message it sends false ones, of all kinds that fit, with a right
 * check where the lie is not the check itself. When all kinds were sent LIES_EACH times it prints a line. It does not
 * lie in what it is entrusted with: to the backup of a range that it owns, and about leases where it leads (PROTOCOL.md
 * says what such lies do). */
#include <stdio.h>
#include <string.h>

#include "mesh/core/push/push_range.h"
#include "mesh/core/rounds/pieces.h"
#include "mesh/net/actor_wire.h"

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void __real_wire_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t size);
void __wrap_wire_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t size);
void __real_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                           size_t size, bool lent);
void __wrap_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                           size_t size, bool lent);
/* NOLINTEND(bugprone-reserved-identifier) */

enum { LIES_EACH = 200, FAR = 1000000 };

enum lie {
    /* PUSH */
    OTHER_RANGE,  /* which the receiver does not own, or with a gradient of another one's length */
    NO_RANGE,     /* that there is not */
    FUTURE,       /* computed from a version that the range has not reached */
    AS_OWNER,     /* as if from the owner to its backup, of a version far ahead */
    NOT_LEASED,   /* a ticket that another node computes, or nobody */
    NO_TICKET,    /* that the job does not have */
    OTHER_GROUP,  /* of nodes that are not together */
    OTHER_LENGTH, /* a gradient of another job */
    OTHER_CHECK,  /* a body that was changed on the way */
    /* VALUE */
    OTHER_VALUE, /* that nobody asked for */
    PUSHES_END,
    /* TAKE, LEASE, APPLIED, PULL */
    DONE_BEFORE = PUSHES_END, /* a ticket that is not leased to the sender is done */
    OWN_LEASE,     /* of a ticket that is done, or another node's; maybe from who does not lead */
    OTHER_APPLIED, /* of a range that the sender does not have, with another hash */
    PULL_NO_RANGE,
    LIES,
};

static unsigned told[LIES];

static void
count(unsigned lie)
{
    static bool said;
    bool all = true;
    told[lie]++;
    for (unsigned k = 0; k < LIES; k++)
        all = all && told[k] >= LIES_EACH;
    if (all && !said)
        fprintf(stderr, "hostile: all %d kinds of lies were told\n", (int)LIES);
    said = said || all;
}

static void
lie_push(struct proto_push *push, unsigned lie, size_t *size)
{
    switch (lie) {
    case OTHER_RANGE:
        push->range++;
        break;
    case NO_RANGE:
        push->range = UINT16_MAX;
        break;
    case FUTURE:
        push->read += FAR;
        break;
    case AS_OWNER:
        push->taken = push->taken ? push->taken + FAR : FAR;
        break;
    case NOT_LEASED:
        push->ticket += 7;
        break;
    case NO_TICKET:
        push->ticket = PROTO_ROUND_MAX;
        break;
    case OTHER_GROUP:
        push->group_hash++;
        break;
    case OTHER_LENGTH:
        *size = *size / 16 * 8;
        break;
    default:
        break;
    }
}

static void
lie_about_push(void *ctx, unsigned link, const struct proto_push *push, const void *body,
               size_t size)
{
    for (unsigned lie = 0; lie < OTHER_VALUE; lie++) {
        struct proto_msg msg = {.type = PROTO_PUSH, .push = *push};
        size_t false_size = size;
        lie_push(&msg.push, lie, &false_size);
        msg.push.check =
            push_body_check(msg.push.group_hash, msg.push.range, msg.push.ticket, body, false_size);
        msg.push.check += lie == OTHER_CHECK;
        __real_wire_send_bulk(ctx, link, &msg, body, false_size, false);
        count(lie);
    }
}

static void
lie_about_value(void *ctx, unsigned link, const struct proto_value *value, const void *body,
                size_t size)
{
    struct proto_msg msg = {.type = PROTO_VALUE, .value = *value};
    msg.value.number += 3;
    msg.value.taken = PROTO_ROUND_MAX;
    msg.value.check =
        push_body_check(msg.value.group_hash, msg.value.range, msg.value.number, body, size);
    __real_wire_send_bulk(ctx, link, &msg, body, size, false);
    count(OTHER_VALUE);
}

/* Kinds of lies about items. The check is right, but not of one item that is taken for another: other values in an item
 * that the member is to send are a lie that nobody can know, as with a gradient. */
enum { ITEM_LIES = 11, ITEM_LIES_EACH = 20 };

static void
lie_item(struct proto_item *item, unsigned lie)
{
    uint64_t mix = pieces_item_mix(item);
    item->round += lie == 0 ? 1 : lie == 1 ? FAR : 0;
    item->round -= lie == 2 && item->round > 0;
    item->state_hash += lie == 3;
    item->bucket += lie == 4;
    item->gradient ^= lie == 5;
    item->shard ^= lie == 6;
    item->size += lie == 7;
    item->first = lie == 8 && item->size > item->count ? item->size - item->count : item->first;
    item->check += lie == 9;
    if (lie < 4 || lie > 6)
        item->check ^= mix ^ pieces_item_mix(item);
}

static void
lie_about_item(void *ctx, unsigned link, const struct proto_item *item, const void *body,
               size_t size)
{
    static unsigned items;
    struct proto_msg msg = {.type = PROTO_ITEM};
    for (unsigned lie = 0; lie < ITEM_LIES; lie++) {
        msg.item = *item;
        lie_item(&msg.item, lie); /* none: it comes twice */
        __real_wire_send_bulk(ctx, link, &msg, body, size, false);
    }
    msg = (struct proto_msg){
        .type = PROTO_NEED,
        .need = {item->round, item->bucket, !item->gradient, UINT64_MAX >> item->shard},
    };
    __real_wire_send(ctx, link, &msg, NULL, 0);
    if (++items == ITEM_LIES_EACH)
        fprintf(stderr, "hostile: all lies about items were told\n");
}

void
__wrap_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t size, bool lent)
{
    if (msg->type == PROTO_PUSH &&
        msg->push.taken == 0) /* else it is the owner's, for its backup */
        lie_about_push(ctx, link, &msg->push, body, size);
    else if (msg->type == PROTO_VALUE && !msg->value.whole)
        lie_about_value(ctx, link, &msg->value, body, size);
    else if (msg->type == PROTO_ITEM)
        lie_about_item(ctx, link, &msg->item, body, size);
    __real_wire_send_bulk(ctx, link, msg, body, size, lent);
}

/* A false message for a member with which this node speaks of this group. */
static void
lie_control(struct proto_msg *msg, unsigned lie, uint64_t group_hash)
{
    switch (lie) {
    case DONE_BEFORE:
        *msg = (struct proto_msg){.type = PROTO_TAKE,
                                  .take = {.group_hash = group_hash, .finished = FAR, .got = FAR}};
        break;
    case OWN_LEASE:
        *msg = (struct proto_msg){.type = PROTO_LEASE,
                                  .lease = {.group_hash = group_hash, .in_hand = 5, .got = FAR}};
        break;
    case OTHER_APPLIED:
        *msg = (struct proto_msg){
            .type = PROTO_APPLIED,
            .applied = {.group_hash = group_hash, .in_hand = 1, .taken = FAR, .hash = 77}};
        break;
    default:
        *msg = (struct proto_msg){
            .type = PROTO_PULL,
            .pull = {.group_hash = group_hash, .range = UINT16_MAX, .number = 1, .whole = true}};
        break;
    }
}

void
__wrap_wire_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                 size_t size)
{
    static uint64_t leads; /* hash of the group that this node leads */
    struct proto_msg false_msg;
    bool claims = msg->type == PROTO_HEARTBEAT && msg->heartbeat.claim_count;
    uint64_t group_hash = claims                     ? msg->heartbeat.claims[0].group_hash
                          : msg->type == PROTO_PULL  ? msg->pull.group_hash
                          : msg->type == PROTO_LEASE ? msg->lease.group_hash
                          : msg->type == PROTO_TAKE  ? msg->take.group_hash
                                                     : 0;
    if (msg->type == PROTO_LEASE)
        leads = group_hash;
    __real_wire_send(ctx, link, msg, body, size);
    for (unsigned lie = PUSHES_END; group_hash != 0 && lie < LIES; lie++) {
        if (lie != OWN_LEASE || leads != group_hash) {
            lie_control(&false_msg, lie, group_hash);
            __real_wire_send(ctx, link, &false_msg, NULL, 0);
        }
        count(lie);
    }
}
