/*
 * memory_pair.c - what happens between the two ends of a connection in memory: arrival, readiness,
 * and the end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "memory_net_int.h"

double memory_now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

void *memory_must(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "memory_net: no memory\n");
  abort();
}

/* ---- Readiness ------------------------------------------------------------------------------ */

int memory_new_event(void) {
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd >= 0) return fd;
  perror("memory_net: eventfd");
  abort();
}

void memory_event_set(int fd, uint64_t count) {
  if (write(fd, &count, sizeof count) != sizeof count) abort();
}

void memory_event_clear(int fd) {
  uint64_t count;
  if (read(fd, &count, sizeof count) != sizeof count) abort();
}

static void update_in(struct end *end, bool is) {
  if (is == end->is_in) return;
  end->is_in = is;
  is ? memory_event_set(end->link.in, 1) : memory_event_clear(end->link.in);
}

static void update_out(struct end *end, bool is) {
  if (is == end->is_out) return;
  end->is_out = is;
  is ? memory_event_clear(end->link.out) : memory_event_set(end->link.out, FULL);
}

/* To be called after any change at this end. */
static void update(struct pair *pair, int side) {
  struct end *end = &pair->end[side];
  const struct flow *in = &pair->flow[1 - side], *out = &pair->flow[side];
  if (!end->in_use) return;
  update_in(end, in->came != NULL || in->fin_came || end->error != 0);
  update_out(end, end->error != 0 || (pair->syn_due == NEVER && out->sent < SENDER_HAS));
}

/* ---- Ways ----------------------------------------------------------------------------------- */

struct way *memory_way(struct memory_net *net, uint32_t from, uint32_t to) {
  for (struct way *way = net->ways; way != NULL; way = way->next)
    if (way->from == from && way->to == to) return way;
  struct way *way = memory_must(calloc(1, sizeof *way));
  way->from = from;
  way->to = to;
  way->next = net->ways;
  net->ways = way;
  return way;
}

/* Since when no question of an end has an answer; NEVER: each has. */
double memory_silent_since(const struct pair *pair) {
  double since = NEVER;
  for (int side = 0; side < 2; side++)
    if (pair->way[side]->cut && pair->way[side]->cut_at < since) since = pair->way[side]->cut_at;
  return since;
}

/* ---- What arrives --------------------------------------------------------------------------- */

static void free_pieces(struct piece *piece) {
  while (piece != NULL) {
    struct piece *next = piece->next;
    free(piece);
    piece = next;
  }
}

void memory_flow_clear(struct flow *flow) {
  free_pieces(flow->first);
  free_pieces(flow->came);
  flow->first = flow->came = NULL;
  flow->last = &flow->first;
  flow->came_last = &flow->came;
  flow->sent = flow->arrived = 0;
}

void memory_pair_break(struct pair *pair, int side, int error) {
  if (pair->end[side].error != 0) return;
  pair->end[side].error = error;
  memory_flow_clear(&pair->flow[side]);
  memory_flow_clear(&pair->flow[1 - side]);
  update(pair, 0);
  update(pair, 1);
}

/* The attempt to connect has arrived: puts it into the listener's queue, or refuses it. */
static void arrive_syn(struct pair *pair) {
  struct memory *at = pair->net->listeners;
  const struct end *to = &pair->end[1];
  pair->syn_due = NEVER;
  while (at != NULL && (at->machine != to->machine || at->transport.here.port != to->port))
    at = at->next;
  if (at == NULL) {
    memory_pair_break(pair, 0, ECONNREFUSED);
    return;
  }
  if (at->waiting == NULL) memory_event_set(at->transport.incoming, 1);
  *at->waiting_last = pair;
  at->waiting_last = &pair->waiting;
  pair->end[1].in_use = true;
  update(pair, 0);
  update(pair, 1);
}

/* One piece has arrived at `side`. */
static void arrive_piece(struct pair *pair, int side) {
  struct flow *flow = &pair->flow[1 - side];
  struct piece *piece = flow->first;
  flow->first = piece->next;
  if (flow->first == NULL) flow->last = &flow->first;
  piece->next = NULL;
  flow->sent -= piece->size;
  const struct end *end = &pair->end[side];
  if (piece->fin || !end->in_use || end->error != 0) {
    if (piece->fin)
      flow->fin_came = true;
    else if (pair->flow[side].reset_due == NEVER) /* no process receives it */
      pair->flow[side].reset_due = memory_now() + pair->way[side]->delay;
    free(piece);
    return;
  }
  *flow->came_last = piece;
  flow->came_last = &piece->next;
  flow->arrived += piece->size;
}

/* Lets everything arrive at `side` that is due. */
static void arrive(struct pair *pair, int side, double time) {
  struct flow *flow = &pair->flow[1 - side];
  if (pair->way[1 - side]->cut) return;
  while (flow->first != NULL && flow->first->due <= time && flow->arrived < RECEIVER_HAS)
    arrive_piece(pair, side);
  if (flow->reset_due <= time) {
    flow->reset_due = NEVER;
    memory_pair_break(pair, side, ECONNRESET);
  }
}

