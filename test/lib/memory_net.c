/*
 * memory_net.c - see memory_net.h.
 *
 * A connection is a struct pair of two ends and a flow for each direction.  A flow is a list of
 * pieces: those on their way, and those that have arrived and wait to be received.  A piece arrives
 * when its time has come, the way is not cut and the receiver has room.  One lock guards all; a
 * thread moves what is due later.
 *
 * An end's descriptors are event descriptors.  `in` is readable while its count is not 0; `out` is
 * writable while its count is not the largest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory_net.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "net/transport.h"

#define SENDER_HAS 131072   /* bytes that are sent and have not arrived */
#define RECEIVER_HAS 131072 /* that have arrived and are not received: then no more arrive */
#define NEVER 1e300
#define FIRST_PORT 40000
#define FULL 0xfffffffffffffffe /* count of an event descriptor that cannot be written */

struct piece {
  struct piece *next;
  double due;
  size_t size, taken;
  bool fin; /* behind it nothing comes; size 0 */
  unsigned char bytes[];
};

struct flow {
  struct piece *first, **last; /* on their way */
  struct piece *came, **came_last;
  size_t sent, arrived; /* bytes of the one and the other list */
  double reset_due;     /* a reset is on its way; NEVER: none */
  bool fin_sent, fin_came;
};

struct pair;

struct end {
  struct dmi_link link;
  struct pair *pair;
  uint32_t machine;
  uint16_t port;
  uint32_t dead_after;
  int error;          /* it is broken; 0: not */
  bool in_use;        /* its process has it */
  bool kept;          /* an accepted one: `keep` was called */
  bool is_in, is_out; /* readiness as the descriptors have it */
};

/* Ends: 0 has connected to 1. */
struct pair {
  struct memory_net *net;
  struct way *way[2]; /* of the flows */
  struct end end[2];
  struct flow flow[2]; /* from end 0, from end 1 */
  double syn_due;      /* the attempt has not arrived yet; NEVER: it has */
  struct pair *prev, *next;
  struct pair *waiting; /* next one that is to be accepted */
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
  pthread_cond_t news; /* for the thread */
  pthread_t thread;
  bool ends;
  uint16_t next_port;
  struct way *ways;
  struct memory *listeners; /* those that listen */
  struct pair *pairs;
};

static const struct dmi_transport_ops memory_ops;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void *must(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "memory_net: no memory\n");
  abort();
}

/* ---- Readiness ------------------------------------------------------------------------------- */

static int new_event(void) {
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd >= 0) return fd;
  perror("memory_net: eventfd");
  abort();
}

static void put(int fd, uint64_t count) {
  if (write(fd, &count, sizeof count) != sizeof count) abort();
}

static void empty(int fd) {
  uint64_t count;
  if (read(fd, &count, sizeof count) != sizeof count) abort();
}

static void update_in(struct end *end, bool is) {
  if (is == end->is_in) return;
  end->is_in = is;
  is ? put(end->link.in, 1) : empty(end->link.in);
}

static void update_out(struct end *end, bool is) {
  if (is == end->is_out) return;
  end->is_out = is;
  is ? empty(end->link.out) : put(end->link.out, FULL);
}

/* After anything has changed at this end. */
static void update(struct pair *pair, int side) {
  struct end *end = &pair->end[side];
  const struct flow *in = &pair->flow[1 - side], *out = &pair->flow[side];
  if (!end->in_use) return;
  update_in(end, in->came != NULL || in->fin_came || end->error != 0);
  update_out(end, end->error != 0 || (pair->syn_due == NEVER && out->sent < SENDER_HAS));
}

/* ---- Ways ------------------------------------------------------------------------------------ */

static struct way *way_of(struct memory_net *net, uint32_t from, uint32_t to) {
  for (struct way *way = net->ways; way != NULL; way = way->next)
    if (way->from == from && way->to == to) return way;
  struct way *way = must(calloc(1, sizeof *way));
  way->from = from;
  way->to = to;
  way->next = net->ways;
  net->ways = way;
  return way;
}

/* Since when no question of an end has an answer; NEVER: each has. */
static double silent_since(const struct pair *pair) {
  double since = NEVER;
  for (int side = 0; side < 2; side++)
    if (pair->way[side]->cut && pair->way[side]->cut_at < since) since = pair->way[side]->cut_at;
  return since;
}

/* ---- What arrives ---------------------------------------------------------------------------- */

static void free_pieces(struct piece *piece) {
  while (piece != NULL) {
    struct piece *next = piece->next;
    free(piece);
    piece = next;
  }
}

