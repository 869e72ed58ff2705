/*
 * ox_world.h - sessions of an OpenXM server in one process, without sockets: a master that speaks
 * to each of them, and links between them whose bytes arrive in pieces of random size, in random
 * order of links.
 */
#ifndef DMI_TEST_OX_WORLD_H
#define DMI_TEST_OX_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ox/decode.h"
#include "ox/encode.h"
#include "ox/session.h"

#define RANKS 9
#define PIPES 400

/* A direction of a link, or an end that waits for the other. */
struct pipe {
  bool used, open, held; /* held: nothing is delivered */
  int port, from, to;    /* ranks */
  uint32_t from_id, to_id;
  struct dmi_ox_bytes bytes;
};

struct server {
  struct dmi_ox_session *session;
  struct dmi_ox_bytes out; /* came on the data stream, and is not decoded */
  struct dmi_ox_decoder decoder;
  uint32_t serial, call, cancelled;
  struct dmi_ox_value *args, *name; /* of the last call */
  bool ended, little, order;
};

struct world {
  struct dmi_ox_settings settings;
  struct server at[RANKS];
  struct pipe pipes[PIPES];
  int num;
  uint64_t random;
};

static inline uint64_t world_random(struct world *w) {
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random >> 11;
}

static inline bool world_known(const char *name) {
  return strcmp(name, "twice") == 0 || strcmp(name, "add") == 0;
}

static inline struct pipe *world_pipe(struct world *w, int rank, uint32_t id, bool from) {
  for (int i = 0; i < PIPES; i++) {
    struct pipe *p = &w->pipes[i];
    if (p->used && (from ? p->from == rank && p->from_id == id : p->to == rank && p->to_id == id))
      return p;
  }
  return NULL;
}

static inline struct pipe *world_free_pipe(struct world *w) {
  for (int i = 0; i < PIPES; i++)
    if (!w->pipes[i].used) return &w->pipes[i];
  abort();
}

/* An end of a link: it waits for the other, or both are there. */
static inline void world_end(struct world *w, int rank, uint32_t id, int port) {
  for (int i = 0; i < PIPES; i++) {
    struct pipe *p = &w->pipes[i];
    if (!p->used || p->open || p->port != port) continue;
    struct pipe *back = world_free_pipe(w);
    p->to = rank;
    p->to_id = id;
    p->open = true;
    *back = (struct pipe){.used = true, .open = true, .from = rank, .from_id = id};
    back->to = p->from;
    back->to_id = p->from_id;
    dmi_ox_session_linked(w->at[p->from].session, p->from_id);
    dmi_ox_session_linked(w->at[rank].session, id);
    return;
  }
  *world_free_pipe(w) =
      (struct pipe){.used = true, .port = port, .from = rank, .from_id = id, .to = -1};
}

/* An end closes: the other sees it when it has read what was sent before. */
static inline void world_close(struct world *w, int rank, uint32_t id) {
  struct pipe *p = world_pipe(w, rank, id, true), *back = world_pipe(w, rank, id, false);
  if (p != NULL) p->from = -1;
  if (p != NULL && !p->open) p->used = false;
  if (back != NULL) {
    dmi_ox_bytes_free(&back->bytes);
    back->used = false;
  }
}

static inline void world_act(struct world *w, int rank, struct dmi_ox_action *action) {
  struct server *at = &w->at[rank];
  switch (action->act) {
    case DMI_OX_SEND:
      if (action->id == DMI_OX_DATA_STREAM) {
        dmi_ox_bytes_put(&at->out, action->bytes.at, action->bytes.len);
        dmi_ox_session_sent(at->session, action->id, action->bytes.len);
      } else if (action->id != DMI_OX_CONTROL) {
        struct pipe *p = world_pipe(w, rank, action->id, true);
        if (p != NULL) dmi_ox_bytes_put(&p->bytes, action->bytes.at, action->bytes.len);
      }
      break;
    case DMI_OX_ACCEPT:
    case DMI_OX_CONNECT:
      world_end(w, rank, action->id, action->path != NULL ? atoi(action->path) : action->port);
      break;
    case DMI_OX_CLOSE:
      world_close(w, rank, action->id);
      break;
    case DMI_OX_CALL:
      DMI_ox_drop(at->args);
      DMI_ox_drop(at->name);
      at->args = DMI_ox_keep(action->args);
      at->name = DMI_ox_keep(action->name);
      at->call = action->id;
      break;
    case DMI_OX_CANCEL:
      at->cancelled = action->id;
      break;
    case DMI_OX_AGAIN:
      dmi_ox_session_again(at->session);
      break;
    default:
      at->ended = true;
      break;
  }
}

