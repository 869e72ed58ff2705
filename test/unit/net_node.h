/*
 * net_node.h - for tests: a dmi_net in a thread of its own, which records the calls of its handler.
 *
 * Waits are for conditions, with a hard limit; nothing sleeps for a fixed time.
 */
#ifndef NET_NODE_H
#define NET_NODE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "msg/wire.h"
#include "net/net.h"
#include "net/transport.h"

#define NODE_LOG 8192

/* The most seconds of a wait, during which all messages of a test may be in flight. */
static inline int node_limit(void) {
  const char *slow = getenv("DMI_TEST_SLOW");
  int factor = slow != NULL ? atoi(slow) : 1;
  return 60 * (factor > 0 ? factor : 1);
}

struct node {
  struct dmi_net_handler handler;
  struct dmi_net *net;
  struct dmi_transport *transport; /* NULL: TCP */
  uint32_t uid;
  pthread_t thread;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  uint64_t messages; /* delivered to the handler */
  uint64_t bytes;    /* of their bodies */
  uint32_t lost_num, lost_id;
  char lost_why[600];
  uint32_t strangers, stranger_id;
  uint32_t joined_num, joined_id;
  bool joined_ok;
  char joined_why[600];
  uint32_t posts;
  char log[NODE_LOG];  /* lines */
  uint32_t from[64];   /* of the last messages, by number modulo 64 */
  struct dmi_msg last; /* the last message, without slices */
  bool throw_away;     /* `body` returns NULL */
  bool refuse;         /* `message` returns false */
  /* may be NULL */
  void *(*on_body)(struct node *node, uint32_t from, struct dmi_msg *msg);
  /* called by the thread that receives, without the lock, before the message is counted; may be
   * NULL */
  void (*on_message)(struct node *node, uint32_t from, struct dmi_msg *msg);
  void *user;
};

static double node_patience;     /* for nodes opened from now on; 0: as in the product */
static uint32_t node_dead_after; /* likewise; 0: never */
/* Makes the transport of nodes opened from now on; the machine's number is the uid.  NULL: TCP. */
static struct dmi_transport *(*node_transport)(uint32_t machine);
static uint8_t node_key[32] = "key";
static bool node_encrypt;
static bool node_borrows; /* handlers of nodes opened from now on may be given borrowed bodies */
static bool node_shm;     /* nodes opened from now on use shared memory with each other */
static int32_t node_spin = DMI_LOOK_AUTO; /* of nodes that are opened from now on */
static const uint8_t node_program[16] = "program";
static const uint8_t node_build[16] = "build";

static inline void *node_body(void *arg, uint32_t from, enum dmi_msg_class class,
                              struct dmi_msg *msg) {
  struct node *node = arg;
  if (class != dmi_wire_class(msg)) abort();
  if (node->throw_away) return NULL;
  if (node->on_body != NULL) return node->on_body(node, from, msg);
  msg->body.frame = dmi_frame_new(msg->body.len);
  return msg->body.frame == NULL ? NULL : msg->body.frame->bytes;
}

static inline bool node_message(void *arg, uint32_t from, enum dmi_msg_class class,
                                struct dmi_msg *msg) {
  struct node *node = arg;
  uint64_t body = msg->body.len;
  if (class != dmi_wire_class(msg)) abort();
  if (node->on_message != NULL) node->on_message(node, from, msg);
  dmi_slice_drop(&msg->body);
  pthread_mutex_lock(&node->lock);
  node->last = *msg;
  node->last.list = node->last.body = (struct dmi_slice){0};
  node->from[node->messages % 64] = from;
  node->messages++;
  node->bytes += body;
  bool right = !node->refuse;
  pthread_cond_broadcast(&node->changed);
  pthread_mutex_unlock(&node->lock);
  return right;
}

static inline void node_lost(void *arg, uint32_t id, const char *why) {
  struct node *node = arg;
  pthread_mutex_lock(&node->lock);
  node->lost_num++;
  node->lost_id = id;
  snprintf(node->lost_why, sizeof node->lost_why, "%s", why);
  pthread_cond_broadcast(&node->changed);
  pthread_mutex_unlock(&node->lock);
}

static inline void node_stranger(void *arg, uint32_t temp) {
  struct node *node = arg;
  pthread_mutex_lock(&node->lock);
  node->strangers++;
  node->stranger_id = temp;
  pthread_cond_broadcast(&node->changed);
  pthread_mutex_unlock(&node->lock);
}

static inline void node_joined(void *arg, uint32_t temp, const char *why) {
  struct node *node = arg;
  pthread_mutex_lock(&node->lock);
  node->joined_num++;
  node->joined_id = temp;
  node->joined_ok = why == NULL;
  snprintf(node->joined_why, sizeof node->joined_why, "%s", why == NULL ? "" : why);
  pthread_cond_broadcast(&node->changed);
  pthread_mutex_unlock(&node->lock);
}