/* The time at which the system finds that the other machine is silent; it probes while nothing is
 * in flight to it.  NEVER: it does not probe, or gets answers. */
static double silent_at(const struct pair *pair, int side) {
  const struct end *end = &pair->end[side];
  bool asks = end->in_use && end->error == 0 && end->dead_after != 0 && pair->syn_due == NEVER &&
              pair->flow[side].first == NULL;
  return asks ? memory_silent_since(pair) + end->dead_after : NEVER;
}

static void move(struct pair *pair) {
  double time = memory_now();
  if (!pair->way[0]->cut && pair->syn_due <= time) arrive_syn(pair);
  arrive(pair, 0, time);
  arrive(pair, 1, time); /* that may let something arrive in the other direction: */
  arrive(pair, 0, time);
  for (int side = 0; side < 2; side++) {
    if (silent_at(pair, side) <= time) memory_pair_break(pair, side, ETIMEDOUT);
    update(pair, side);
  }
}

static double sooner(double a, double b) {
  return a < b ? a : b;
}

/* The next time at which there is something to do for it, if nothing else happens. */
static double next_time(const struct pair *pair) {
  double next = pair->way[0]->cut ? NEVER : pair->syn_due;
  for (int side = 0; side < 2; side++) {
    const struct flow *flow = &pair->flow[side];
    next = sooner(next, silent_at(pair, side));
    if (pair->way[side]->cut) continue;
    next = sooner(next, flow->reset_due);
    if (flow->first != NULL && flow->arrived < RECEIVER_HAS) next = sooner(next, flow->first->due);
  }
  return next;
}

void *memory_pairs_move(void *arg) {
  struct memory_net *net = arg;
  pthread_mutex_lock(&net->lock);
  while (!net->ends) {
    double next = NEVER;
    for (struct pair *pair = net->pairs; pair != NULL; pair = pair->next) {
      move(pair);
      double due = next_time(pair);
      if (due < next) next = due;
    }
    if (next == NEVER) {
      pthread_cond_wait(&net->news, &net->lock);
    } else {
      struct timespec until = {.tv_sec = (time_t)next};
      until.tv_nsec = (long)((next - (double)until.tv_sec) * 1e9);
      pthread_cond_timedwait(&net->news, &net->lock, &until);
    }
  }
  pthread_mutex_unlock(&net->lock);
  return NULL;
}

/* Something was changed at the pair: what is due at once happens here, the rest in the thread. */
void memory_pair_changed(struct pair *pair) {
  move(pair);
  if (next_time(pair) != NEVER) pthread_cond_signal(&pair->net->news);
}

/* ---- Connections ---------------------------------------------------------------------------- */

void memory_end_begin(struct pair *pair, int side, const struct dmi_transport_ops *ops,
                      uint32_t machine, uint16_t port) {
  struct end *end = &pair->end[side];
  end->link = (struct dmi_link){.ops = ops, .in = memory_new_event(), .out = memory_new_event()};
  end->pair = pair;
  end->machine = machine;
  end->port = port;
  memory_event_set(end->link.out, FULL);
}

/* Called when an end is closed, by the thread that has watched them. */
static void close_descriptors(struct end *end) {
  if (end->link.in < 0) return;
  close(end->link.in);
  close(end->link.out);
  end->link.in = end->link.out = -1;
}

/* Frees a connection of which both ends were closed. */
static void free_pair(struct pair *pair) {
  if (pair->prev != NULL)
    pair->prev->next = pair->next;
  else
    pair->net->pairs = pair->next;
  if (pair->next != NULL) pair->next->prev = pair->prev;
  for (int side = 0; side < 2; side++) {
    memory_flow_clear(&pair->flow[side]);
    close_descriptors(&pair->end[side]);
  }
  free(pair);
}

/* This end is closed; tells the other one. */
void memory_end_leave(struct pair *pair, int side, bool reset) {
  struct flow *out = &pair->flow[side], *in = &pair->flow[1 - side];
  pair->end[side].in_use = false;
  close_descriptors(&pair->end[side]);
  if (!pair->end[1 - side].in_use) {
    free_pair(pair);
    return;
  }
  double due = memory_now() + pair->way[side]->delay;
  /* As TCP does if bytes were not received, or if this end has given up. */
  if (in->came != NULL || pair->end[side].error != 0) reset = true;
  if (reset) {
    out->reset_due = due;
  } else if (!out->fin_sent) {
    struct piece *fin = memory_must(calloc(1, sizeof *fin));
    *fin = (struct piece){.due = due, .fin = true};
    *out->last = fin;
    out->last = &fin->next;
    out->fin_sent = true;
  }
  free_pieces(in->came);
  in->came = NULL;
  in->came_last = &in->came;
  in->arrived = 0;
  memory_pair_changed(pair);
}