static void clear(struct flow *flow) {
  free_pieces(flow->first);
  free_pieces(flow->came);
  flow->first = flow->came = NULL;
  flow->last = &flow->first;
  flow->came_last = &flow->came;
  flow->sent = flow->arrived = 0;
}

static void break_end(struct pair *pair, int side, int error) {
  if (pair->end[side].error != 0) return;
  pair->end[side].error = error;
  clear(&pair->flow[side]);
  clear(&pair->flow[1 - side]);
  update(pair, side);
}

/* The attempt to connect has arrived: who listens there, or nobody? */
static void arrive_syn(struct pair *pair) {
  struct memory *at = pair->net->listeners;
  const struct end *to = &pair->end[1];
  pair->syn_due = NEVER;
  while (at != NULL && (at->machine != to->machine || at->transport.here.port != to->port))
    at = at->next;
  if (at == NULL) {
    break_end(pair, 0, ECONNREFUSED);
    return;
  }
  if (at->waiting == NULL) put(at->transport.incoming, 1);
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
    else if (pair->flow[side].reset_due == NEVER) /* nobody is there for it */
      pair->flow[side].reset_due = now() + pair->way[side]->delay;
    free(piece);
    return;
  }
  *flow->came_last = piece;
  flow->came_last = &piece->next;
  flow->arrived += piece->size;
}

/* All that may arrive at `side` does. */
static void arrive(struct pair *pair, int side, double time) {
  struct flow *flow = &pair->flow[1 - side];
  if (pair->way[1 - side]->cut) return;
  while (flow->first != NULL && flow->first->due <= time && flow->arrived < RECEIVER_HAS)
    arrive_piece(pair, side);
  if (flow->reset_due <= time) {
    flow->reset_due = NEVER;
    break_end(pair, side, ECONNRESET);
  }
}

/* When the system finds the other machine silent, which it asks while nothing is on its way to it;
 * NEVER: it does not ask, or is answered. */
static double silent_at(const struct pair *pair, int side) {
  const struct end *end = &pair->end[side];
  bool asks = end->in_use && end->error == 0 && end->dead_after != 0 && pair->syn_due == NEVER &&
              pair->flow[side].first == NULL;
  return asks ? silent_since(pair) + end->dead_after : NEVER;
}

static void move(struct pair *pair) {
  double time = now();
  if (!pair->way[0]->cut && pair->syn_due <= time) arrive_syn(pair);
  arrive(pair, 0, time);
  arrive(pair, 1, time); /* what it causes in the other direction: */
  arrive(pair, 0, time);
  for (int side = 0; side < 2; side++) {
    if (silent_at(pair, side) <= time) break_end(pair, side, ETIMEDOUT);
    update(pair, side);
  }
}

static double sooner(double a, double b) {
  return a < b ? a : b;
}

/* When there is something to do for it, if nothing else happens. */
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