static inline void node_log(void *arg, const char *line) {
  struct node *node = arg;
  pthread_mutex_lock(&node->lock);
  size_t used = strlen(node->log);
  snprintf(node->log + used, sizeof node->log - used, "%s\n", line);
  pthread_cond_broadcast(&node->changed);
  pthread_mutex_unlock(&node->lock);
}

/* A job for the daemon thread. */
struct node_job {
  void (*run)(struct node *node, void *arg);
  void *arg;
  bool done;
  struct node_job *next;
};

static inline void node_posted(void *arg) {
  struct node *node = arg;
  for (;;) {
    pthread_mutex_lock(&node->lock);
    struct node_job *job = node->user;
    if (job != NULL) node->user = job->next;
    node->posts++;
    pthread_mutex_unlock(&node->lock);
    if (job == NULL) return;
    job->run(node, job->arg);
    pthread_mutex_lock(&node->lock);
    job->done = true;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
  }
}

static inline void *node_main(void *arg) {
  struct node *node = arg;
  dmi_net_run(node->net);
  return NULL;
}

/* All but its dmi_net. */
static inline void node_init(struct node *node, uint32_t uid) {
  memset(node, 0, sizeof *node);
  node->uid = uid;
  node->handler = (struct dmi_net_handler){.arg = node,
                                           .body = node_body,
                                           .message = node_message,
                                           .lends = true,
                                           .borrows = node_borrows,
                                           .lost = node_lost,
                                           .stranger = node_stranger,
                                           .joined = node_joined,
                                           .posted = node_posted,
                                           .log = node_log};
  pthread_mutex_init(&node->lock, NULL);
  pthread_cond_init(&node->changed, NULL);
}

/* Opens a node, and does not run it yet.  uid 0: it is no member.  False: *why says why. */
static inline bool node_open_as(struct node *node, uint32_t uid, uint16_t port,
                                const uint8_t build[16], const uint8_t program[16],
                                const char *name, const char **why) {
  struct dmi_net_config config = {
      .listen_port = port, .patience = node_patience, .encrypt = node_encrypt};
  config.dead_after = node_dead_after;
  config.shm = node_shm;
  config.look.us = node_spin;
  node_init(node, uid);
  node->transport = config.transport = node_transport == NULL ? NULL : node_transport(uid);
  memcpy(config.build, build, 16);
  memcpy(config.key, node_key, sizeof config.key);
  snprintf(config.name, sizeof config.name, "%s", name);
  node->net = dmi_net_open(&config, &node->handler, why);
  if (node->net == NULL) return false;
  if (uid != 0) dmi_net_set_self(node->net, uid, program);
  return true;
}

static inline void node_open(struct node *node, uint32_t uid) {
  const char *why;
  if (!node_open_as(node, uid, 0, node_build, node_program, "prog", &why)) {
    fprintf(stderr, "%s\n", why);
    abort();
  }
}

static inline void node_run(struct node *node) {
  if (pthread_create(&node->thread, NULL, node_main, node) != 0) abort();
}

static inline void node_stop(struct node *node) {
  dmi_net_stop(node->net);
  pthread_join(node->thread, NULL);
}

static inline void node_free(struct node *node) {
  dmi_net_free(node->net);
  pthread_mutex_destroy(&node->lock);
  pthread_cond_destroy(&node->changed);
}

static inline struct dmi_addr node_addr(struct node *node) {
  struct dmi_addr addr = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
  if (node->transport != NULL) return node->transport->here;
  addr.port = dmi_net_port(node->net);
  return addr;
}

/* Tells `node` the address of `other`.  Before node_run, or in the daemon. */
static inline void node_meet(struct node *node, struct node *other) {
  struct dmi_addr addr = node_addr(other);
  dmi_net_add_peer(node->net, other->uid, &addr);
}

/* Waits until *counter >= least; aborts with a message at the limit. */
static inline bool node_wait(struct node *node, const void *counter, size_t size, uint64_t least) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += node_limit();
  pthread_mutex_lock(&node->lock);
  bool right = true;
  for (;;) {
    uint64_t value = size == 4 ? *(const uint32_t *)counter : *(const uint64_t *)counter;
    if (value >= least) break;
    if (pthread_cond_timedwait(&node->changed, &node->lock, &until) != 0) {
      fprintf(stderr, "node %u waited for %llu, has %llu; lost %u (%s); log:\n%s", node->uid,
              (unsigned long long)least, (unsigned long long)value, node->lost_num, node->lost_why,
              node->log);
      right = false;
      break;
    }
  }
  pthread_mutex_unlock(&node->lock);
  return right;
}

