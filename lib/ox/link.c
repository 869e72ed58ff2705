/*
 * link.c - links to other servers (RFC-102): made, written, read, reset.
 *
 * SM_reset_102 empties links only from lower ranks to higher ones: the lower one sends SYNC_BALL,
 * the higher one reads until it. For the other direction, and for what a 281 that was cut short
 * leaves in a link, our own ranks use the serials, which are otherwise only echoed.  Both ends
 * count the 281 that came since the link was made, also those that a reset of the session has cut
 * short or discarded: the round of the link.  A ball carries a mark and its sender's round; the
 * higher rank skips balls of rounds before its own.  A message to a lower rank carries the mark and
 * the round, and the lower one drops messages of older rounds. Other servers' serials have no mark,
 * so with them it is as RFC-102 says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/encode.h"
#include "ox/session_int.h"

#define MARK UINT32_C(0x44400000)
#define MARK_MASK UINT32_C(0xfff00000)
#define LINK_BYTES                                                              \
  ((uint64_t)96 << 10) /* what one takes: what has come, and what is to be sent \
                        */

static uint32_t marked(struct dmi_ox_session *s, uint32_t round) {
  return MARK | (round & 0xff) << 12 | (s->serial++ & 0xfff);
}

static bool is_marked(uint32_t serial) {
  return (serial & MARK_MASK) == MARK;
}

static uint32_t round_of(uint32_t serial) {
  return serial >> 12 & 0xff;
}

/* Is round `a` before `b`?  They are known modulo 256. */
static bool is_before(uint32_t a, uint32_t b) {
  uint32_t behind = (b - a) & 0xff;
  return behind > 0 && behind < 128;
}

/* So many 281 have come since the link was made. */
static uint32_t own_round(const struct dmi_ox_session *s, const struct dmi_ox_stream *link) {
  return s->rounds - link->base;
}

struct dmi_ox_stream *dmi_ox_link_find(struct dmi_ox_session *s, int32_t rank) {
  for (size_t i = 0; i < s->num_links; i++)
    if (s->links[i]->rank == rank && s->links[i]->state >= DMI_OX_OPEN) return s->links[i];
  return NULL;
}

void dmi_ox_link_remove(struct dmi_ox_session *s, struct dmi_ox_stream *link) {
  size_t at = 0;
  while (s->links[at] != link)
    at++;
  dmi_ox_session_act(s, DMI_OX_CLOSE, link->id);
  dmi_ox_stream_free(link);
  free(link);
  s->links[at] = s->links[--s->num_links];
  s->used -= LINK_BYTES;
}

