/*
 * send.c - writing what is queued for a peer (outgoing.c) to its link, from any thread.
 *
 * dmi_net_send appends under the peer's lock. In dmi_net_flush one thread at a time writes for a
 * peer. It also writes what other threads append, and checks the queue again under the lock before
 * it stops, so nothing is left behind. When the link is full, or the thread has written its share,
 * the daemon goes on.
 *
 * With sealing, the writing thread makes as many records of the queued bytes as fit into peer->out,
 * removes these bytes from the queue, and sends the records before it makes more. If more is queued
 * than fits there, it takes memory for DMI_NET_SEALED, and gives that back when all of it is sent.
 *
 * Must not: make a system call or drop a payload under the lock; call the handler; change a
 * connection (it leaves errors and ends to dmi_peer_serve in the daemon).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/futex.h"
#include "base/large.h"
#include "base/lock.h"
#include "net/net_int.h"

#define ALONE 4096 /* payloads of this size or more get their own records */
/* bytes that one flush writes before it leaves the rest to the daemon */
#define SHARE ((uint64_t)1 << 20)
/* bytes of answers that the daemon gathers before it writes them */
#define GATHERED ((uint64_t)32 << 10)

_Static_assert(DMI_NET_SEALED <= DMI_LARGE_MIN, "take_more takes the smallest large frame");

/* True if there is nothing to send. dmi_outgoing_refill makes sure that no bulk waits then. */
static bool nothing_queued(const struct dmi_net_peer *peer) {
  if (peer->out != NULL && peer->out->start < peer->out->end) return false;
  return dmi_outgoing_is_empty(peer);
}

/* ---- Sealing, by the writing thread without the lock -------------------------------------------
 */

/* Finds the parts of the next record: *num elements of iov from `at` on, at most DMI_SEAL_MOST
 * bytes, which it returns. A large payload gets its own records, so that the other end can open
 * them directly into their place. */
static size_t next_record(const struct iovec *iov, size_t at, size_t end, size_t *num) {
  size_t size = 0;
  for (*num = 0; at + *num < end && size < DMI_SEAL_MOST; (*num)++) {
    size_t len = iov[at + *num].iov_len;
    if (len >= ALONE && *num != 0) break;
    size += len;
    if (len >= ALONE) {
      *num = 1;
      break;
    }
  }
  return size < DMI_SEAL_MOST ? size : DMI_SEAL_MOST;
}

/* Makes as many records of the parts as fit. Returns the size of the records; *taken is the
 * number of bytes of the parts that are in them. */
static size_t seal_parts(struct dmi_sealed *out, struct iovec *iov, size_t num, uint64_t borrowed,
                         uint64_t *taken) {
  const size_t room = out->bytes == out->few ? sizeof out->few : DMI_NET_SEALED;
  size_t end = 0;
  for (size_t at = 0; at < num;) {
    size_t parts, size = next_record(iov, at, num, &parts);
    if (room - end < size + DMI_SEAL_OVER) break;
    dmi_seal_put(out->seal, out->bytes + end, iov + at, parts, size, (borrowed >> at & 1) == 0);
    end += size + DMI_SEAL_OVER;
    *taken += size;
    while (at < num && size >= iov[at].iov_len)
      size -= iov[at++].iov_len;
    if (size == 0) continue;
    iov[at].iov_base = (char *)iov[at].iov_base + size;
    iov[at].iov_len -= size;
  }
  return end;
}

/* Takes more memory if the parts need it. If there is none, they go a few records at a time. */
static void take_more(struct dmi_sealed *out, const struct iovec *iov, size_t num) {
  uint64_t size = 0;
  for (size_t i = 0; i < num; i++)
    size += iov[i].iov_len;
  if (size <= sizeof out->few) return;
  unsigned char *bytes = dmi_large_new(DMI_LARGE_MIN, false);
  if (bytes != NULL) out->bytes = bytes;
}

static void give_back_more(struct dmi_sealed *out) {
  if (out->bytes == out->few) return;
  dmi_large_free(out->bytes);
  out->bytes = out->few;
}

struct dmi_sealed *dmi_send_out(const struct dmi_proof_keys *keys) {
  struct dmi_sealed *out = malloc(sizeof *out);
  if (out == NULL) return NULL;
  out->start = out->end = 0;
  out->bytes = out->few;
  /* HELLO or HELLO_OK was the first record */
  out->seal = dmi_seal_new(keys->out, 1, keys->cipher);
  if (out->seal != NULL) return out;
  free(out);
  return NULL;
}

void dmi_send_free_out(struct dmi_sealed *out) {
  if (out == NULL) return;
  give_back_more(out);
  dmi_seal_free(out->seal);
  free(out);
}

