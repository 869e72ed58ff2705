/*
 * outgoing.c - the queue of messages for a peer, as bytes that go to its link.
 *
 * Headers and small payloads are copied into segments, of which a few are kept for the next
 * messages; large payloads are taken over, and stand behind the bytes of a segment.
 *
 * DATA of large pages waits in a second queue, of which a piece at a time goes over to the first
 * when that is empty, as BLOCKs (wire.md, "Bulk"): so other messages wait for a piece at most.
 *
 * Everything here is called with the peer's lock held, except what says otherwise.
 *
 * Must not: make a system call (but malloc's), drop a payload under the lock, or know of links.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "net/net_int.h"

#define SPARES_MOST 4
#define PIECE ((uint64_t)256 << 10) /* bytes of a BLOCK that a DATA is cut into */
#define PIECES 2                    /* that go over to the queue at a time */

/* ---- The queue ------------------------------------------------------------------------------- */

/* Puts an empty segment at the tail.  The lock is held: malloc of 4 KiB seldom makes a system
 * call, and the spares make it seldom that it is called. */
static struct dmi_seg *add_segment(struct dmi_net_peer *peer) {
  struct dmi_seg *seg = peer->spare;
  if (seg != NULL) {
    peer->spare = seg->next;
    peer->spares--;
  } else {
    seg = malloc(sizeof *seg);
    if (seg == NULL) return NULL;
  }
  seg->next = NULL;
  seg->start = seg->end = 0;
  seg->sent = 0;
  seg->big = (struct dmi_slice){0};
  if (peer->tail != NULL)
    peer->tail->next = seg;
  else
    peer->head = seg;
  peer->tail = seg;
  return seg;
}

/* The tail, with room for `need` bytes. */
static struct dmi_seg *capacity_for(struct dmi_net_peer *peer, size_t need) {
  struct dmi_seg *seg = peer->tail;
  if (seg != NULL && seg->big.len == 0 && sizeof seg->bytes - seg->end >= need) return seg;
  return add_segment(peer);
}

/* A payload: copied when small, else taken over (then *slice is emptied). */
static bool append_slice(struct dmi_net_peer *peer, struct dmi_slice *slice) {
  struct dmi_seg *seg = peer->tail;
  if (slice->len <= DMI_NET_COPY) {
    seg = capacity_for(peer, slice->len);
    if (seg == NULL) return false;
    memcpy(seg->bytes + seg->end, slice->ptr, slice->len);
    seg->end += (uint32_t)slice->len;
    return true;
  }
  if (seg->big.len != 0 && (seg = add_segment(peer)) == NULL) return false;
  seg->big = *slice;
  *slice = (struct dmi_slice){0};
  return true;
}

/* ---- Bulk ------------------------------------------------------------------------------------ */

static bool is_bulk(const struct dmi_msg *msg) {
  if (msg->list.len != 0 || msg->body.frame == NULL) return false;
  return msg->type == DMI_MSG_BLOCK || (msg->type == DMI_MSG_DATA && msg->body.len >= DMI_NET_CUT);
}

static void put_last(struct dmi_net_peer *peer, struct dmi_seg *seg) {
  seg->next = NULL;
  if (peer->tail != NULL)
    peer->tail->next = seg;
  else
    peer->head = seg;
  peer->tail = seg;
}

static struct dmi_seg *take_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *seg = peer->bulk;
  peer->bulk = seg->next;
  if (peer->bulk == NULL) peer->bulk_tail = NULL;
  return seg;
}

/* A part of a DATA, or of a BLOCK, whose header was put into bytes already, as a BLOCK. */
static void put_block(unsigned char to[DMI_WIRE_HEADER], const unsigned char of[DMI_WIRE_HEADER],
                      uint64_t off, uint64_t len) {
  struct dmi_msg msg;
  struct dmi_msg_data data;
  (void)dmi_wire_get(&msg, of, true); /* our own */
  data = msg.data;
  msg.type = DMI_MSG_BLOCK;
  msg.block = (struct dmi_msg_block){
      .fetch = data.fetch, .kind = data.kind, .version = data.version, .off = off};
  msg.body.len = len;
  dmi_wire_put(to, &msg);
}

/* The rest of the first bulk message goes into the queue, as one BLOCK if some has gone. */
static void rest_of_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *seg = take_bulk(peer);
  if (seg->sent != 0) {
    put_block(seg->bytes, seg->bytes, seg->sent, seg->big.len - seg->sent);
    seg->big.ptr += seg->sent;
    seg->big.len -= seg->sent;
    seg->sent = 0;
  }
  put_last(peer, seg);
}

/* A piece of it, of which there is more. */
static bool piece_of_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *from = peer->bulk, *seg = add_segment(peer);
  if (seg == NULL) return false;
  put_block(seg->bytes, from->bytes, from->sent, PIECE);
  seg->end = DMI_WIRE_HEADER;
  seg->big = (struct dmi_slice){dmi_frame_ref(from->big.frame), from->big.ptr + from->sent, PIECE};
  from->sent += PIECE;
  return true;
}