static struct dmi_ox_value *link_error(struct dmi_ox_session *s, int32_t rank, const char *why) {
  char text[200];
  snprintf(text, sizeof text, "rank %d: %s", rank, why);
  return dmi_ox_value_error(s->command, DMI_OX_E_LINK, text);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* A ball of a lower rank was read. */
static void on_ball(const struct dmi_ox_session *s, struct dmi_ox_stream *link, uint32_t serial) {
  if (link->rank < s->rank && is_marked(serial) && is_before(link->seen, round_of(serial)))
    link->seen = round_of(serial);
}

/* True for a message of before the last reset. */
static bool is_old(const struct dmi_ox_session *s, const struct dmi_ox_stream *link,
                   uint32_t serial) {
  return link->rank > s->rank && is_marked(serial) &&
         is_before(round_of(serial), own_round(s, link));
}

/* Of a message to a lower rank: its ball may have come before the command. */
static uint32_t sent_round(const struct dmi_ox_session *s, const struct dmi_ox_stream *link) {
  return is_before(own_round(s, link), link->seen) ? link->seen : own_round(s, link);
}

enum dmi_ox_moved dmi_ox_link_receive(struct dmi_ox_session *s, int32_t rank,
                                      struct dmi_ox_value **value) {
  struct dmi_ox_stream *link = dmi_ox_link_find(s, rank);
  struct dmi_ox_message message;
  s->op.reads = 0;
  if (link == NULL) {
    *value = link_error(s, rank, "there is no link");
    return DMI_OX_FAILED;
  }
  while (dmi_ox_stream_message(link, &message)) {
    if (message.tag == DMI_OX_SYNC_BALL) {
      on_ball(s, link, message.serial); /* of a reset that was cut short */
    } else if (message.tag == DMI_OX_DATA && !is_old(s, link, message.serial)) {
      *value = message.value;
      return DMI_OX_MOVED;
    } else if (message.tag == DMI_OX_FAULT) {
      *value = link_error(s, rank, message.why);
      return DMI_OX_FAILED;
    } else {
      DMI_ox_drop(message.value);
    }
  }
  if (link->state != DMI_OX_ENDED) {
    s->op.reads = link->id;
    return DMI_OX_WAITS;
  }
  *value = link_error(s, rank, "the link has ended");
  return DMI_OX_FAILED;
}

/* True while the value has to wait until others have been written: one link may have its queue, and
 * all together, with the stack, what the session may have.  One value alone always has room. */
static bool is_full(const struct dmi_ox_session *s, const struct dmi_ox_stream *link,
                    const struct dmi_ox_value *value) {
  uint64_t sum = 0;
  if (link->queued > s->settings.limits.queue) return true;
  for (size_t i = 0; i < s->num_links; i++)
    sum += s->links[i]->queued;
  return sum > 0 && s->used + s->run.used + sum + value->size > s->settings.limits.stack;
}

enum dmi_ox_moved dmi_ox_link_send(struct dmi_ox_session *s, int32_t rank,
                                   const struct dmi_ox_value *value, struct dmi_ox_value **error) {
  struct dmi_ox_stream *link = dmi_ox_link_find(s, rank);
  struct dmi_ox_bytes bytes = {0};
  if (link == NULL || link->state == DMI_OX_ENDED) {
    *error = link_error(s, rank, link == NULL ? "there is no link" : "the link has ended");
    return DMI_OX_FAILED;
  }
  if (is_full(s, link, value)) return DMI_OX_WAITS;
  dmi_ox_encode_word(&bytes, link->little, DMI_OX_DATA);
  dmi_ox_encode_word(&bytes, link->little,
                     rank < s->rank ? marked(s, sent_round(s, link)) : s->serial++);
  dmi_ox_encode_peer_value(&bytes, link->little, false, value);
  dmi_ox_session_put(s, link, bytes);
  return DMI_OX_MOVED;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static char *copy_text(const struct dmi_ox_value *value) {
  char *text = dmi_ox_alloc((size_t)value->bytes.len + 1);
  memcpy(text, value->bytes.at, (size_t)value->bytes.len);
  return text;
}

static bool is_text(const struct dmi_ox_value *value) {
  return dmi_ox_value_is_text(value) && value->bytes.at[0] != '\0';
}

/* What is pushed when a link was made, or could not be made: takes over the error, if there is one.
 */
static struct dmi_ox_value *status(struct dmi_ox_session *s, struct dmi_ox_value *error) {
  enum dmi_ox_status_rule rule = s->settings.status;
  if (rule == DMI_OX_STATUS_RFC) {
    struct dmi_ox_value *value = dmi_ox_value_int32(error != NULL ? -1 : 0);
    DMI_ox_drop(error);
    return value;
  }
  if (error != NULL) return error;
  return rule == DMI_OX_STATUS_ASIR || s->asir ? NULL : dmi_ox_value_int32(0);
}

static void begin_open(struct dmi_ox_session *s, bool accept, int32_t rank,
                       const struct dmi_ox_value *host, const struct dmi_ox_value *port,
                       int32_t number) {
  struct dmi_ox_stream *link = dmi_ox_alloc(sizeof *link);
  link->id = s->next_link++;
  link->rank = rank;
  link->state = DMI_OX_OPENING;
  link->base = s->rounds;
  s->links = dmi_ox_grow(s->links, s->num_links, &s->room_links, sizeof s->links[0]);
  s->links[s->num_links++] = link;
  s->used += LINK_BYTES;
  struct dmi_ox_action *action =
      dmi_ox_session_act(s, accept ? DMI_OX_ACCEPT : DMI_OX_CONNECT, link->id);
  if (port->tag == DMI_OX_STRING)
    action->path = copy_text(port);
  else
    action->port = number;
  if (host != NULL && host->tag == DMI_OX_STRING) action->host = copy_text(host);
  s->op = (struct dmi_ox_op){.kind = DMI_OX_OP_OPEN, .id = link->id, .rank = rank};
}

void dmi_ox_link_command(struct dmi_ox_session *s, bool accept) {
  int32_t rank = -1;
  int64_t number = 0;
  bool good = dmi_ox_stack_pop_int32(s, &rank) && rank >= 0;
  struct dmi_ox_value *port = dmi_ox_stack_pop(s);
  struct dmi_ox_value *host = accept ? NULL : dmi_ox_stack_pop(s);
  if (port->tag == DMI_OX_STRING)
    good = good && is_text(port);
  else
    good = good && DMI_ox_to_int64(port, &number) && number > 0 && number < 65536 &&
           (accept || is_text(host));
  if (good && s->used + LINK_BYTES > s->settings.limits.stack)
    dmi_ox_stack_error(s, DMI_OX_E_LIMIT, "there is no room for a link");
  else if (good)
    begin_open(s, accept, rank, host, port, (int32_t)number);
  else
    dmi_ox_stack_error(s, DMI_OX_E_ARGUMENT,
                       accept ? "tcp_accept: a port and a rank are needed"
                              : "tcp_connect: a host, a port and a rank are needed");
  DMI_ox_drop(port);
  DMI_ox_drop(host);
}

bool dmi_ox_link_opened(struct dmi_ox_session *s) {
  struct dmi_ox_stream *link = dmi_ox_session_stream(s, s->op.id);
  struct dmi_ox_value *error = NULL;
  if (s->op.failed != NULL)
    error = DMI_ox_keep(s->op.failed);
  else if (link->state < DMI_OX_OPEN)
    return false;
  if (error == NULL) {
    /* It replaces one that the rank has. */
    for (size_t i = 0; i < s->num_links; i++) {
      if (s->links[i] == link || s->links[i]->rank != link->rank) continue;
      dmi_ox_link_remove(s, s->links[i]);
      break;
    }
  }
  dmi_ox_group_forget(s); /* one that failed is removed */
  dmi_ox_run_result(s, status(s, error));
  return true;
}

/* ---- Reset ----------------------------------------------------------------------------------- */

/* The link of the next rank above `rank` and below `end`. */
static struct dmi_ox_stream *next_link(struct dmi_ox_session *s, int32_t rank, int32_t end) {
  struct dmi_ox_stream *best = NULL;
  for (size_t i = 0; i < s->num_links; i++) {
    struct dmi_ox_stream *link = s->links[i];
    if (link->state < DMI_OX_OPEN || link->rank <= rank || link->rank >= end) continue;
    if (best == NULL || link->rank < best->rank) best = link;
  }
  return best;
}

/* Reads until the SYNC_BALL of this round; false when it has not come. */
static bool empty_link(struct dmi_ox_session *s, struct dmi_ox_stream *link) {
  struct dmi_ox_message message;
  while (is_before(link->seen, own_round(s, link)) && dmi_ox_stream_message(link, &message)) {
    DMI_ox_drop(message.value);
    if (message.tag != DMI_OX_SYNC_BALL) continue;
    on_ball(s, link, message.serial);
    if (!is_marked(message.serial)) link->seen = own_round(s, link);
  }
  if (is_before(link->seen, own_round(s, link))) return link->state == DMI_OX_ENDED;
  link->base = s->rounds - link->seen; /* the peer may have had one that did not come here */
  return true;
}

bool dmi_ox_link_reset(struct dmi_ox_session *s) {
  struct dmi_ox_op *op = &s->op;
  struct dmi_ox_stream *link;
  while (!op->sends && (link = next_link(s, op->rank, s->rank)) != NULL) {
    if (!empty_link(s, link)) {
      op->reads = link->id;
      return false;
    }
    op->rank = link->rank;
  }
  if (!op->sends) op->rank = s->rank;
  op->sends = true;
  op->reads = 0;
  while ((link = next_link(s, op->rank, s->nserver)) != NULL) {
    struct dmi_ox_bytes ball = {0};
    if (link->state != DMI_OX_ENDED) {
      if (link->queued > s->settings.limits.queue) return false;
      dmi_ox_encode_ball(&ball, link->little, marked(s, own_round(s, link)));
      dmi_ox_session_put(s, link, ball);
    }
    op->rank = link->rank;
  }
  dmi_ox_group_forget(s);
  return true;
}
