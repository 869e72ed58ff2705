/*
 * memory_net.c - the operations of the transport of memory_net.h, and the network.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_net_int.h"

#define FIRST_PORT 40000

static const struct dmi_transport_ops memory_ops;

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

/* ---- The operations: a transport ------------------------------------------------------------ */

static void stop_listening(struct memory *memory) {
  struct memory **at = &memory->net->listeners;
  while (*at != NULL && *at != memory)
    at = &(*at)->next;
  if (*at != NULL) *at = memory->next;
  while (memory->waiting != NULL) {
    struct pair *pair = memory->waiting;
    memory->waiting = pair->waiting;
    memory_end_leave(pair, 1, true);
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
    transport->incoming = memory_new_event();
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
      memory_event_clear(transport->incoming);
    }
    pair->end[1].transport = transport;
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
  struct pair *pair = memory_must(calloc(1, sizeof *pair));
  pthread_mutex_lock(&net->lock);
  pair->net = net;
  memory_end_begin(pair, 0, transport->ops, memory->machine, net->next_port++);
  memory_end_begin(pair, 1, transport->ops, machine, to->port);
  pair->way[0] = memory_way(net, memory->machine, machine);
  pair->way[1] = memory_way(net, machine, memory->machine);
  pair->end[0].in_use = pair->end[0].kept = true;
  pair->end[0].transport = transport;
  pair->end[0].dead_after = transport->dead_after;
  for (int side = 0; side < 2; side++) {
    memory_flow_clear(&pair->flow[side]);
    pair->flow[side].reset_due = NEVER;
  }
  pair->syn_due = memory_now() + pair->way[0]->delay;
  pair->next = net->pairs;
  if (net->pairs != NULL) net->pairs->prev = pair;
  net->pairs = pair;
  *link = &pair->end[0].link;
  memory_pair_changed(pair);
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

/* ---- The operations: a link ----------------------------------------------------------------- */

static int memory_connected(struct dmi_link *link) {
  struct end *end = lock_end(link);
  int error = end->error;
  unlock_end(end);
  return -error;
}

/* How many of these bytes, at most `most`. */
static size_t bytes_of(const struct iovec *iov, size_t num, size_t most) {
  size_t size = 0;
  for (size_t i = 0; i < num && size < most; i++)
    size += iov[i].iov_len;
  return size < most ? size : most;
}

static ssize_t memory_send(struct dmi_link *link, struct iovec *iov, size_t num) {
  struct end *end = lock_end(link);
  struct pair *pair = end->pair;
  struct flow *flow = &pair->flow[side_of(end)];
  ssize_t result = end->error != 0 ? -end->error : flow->fin_sent ? -EPIPE : 0;
  if (result == 0 && (pair->syn_due != NEVER || flow->sent >= SENDER_HAS)) result = -EAGAIN;
  if (result == 0) {
    size_t capacity = bytes_of(iov, num, SENDER_HAS - flow->sent);
    struct piece *piece = memory_must(malloc(sizeof *piece + capacity));
    *piece = (struct piece){.due = memory_now() + pair->way[side_of(end)]->delay};
    for (size_t i = 0; piece->size < capacity; i++) {
      size_t part =
          iov[i].iov_len < capacity - piece->size ? iov[i].iov_len : capacity - piece->size;
      memcpy(piece->bytes + piece->size, iov[i].iov_base, part);
      piece->size += part;
    }
    result = (ssize_t)piece->size;
    *flow->last = piece;
    flow->last = &piece->next;
    flow->sent += piece->size;
    memory_pair_changed(pair);
  }
  unlock_end(end);
  return result;
}

/* Copies as much of the first piece as fits; true: all of it was copied. */
static bool take(struct piece *piece, struct iovec *at, size_t *used, ssize_t *got) {
  size_t part = piece->size - piece->taken, capacity = at->iov_len - *used;
  if (part > capacity) part = capacity;
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
    memory_pair_changed(pair); /* more pieces can arrive now */
  }
  unlock_end(end);
  return got;
}