/* Keeps the queue from being empty while there is bulk.  False: no memory. */
bool dmi_outgoing_refill(struct dmi_net_peer *peer) {
  if (peer->bulk == NULL || !dmi_outgoing_is_empty(peer)) return true;
  for (int i = 0; i < PIECES && peer->bulk != NULL; i++) {
    struct dmi_seg *seg = peer->bulk;
    if (seg->bytes[0] == DMI_MSG_BLOCK || seg->big.len - seg->sent <= PIECE) {
      rest_of_bulk(peer);
    } else if (!piece_of_bulk(peer)) {
      return false;
    }
  }
  return true;
}

/* All of it, in front of what says that there is no more. */
static void hurry_bulk(struct dmi_net_peer *peer) {
  while (peer->bulk != NULL)
    rest_of_bulk(peer);
}

static bool append_bulk(struct dmi_net_peer *peer, struct dmi_msg *msg) {
  struct dmi_seg *seg = malloc(sizeof *seg);
  if (seg == NULL) return false;
  seg->next = NULL;
  seg->start = 0;
  seg->end = DMI_WIRE_HEADER;
  seg->sent = 0;
  dmi_wire_put(seg->bytes, msg);
  seg->big = msg->body;
  msg->body = (struct dmi_slice){0};
  if (peer->bulk_tail != NULL)
    peer->bulk_tail->next = seg;
  else
    peer->bulk = seg;
  peer->bulk_tail = seg;
  return dmi_outgoing_refill(peer);
}

bool dmi_outgoing_append(struct dmi_net_peer *peer, struct dmi_msg *msg) {
  struct dmi_seg *seg;
  if (is_bulk(msg)) return append_bulk(peer, msg);
  /* Behind these nothing that was sent before may still be on its way. */
  if (msg->type == DMI_MSG_FIN || msg->type == DMI_CTL_LAST_MESSAGE) hurry_bulk(peer);
  seg = capacity_for(peer, DMI_WIRE_HEADER);
  if (seg == NULL) return false;
  dmi_wire_put(seg->bytes + seg->end, msg);
  seg->end += DMI_WIRE_HEADER;
  if (msg->list.len != 0 && !append_slice(peer, &msg->list)) return false;
  return msg->body.len == 0 || append_slice(peer, &msg->body);
}

struct dmi_seg *dmi_outgoing_take_all(struct dmi_net_peer *peer) {
  hurry_bulk(peer);
  struct dmi_seg *list = peer->spare; /* they are not needed any more, either */
  if (peer->tail != NULL) {
    peer->tail->next = peer->spare;
    list = peer->head;
  }
  peer->head = peer->tail = peer->spare = NULL;
  peer->spares = 0;
  return list;
}

void dmi_outgoing_free(struct dmi_seg *list) {
  while (list != NULL) {
    struct dmi_seg *next = list->next;
    dmi_slice_drop(&list->big);
    free(list);
    list = next;
  }
}

/* ---- What goes out ----------------------------------------------------------------------------
 */

/* The unsent bytes from the head on. */
size_t dmi_outgoing_gather(const struct dmi_net_peer *peer, struct iovec iov[DMI_NET_IOV]) {
  size_t num = 0;
  for (struct dmi_seg *seg = peer->head; seg != NULL && num + 2 <= DMI_NET_IOV; seg = seg->next) {
    if (seg->end > seg->start) {
      iov[num++] = (struct iovec){seg->bytes + seg->start, seg->end - seg->start};
    }
    if (seg->big.len > seg->sent) {
      iov[num].iov_base = (void *)(uintptr_t)(seg->big.ptr + seg->sent);
      iov[num++].iov_len = seg->big.len - seg->sent;
    }
  }
  return num;
}

/* Takes `bytes` that were sent off the queue; returns the segments that are finished. */
struct dmi_seg *dmi_outgoing_consume(struct dmi_net_peer *peer, uint64_t bytes) {
  struct dmi_seg *done = NULL;
  while (peer->head != NULL) {
    struct dmi_seg *seg = peer->head;
    uint64_t part = seg->end - seg->start;
    if (part > bytes) part = bytes;
    seg->start += (uint32_t)part;
    bytes -= part;
    part = seg->big.len - seg->sent;
    if (part > bytes) part = bytes;
    seg->sent += part;
    bytes -= part;
    if (seg->start < seg->end || seg->sent < seg->big.len) break;
    if (seg->next == NULL && seg->big.len == 0) {
      seg->start = seg->end = 0; /* stays, so that the common case touches no list */
      break;
    }
    peer->head = seg->next;
    if (peer->head == NULL) peer->tail = NULL;
    seg->next = done;
    done = seg;
  }
  return done;
}

/* Finished segments whose payloads are dropped become spares; returns those too many. */
struct dmi_seg *dmi_outgoing_keep_spares(struct dmi_net_peer *peer, struct dmi_seg *list) {
  while (list != NULL && peer->spares < SPARES_MOST) {
    struct dmi_seg *next = list->next;
    list->next = peer->spare;
    peer->spare = list;
    peer->spares++;
    list = next;
  }
  return list;
}

void dmi_outgoing_drop_payloads(struct dmi_seg *list) {
  for (; list != NULL; list = list->next)
    dmi_slice_drop(&list->big);
}
