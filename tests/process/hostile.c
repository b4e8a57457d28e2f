/* hostile.c - a member that lies: the program, linked with -Wl,--wrap for the function that gives items of stages to a
 * connection. For test_stages_hostile.sh.
 *
 * It takes part as any node does. Beside each true item it sends false ones, of all kinds, with a right check where the
 * lie is not the check itself. When all kinds were sent ITEM_LIES_EACH times it prints a line. */
#include <stdio.h>
#include <string.h>

#include "mesh/core/rounds/pieces.h"
#include "mesh/net/actor_wire.h"

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void __real_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                           size_t size, bool lent);
void __wrap_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                           size_t size, bool lent);
/* NOLINTEND(bugprone-reserved-identifier) */

/* Kinds of lies about items. The check is right, but not of one item that is taken for another: other values in an item
 * that the member is to send are a lie that nobody can know, as with a gradient. */
enum { ITEM_LIES = 11, ITEM_LIES_EACH = 20, FAR = 1000000 };

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
    wire_send(ctx, link, &msg, NULL, 0);
    if (++items == ITEM_LIES_EACH)
        fprintf(stderr, "hostile: all lies about items were told\n");
}

void
__wrap_wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                      size_t size, bool lent)
{
    if (msg->type == PROTO_ITEM)
        lie_about_item(ctx, link, &msg->item, body, size);
    __real_wire_send_bulk(ctx, link, msg, body, size, lent);
}