static void memory_keep(struct dmi_link *link) {
  struct end *end = lock_end(link);
  end->kept = true;
  end->dead_after = end->transport->dead_after;
  unlock_end(end);
}

static void memory_finish(struct dmi_link *link) {
  struct end *end = lock_end(link);
  struct flow *flow = &end->pair->flow[side_of(end)];
  if (end->error == 0 && !flow->fin_sent) {
    struct piece *fin = memory_must(calloc(1, sizeof *fin));
    *fin = (struct piece){.due = memory_now() + end->pair->way[side_of(end)]->delay, .fin = true};
    *flow->last = fin;
    flow->last = &fin->next;
    flow->fin_sent = true;
    memory_pair_changed(end->pair);
  }
  unlock_end(end);
}

static void memory_close(struct dmi_link *link) {
  struct end *end = lock_end(link);
  struct memory_net *net = end->pair->net;
  memory_end_leave(end->pair, side_of(end), !end->kept);
  pthread_mutex_unlock(&net->lock);
}

static void memory_ends(struct dmi_link *link, struct dmi_addr *ours, struct dmi_addr *theirs) {
  const struct end *end = (struct end *)link; /* these fields do not change */
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
  double since = memory_silent_since(end->pair),
         silence = since == NEVER ? 0 : memory_now() - since;
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

/* ---- The network ---------------------------------------------------------------------------- */

struct dmi_addr memory_net_addr(uint32_t machine, uint16_t port) {
  struct dmi_addr addr = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10}};
  addr.ip[13] = (uint8_t)(machine >> 16);
  addr.ip[14] = (uint8_t)(machine >> 8);
  addr.ip[15] = (uint8_t)machine;
  addr.port = port;
  return addr;
}

struct memory_net *memory_net_new(void) {
  struct memory_net *net = memory_must(calloc(1, sizeof *net));
  pthread_condattr_t attr;
  pthread_mutex_init(&net->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&net->news, &attr);
  pthread_condattr_destroy(&attr);
  net->next_port = FIRST_PORT;
  if (pthread_create(&net->thread, NULL, memory_pairs_move, net) != 0) abort();
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
  struct memory *memory = memory_must(calloc(1, sizeof *memory));
  memory->transport.ops = &memory_ops;
  memory->transport.incoming = -1;
  memory->net = net;
  memory->machine = machine;
  memory->waiting_last = &memory->waiting;
  return &memory->transport;
}

void memory_net_delay(struct memory_net *net, uint32_t from, uint32_t to, double seconds) {
  pthread_mutex_lock(&net->lock);
  memory_way(net, from, to)->delay = seconds;
  pthread_mutex_unlock(&net->lock);
}

void memory_net_cut(struct memory_net *net, uint32_t from, uint32_t to) {
  pthread_mutex_lock(&net->lock);
  struct way *way = memory_way(net, from, to);
  if (!way->cut) way->cut_at = memory_now();
  way->cut = true;
  pthread_cond_signal(&net->news); /* so that the thread looks at the times again */
  pthread_mutex_unlock(&net->lock);
}

void memory_net_mend(struct memory_net *net, uint32_t from, uint32_t to) {
  pthread_mutex_lock(&net->lock);
  struct way *way = memory_way(net, from, to);
  way->cut = false;
  for (struct pair *pair = net->pairs; pair != NULL; pair = pair->next)
    if (pair->way[0] == way || pair->way[1] == way) memory_pair_changed(pair);
  pthread_mutex_unlock(&net->lock);
}

uint32_t memory_net_reset(struct memory_net *net, uint32_t a, uint32_t b) {
  uint32_t num = 0;
  pthread_mutex_lock(&net->lock);
  for (struct pair *pair = net->pairs; pair != NULL; pair = pair->next) {
    uint32_t from = pair->way[0]->from, to = pair->way[0]->to;
    if (!((from == a && to == b) || (from == b && to == a))) continue;
    memory_pair_break(pair, 0, ECONNRESET);
    memory_pair_break(pair, 1, ECONNRESET);
    num++;
  }
  pthread_mutex_unlock(&net->lock);
  return num;
}
