/*
 * outgoing.c - the queue of messages for a peer, as bytes that go to its link.
 *
 * Headers and small payloads are copied into segments, and a few empty segments are kept for reuse.
 * Large payloads are not copied: a segment refers to one after its own bytes.
 *
 * DATA of large pages waits in a second queue. When the first queue is empty, a piece of it moves
 * there as a BLOCK (wire.md, "Bulk"), so other messages wait for little more than a piece.
 *
 * Messages about pages that are queued one behind the other go out in an envelope (msg/packed.h),
 * as long as the header of the first one has not been given to the link.  So they stay in their
 * order.
 *
 * All functions are called with the peer's lock held, unless they say otherwise.
 *
 * Must not: make a system call (except those of malloc), free a payload under the lock, or use
 * links.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "net/net_int.h"

#define SPARES_MOST 4
#define PIECE ((uint64_t)256 << 10) /* bytes of a BLOCK, a part of a DATA */
#define PIECES 2                    /* BLOCKs that are moved to the first queue at a time */

/* ---- The queue ------------------------------------------------------------------------------- */

/* Appends an empty segment. The lock is held; that is acceptable because malloc of 4 KiB seldom
 * makes a system call, and spare segments make malloc rare. */
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

/* The last segment, with space for `need` bytes; a new one if necessary. */
static struct dmi_seg *segment_for(struct dmi_net_peer *peer, size_t need) {
  struct dmi_seg *seg = peer->tail;
  if (seg != NULL && seg->big.len == 0 && sizeof seg->bytes - seg->end >= need) return seg;
  return add_segment(peer);
}

/* Appends a payload: copies a small one, takes a large one over (then *slice is emptied). */
static bool append_slice(struct dmi_net_peer *peer, struct dmi_slice *slice) {
  struct dmi_seg *seg = peer->tail;
  if (slice->len <= DMI_NET_COPY) {
    seg = segment_for(peer, slice->len);
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

/* Nothing more is packed behind the last message. */
static void close_envelope(struct dmi_net_peer *peer) {
  peer->envelope = NULL;
}

static struct dmi_seg *take_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *seg = peer->bulk;
  peer->bulk = seg->next;
  if (peer->bulk == NULL) peer->bulk_tail = NULL;
  return seg;
}

/* Writes the header of a BLOCK for a part of a message (DATA or BLOCK) whose encoded header is
 * `of`. */
static void put_block(unsigned char to[DMI_WIRE_HEADER], const unsigned char of[DMI_WIRE_HEADER],
                      uint64_t off, uint64_t len) {
  struct dmi_msg msg;
  struct dmi_msg_data data;
  (void)dmi_wire_get(&msg, of, true); /* made here, so it is valid */
  data = msg.data;
  msg.type = DMI_MSG_BLOCK;
  msg.block = (struct dmi_msg_block){
      .fetch = data.fetch, .kind = data.kind, .version = data.version, .off = off};
  msg.body.len = len;
  dmi_wire_put(to, &msg);
}

/* Moves the rest of the first bulk message into the queue: as a BLOCK if a part was sent before. */
static void rest_of_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *seg = take_bulk(peer);
  close_envelope(peer);
  if (seg->sent != 0) {
    put_block(seg->bytes, seg->bytes, seg->sent, seg->big.len - seg->sent);
    seg->big.ptr += seg->sent;
    seg->big.len -= seg->sent;
    seg->sent = 0;
  }
  put_last(peer, seg);
}

/* Moves a piece of the first bulk message, which has more bytes than that. */
static bool piece_of_bulk(struct dmi_net_peer *peer) {
  struct dmi_seg *from = peer->bulk, *seg = add_segment(peer);
  close_envelope(peer);
  if (seg == NULL) return false;
  put_block(seg->bytes, from->bytes, from->sent, PIECE);
  seg->end = DMI_WIRE_HEADER;
  seg->big = (struct dmi_slice){dmi_frame_ref(from->big.frame), from->big.ptr + from->sent, PIECE};
  from->sent += PIECE;
  return true;
}

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

/* Moves all bulk into the queue, before a message that says that nothing more will come. */
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