static void *thread_main(void *arg) {
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
static void changed(struct pair *pair) {
  move(pair);
  if (next_time(pair) != NEVER) pthread_cond_signal(&pair->net->news);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void begin_end(struct pair *pair, int side, uint32_t machine, uint16_t port) {
  struct end *end = &pair->end[side];
  end->link = (struct dmi_link){&memory_ops, new_event(), new_event()};
  end->pair = pair;
  end->machine = machine;
  end->port = port;
  put(end->link.out, FULL);
}

/* At once when an end is closed, by who has watched them. */
static void close_descriptors(struct end *end) {
  if (end->link.in < 0) return;
  close(end->link.in);
  close(end->link.out);
  end->link.in = end->link.out = -1;
}

/* Nobody has either end any more. */
static void free_pair(struct pair *pair) {
  if (pair->prev != NULL)
    pair->prev->next = pair->next;
  else
    pair->net->pairs = pair->next;
  if (pair->next != NULL) pair->next->prev = pair->prev;
  for (int side = 0; side < 2; side++) {
    clear(&pair->flow[side]);
    close_descriptors(&pair->end[side]);
  }
  free(pair);
}

/* This end is gone: the other one is told. */
static void leave(struct pair *pair, int side, bool reset) {
  struct flow *out = &pair->flow[side], *in = &pair->flow[1 - side];
  pair->end[side].in_use = false;
  close_descriptors(&pair->end[side]);
  if (!pair->end[1 - side].in_use) {
    free_pair(pair);
    return;
  }
  double due = now() + pair->way[side]->delay;
  /* As TCP does: something was not received, or this end has given up. */
  if (in->came != NULL || pair->end[side].error != 0) reset = true;
  if (reset) {
    out->reset_due = due;
  } else if (!out->fin_sent) {
    struct piece *fin = must(calloc(1, sizeof *fin));
    *fin = (struct piece){.due = due, .fin = true};
    *out->last = fin;
    out->last = &fin->next;
    out->fin_sent = true;
  }
  free_pieces(in->came);
  in->came = NULL;
  in->came_last = &in->came;
  in->arrived = 0;
  changed(pair);
}

static struct end *lock_end(struct dmi_link *link) {
  struct end *end = (struct end *)link;
  pthread_mutex_lock(&end->pair->net->lock);
  return end;
}

static void unlock_end(struct end *end) {
  pthread_mutex_unlock(&end->pair->net->lock);
}

static int side_of(const struct end *end) {
  return end == &end->pair->end[1];
}

/* ---- The operations: a transport ------------------------------------------------------------- */

static void stop_listening(struct memory *memory) {
  struct memory **at = &memory->net->listeners;
  while (*at != NULL && *at != memory)
    at = &(*at)->next;
  if (*at != NULL) *at = memory->next;
  while (memory->waiting != NULL) {
    struct pair *pair = memory->waiting;
    memory->waiting = pair->waiting;
    leave(pair, 1, true);
  }
  memory->waiting_last = &memory->waiting;
  if (memory->transport.incoming >= 0) close(memory->transport.incoming);
  memory->transport.incoming = -1;
}

static bool is_taken(const struct memory_net *net, uint32_t machine, uint16_t port) {
  for (const struct memory *at = net->listeners; at != NULL; at = at->next)
    if (at->machine == machine && at->transport.here.port == port) return true;
  return false;
}

static int memory_listen(struct dmi_transport *transport, const struct dmi_addr *at) {
  static const uint8_t any[16];
  struct memory *memory = (struct memory *)transport;
  struct memory_net *net = memory->net;
  struct dmi_addr here = memory_net_addr(memory->machine, at->port);
  bool mine = memcmp(at->ip, any, sizeof any) == 0 || memcmp(at->ip, here.ip, sizeof any) == 0;
  pthread_mutex_lock(&net->lock);
  stop_listening(memory);
  while (at->port == 0 && (here.port == 0 || is_taken(net, memory->machine, here.port)))
    here.port = net->next_port++;
  int error = !mine ? -EADDRNOTAVAIL : is_taken(net, memory->machine, here.port) ? -EADDRINUSE : 0;
  if (error == 0) {
    transport->here = here;
    transport->incoming = new_event();
    memory->next = net->listeners;
    net->listeners = memory;
  }
  pthread_mutex_unlock(&net->lock);
  return error;
}

static int memory_accept(struct dmi_transport *transport, struct dmi_link **link,
                         struct dmi_addr *from) {
  struct memory *memory = (struct memory *)transport;
  pthread_mutex_lock(&memory->net->lock);
  struct pair *pair = memory->waiting;
  if (pair != NULL) {
    memory->waiting = pair->waiting;
    if (memory->waiting == NULL) {
      memory->waiting_last = &memory->waiting;
      empty(transport->incoming);
    }
    pair->end[1].dead_after = transport->dead_after;
    *link = &pair->end[1].link;
    *from = memory_net_addr(pair->end[0].machine, pair->end[0].port);
  }
  pthread_mutex_unlock(&memory->net->lock);
  return pair != NULL ? 0 : -EAGAIN;
}

static int memory_connect(struct dmi_transport *transport, struct dmi_link **link,
                          const struct dmi_addr *to) {
  struct memory *memory = (struct memory *)transport;
  struct memory_net *net = memory->net;
  uint32_t machine = (uint32_t)to->ip[13] << 16 | (uint32_t)to->ip[14] << 8 | to->ip[15];
  if (to->ip[12] != 10) return -ENETUNREACH;
  struct pair *pair = must(calloc(1, sizeof *pair));
  pthread_mutex_lock(&net->lock);
  pair->net = net;
  begin_end(pair, 0, memory->machine, net->next_port++);
  begin_end(pair, 1, machine, to->port);
  pair->way[0] = way_of(net, memory->machine, machine);
  pair->way[1] = way_of(net, machine, memory->machine);
  pair->end[0].in_use = pair->end[0].kept = true;
  pair->end[0].dead_after = transport->dead_after;
  for (int side = 0; side < 2; side++) {
    clear(&pair->flow[side]);
    pair->flow[side].reset_due = NEVER;
  }
  pair->syn_due = now() + pair->way[0]->delay;
  pair->next = net->pairs;
  if (net->pairs != NULL) net->pairs->prev = pair;
  net->pairs = pair;
  *link = &pair->end[0].link;
  changed(pair);
  pthread_mutex_unlock(&net->lock);
  return 0;
}

static void memory_free(struct dmi_transport *transport) {
  struct memory *memory = (struct memory *)transport;
  pthread_mutex_lock(&memory->net->lock);
  stop_listening(memory);
  pthread_mutex_unlock(&memory->net->lock);
  free(memory);
}

/* ---- The operations: a link ------------------------------------------------------------------ */

static int memory_connected(struct dmi_link *link) {
  struct end *end = lock_end(link);
  int error = end->error;
  unlock_end(end);
  return -error;
}

static ssize_t memory_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct end *end = lock_end(link);
  struct pair *pair = end->pair;
  struct flow *flow = &pair->flow[side_of(end)];
  ssize_t result = end->error != 0 ? -end->error : flow->fin_sent ? -EPIPE : 0;
  if (result == 0 && (pair->syn_due != NEVER || flow->sent >= SENDER_HAS)) result = -EAGAIN;
  if (result == 0) {
    size_t room = SENDER_HAS - flow->sent;
    struct piece *piece = must(malloc(sizeof *piece + room));
    *piece = (struct piece){.due = now() + pair->way[side_of(end)]->delay};
    for (size_t i = 0; i < num && piece->size < room; i++) {
      size_t part = iov[i].iov_len < room - piece->size ? iov[i].iov_len : room - piece->size;
      memcpy(piece->bytes + piece->size, iov[i].iov_base, part);
      piece->size += part;
    }
    piece = must(realloc(piece, sizeof *piece + piece->size));
    result = (ssize_t)piece->size;
    *flow->last = piece;
    flow->last = &piece->next;
    flow->sent += piece->size;
    changed(pair);
  }
  unlock_end(end);
  return result;
}

/* As much of the first piece as there is room for; true: it is used up. */
static bool take(struct piece *piece, struct iovec *at, size_t *used, ssize_t *got) {
  size_t part = piece->size - piece->taken, room = at->iov_len - *used;
  if (part > room) part = room;
  memcpy((char *)at->iov_base + *used, piece->bytes + piece->taken, part);
  piece->taken += part;
  *used += part;
  *got += (ssize_t)part;
  return piece->taken == piece->size;
}

static ssize_t memory_receive(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct end *end = lock_end(link);
  struct pair *pair = end->pair;
  struct flow *flow = &pair->flow[1 - side_of(end)];
  ssize_t got = end->error != 0 ? -end->error : flow->came != NULL || flow->fin_came ? 0 : -EAGAIN;
  size_t at = 0, used = 0;
  while (got >= 0 && flow->came != NULL && at < num) {
    struct piece *piece = flow->came;
    if (take(piece, &iov[at], &used, &got)) {
      flow->came = piece->next;
      if (flow->came == NULL) flow->came_last = &flow->came;
      free(piece);
    } else {
      at++;
      used = 0;
    }
  }
  if (got > 0) {
    flow->arrived -= (size_t)got;
    changed(pair); /* there is room for more */
  }
  unlock_end(end);
  return got;
}

static void memory_keep(struct dmi_link *link) {
  struct end *end = lock_end(link);
  end->kept = true;
  unlock_end(end);
}

static void memory_finish(struct dmi_link *link) {
  struct end *end = lock_end(link);
  struct flow *flow = &end->pair->flow[side_of(end)];
  if (end->error == 0 && !flow->fin_sent) {
    struct piece *fin = must(calloc(1, sizeof *fin));
    *fin = (struct piece){.due = now() + end->pair->way[side_of(end)]->delay, .fin = true};
    *flow->last = fin;
    flow->last = &fin->next;
    flow->fin_sent = true;
    changed(end->pair);
  }
  unlock_end(end);
}

static void memory_close(struct dmi_link *link) {
  struct end *end = lock_end(link);
  struct memory_net *net = end->pair->net;
  leave(end->pair, side_of(end), !end->kept);
  pthread_mutex_unlock(&net->lock);
}

static void memory_ends(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs) {
  const struct end *end = (struct end *)link; /* these do not change */
  const struct end *other = &end->pair->end[1 - side_of(end)];
  *ours = memory_net_addr(end->machine, end->port);
  *theirs = memory_net_addr(other->machine, other->port);
}

static uint64_t memory_unacknowledged(struct dmi_link *link) {
  struct end *end = lock_end(link);
  const struct flow *flow = &end->pair->flow[side_of(end)];
  uint64_t bytes = flow->sent + (flow->first != NULL && flow->fin_sent);
  unlock_end(end);
  return bytes;
}

static double memory_silence(struct dmi_link *link) {
  struct end *end = lock_end(link);
  double since = silent_since(end->pair), silence = since == NEVER ? 0 : now() - since;
  unlock_end(end);
  return silence;
}

static const struct dmi_transport_ops memory_ops = {
    .name = "memory",
    .listen = memory_listen,
    .accept = memory_accept,
    .connect = memory_connect,
    .free = memory_free,
    .connected = memory_connected,
    .send = memory_send,
    .receive = memory_receive,
    .keep = memory_keep,
    .finish = memory_finish,
    .close = memory_close,
    .ends = memory_ends,
    .unacknowledged = memory_unacknowledged,
    .silence = memory_silence,
};

/* ---- The network ----------------------------------------------------------------------------- */

struct dmi_addr memory_net_addr(uint32_t machine, uint16_t port) {
  struct dmi_addr addr = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10}};
  addr.ip[13] = (uint8_t)(machine >> 16);
  addr.ip[14] = (uint8_t)(machine >> 8);
  addr.ip[15] = (uint8_t)machine;
  addr.port = port;
  return addr;
}

