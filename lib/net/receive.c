/*
 * receive.c - the incoming bytes of a connection: headers, lists and bodies, given to the handler
 * as whole messages.
 *
 * Bytes go through the connection's buffer. Only the part of a list or body that is not in it yet
 * is received directly into its place; the same call receives what follows into the buffer.
 *
 * A message with an invalid header closes the connection; nothing is allocated before the header is
 * checked. Must not free the connection below a callback: errors are returned to dmi_receive, which
 * ends it.
 *
 * With sealing, records are received into conn->in and opened one by one: into the buffer or, if
 * they are a part of a body, directly into its place. At the end of a turn no whole record may be
 * left there, because no event would report it; only a borrower may leave some, after a message
 * that it leaves to the daemon. A borrower receives a large body into more memory, which the
 * connection has until that body is complete.
 *
 * A borrower (lend.c) stops before the header of a message that it may not handle. It leaves errors
 * of the connection to the daemon, which meets them again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/large.h"
#include "net/net_int.h"

#define SHARE ((size_t)64 << 10)    /* bytes per turn, before other connections are served */
#define PIECE ((size_t)128 << 10)   /* bytes that a borrower receives at a time */
#define LARGE ((size_t)64 << 10)    /* from this size on a body is reported to handler.arrived */
#define AWAITED ((size_t)256 << 10) /* bytes of a large body for which it is worth to wake up */
#define TURNS 16                    /* receive calls per turn */
#define NO_CORRECT "no correct process would send it"
#define BORROWED ((size_t)4096)      /* a body of at most this size is handled where it lies */
#define LIST_KEPT ((size_t)64 << 10) /* a list buffer of at most this size is kept */

static size_t smaller(uint64_t a, size_t b) {
  return a < b ? (size_t)a : b;
}

static bool fail(char why[DMI_NET_WHY], const struct dmi_msg *msg, const char *what) {
  const char *name = dmi_wire_type(msg->type)->name;
  snprintf(why, DMI_NET_WHY, "it sent a malformed message (%u %s): %s", msg->type,
           name == NULL ? "?" : name, what);
  return false;
}

static enum dmi_msg_class class_of(const struct dmi_conn *conn) {
  return (enum dmi_msg_class)conn->row->class;
}

/* `part` more bytes of the body have arrived. */
static void body_grows(struct dmi_conn *conn, size_t part) {
  const struct dmi_net_handler *handler = &conn->net->handler;
  uint64_t off = conn->body_got;
  conn->body_got += part;
  if (part == 0 || conn->body == NULL || handler->arrived == NULL) return;
  if (conn->msg.body.len >= LARGE) handler->arrived(handler->arg, &conn->msg, off, part);
}

/* The message is complete: calls handler.message. */
static bool deliver(struct dmi_conn *conn, char why[DMI_NET_WHY]) {
  struct dmi_net *net = conn->net;
  struct dmi_msg *msg = &conn->msg;
  conn->phase = DMI_RECEIVE_HEADER;
  if (!conn->spoken) {
    conn->spoken = true;
    if (!conn->sent_end) ev_timer_stop(net->loop, &conn->patience);
  }
  bool right = net->handler.message(net->handler.arg, conn->peer->id, class_of(conn), msg);
  msg->body = msg->list = (struct dmi_slice){0}; /* the handler has taken them over */
  if (conn->list_cap > LIST_KEPT) {
    free(conn->list);
    conn->list = NULL;
    conn->list_cap = 0;
  }
  conn->refused = !right;
  return right || fail(why, msg, NO_CORRECT);
}

/* True if the whole body has arrived, and the handler may have it where it lies. */
static bool may_borrow(const struct dmi_conn *conn) {
  const uint64_t len = conn->msg.body.len;
  return conn->row->borrows && conn->net->handler.borrows && len <= BORROWED &&
         len <= conn->end - conn->start;
}