#define NODE_WAIT(node, counter, least) \
  assert_true(node_wait((node), &(node)->counter, sizeof(node)->counter, (least)))

/* Waits until the log has this text. */
static inline bool node_wait_log(struct node *node, const char *text) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += node_limit();
  pthread_mutex_lock(&node->lock);
  bool right = true;
  while (right && strstr(node->log, text) == NULL) {
    if (pthread_cond_timedwait(&node->changed, &node->lock, &until) == 0) continue;
    fprintf(stderr, "node %u waited for '%s'; log:\n%s", node->uid, text, node->log);
    right = false;
  }
  pthread_mutex_unlock(&node->lock);
  return right;
}

/* The present value of a counter. */
#define NODE_NOW(node, counter) node_now((node), &(node)->counter, sizeof(node)->counter)

static inline uint64_t node_now(struct node *node, const void *counter, size_t size) {
  pthread_mutex_lock(&node->lock);
  uint64_t value = size == 4 ? *(const uint32_t *)counter : *(const uint64_t *)counter;
  pthread_mutex_unlock(&node->lock);
  return value;
}

static inline void node_run_close(struct node *node, void *arg) {
  dmi_net_close(node->net, *(uint32_t *)arg);
}

static inline void node_run_expect(struct node *node, void *arg) {
  (void)arg;
  dmi_net_expect_close(node->net);
}

/* Runs `run` in the daemon thread and waits until it is done. */
static inline void node_do(struct node *node, void (*run)(struct node *, void *), void *arg) {
  struct node_job job = {.run = run, .arg = arg};
  pthread_mutex_lock(&node->lock);
  struct node_job **at = (struct node_job **)&node->user;
  while (*at != NULL)
    at = &(*at)->next;
  *at = &job;
  pthread_mutex_unlock(&node->lock);
  dmi_net_post(node->net);
  struct timespec until; /* the limit: without the daemon there is nothing to go on with */
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += node_limit();
  pthread_mutex_lock(&node->lock);
  while (!job.done) {
    if (pthread_cond_timedwait(&node->changed, &node->lock, &until) == 0) continue;
    fprintf(stderr, "the daemon of node %u does nothing\n", node->uid);
    abort();
  }
  pthread_mutex_unlock(&node->lock);
}

static inline void node_close(struct node *node, uint32_t id) {
  node_do(node, node_run_close, &id);
}

static inline void node_expect_close(struct node *node) {
  node_do(node, node_run_expect, NULL);
}

/* Runs nodes that are open, all of which know each other. */
static inline void node_run_all(struct node *nodes, uint32_t num) {
  for (uint32_t i = 0; i < num; i++) {
    for (uint32_t j = 0; j < num; j++) {
      if (i != j) node_meet(&nodes[i], &nodes[j]);
    }
  }
  for (uint32_t i = 0; i < num; i++)
    node_run(&nodes[i]);
}

/* Ends nodes that run: none of them takes the end of the others for a loss. */
static inline void node_end_all(struct node *nodes, uint32_t num) {
  for (uint32_t i = 0; i < num; i++)
    node_expect_close(&nodes[i]);
  for (uint32_t i = 0; i < num; i++)
    node_stop(&nodes[i]);
  for (uint32_t i = 0; i < num; i++)
    node_free(&nodes[i]);
}

/* Keeps a node's daemon inside a callback, so that it neither reads nor closes anything. */
struct node_gate {
  struct node *node;
  pthread_t thread;
  _Atomic bool entered, open;
};

static inline void node_run_gate(struct node *node, void *arg) {
  struct node_gate *gate = arg;
  (void)node;
  atomic_store(&gate->entered, true);
  while (!atomic_load(&gate->open))
    sched_yield();
}

static inline void *node_gate_main(void *arg) {
  struct node_gate *gate = arg;
  node_do(gate->node, node_run_gate, gate);
  return NULL;
}

static inline void node_gate_shut(struct node_gate *gate, struct node *node) {
  *gate = (struct node_gate){.node = node};
  if (pthread_create(&gate->thread, NULL, node_gate_main, gate) != 0) abort();
  while (!atomic_load(&gate->entered))
    sched_yield();
}

static inline void node_gate_open(struct node_gate *gate) {
  atomic_store(&gate->open, true);
  pthread_join(gate->thread, NULL);
}

/* False: the receiver has left, and the message is dropped. */
static inline bool node_send(struct node *node, uint32_t to, struct dmi_msg msg) {
  if (dmi_net_send(node->net, to, &msg)) {
    dmi_net_flush(node->net, to);
    return true;
  }
  dmi_slice_drop(&msg.list);
  dmi_slice_drop(&msg.body);
  return false;
}

#endif
