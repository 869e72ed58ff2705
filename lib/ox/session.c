/*
 * session.c - streams of a session, its actions, and the loop that goes on with whatever can.
 */
#include "ox/session.h"

#include <stdlib.h>
#include <string.h>

#include "ox/encode.h"
#include "ox/session_int.h"

#define AHEAD ((size_t)64 << 10) /* bytes of a stream that may wait here before they are needed */
#define SLICE 10000              /* of work on a text (dmi_ox_run_step), then control is heard */

/* ---- Actions --------------------------------------------------------------------------------- */

struct dmi_ox_action *dmi_ox_session_act(struct dmi_ox_session *s, enum dmi_ox_act act,
                                         uint32_t id) {
  s->actions = dmi_ox_grow(s->actions, s->num_actions, &s->room_actions, sizeof s->actions[0]);
  struct dmi_ox_action *action = &s->actions[s->num_actions++];
  *action = (struct dmi_ox_action){.act = act, .id = id};
  return action;
}

bool dmi_ox_session_next(struct dmi_ox_session *s, struct dmi_ox_action *action) {
  if (s->first_action == s->num_actions) {
    s->first_action = s->num_actions = 0;
    return false;
  }
  *action = s->actions[s->first_action++];
  return true;
}

void dmi_ox_action_free(struct dmi_ox_action *action) {
  free(action->bytes.at);
  free(action->host);
  free(action->path);
  DMI_ox_drop(action->name);
  DMI_ox_drop(action->args);
}

void dmi_ox_session_put(struct dmi_ox_session *s, struct dmi_ox_stream *stream,
                        struct dmi_ox_bytes bytes) {
  struct dmi_ox_action *action = dmi_ox_session_act(s, DMI_OX_SEND, stream->id);
  action->bytes.at = bytes.at;
  action->bytes.len = bytes.len;
  stream->queued += bytes.len;
}