/* Header and list have arrived: asks the handler for the body's memory. */
static bool begin_body(struct dmi_conn *conn, char why[DMI_NET_WHY]) {
  struct dmi_net *net = conn->net;
  struct dmi_msg *msg = &conn->msg;
  if (msg->list.len != 0) msg->list.ptr = conn->list;
  msg->borrowed = msg->body.len != 0 && may_borrow(conn);
  if (msg->borrowed) {
    msg->body.ptr = conn->buf + conn->start;
    conn->start += msg->body.len;
  }
  if (msg->body.len == 0 || msg->borrowed) return deliver(conn, why);
  conn->phase = DMI_RECEIVE_BODY;
  conn->body_got = 0;
  conn->body = net->handler.body(net->handler.arg, conn->peer->id, class_of(conn), msg);
  msg->body.ptr = conn->body;
  return true;
}

/* The list is copied to align it, and because the buffer is reused before the body is complete. */
static bool begin_list(struct dmi_conn *conn, char why[DMI_NET_WHY]) {
  size_t need = conn->msg.list.len;
  if (need == 0) return begin_body(conn, why);
  if (need > conn->list_cap) {
    size_t cap = need < 256 ? 256 : need;
    free(conn->list);
    conn->list = malloc(cap);
    conn->list_cap = conn->list == NULL ? 0 : cap;
    if (conn->list == NULL) return fail(why, &conn->msg, "there is no memory for its list");
  }
  conn->phase = DMI_RECEIVE_LIST;
  conn->list_got = 0;
  return true;
}

/* True if a borrower may handle it. The table in lib/msg says so of answers, which cause little
 * work, never more than the beginning of an operation. Requests may run DMI_function, or wait
 * for a home to arrive. A message without a list needs no memory before its body. */
static bool is_lendable(const struct dmi_conn *conn) {
  return conn->row->lendable && conn->msg.list.len == 0;
}

bool dmi_receive_is_long(const struct dmi_conn *conn) {
  return conn->phase == DMI_RECEIVE_BODY && conn->msg.body.len - conn->body_got >= SHARE;
}

/* Bytes of the body that have come already, but are not opened, count as well. */
size_t dmi_receive_least(const struct dmi_conn *conn) {
  const size_t here = conn->in_end - conn->in_start;
  if (!dmi_receive_is_long(conn)) return 1;
  const uint64_t rest = conn->msg.body.len - conn->body_got;
  if (rest <= here) return 1;
  return smaller(rest - here, conn->opener == NULL ? AWAITED : DMI_NET_MUCH / 2);
}

bool dmi_receive_can_lend(struct dmi_conn *conn) {
  return conn->phase == DMI_RECEIVE_HEADER || is_lendable(conn);
}

/* ---- Messages of the network itself ---------------------------------------------------------- */

bool dmi_receive_fin(struct dmi_conn *conn, const struct dmi_msg *msg) {
  (void)msg;
  conn->got_end = true;
  return true;
}