/* Some bytes of a link arrive. */
static inline void world_deliver(struct world *w, struct pipe *p) {
  size_t len = 1 + (size_t)(world_random(w) % p->bytes.len);
  struct dmi_ox_session *to = w->at[p->to].session;
  if (!dmi_ox_session_wants(to, p->to_id)) return;
  dmi_ox_session_bytes(to, p->to_id, p->bytes.at, len);
  dmi_ox_bytes_cut(&p->bytes, len);
  if (p->from >= 0) dmi_ox_session_sent(w->at[p->from].session, p->from_id, len);
}

/* Everything happens that can. */
static inline void world_run(struct world *w) {
  struct dmi_ox_action action;
  for (int idle = 0; idle < 3;) {
    idle++;
    for (int rank = 0; rank < w->num; rank++) {
      while (dmi_ox_session_next(w->at[rank].session, &action)) {
        world_act(w, rank, &action);
        dmi_ox_action_free(&action);
        idle = 0;
      }
    }
    int first = (int)(world_random(w) % PIPES);
    for (int i = 0; i < PIPES; i++) {
      struct pipe *p = &w->pipes[(first + i) % PIPES];
      if (!p->used || !p->open || p->held) continue;
      if (p->bytes.len > 0) {
        size_t before = p->bytes.len;
        world_deliver(w, p);
        if (p->bytes.len < before) idle = 0;
      } else if (p->from < 0) {
        dmi_ox_bytes_free(&p->bytes);
        p->used = false;
        dmi_ox_session_eof(w->at[p->to].session, p->to_id);
        idle = 0;
      }
    }
  }
}

/* ---- The master ------------------------------------------------------------------------------ */

/* What it sends arrives in pieces. */
static inline void master_send(struct world *w, int rank, struct dmi_ox_bytes *bytes) {
  for (size_t at = 0; at < bytes->len;) {
    size_t len = 1 + (size_t)(world_random(w) % 40);
    if (len > bytes->len - at) len = bytes->len - at;
    dmi_ox_session_bytes(w->at[rank].session, DMI_OX_DATA_STREAM, bytes->at + at, len);
    at += len;
  }
  dmi_ox_bytes_free(bytes);
}

/* Takes over the value. */
static inline void push_value(struct world *w, int rank, DMI_ox_value_t *value) {
  struct dmi_ox_bytes bytes = {0};
  dmi_ox_encode_data(&bytes, w->at[rank].little, w->at[rank].serial++, value);
  DMI_ox_drop(value);
  master_send(w, rank, &bytes);
}

static inline void push_int(struct world *w, int rank, int64_t number) {
  push_value(w, rank, DMI_ox_from_int64(number));
}

static inline void push_text(struct world *w, int rank, const char *text) {
  push_value(w, rank, dmi_ox_value_text(text));
}

static inline void command(struct world *w, int rank, int32_t code) {
  struct dmi_ox_bytes bytes = {0};
  dmi_ox_encode_command(&bytes, w->at[rank].little, w->at[rank].serial++, code);
  master_send(w, rank, &bytes);
}

static inline void control(struct world *w, int rank, int32_t code) {
  struct dmi_ox_bytes bytes = {0};
  dmi_ox_encode_command(&bytes, w->at[rank].little, 0, code);
  dmi_ox_session_bytes(w->at[rank].session, DMI_OX_CONTROL, bytes.at, bytes.len);
  dmi_ox_bytes_free(&bytes);
}

