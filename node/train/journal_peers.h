/* journal_peers.h - nodes in the records of a journal. Each has a place, 0..63. The first time a node is 2 * place + 1
 * and then its id and incarnation, 8 bytes each; later it is 2 * place. Places are given in order, and again from 0;
 * each start of the program begins with none. Uses varint.h. */
#ifndef NODE_JOURNAL_PEERS_H
#define NODE_JOURNAL_PEERS_H

#include "node/base/varint.h"
#include "proto/proto.h"

enum { JOURNAL_PEERS = 64 };

/* Who has which place; zeros at a start. */
struct journal_peers {
    struct proto_node node[JOURNAL_PEERS];
    unsigned next;
};

/* Both return the place. `fresh`: it is the node's from now on. */
static inline unsigned
journal_peers_put(struct bytes_out *out, struct journal_peers *peers, struct proto_node node,
                  bool *fresh)
{
    unsigned place = 0;
    while (place < JOURNAL_PEERS && !proto_node_equal(peers->node[place], node))
        place++;
    *fresh = place == JOURNAL_PEERS;
    if (*fresh)
        place = peers->next++ % JOURNAL_PEERS;
    varint_put(out, 2 * place + *fresh);
    if (*fresh) {
        peers->node[place] = node;
        bytes_put_u64(out, node.id);
        bytes_put_u64(out, node.incarnation);
    }
    return place;
}

static inline unsigned
journal_peers_get(struct bytes_in *in, struct journal_peers *peers, bool *fresh)
{
    uint64_t word = varint_get(in, 2 * JOURNAL_PEERS - 1), place = word / 2;
    *fresh = word % 2;
    if (*fresh) {
        in->overrun |= place != peers->next++ % JOURNAL_PEERS;
        peers->node[place].id = bytes_u64(in);
        peers->node[place].incarnation = bytes_u64(in);
    }
    in->overrun |= peers->node[place].id == 0;
    return (unsigned)place;
}

#endif
