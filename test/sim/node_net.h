/*
 * node_net.h - the simulated network of virtual nodes: connections, and what arrives next.
 */
#ifndef SIM_NODE_NET_H
#define SIM_NODE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/addr.h"
#include "msg/msg.h"
#include "msg/packed.h"

#define SIM_CONNS 160u /* at most, at the same time */

struct sim;
struct node;

struct sim_queue {
  struct dmi_msg *msg; /* ring */
  uint32_t first, num, capacity;
  uint64_t part; /* bytes of the first one's body that have arrived */
};

/* One end of a connection, and what is in flight to it. */
struct sim_end {
  struct node *node;
  uint32_t id;   /* by which the process at this end names the other */
  bool closed;   /* this end has shut its direction, or has ended */
  bool dead;     /* no more messages are delivered here */
  bool last;     /* this end has sent LAST_MESSAGE */
  bool slow;     /* strategy LAG: delivers only when nothing else can */
  bool late;     /* `bulk` delivers only when nothing else is in flight to here */
  bool busy;     /* in sim_net.busy */
  bool cut;      /* nothing is delivered here */
  uint16_t line; /* 2 * connection + end */
  uint32_t prio, place;
  bool packing; /* what arrives next may be in an envelope with what came last: */
  struct dmi_packed_before before; /* whose header is this */
  struct dmi_msg first;            /* the first message of the envelope */
  uint32_t packs;
  struct sim_queue queue, bulk; /* DATA and BLOCKs in `bulk` may be overtaken (R13) */
};

struct sim_conn {
  bool used;
  bool self; /* of a process with itself; uses end 0 only */
  struct sim_end end[2];
};

enum sim_strategy { SIM_UNIFORM, SIM_PRIO, SIM_LAG, SIM_BURST, SIM_STRATEGIES };

struct sim_net {
  struct sim_conn conn[SIM_CONNS];
  uint16_t busy[2 * SIM_CONNS]; /* 2 * connection + end of those with messages in flight */
  uint32_t busy_num;
  enum sim_strategy strategy;
  uint32_t burst; /* BURST: messages that this one may still send in its turn */
  uint16_t burst_line;
  uint32_t next_temp;
};

/* ---- node_conn.c: connections --------------------------------------------------------------- */
struct dmi_msg *sim_queue_head(const struct sim_queue *queue); /* the queue must not be empty */
struct dmi_msg sim_queue_take(struct sim_queue *queue);
void sim_queue_drop(struct sim *sim, struct sim_queue *queue); /* none of its messages arrives */
struct sim_end *sim_line(struct sim *sim, uint16_t line);
struct sim_conn *sim_conn(const struct sim_end *end);
/* To be called after a change: notes whether something is in flight to this end; frees a connection
 * that is over. */
void sim_line_look(struct sim *sim, struct sim_end *end);
void sim_conn_look(struct sim *sim, struct sim_conn *conn);
struct sim_conn *sim_net_connect(struct node *from, struct node *to, uint32_t id_from,
                                 uint32_t id_to);
/* This process's end of its connection to `id`; NULL: none. */
struct sim_end *sim_net_end(const struct node *node, uint32_t id);
struct sim_end *sim_net_other(const struct sim_end *end);
void sim_net_rename(struct node *node, uint32_t temp, uint32_t uid);
/* Sends a message, and takes it over.  False: the connection is closed or barred; the caller keeps
 * the message. */
bool sim_net_send(struct node *node, uint32_t to, struct dmi_msg *msg);
void sim_net_self(struct node *node, struct dmi_msg *msg);
/* Makes all that a process has sent to itself arrive. */
void sim_net_settle(struct node *node);
/* Is anything cut off that would arrive here? (node_loss.c) */
void sim_cut_look(struct sim_end *end);
void sim_net_close(struct sim_end *end);
/* The process has ended; `killed`: some of what it sent last is lost. */
void sim_net_leave(struct node *node, bool killed);
/* The process is lost: GRANTs that are in flight to it arrive nowhere. */
void sim_net_ungrant(struct node *node);
struct node *sim_node_at(const struct node *from, const struct dmi_addr *addr);
struct dmi_addr sim_addr_of(const struct node *node, const struct node *seen_from);

/* ---- node_pack.c: envelopes ---- */
/* Before the next message of the queue arrives: with a broken rule, something else does. */
void sim_pack_break(struct sim_end *end);
/* Reads the header of what arrives, perhaps as one that was packed. */
void sim_pack_arrives(struct sim_end *end, struct dmi_msg *msg);

/* ---- node_net.c: what arrives next ---------------------------------------------------------- */
void sim_net_init(struct sim *sim);
void sim_net_fini(struct sim *sim);
void sim_net_retune(struct sim *sim);
/* Makes messages from this process to `uid` slow for a while. */
void sim_net_slow(struct node *node, uint32_t uid);
/* Makes one message, or a part, arrive.  False: nothing is in flight. */
bool sim_net_step(struct sim *sim);
/* Makes the next message to this end arrive now, if it is of this type. */
bool sim_net_take(struct sim_end *end, uint8_t type);

#endif