struct memory_net *memory_net_new(void) {
  struct memory_net *net = must(calloc(1, sizeof *net));
  pthread_condattr_t attr;
  pthread_mutex_init(&net->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&net->news, &attr);
  pthread_condattr_destroy(&attr);
  net->next_port = FIRST_PORT;
  if (pthread_create(&net->thread, NULL, thread_main, net) != 0) abort();
  return net;
}

void memory_net_free(struct memory_net *net) {
  pthread_mutex_lock(&net->lock);
  net->ends = true;
  pthread_cond_signal(&net->news);
  pthread_mutex_unlock(&net->lock);
  pthread_join(net->thread, NULL);
  if (net->pairs != NULL || net->listeners != NULL) {
    fprintf(stderr, "memory_net: freed while it is in use\n");
    abort();
  }
  while (net->ways != NULL) {
    struct way *way = net->ways;
    net->ways = way->next;
    free(way);
  }
  pthread_mutex_destroy(&net->lock);
  pthread_cond_destroy(&net->news);
  free(net);
}

struct dmi_transport *memory_net_open(struct memory_net *net, uint32_t machine) {
  struct memory *memory = must(calloc(1, sizeof *memory));
  memory->transport.ops = &memory_ops;
  memory->transport.incoming = -1;
  memory->net = net;
  memory->machine = machine;
  memory->waiting_last = &memory->waiting;
  return &memory->transport;
}