static inline void ball(struct world *w, int rank) {
  struct dmi_ox_bytes bytes = {0};
  dmi_ox_encode_ball(&bytes, w->at[rank].little, w->at[rank].serial++);
  master_send(w, rank, &bytes);
}

/* The next message from a server; false when there is none. */
static inline bool heard(struct world *w, int rank, struct dmi_ox_message *message) {
  struct server *at = &w->at[rank];
  bool done;
  world_run(w);
  if (at->out.len > 0 && !at->order) {
    dmi_ox_bytes_cut(&at->out, 1);
    at->order = true;
  }
  if (at->out.len == 0) return false;
  size_t used = dmi_ox_decode(&at->decoder, at->out.at, at->out.len, message, &done);
  dmi_ox_bytes_cut(&at->out, used);
  return done;
}

/* Pops the value on top of a server's stack, as text; NULL: nothing is sent. To be freed. */
static inline char *popped(struct world *w, int rank) {
  struct dmi_ox_message message;
  command(w, rank, DMI_OX_POP_CMO);
  if (!heard(w, rank, &message) || message.tag != DMI_OX_DATA) return NULL;
  char *text = DMI_ox_to_text(message.value);
  DMI_ox_drop(message.value);
  return text;
}

#define assert_popped(w, rank, expected)        \
  do {                                          \
    char *popped_text = popped(w, rank);        \
    assert_non_null(popped_text);               \
    assert_string_equal(popped_text, expected); \
    free(popped_text);                          \
  } while (0)

static inline void execute(struct world *w, int rank, const char *text) {
  push_text(w, rank, text);
  command(w, rank, DMI_OX_EXECUTE_STRING);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static inline struct world *world_new(int num, uint64_t seed) {
  struct world *w = calloc(1, sizeof *w);
  w->settings.limits =
      (struct dmi_ox_limits){.message = 1 << 20, .stack = 1 << 20, .queue = 200, .depth = 100};
  w->num = num;
  w->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  for (int i = 0; i < num; i++) {
    struct server *at = &w->at[i];
    unsigned char order = world_random(w) % 2 ? 1 : 0;
    at->little = order;
    at->session = dmi_ox_session_new(&w->settings, world_known);
    dmi_ox_session_bytes(at->session, DMI_OX_CONTROL, &order, 1);
    dmi_ox_session_bytes(at->session, DMI_OX_DATA_STREAM, &order, 1);
    dmi_ox_decoder_init(&at->decoder, &w->settings.limits, at->little, false);
  }
  world_run(w);
  return w;
}

static inline void world_free(struct world *w) {
  for (int i = 0; i < w->num; i++) {
    struct server *at = &w->at[i];
    dmi_ox_session_free(at->session);
    dmi_ox_decoder_free(&at->decoder);
    dmi_ox_bytes_free(&at->out);
    DMI_ox_drop(at->args);
    DMI_ox_drop(at->name);
  }
  for (int i = 0; i < PIPES; i++)
    dmi_ox_bytes_free(&w->pipes[i].bytes);
  free(w);
}

/* Ranks, and links between every two. */
static inline void world_group(struct world *w) {
  for (int i = 0; i < w->num; i++) {
    push_int(w, i, w->num);
    push_int(w, i, i);
    command(w, i, DMI_OX_SET_RANK);
  }
  for (int i = 0; i < w->num; i++) {
    for (int j = i + 1; j < w->num; j++) {
      push_int(w, i, 1000 + i * RANKS + j);
      push_int(w, i, j);
      command(w, i, DMI_OX_TCP_ACCEPT);
      push_text(w, j, "localhost");
      push_int(w, j, 1000 + i * RANKS + j);
      push_int(w, j, i);
      command(w, j, DMI_OX_TCP_CONNECT);
      world_run(w);
    }
  }
}

#endif
