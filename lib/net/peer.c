/*
 * peer.c - the records of other processes: making, finding by id, losing, freeing.
 *
 * Peers with a uid are found without a lock and live as long as the dmi_net. Temporary ones are
 * freed earlier: they are found under temp_lock, which is held until the peer's own lock is taken,
 * so that no thread uses a freed one.
 *
 * Must not: read or write sockets (send.c, receive.c), or decide who may connect (accept.c,
 * dial.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "net/net_int.h"

/* ---- The table ------------------------------------------------------------------------------- */

static struct dmi_net_peer *find_uid(struct dmi_net *net, uint32_t id) {
  struct dmi_peer_mid *mid =
      atomic_load_explicit(&net->dir[id / (DMI_PEER_MID * DMI_PEER_LEAF)], memory_order_acquire);
  if (mid == NULL) return NULL;
  struct dmi_peer_leaf *leaf =
      atomic_load_explicit(&mid->at[id / DMI_PEER_LEAF % DMI_PEER_MID], memory_order_acquire);
  if (leaf == NULL) return NULL;
  return atomic_load_explicit(&leaf->at[id % DMI_PEER_LEAF], memory_order_acquire);
}

/* Only the daemon (or the thread of dmi_net_open, before it runs) adds entries, so there is no
 * race. */
static bool put_uid(struct dmi_net *net, uint32_t id, struct dmi_net_peer *peer) {
  _Atomic(struct dmi_peer_mid *) *mid_at = &net->dir[id / (DMI_PEER_MID * DMI_PEER_LEAF)];
  struct dmi_peer_mid *mid = atomic_load(mid_at);
  if (mid == NULL) {
    if ((mid = calloc(1, sizeof *mid)) == NULL) return false;
    atomic_store(mid_at, mid);
  }
  _Atomic(struct dmi_peer_leaf *) *leaf_at = &mid->at[id / DMI_PEER_LEAF % DMI_PEER_MID];
  struct dmi_peer_leaf *leaf = atomic_load(leaf_at);
  if (leaf == NULL) {
    if ((leaf = calloc(1, sizeof *leaf)) == NULL) return false;
    atomic_store(leaf_at, leaf);
  }
  atomic_store(&leaf->at[id % DMI_PEER_LEAF], peer);
  return true;
}

/* Temporary ids are consecutive, so their low bits are a good hash. Peers of one slot are
 * chained by temp_next. */
static struct dmi_net_peer **temp_slot(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer **at = &net->temp[id % DMI_NET_TEMP_SLOTS];
  while (*at != NULL && (*at)->id != id)
    at = &(*at)->temp_next;
  return at;
}

struct dmi_net_peer *dmi_peer_find(struct dmi_net *net, uint32_t id) {
  if (id < DMI_NET_TEMP) return find_uid(net, id);
  dmi_mutex_lock(&net->temp_lock);
  struct dmi_net_peer *peer = *temp_slot(net, id);
  dmi_mutex_unlock(&net->temp_lock);
  return peer;
}

uint64_t dmi_peer_heard(const struct dmi_net_peer *peer) {
  uint64_t bytes = 0;
  for (const struct dmi_conn *conn = peer->net->conns; conn != NULL; conn = conn->next) {
    if (conn->peer == peer) bytes += atomic_load_explicit(&conn->heard, memory_order_relaxed);
  }
  return bytes;
}

struct dmi_net_peer *dmi_peer_find_locked(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer;
  if (id < DMI_NET_TEMP) {
    peer = find_uid(net, id);
    if (peer != NULL) dmi_lock(&peer->lock, DMI_RANK_PEER);
    return peer;
  }
  dmi_mutex_lock(&net->temp_lock);
  peer = *temp_slot(net, id);
  if (peer != NULL) dmi_lock(&peer->lock, DMI_RANK_PEER);
  dmi_mutex_unlock(&net->temp_lock);
  return peer;
}

struct dmi_net_peer *dmi_peer_new(struct dmi_net *net, uint32_t id) {
  struct dmi_net_peer *peer = calloc(1, sizeof *peer);
  if (peer == NULL) return NULL;
  peer->net = net;
  peer->nudge = -1;
  if (id == DMI_NET_TEMP) {
    peer->id = net->next_temp;
    net->next_temp = net->next_temp == UINT32_MAX ? DMI_NET_TEMP + 1 : net->next_temp + 1;
    dmi_mutex_lock(&net->temp_lock);
    *temp_slot(net, peer->id) = peer;
    dmi_mutex_unlock(&net->temp_lock);
  } else {
    peer->id = id;
    if (!put_uid(net, id, peer)) {
      free(peer);
      return NULL;
    }
  }
  peer->next = net->peers;
  if (net->peers != NULL) net->peers->prev = peer;
  net->peers = peer;
  return peer;
}

/* ---- What we do towards it --------------------------------------------------------------------
 */

#ifdef DMI_DEBUG
#define BIT(state) (1u << DMI_PEER_##state)

/* The allowed transitions; the diagram is in net_int.h. */
static const uint32_t allowed[DMI_PEER_STATES] = {
    [DMI_PEER_IDLE] = BIT(IDLE) | BIT(DIALING) | BIT(UP) | BIT(SHUT) | BIT(LOST),
    [DMI_PEER_DIALING] = BIT(IDLE) | BIT(DIALING) | BIT(UP) | BIT(SHUT) | BIT(LOST),
    [DMI_PEER_UP] = BIT(IDLE) | BIT(SHUT) | BIT(LOST),
    [DMI_PEER_SHUT] = BIT(SHUT),
    [DMI_PEER_LOST] = 0,
};
#endif

