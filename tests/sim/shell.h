/* shell.h - what the files around a simulated core share: shell.c has the process, links.c its connections, network.c
 * its messages. The functions with `ctx`, a struct shell, are callbacks of the core. */
#ifndef SIM_SHELL_H
#define SIM_SHELL_H

#include "tests/sim/engine.h"
#include "tests/sim/sim.h"

/* links.c */
extern const char *const sim_link_hosts[SIM_NODES_MAX]; /* by address */
void sim_link_connect(void *ctx, unsigned link, const struct proto_endpoint *to);
void sim_link_disconnect(void *ctx, unsigned link);
void sim_link_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port);
void sim_link_peer_down(void *ctx, unsigned link);
void sim_link_event_up(struct sim *sim, struct sim_node *node, const struct sim_event *event);
void sim_link_event_down(struct sim *sim, struct sim_node *node, const struct sim_event *event);

/* network.c */
/* Does nothing sent by `from` reach `to`? */
bool network_cut(const struct sim *sim, unsigned from, unsigned to);
uint64_t network_delay(struct sim *sim);
/* A message that nobody sent, for what a test invents; free it with shell_message_free. */
struct sim_message *network_spare(void);
/* What a message says, and other fields for it. False when the decoder refuses it. */
bool network_header(struct sim *sim, const struct sim_message *m, struct proto_msg *msg);
void network_header_set(struct sim *sim, struct sim_message *m, const struct proto_msg *msg);
void network_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                  size_t body_size);
void network_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                       size_t size, bool lent);
bool network_make(void *ctx, size_t most, bool must, struct core_frame *frame);
void network_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
                     struct core_frame *frame);
void network_keep(void *ctx, struct core_frame *frame);
void network_release(void *ctx, void *handle);
/* A process begins. */
void network_keeps_nothing(const struct sim_node *node);
/* Memory: in rounds, nothing of a round that is over is kept for long. */
void network_judge_kept(struct sim *sim, const struct sim_node *node);
void network_leaves(struct sim *sim, struct sim_node *node, const struct sim_event *event);
void network_arrives(struct sim *sim, struct sim_node *node, const struct sim_event *event);
/* Is the process that the message was for not there any more? Then its kernel says so. */
bool network_misdelivered(struct sim *sim, const struct sim_message *m);

/* star_hostile.c: a chunk leaves, to come at `at`; maybe something else comes with it. */
void sim_star_hostile(struct sim *sim, const struct sim_message *m, uint64_t at);

#endif