/* Messages of class NET; they are only a header. */
static bool own_message(struct dmi_conn *conn, const struct dmi_msg *msg) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(conn, msg);
    DMI_MSGS_NET(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

/* ---- A message, piece by piece --------------------------------------------------------------- */

/* Reads the header of the next message, or *wrong; returns its size; 0: it has not arrived whole.
 */
static size_t get_header(struct dmi_conn *conn, const char **wrong) {
  const unsigned char *in = conn->buf + conn->start;
  const size_t have = conn->end - conn->start;
  struct dmi_msg *msg = &conn->msg;
  *wrong = NULL;
  if (conn->packed == 0) {
    if (have < DMI_WIRE_HEADER) return 0;
    *wrong = dmi_wire_get(msg, in, conn->member);
    return DMI_WIRE_HEADER;
  }
  const size_t size = dmi_packed_get(msg, in, have, &conn->before, wrong);
  if (*wrong != NULL) return have;
  /* one by one: a body may have any length */
  if (size > conn->packed || msg->list.len > conn->packed - size ||
      msg->body.len > conn->packed - size - msg->list.len) {
    *wrong = "it is longer than what is packed";
  }
  /* more than is packed at all, and still no header */
  if (size == 0 && have >= conn->packed) *wrong = "the end of what is packed is no message";
  return *wrong != NULL ? have : size;
}

/* The header of `msg` was taken: what is packed behind it, or is left. */
static void note_packed(struct dmi_conn *conn, size_t size) {
  const struct dmi_msg *msg = &conn->msg;
  if (conn->packed == 0)
    conn->packed = dmi_packed_behind(conn->buf + conn->start);
  else
    conn->packed -= (uint32_t)(size + msg->list.len + msg->body.len);
  if (conn->packed != 0) dmi_packed_begin(&conn->before, msg);
}

/* *whole is false if the header has not arrived whole. */
static bool take_header(struct dmi_conn *conn, bool lent, bool *whole, char why[DMI_NET_WHY]) {
  struct dmi_msg *msg = &conn->msg;
  const char *wrong;
  const size_t size = get_header(conn, &wrong);
  *whole = size != 0;
  if (size == 0) return true;
  conn->row = dmi_wire_type(msg->type);
  if (wrong == NULL && conn->got_end) wrong = "it had sent its last message before";
  if (lent && (wrong != NULL || !is_lendable(conn))) return false;
  if (wrong == NULL) note_packed(conn, size);
  conn->start += size;
  if (wrong != NULL) return fail(why, msg, wrong);
  if (class_of(conn) == DMI_CLASS_NET) return own_message(conn, msg) || fail(why, msg, NO_CORRECT);
  return begin_list(conn, why);
}

/* Handles what is in the buffer; `lent`: as far as a borrower may. */
static bool consume(struct dmi_conn *conn, bool lent, char why[DMI_NET_WHY]) {
  for (;;) {
    size_t have = conn->end - conn->start;
    struct dmi_msg *msg = &conn->msg;
    size_t part;
    bool whole;
    switch (conn->phase) {
      case DMI_RECEIVE_HEADER:
        if (!take_header(conn, lent, &whole, why)) return false;
        if (!whole) return true;
        break;
      case DMI_RECEIVE_LIST:
        part = smaller(msg->list.len - conn->list_got, have);
        memcpy(conn->list + conn->list_got, conn->buf + conn->start, part);
        conn->list_got += part;
        conn->start += part;
        if (conn->list_got < msg->list.len) return true;
        if (!begin_body(conn, why)) return false;
        break;
      case DMI_RECEIVE_BODY:
        part = smaller(msg->body.len - conn->body_got, have);
        if (conn->body != NULL && part != 0) {
          memcpy(conn->body + conn->body_got, conn->buf + conn->start, part);
        }
        body_grows(conn, part);
        conn->start += part;
        if (conn->body_got < msg->body.len) return true;
        if (!deliver(conn, why)) return false;
        break;
    }
  }
}

/* Moves the rest in the buffer (less than a header) to its beginning. */
static void tidy(struct dmi_conn *conn) {
  size_t have = conn->end - conn->start;
  if (have != 0 && conn->start != 0) memmove(conn->buf, conn->buf + conn->start, have);
  conn->start = 0;
  conn->end = have;
  if (conn->member && conn->cap < DMI_NET_BUFFER) { /* it has become a member */
    unsigned char *more = realloc(conn->buf, DMI_NET_BUFFER);
    if (more == NULL) return;
    conn->buf = more;
    conn->cap = DMI_NET_BUFFER;
  }
}

static void heard(struct dmi_conn *conn, size_t bytes) {
  uint64_t before = atomic_load_explicit(&conn->heard, memory_order_relaxed);
  atomic_store_explicit(&conn->heard, before + bytes, memory_order_relaxed);
}

/* Bytes at conn->in. */
static size_t room_in(const struct dmi_conn *conn) {
  return conn->in == conn->in_few ? DMI_NET_IN : DMI_NET_MUCH;
}

/* Moves what is not opened yet (less than a record) to the beginning of this memory. */
static void move_records(struct dmi_conn *conn, unsigned char *to) {
  const size_t have = conn->in_end - conn->in_start;
  if (have != 0) memmove(to, conn->in + conn->in_start, have);
  conn->in = to;
  conn->in_start = 0;
  conn->in_end = have;
}

bool dmi_receive_begin_in(struct dmi_conn *conn) {
  conn->in = conn->in_few = malloc(DMI_NET_IN);
  return conn->in != NULL;
}

void dmi_receive_free_in(struct dmi_conn *conn) {
  if (conn->in != conn->in_few) dmi_large_free(conn->in);
  free(conn->in_few);
}

/* A large body is arriving.  If there is no memory it goes on with what it has. */
static void take_much(struct dmi_conn *conn) {
  if (conn->in != conn->in_few) return;
  unsigned char *bytes = dmi_large_new(DMI_NET_MUCH, false);
  if (bytes != NULL) move_records(conn, bytes);
}

/* All that is whole is opened.  Gives the memory back behind a large body, not in its last part, of
 * which a part of a record would have to be copied. */
static void give_back_much(struct dmi_conn *conn) {
  unsigned char *much = conn->in;
  if (much == conn->in_few || dmi_receive_is_long(conn)) return;
  if (conn->phase == DMI_RECEIVE_BODY && conn->in_start != conn->in_end) return;
  move_records(conn, conn->in_few);
  dmi_large_free(much);
}

/* As fill, with sealing. */
static bool fill_records(struct dmi_conn *conn, bool lent, size_t *got, bool *drained, int *error) {
  if (lent && dmi_receive_is_long(conn)) take_much(conn);
  /* half of it, so that the sender seals more while these are opened */
  const size_t most = (lent ? room_in(conn) : DMI_NET_IN) / 2;
  if (conn->in_start != 0 && room_in(conn) - conn->in_end < most) move_records(conn, conn->in);
  const size_t space = smaller(room_in(conn) - conn->in_end, most);
  ssize_t size = dmi_link_receive(conn->link, conn->in + conn->in_end, space);
  if (size <= 0) {
    *error = (int)-size;
    return false;
  }
  heard(conn, (size_t)size);
  conn->in_end += (size_t)size;
  *got += (size_t)size;
  *drained = (size_t)size < space;
  return true;
}

/* Receives once. Adds the number of bytes to *got; sets *drained if less arrived than there was
 * space for. False: *error is an errno, or 0 at the end of the stream. */
static bool fill(struct dmi_conn *conn, bool lent, size_t *got, bool *drained, int *error) {
  struct iovec iov[2];
  size_t num = 0, direct = 0;
  size_t most = lent ? PIECE : SHARE;
  if (conn->opener != NULL) return fill_records(conn, lent, got, drained, error);
  tidy(conn);
  if (conn->phase == DMI_RECEIVE_LIST) {
    direct = smaller(conn->msg.list.len - conn->list_got, most);
    iov[num++] = (struct iovec){conn->list + conn->list_got, direct};
  } else if (conn->phase == DMI_RECEIVE_BODY && conn->body != NULL) {
    direct = smaller(conn->msg.body.len - conn->body_got, most);
    iov[num++] = (struct iovec){conn->body + conn->body_got, direct};
  }
  /* buffer bytes only if they follow the end of the body */
  size_t space = direct < most ? conn->cap - conn->end : 0;
  if (space != 0) iov[num++] = (struct iovec){conn->buf + conn->end, space};
  ssize_t size = conn->link->ops->receive(conn->link, iov, num);
  if (size <= 0) {
    *error = (int)-size;
    return false;
  }
  size_t total = (size_t)size;
  heard(conn, total);
  *got += total;
  *drained = total < direct + space;
  size_t first = smaller(total, direct);
  if (conn->phase == DMI_RECEIVE_LIST)
    conn->list_got += first;
  else
    body_grows(conn, first); /* 0 outside of a body */
  conn->end += total - first;
  return true;
}

/* Opens the next record if it is complete (then *whole is true). False: the bytes are not what
 * the other end has sent. */
static bool open_record(struct dmi_conn *conn, bool *whole) {
  unsigned char *record = conn->in + conn->in_start;
  size_t have = conn->in_end - conn->in_start;
  *whole = false;
  if (conn->tampered) return false;
  if (have < DMI_SEAL_LENGTH) return true;
  size_t size = dmi_seal_size(record);
  conn->tampered = size == 0;
  if (size == 0 || have < size + DMI_SEAL_OVER) return size != 0;
  bool direct = conn->phase == DMI_RECEIVE_BODY && conn->body != NULL && conn->start == conn->end &&
                size <= conn->msg.body.len - conn->body_got;
  if (!direct) tidy(conn); /* leaves space enough: less than a header remains */
  unsigned char *to = direct ? conn->body + conn->body_got : conn->buf + conn->end;
  if (!dmi_seal_get(conn->opener, to, record)) {
    conn->tampered = true;
    return false;
  }
  *whole = true;
  conn->in_start += size + DMI_SEAL_OVER;
  if (conn->in_start == conn->in_end) conn->in_start = conn->in_end = 0;
  if (direct)
    body_grows(conn, size);
  else
    conn->end += size;
  return true;
}

/* Handles everything that has arrived; `lent`: as far as a borrower may. */
static bool consume_all(struct dmi_conn *conn, bool lent, char why[DMI_NET_WHY]) {
  bool more = true;
  while (more) {
    if (!consume(conn, lent, why)) return false;
    more = conn->opener != NULL;
    if (more && !open_record(conn, &more)) {
      snprintf(why, DMI_NET_WHY, "what came from it was changed on the way");
      return false;
    }
  }
  if (conn->opener != NULL) give_back_much(conn);
  return true;
}

static void lose_malformed(struct dmi_conn *conn, const char *why) {
  char where[80];
  dmi_net_log(conn->net, DMI_ABOUT_OURS, "closing the connection with %s: %s",
              dmi_addr_text(&conn->theirs, where), why);
  dmi_conn_lose(conn, why);
}

/* Returns false if the connection was freed. */
static bool receive_failed(struct dmi_conn *conn, int error) {
  char why[DMI_NET_WHY];
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return true;
  if (error == 0) return dmi_conn_eof(conn);
  dmi_alive_why(conn->net, why, "receiving from it failed", error);
  dmi_conn_lose(conn, why);
  return false;
}

/* The daemon: consume_all; what the handler answers is gathered, and then written. */
static bool consume_gathering(struct dmi_conn *conn, char why[DMI_NET_WHY]) {
  struct dmi_net *net = conn->net;
  net->gathering = true;
  bool right = consume_all(conn, false, why);
  net->gathering = false;
  dmi_send_dirty(net);
  return right;
}

bool dmi_receive(struct dmi_conn *conn) {
  char why[DMI_NET_WHY];
  size_t got = 0;
  bool drained = false;
  bool right = conn->refused ? fail(why, &conn->msg, NO_CORRECT) : consume_gathering(conn, why);
  if (right && conn->failed != 0) return receive_failed(conn, conn->failed);
  for (int turn = 0; right && turn < TURNS && got < SHARE && !drained; turn++) {
    int error;
    if (!fill(conn, false, &got, &drained, &error)) return receive_failed(conn, error);
    right = consume_gathering(conn, why);
  }
  if (!right) lose_malformed(conn, why);
  return right;
}

bool dmi_receive_lent(struct dmi_conn *conn) {
  char why[DMI_NET_WHY];
  size_t got = 0;
  bool drained = false;
  int error;
  for (int turn = 0; turn < TURNS && !drained; turn++) {
    if (!fill(conn, true, &got, &drained, &error)) goto failed;
    if (!consume_all(conn, true, why)) return false;
  }
  return true;

failed:
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return true;
  conn->failed = error; /* 0 is the end of the stream, which the daemon meets again */
  return false;
}
