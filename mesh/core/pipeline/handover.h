/* handover.h - what a stage of a pipeline gives to its neighbours: activations to the next one, their gradients to the
 * one before.
 *
 * Such an *item* is named by the stage and the shard that it is for, and by its kind: input or gradient. It is a pure
 * function of the state and of this name, whoever computed it. So an item that came stays valid when members die and
 * plans change in the middle of a round; only what is missing travels again:
 *
 *     at its maker      --handover_made--> MADE, sent to the member that has (stage, shard) in the present plan; it
 *                       stays in memory until the round is over, and goes to whoever asks for it
 *     at its receiver   MISSING --chunks, in order, each checked and copied once to its place--> HERE, told once
 *
 * Nobody acknowledges anything. After a plan that began in the middle of a round, and when a chunk was wrong or lost,
 * the receiver asks the maker for the shards that it has not got (handover_ask). Who made them sends them; who has not
 * made them yet sends them when they are made. Chunks of the next round come early from a neighbour that was faster;
 * they are kept, and if there is no room, asked for when that round begins.
 *
 * A chunk is refused unless its round and state are those of the present round, its shard is one of this node's in that
 * stage, its sender has the neighbouring stage of the shard, its size is the one that is due, and it is the next chunk
 * of its item: what is here of an item stays, and those that come again are passed over. Refused ones are dropped:
 * nothing from outside breaks a round. A refused one may be another one with a damaged header: once in a round this
 * node asks for all that is missing. A wrong checksum is noticed and asked for again.
 *
 * If one member has both stages for a shard, nothing is sent: the item is HERE, where it was made. No allocation after
 * handover_new. */
#ifndef MESH_HANDOVER_H
#define MESH_HANDOVER_H

#include "mesh/core/core.h"

struct handover;

struct handover_item {
    unsigned stage, shard; /* that it is for */
    bool gradient;         /* of what the stage gives; false: the stage's input */
};

struct handover_chunk {
    struct handover_item item;
    uint64_t round, state;       /* it was computed in this round, from the state with this hash */
    uint64_t first, count, size; /* words of 32 bits: this chunk, and the whole item */
    uint64_t check;              /* compress/check.h, of the words of the chunk */
};

struct handover_ops {
    /* The memory of an item, and how many words it has in this round, 1 or more. `made`: this node made it; it is read,
     * and lent to `send`. Else it is written to. */
    int32_t *(*words)(void *ctx, struct handover_item item, bool made, uint64_t *count);
    /* To a member of the plan. `body` is not copied: it must not change until it has left. */
    void (*send)(void *ctx, unsigned rank, const struct handover_chunk *chunk, const void *body);
    /* Asks a member of the plan for these shards of a stage. */
    void (*ask)(void *ctx, unsigned rank, struct handover_item first, uint64_t shards);
};

struct handover_setup {
    size_t chunk_words; /* 1..PROTO_CHUNK_MAX */
    size_t early_max;   /* chunks of the next round that are kept */
    const struct core_wire *wire;
    void *wire_ctx;
};

/* Returns 0 or -ENOMEM. */
int handover_new(struct handover **out, const struct handover_setup *setup,
                 const struct handover_ops *ops, void *ctx);
/* Releases what is kept. */
void handover_destroy(struct handover **h);

/* The round is over: nothing of it is sent any more. */
void handover_end(struct handover *h);
/* This node has come to the state before `round`, by whatever way: of what came early, nothing of other rounds than
 * it and the next one is kept. */
void handover_past(struct handover *h, uint64_t round);
/* A round begins: nothing is made or here. Chunks that came early are taken. A plan must be known. */
void handover_round(struct handover *h, uint64_t round, uint64_t state);
/* Who computes which shards of which stages from now on; `rank` is this node. With the same cuts items of the present
 * round stay: made ones may be for this node by now, or go to who is to have them now; and handover_ask is due. With
 * other cuts nothing stays, and handover_round is. */
void handover_plan(struct handover *h, const struct proto_plan *plan, unsigned rank);
/* Asks for all that this node's shards want and that is not here. */
void handover_ask(struct handover *h);

/* This node has made the item. */
void handover_made(struct handover *h, struct handover_item item);
/* Another node sent a chunk, or asks for the items of a stage and kind, of these shards. */
void handover_on_chunk(struct handover *h, struct proto_node from,
                       const struct handover_chunk *chunk, struct core_frame *frame);
void handover_on_ask(struct handover *h, struct proto_node from, struct handover_item first,
                     uint64_t shards);
/* Sends what is made for the member with this rank, which has asked before this node had the plan. */
void handover_again(struct handover *h, unsigned rank);
/* An item that is here for this node, each once in a round. False: there is no other one. */
bool handover_next(struct handover *h, struct handover_item *item);

#endif
