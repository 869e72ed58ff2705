/*
 * memory_net_int.h - private to the network in memory: memory_net.c has the operations of the
 * transport and the network, memory_pair.c what happens between the ends of a connection.
 *
 * A connection is a struct pair of two ends and a flow for each direction.  A flow is a list of
 * pieces: those on their way, and those that have arrived and wait to be received.  A piece arrives
 * when its time has come, the route is not cut and the receiver's buffer is not full.  One lock
 * guards everything; callers hold it for all functions here but memory_pairs_move.
 *
 * An end's descriptors are event descriptors.  `in` is readable while its count is not 0; `out` is
 * writable while its count is not the largest.
 */
#ifndef TEST_MEMORY_NET_INT_H
#define TEST_MEMORY_NET_INT_H

#include <pthread.h>

#include "memory_net.h"
#include "net/transport.h"

#define SENDER_HAS 131072   /* bytes that were sent and have not arrived, at most */
#define RECEIVER_HAS 131072 /* bytes that have arrived and were not received, at most */
#define NEVER 1e300
#define FULL 0xfffffffffffffffe /* count of an event descriptor that cannot be written */

struct piece {
  struct piece *next;
  double due;
  size_t size, taken;
  bool fin; /* the end of the stream; size 0 */
  unsigned char bytes[];
};

struct flow {
  struct piece *first, **last; /* pieces in flight */
  struct piece *came, **came_last;
  size_t sent, arrived; /* bytes of the two lists */
  double reset_due;     /* when a reset arrives; NEVER: there is none */
  bool fin_sent, fin_came;
};

struct pair;

struct end {
  struct dmi_link link;
  struct pair *pair;
  uint32_t machine;
  uint16_t port;
  const struct dmi_transport *transport;
  uint32_t dead_after; /* as of `keep` */
  int error;           /* an errno if it is broken, else 0 */
  bool in_use;         /* its process uses it */
  bool kept;           /* of an accepted connection: `keep` was called */
  bool is_in, is_out;  /* readiness that the descriptors show */
};

/* A connection: end 0 has connected to end 1. */
struct pair {
  struct memory_net *net;
  struct way *way[2]; /* of the flows */
  struct end end[2];
  struct flow flow[2]; /* from end 0, from end 1 */
  double syn_due;      /* when the attempt arrives; NEVER: it has arrived */
  struct pair *prev, *next;
  struct pair *waiting; /* the next one to be accepted */
};

struct way {
  struct way *next;
  uint32_t from, to;
  double delay;
  bool cut;
  double cut_at;
};

struct memory {
  struct dmi_transport transport;
  struct memory_net *net;
  uint32_t machine;
  struct pair *waiting, **waiting_last; /* to be accepted */
  struct memory *next;
};

struct memory_net {
  pthread_mutex_t lock;
  pthread_cond_t news; /* wakes the thread */
  pthread_t thread;
  bool ends;
  uint16_t next_port;
  struct way *ways;
  struct memory *listeners; /* those that listen */
  struct pair *pairs;
};

double memory_now(void);
void *memory_must(void *memory); /* returns the result of malloc; aborts if it is NULL */

/* Makes an event descriptor; changes its count. */
int memory_new_event(void);
void memory_event_set(int fd, uint64_t count);
void memory_event_clear(int fd);

struct way *memory_way(struct memory_net *net, uint32_t from, uint32_t to);
/* The time since which an end has got no answer; NEVER: all were answered. */
double memory_silent_since(const struct pair *pair);

void memory_flow_clear(struct flow *flow);
void memory_end_begin(struct pair *pair, int side, const struct dmi_transport_ops *ops,
                      uint32_t machine, uint16_t port);
/* The process of this end has closed it; may free the pair. */
void memory_end_leave(struct pair *pair, int side, bool reset);
/* To be called after a change: does what is due now; the thread does the rest. */
void memory_pair_changed(struct pair *pair);
void memory_pair_break(struct pair *pair, int side, int error);
void *memory_pairs_move(void *net); /* body of the thread */

#endif