void dmi_ox_session_end(struct dmi_ox_session *s) {
  if (s->ended) return;
  s->ended = true;
  dmi_ox_group_forget(s);
  dmi_ox_run_forget(s);
  dmi_ox_session_act(s, DMI_OX_END, 0);
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct dmi_ox_stream *dmi_ox_session_stream(struct dmi_ox_session *s, uint32_t id) {
  if (id == DMI_OX_CONTROL) return &s->control;
  if (id == DMI_OX_DATA_STREAM) return &s->data;
  for (size_t i = 0; i < s->num_links; i++)
    if (s->links[i]->id == id) return s->links[i];
  return NULL;
}

void dmi_ox_stream_free(struct dmi_ox_stream *stream) {
  dmi_ox_decoder_free(&stream->decoder);
  dmi_ox_bytes_free(&stream->in);
}

static unsigned char our_order(const struct dmi_ox_session *s) {
  return s->settings.network ? 0 : 1;
}

static void put_order(struct dmi_ox_session *s, struct dmi_ox_stream *stream) {
  struct dmi_ox_bytes bytes = {0};
  *dmi_ox_bytes_add(&bytes, 1) = our_order(s);
  dmi_ox_session_put(s, stream, bytes);
}

static void begin_stream(struct dmi_ox_session *s, struct dmi_ox_stream *stream, bool little) {
  stream->little = little;
  stream->state = DMI_OX_OPEN;
  dmi_ox_decoder_init(&stream->decoder, &s->settings.limits, little, stream->id == DMI_OX_CONTROL);
}

/*
 * The other's byte: equal to ours, it names the order; otherwise that is network order. A client
 * that sends none on the control connection is known by its first message: no order byte 0 is
 * followed by 0 2, as a message begins with 0 0 2 1.
 */
static void read_order(struct dmi_ox_session *s, struct dmi_ox_stream *stream) {
  const unsigned char *in = stream->in.at;
  if (stream->in.len == 0) return;
  if (stream->id == DMI_OX_CONTROL && in[0] == 0) {
    if (stream->in.len < 4) return;
    if (in[1] == 0 && in[2] == 2) {
      begin_stream(s, stream, false);
      return;
    }
  }
  bool little = in[0] == 1 && our_order(s) == 1;
  dmi_ox_bytes_cut(&stream->in, 1);
  begin_stream(s, stream, little);
}

bool dmi_ox_stream_message(struct dmi_ox_stream *stream, struct dmi_ox_message *message) {
  bool done;
  size_t left = stream->in.len - stream->from;
  if (stream->state < DMI_OX_OPEN || left == 0) return false;
  stream->from +=
      dmi_ox_decode(&stream->decoder, stream->in.at + stream->from, left, message, &done);
  return done;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void on_data_message(struct dmi_ox_session *s, struct dmi_ox_message *message) {
  s->command = message->serial;
  if (s->balls > 0) {
    DMI_ox_drop(message->value);
    if (message->tag == DMI_OX_SYNC_BALL) s->balls--;
    if (message->tag == DMI_OX_COMMAND && message->code == DMI_OX_RESET_LINKS) s->rounds++;
    return;
  }
  switch (message->tag) {
    case DMI_OX_DATA:
      dmi_ox_stack_push(s, message->value);
      break;
    case DMI_OX_COMMAND:
      dmi_ox_command_run(s, message->serial, message->code);
      break;
    case DMI_OX_FAULT:
      dmi_ox_stack_error(s, (enum dmi_ox_code)message->code, message->why);
      break;
    default: /* a SYNC_BALL that nobody waits for, a NOTIFY */
      break;
  }
}

/* It goes on later: what has come on the control connection is heard before. */
static void yield(struct dmi_ox_session *s) {
  if (!s->yields) dmi_ox_session_act(s, DMI_OX_AGAIN, 0);
  s->yields = true;
}

/* Whatever can go on does. */
static void go_on(struct dmi_ox_session *s) {
  struct dmi_ox_message message;
  uint64_t work = 0;
  while (!s->ended && dmi_ox_stream_message(&s->control, &message))
    dmi_ox_control_message(s, &message);
  dmi_ox_control_balls(s);
  while (!s->ended) {
    if (s->op.kind != DMI_OX_OP_NONE) {
      if (!dmi_ox_group_step(s)) break;
    } else if (s->run.is && work > SLICE) {
      yield(s);
      break;
    } else if (s->run.is) {
      work += dmi_ox_run_step(s);
    } else if (s->balls == 0 && s->data.queued > s->settings.limits.queue) {
      break; /* the client does not read its results */
    } else if (!dmi_ox_stream_message(&s->data, &message)) {
      if (s->data.state == DMI_OX_ENDED) dmi_ox_session_end(s);
      break;
    } else {
      on_data_message(s, &message);
    }
  }
}

struct dmi_ox_session *dmi_ox_session_new(const struct dmi_ox_settings *settings,
                                          bool (*known)(const char *name)) {
  struct dmi_ox_session *s = dmi_ox_alloc(sizeof *s);
  s->settings = *settings;
  s->known = known;
  s->nserver = 1;
  s->next_link = DMI_OX_DATA_STREAM + 1;
  s->next_call = 1;
  s->data.id = DMI_OX_DATA_STREAM;
  s->control.state = s->data.state = DMI_OX_ORDER;
  if (!settings->order_sent) {
    put_order(s, &s->control);
    put_order(s, &s->data);
  }
  return s;
}

void dmi_ox_session_free(struct dmi_ox_session *s) {
  struct dmi_ox_action action;
  dmi_ox_group_forget(s);
  dmi_ox_run_forget(s);
  while (dmi_ox_session_next(s, &action))
    dmi_ox_action_free(&action);
  for (size_t i = 0; i < s->num_links; i++) {
    dmi_ox_stream_free(s->links[i]);
    free(s->links[i]);
  }
  dmi_ox_stream_free(&s->control);
  dmi_ox_stream_free(&s->data);
  dmi_ox_stack_free(s);
  free(s->links);
  free(s->actions);
  free(s);
}

void dmi_ox_session_bytes(struct dmi_ox_session *s, uint32_t id, const void *at, size_t len) {
  struct dmi_ox_stream *stream = dmi_ox_session_stream(s, id);
  if (stream == NULL || s->ended) return;
  dmi_ox_bytes_cut(&stream->in, stream->from);
  stream->from = 0;
  dmi_ox_bytes_put(&stream->in, at, len);
  if (stream->state == DMI_OX_ORDER) read_order(s, stream);
  go_on(s);
}

void dmi_ox_session_eof(struct dmi_ox_session *s, uint32_t id) {
  struct dmi_ox_stream *stream = dmi_ox_session_stream(s, id);
  if (stream == NULL || s->ended) return;
  if (id == DMI_OX_CONTROL || stream->state < DMI_OX_OPEN) {
    if (id <= DMI_OX_DATA_STREAM)
      dmi_ox_session_end(s);
    else
      dmi_ox_session_unlinked(s, id, "the peer has closed the link");
    return;
  }
  stream->state = DMI_OX_ENDED;
  go_on(s);
}

void dmi_ox_session_again(struct dmi_ox_session *s) {
  s->yields = false;
  if (!s->ended) go_on(s);
}

void dmi_ox_session_sent(struct dmi_ox_session *s, uint32_t id, size_t len) {
  struct dmi_ox_stream *stream = dmi_ox_session_stream(s, id);
  if (stream == NULL || s->ended) return;
  stream->queued -= len < stream->queued ? len : stream->queued;
  go_on(s);
}

void dmi_ox_session_linked(struct dmi_ox_session *s, uint32_t id) {
  struct dmi_ox_stream *link = dmi_ox_session_stream(s, id);
  if (link == NULL || s->ended) return;
  link->state = DMI_OX_ORDER;
  put_order(s, link);
}

void dmi_ox_session_unlinked(struct dmi_ox_session *s, uint32_t id, const char *why) {
  struct dmi_ox_stream *link = dmi_ox_session_stream(s, id);
  if (link == NULL || s->ended) return;
  if (link->state >= DMI_OX_OPEN) {
    dmi_ox_session_eof(s, id);
    return;
  }
  if (s->op.kind == DMI_OX_OP_OPEN && s->op.id == id && s->op.failed == NULL)
    s->op.failed = dmi_ox_value_error(s->command, DMI_OX_E_LINK, why);
  go_on(s);
}

void dmi_ox_session_returned(struct dmi_ox_session *s, uint32_t id, struct dmi_ox_value *value) {
  bool waits = (s->op.kind == DMI_OX_OP_CALL || s->op.kind == DMI_OX_OP_REDUCE) && s->op.id == id &&
               s->op.result == NULL && !s->ended;
  if (!waits) {
    DMI_ox_drop(value);
    return;
  }
  s->op.result = value != NULL ? value : DMI_ox_null();
  go_on(s);
}

/* True while the stream's bytes are what is being waited for. */
static bool needed(const struct dmi_ox_session *s, const struct dmi_ox_stream *stream) {
  if (stream->id == DMI_OX_CONTROL || stream->state < DMI_OX_OPEN) return true;
  if (stream->id == DMI_OX_DATA_STREAM) return s->op.kind == DMI_OX_OP_NONE && !s->run.is;
  return s->op.reads == stream->id;
}

bool dmi_ox_session_wants(const struct dmi_ox_session *s, uint32_t id) {
  const struct dmi_ox_stream *stream = dmi_ox_session_stream((struct dmi_ox_session *)s, id);
  if (stream == NULL || s->ended || stream->state == DMI_OX_ENDED) return false;
  /* What is needed is decoded at once, so little of it waits. */
  size_t here = stream->in.len - stream->from;
  return here < AHEAD || (needed(s, stream) && here < 16 * AHEAD);
}