/* ---- To the link ------------------------------------------------------------------------------
 */

/* Removes `bytes` bytes from the queue. The lock is held; it is released meanwhile if payloads
 * are to be freed. */
static void take_off(struct dmi_net_peer *peer, uint64_t bytes) {
  struct dmi_seg *done = dmi_outgoing_consume(peer, bytes);
  if (!dmi_outgoing_refill(peer)) peer->broken = ENOMEM;
  if (done == NULL) return;
  dmi_unlock(&peer->lock, DMI_RANK_PEER); /* freeing payloads may take long */
  dmi_outgoing_drop_payloads(done);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  done = dmi_outgoing_keep_spares(peer, done);
  if (done == NULL) return;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  dmi_outgoing_free(done);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
}

/* Writes once. Called with the lock held and `writing` set; releases the lock meanwhile. Returns
 * whether to go on. */
static bool write_once(struct dmi_net_peer *peer, uint64_t *share) {
  struct iovec iov[DMI_NET_IOV];
  struct dmi_sealed *out = peer->out;
  size_t start = out == NULL ? 0 : out->start, end = out == NULL ? 0 : out->end;
  uint64_t taken = 0, borrowed = 0;
  size_t num = start < end ? 0 : dmi_outgoing_gather(peer, iov, &borrowed);
  struct dmi_link *link = peer->link;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  ssize_t sent;
  if (out == NULL) {
    sent = link->ops->send(link, iov, num);
    if (sent > 0) taken = (uint64_t)sent;
  } else {
    if (num != 0) {
      take_more(out, iov, num);
      start = 0;
      end = seal_parts(out, iov, num, borrowed, &taken);
    }
    sent = dmi_link_send(link, out->bytes + start, end - start);
    if (sent > 0) start += (size_t)sent;
    if (start == end) give_back_more(out);
  }
  int error = sent < 0 ? (int)-sent : 0;
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  if (out != NULL) {
    out->start = start;
    out->end = end;
  }
  if (sent > 0) peer->sent += (uint64_t)sent;
  take_off(peer, taken);
  if (error == EINTR) return true;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    peer->blocked = true;
    return false;
  }
  if (error != 0) {
    peer->broken = error;
    return false;
  }
  if ((uint64_t)sent < *share) {
    *share -= (uint64_t)sent;
    return true;
  }
  if (!nothing_queued(peer)) peer->blocked = true; /* the daemon goes on */
  return false;
}

/* Wakes the daemon that waits in dmi_send_settle.  It cannot free `peer` before the lock, which is
 * held, is released. */
static void settled(struct dmi_net_peer *peer) {
  peer->settling = false;
  atomic_fetch_add(&peer->settled, 1);
  dmi_futex_wake(&peer->settled, INT_MAX);
}

/* Called with the lock held; releases it. */
static void flush_locked(struct dmi_net_peer *peer) {
  struct dmi_net *net = peer->net;
  uint64_t share = SHARE;
  bool wake = false, queued = !nothing_queued(peer);
  if (queued && peer->state == DMI_PEER_IDLE) wake = dmi_net_need_daemon(peer);
  if (queued && peer->state == DMI_PEER_UP && !peer->writing && !peer->blocked &&
      peer->broken == 0) {
    peer->writing = true;
    /* If the daemon finds that the connection is lost, it waits in dmi_send_settle until this
     * loop ends. */
    while (write_once(peer, &share) && !nothing_queued(peer) && peer->state == DMI_PEER_UP)
      continue;
    peer->writing = false;
    if (peer->settling) settled(peer);
    bool finished = peer->ended && nothing_queued(peer);
    if (peer->blocked || peer->broken != 0 || finished) wake = dmi_net_need_daemon(peer);
    if (dmi_alive_need(net)) wake = true;
  }
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  if (wake) dmi_net_wake(net); /* do not use `peer` here: a temporary one may be freed */
}

void dmi_send_flush(struct dmi_net_peer *peer) {
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  flush_locked(peer);
}

bool dmi_send_writable(struct dmi_net_peer *peer) {
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  peer->blocked = false;
  flush_locked(peer);
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool more = peer->blocked;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return more;
}

void dmi_send_settle(struct dmi_net_peer *peer) {
  /* Not for long: the writer is in one send call, which does not block. */
  while (peer->writing) {
    uint32_t seen = atomic_load(&peer->settled);
    peer->settling = true;
    dmi_unlock(&peer->lock, DMI_RANK_PEER);
    dmi_futex_wait(&peer->settled, seen);
    dmi_lock(&peer->lock, DMI_RANK_PEER);
  }
}