void dmi_peer_move(struct dmi_net_peer *peer, enum dmi_peer_state state) {
#ifdef DMI_DEBUG
  if (!(allowed[peer->state] >> state & 1)) {
    fprintf(stderr, "dmi: bug: peer %u goes from state %u to state %u\n", peer->id, peer->state,
            state);
    abort();
  }
#endif
  peer->state = state;
}

/* ---- Its end --------------------------------------------------------------------------------- */

/* Frees a peer that no other thread can find any more. */
static void free_peer(struct dmi_net_peer *peer) {
  dmi_send_free_out(peer->out);
  dmi_outgoing_free(dmi_outgoing_take_all(peer));
  if (peer->nudge >= 0) close(peer->nudge);
  free(peer);
}

static void unlink_dirty(struct dmi_net_peer *peer) {
  struct dmi_net_peer **at = &peer->net->dirty;
  while (*at != NULL && *at != peer)
    at = &(*at)->dirty_next;
  if (*at != NULL) *at = peer->dirty_next;
}

static void unlink_work(struct dmi_net_peer *peer) {
  struct dmi_net *net = peer->net;
  dmi_mutex_lock(&net->work_lock);
  struct dmi_net_peer **at = &net->work;
  while (*at != NULL && *at != peer)
    at = &(*at)->work_next;
  if (*at != NULL) *at = peer->work_next;
  dmi_mutex_unlock(&net->work_lock);
}

void dmi_peer_free_temp(struct dmi_net_peer *peer) {
  struct dmi_net *net = peer->net;
  dmi_mutex_lock(&net->temp_lock);
  *temp_slot(net, peer->id) = peer->temp_next;
  dmi_lock(&peer->lock, DMI_RANK_PEER); /* waits for the last thread that found it */
  dmi_mutex_unlock(&net->temp_lock);
  dmi_send_settle(peer);
  net->gone.sent += peer->sent;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  unlink_work(peer);
  unlink_dirty(peer);
  if (peer->prev != NULL)
    peer->prev->next = peer->next;
  else
    net->peers = peer->next;
  if (peer->next != NULL) peer->next->prev = peer->prev;
  free_peer(peer);
}

void dmi_peer_free_all(struct dmi_net *net) {
  while (net->peers != NULL) {
    struct dmi_net_peer *peer = net->peers;
    net->peers = peer->next;
    free_peer(peer);
  }
  for (size_t i = 0; i < DMI_PEER_DIR; i++) {
    struct dmi_peer_mid *mid = atomic_load(&net->dir[i]);
    for (size_t j = 0; mid != NULL && j < DMI_PEER_MID; j++)
      free(atomic_load(&mid->at[j]));
    free(mid);
  }
}

void dmi_peer_lost(struct dmi_net_peer *peer, const char *why) {
  struct dmi_net *net = peer->net;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  peer->link = NULL; /* the connection closes it: see dmi_conn_lose */
  bool wanted = peer->state != DMI_PEER_SHUT && !peer->closing;
  /* A process claimed a uid that nobody has announced, and is gone: the true member with that
   * uid must still be able to connect. */
  bool unknown = peer->id < DMI_NET_TEMP && !peer->announced;
  bool again = unknown || net->first != NULL; /* the network of pulses only suspects a member */
  /* There it is the other's business, too, to connect: so an attempt that fails says nothing. */
  bool told = net->first == NULL || peer->state == DMI_PEER_UP;
  dmi_peer_move(peer, !wanted ? DMI_PEER_SHUT : again ? DMI_PEER_IDLE : DMI_PEER_LOST);
  if (wanted && again) {
    peer->broken = 0;
    peer->blocked = peer->ended = false;
  }
  dmi_send_settle(peer);
  struct dmi_seg *queue = dmi_outgoing_take_all(peer);
  struct dmi_sealed *out = peer->out;
  peer->out = NULL;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  dmi_outgoing_free(queue);
  dmi_send_free_out(out);
  uint32_t id = peer->id;
  if (id >= DMI_NET_TEMP) dmi_peer_free_temp(peer);
  if (wanted && told && !net->expect_close) net->handler.lost(net->handler.arg, id, why);
}

/* ---- What other threads could not do themselves
 * -------------------------------------------------- */

void dmi_peer_serve(struct dmi_net_peer *peer) {
  if (peer->conn != NULL) dmi_lend_resume(peer->conn);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  enum dmi_peer_state state = peer->state;
  int broken = peer->broken;
  bool blocked = peer->blocked;
  bool ended = peer->ended;
  bool queued = peer->head != NULL;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (state >= DMI_PEER_SHUT) return;
  if (broken != 0) {
    if (peer->conn != NULL && !dmi_lend_take(peer->conn)) return;
    /* Its last messages may say why it has gone. */
    if (peer->conn != NULL && dmi_alive_is_closed(broken) && dmi_lend_rest(peer->conn)) return;
    char why[DMI_NET_WHY];
    dmi_alive_why(peer->net, why, "sending to it failed", broken);
    if (peer->conn != NULL) {
      dmi_conn_lose(peer->conn, why);
    } else {
      if (peer->dial != NULL) dmi_dial_cancel(peer->dial);
      dmi_peer_lost(peer, why);
    }
  } else if (state == DMI_PEER_IDLE) {
    /* Nothing is queued: a writer's send failed, and since then the connection was lost. */
    if (queued) dmi_dial_peer(peer);
  } else if (state == DMI_PEER_UP) {
    if (blocked)
      dmi_conn_await_writable(peer->conn);
    else if (ended && dmi_send_idle(peer))
      dmi_conn_end(peer->conn);
  }
}