void memory_net_delay(struct memory_net *net, uint32_t from, uint32_t to, double seconds) {
  pthread_mutex_lock(&net->lock);
  way_of(net, from, to)->delay = seconds;
  pthread_mutex_unlock(&net->lock);
}

void memory_net_cut(struct memory_net *net, uint32_t from, uint32_t to) {
  pthread_mutex_lock(&net->lock);
  struct way *way = way_of(net, from, to);
  if (!way->cut) way->cut_at = now();
  way->cut = true;
  pthread_cond_signal(&net->news); /* time runs for those who ask */
  pthread_mutex_unlock(&net->lock);
}

void memory_net_mend(struct memory_net *net, uint32_t from, uint32_t to) {
  pthread_mutex_lock(&net->lock);
  struct way *way = way_of(net, from, to);
  way->cut = false;
  for (struct pair *pair = net->pairs; pair != NULL; pair = pair->next)
    if (pair->way[0] == way || pair->way[1] == way) changed(pair);
  pthread_mutex_unlock(&net->lock);
}

uint32_t memory_net_reset(struct memory_net *net, uint32_t a, uint32_t b) {
  uint32_t num = 0;
  pthread_mutex_lock(&net->lock);
  for (struct pair *pair = net->pairs; pair != NULL; pair = pair->next) {
    uint32_t from = pair->way[0]->from, to = pair->way[0]->to;
    if (!((from == a && to == b) || (from == b && to == a))) continue;
    break_end(pair, 0, ECONNRESET);
    break_end(pair, 1, ECONNRESET);
    num++;
  }
  pthread_mutex_unlock(&net->lock);
  return num;
}