void dmi_send_dirty(struct dmi_net *net) {
  while (net->dirty != NULL) {
    struct dmi_net_peer *peer = net->dirty;
    net->dirty = peer->dirty_next;
    peer->dirty = false;
    peer->gathered = 0;
    dmi_send_flush(peer);
  }
}

bool dmi_send_idle(struct dmi_net_peer *peer) {
  dmi_lock(&peer->lock, DMI_RANK_PEER);
  bool idle = peer->state >= DMI_PEER_SHUT || (nothing_queued(peer) && !peer->writing);
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return idle;
}

/* ---- For the upper layer --------------------------------------------------------------------- */

/* True for answers: a process that is leaving may still wait for one, because its DMI_main may
 * go on, or because somebody looks at the program through it. */
static bool is_answer(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_GOT || msg->type == DMI_MSG_DONE || msg->type == DMI_MSG_FAIL ||
         msg->type == DMI_SEE_ANSWER;
}

/* With the lock held: true if the peer has left, so that this thread must not send it this
 * message. */
static bool has_left(const struct dmi_net_peer *peer, const struct dmi_msg *msg) {
  if (peer->closing || peer->state == DMI_PEER_SHUT) return true;
  return peer->barred && !is_answer(msg) && !dmi_net_is_daemon(peer->net);
}

/* The daemon has queued `size` bytes. */
static void will_flush(struct dmi_net *net, struct dmi_net_peer *peer, uint64_t size) {
  peer->gathered += size;
  net->queued++;
  if (peer->dirty) return;
  peer->dirty = true;
  peer->dirty_next = net->dirty;
  net->dirty = peer;
}

/* The receiver checks each message; here it would only show a bug. */
static void check_own(const struct dmi_msg *msg) {
#ifdef DMI_DEBUG
  const char *wrong = dmi_wire_check(msg, true);
  if (wrong == NULL) return;
  fprintf(stderr, "dmi: bug: message %u is to be sent, but %s\n", msg->type, wrong);
  abort();
#else
  (void)msg;
#endif
}

bool dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  check_own(msg);
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, to);
  bool wake = false;
  if (peer != NULL) {
    if (has_left(peer, msg)) {
      dmi_unlock(&peer->lock, DMI_RANK_PEER);
      return false;
    }
    const uint64_t size = DMI_WIRE_HEADER + msg->list.len + msg->body.len;
    if (peer->state < DMI_PEER_SHUT && !dmi_outgoing_append(peer, msg)) {
      peer->broken = ENOMEM; /* a part of a message may be queued, so the connection cannot go on */
      wake = dmi_net_need_daemon(peer);
    }
    dmi_unlock(&peer->lock, DMI_RANK_PEER);
    if (wake) dmi_net_wake(net);
    if (dmi_net_is_daemon(net)) will_flush(net, peer, size);
  }
  /* Frees payloads that were copied or not sent; those taken over have no frame here any more. */
  if (msg->list.frame != NULL) dmi_slice_drop(&msg->list);
  if (msg->body.frame != NULL) dmi_slice_drop(&msg->body);
  return true;
}

uint64_t dmi_net_queued(struct dmi_net *net, uint32_t to) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, to);
  uint64_t bytes = 0;
  if (peer == NULL) return 0;
  for (const struct dmi_seg *seg = peer->head; seg != NULL; seg = seg->next)
    bytes += seg->end - seg->start + seg->big.len - seg->sent;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return bytes;
}

uint64_t dmi_net_messages(struct dmi_net *net, uint32_t to) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, to);
  if (peer == NULL) return 0;
  const uint64_t num = peer->messages;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
  return num;
}

void dmi_net_bar(struct dmi_net *net, uint32_t uid) {
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, uid);
  if (peer == NULL) return;
  peer->barred = true;
  dmi_unlock(&peer->lock, DMI_RANK_PEER);
}

/* True if the daemon writes what it has queued for `to` later.  No lock: only the daemon uses these
 * fields, and peers with a uid stay. */
static bool is_gathered(struct dmi_net *net, uint32_t to) {
  if (!dmi_net_is_daemon(net) || to >= DMI_NET_TEMP) return false;
  struct dmi_net_peer *peer = dmi_peer_find(net, to);
  if (peer == NULL || !peer->dirty) return false;
  if (net->gathering && peer->gathered < GATHERED) return true;
  peer->gathered = 0;
  return false;
}

void dmi_net_flush(struct dmi_net *net, uint32_t to) {
  if (is_gathered(net, to)) return;
  struct dmi_net_peer *peer = dmi_peer_find_locked(net, to);
  if (peer != NULL) flush_locked(peer);
}

void dmi_net_flush_gathered(struct dmi_net *net) {
  if (dmi_net_is_daemon(net)) dmi_send_dirty(net);
}