/* ---- Packing ---------------------------------------------------------------------------------
 */

/* Appends the payloads of a message whose header was appended. */
static bool append_payloads(struct dmi_net_peer *peer, struct dmi_msg *msg) {
  if (msg->list.len != 0 && !append_slice(peer, &msg->list)) return false;
  return msg->body.len == 0 || append_slice(peer, &msg->body);
}

/* True if the message can be packed behind the one before. */
static bool fits(const struct dmi_net_peer *peer, const struct dmi_msg *msg) {
  if (peer->envelope == NULL || !dmi_packed_may(msg->type)) return false;
  if (msg->list.len > DMI_PACKED_BODY || msg->body.len > DMI_PACKED_BODY - msg->list.len) {
    return false;
  }
  return peer->packed <= DMI_PACKED_MOST - DMI_PACKED_HEADER - DMI_PACKED_BODY;
}

static bool append_packed(struct dmi_net_peer *peer, struct dmi_msg *msg) {
  struct dmi_seg *seg = segment_for(peer, DMI_PACKED_HEADER);
  if (seg == NULL) return false;
  size_t size = dmi_packed_put(seg->bytes + seg->end, msg, &peer->before);
  seg->end += (uint32_t)size;
  peer->packed += (uint32_t)(size + msg->list.len + msg->body.len);
  dmi_packed_set_behind(peer->envelope, peer->packed);
  return append_payloads(peer, msg);
}

/* The next message may be packed behind this one, whose header is at `header`. */
static void open_envelope(struct dmi_net_peer *peer, const struct dmi_msg *msg,
                          unsigned char *header) {
  peer->envelope = dmi_packed_may(msg->type) ? header : NULL;
  if (peer->envelope == NULL) return;
  peer->packed = 0;
  dmi_packed_begin(&peer->before, msg);
}

bool dmi_outgoing_append(struct dmi_net_peer *peer, struct dmi_msg *msg) {
  struct dmi_seg *seg;
  if (is_bulk(msg)) return append_bulk(peer, msg);
  if (fits(peer, msg)) return append_packed(peer, msg);
  /* these two promise that everything sent before has gone */
  if (msg->type == DMI_MSG_FIN || msg->type == DMI_CTL_LAST_MESSAGE) hurry_bulk(peer);
  seg = segment_for(peer, DMI_WIRE_HEADER);
  if (seg == NULL) return false;
  dmi_wire_put(seg->bytes + seg->end, msg);
  open_envelope(peer, msg, seg->bytes + seg->end);
  seg->end += DMI_WIRE_HEADER;
  peer->messages++;
  return append_payloads(peer, msg);
}

struct dmi_seg *dmi_outgoing_take_all(struct dmi_net_peer *peer) {
  hurry_bulk(peer);
  close_envelope(peer);
  struct dmi_seg *list = peer->spare; /* frees the spares as well */
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

size_t dmi_outgoing_gather(struct dmi_net_peer *peer, struct iovec iov[DMI_NET_IOV],
                           uint64_t *borrowed) {
  size_t num = 0;
  _Static_assert(DMI_NET_IOV <= 64, "a bit for each");
  *borrowed = 0;
  close_envelope(peer); /* its header may be sent from here on */
  for (struct dmi_seg *seg = peer->head; seg != NULL && num + 2 <= DMI_NET_IOV; seg = seg->next) {
    if (seg->end > seg->start) {
      iov[num++] = (struct iovec){seg->bytes + seg->start, seg->end - seg->start};
    }
    if (seg->big.len > seg->sent) {
      if (seg->big.frame == NULL) *borrowed |= (uint64_t)1 << num;
      iov[num].iov_base = (void *)(uintptr_t)(seg->big.ptr + seg->sent);
      iov[num++].iov_len = seg->big.len - seg->sent;
    }
  }
  return num;
}

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
      /* keeps the only segment, so that the common case changes no list */
      seg->start = seg->end = 0;
      break;
    }
    peer->head = seg->next;
    if (peer->head == NULL) peer->tail = NULL;
    seg->next = done;
    done = seg;
  }
  return done;
}

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
