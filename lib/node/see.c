/*
 * see.c - see see.h.  Who looks (a viewer), and questions that are passed on to other members.
 *
 * A viewer is a process that has proved the key and is no member.  It asks one member about itself
 * or about any other; that one passes the question on, and the answer back.  Members do not pass on
 * what members ask.  Nothing is gathered here: each answer has at most DMI_WIRE_SEEN bytes, and a
 * viewer gets so many as it has room for (WINDOW without a word that they have come).  That word is
 * not believed blindly: it cannot be about questions that are not answered yet, and what is queued
 * for the viewer counts, too.  So a viewer that reads slowly or never costs at most twice WINDOW
 * answers, whatever it says, and of such viewers there are VIEWERS.
 *
 * What only the daemon may read is written by it (see_member.c); the rest by a thread of its own,
 * as finding lines of the program takes long.
 *
 * Failure modes: a member that gives no answer for PATIENCE is told as silent; its answer is
 * dropped if it comes later.  Without memory, or with too many questions, an answer says so, too.
 */
#include "node/see_int.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/member.h"
#include "node/runtime.h"
#include "node/tracer.h"

#define VIEWERS 16 /* most at a time; when one more comes, who has asked last longest ago goes */
#define WINDOW 8   /* answers that a viewer has not told to have got */
#define QUEUED (WINDOW * (DMI_WIRE_SEEN + 256)) /* bytes that wait for it: these, with headers */
#define PATIENCE 2.0                            /* seconds */
/* The same where places of the program are told: debug information is loaded for the first one. */
#define PATIENCE_PLACES 8.0

struct viewer {
  struct viewer *next;
  uint32_t temp;
  uint32_t asked; /* questions so far */
  uint32_t heard; /* answers that it has told to have got */
};

/* A question that was passed on. */
struct relay {
  struct relay *next;
  struct dmi_see *see;
  struct ev_timer timer;
  uint32_t number; /* ours */
  dmi_uid_t to;
  uint32_t temp, theirs; /* the viewer, and its number */
};

struct dmi_see {
  struct dmi_process *process;
  struct viewer *viewers; /* who has asked last is the first */
  struct relay *relays;
  uint32_t number; /* of the last relay */
  time_t began;
  struct dmi_see_thread *thread;
};

struct dmi_see *dmi_see_new(struct dmi_process *process) {
  struct dmi_see *see = calloc(1, sizeof(*see));
  if (!see) return NULL;
  see->process = process;
  see->began = time(NULL);
  see->thread = dmi_see_thread_new(process);
  if (see->thread) return see;
  free(see);
  return NULL;
}

static void relay_free(struct relay **at) {
  struct relay *relay = *at;
  ev_timer_stop(dmi_net_loop(relay->see->process->access.net), &relay->timer);
  *at = relay->next;
  free(relay);
}

void dmi_see_end(struct dmi_process *process) {
  struct dmi_see *see = process->see;
  if (!see) return;
  dmi_see_thread_end(see->thread);
  while (see->relays)
    relay_free(&see->relays);
  while (see->viewers) {
    struct viewer *viewer = see->viewers;
    see->viewers = viewer->next;
    free(viewer);
  }
  free(see);
  process->see = NULL;
}

void dmi_see_send(struct dmi_process *process, uint32_t to, uint32_t number, enum dmi_seen_how how,
                  uint64_t next, struct dmi_slice body) {
  struct dmi_msg msg = {.type = DMI_SEE_ANSWER, .body = body};
  if (body.len && !body.frame) { /* no memory for it */
    how = DMI_SEEN_SILENT;
    next = 0;
    msg.body = (struct dmi_slice){0};
  }
  msg.seen = (struct dmi_msg_seen){.number = number, .how = (uint32_t)how, .next = next};
  if (!dmi_net_send(process->access.net, to, &msg)) dmi_slice_drop(&msg.body);
}

/* ---- Viewers --------------------------------------------------------------------------------- */

/* Takes it out of the list; NULL: it has not asked before. */
static struct viewer *take_out(struct dmi_see *see, uint32_t temp) {
  struct viewer **at = &see->viewers, *viewer;
  while (*at && (*at)->temp != temp)
    at = &(*at)->next;
  viewer = *at;
  if (viewer) *at = viewer->next;
  return viewer;
}

static uint32_t count(const struct dmi_see *see) {
  uint32_t num = 0;
  for (const struct viewer *at = see->viewers; at; at = at->next)
    num++;
  return num;
}

static uint32_t last_of(const struct dmi_see *see) {
  const struct viewer *at = see->viewers;
  while (at->next)
    at = at->next;
  return at->temp;
}

void dmi_see_lost(struct dmi_process *process, uint32_t temp) {
  struct dmi_see *see = process->see;
  struct relay **at = &see->relays;
  free(take_out(see, temp));
  while (*at) {
    if ((*at)->temp == temp) {
      relay_free(at);
    } else {
      at = &(*at)->next;
    }
  }
}

/* How many of its questions are surely not answered yet. */
static uint32_t unanswered(struct dmi_see *see, uint32_t temp) {
  uint32_t num = dmi_see_thread_has(see->thread, temp);
  for (const struct relay *at = see->relays; at; at = at->next)
    num += at->temp == temp;
  return num;
}

/* A question of it has come.  False: it asks more than it may, or says what is not true. */
static bool may_ask(struct dmi_see *see, uint32_t temp, uint32_t heard) {
  struct viewer *viewer = take_out(see, temp);
  if (!viewer) {
    if (count(see) == VIEWERS) {
      uint32_t idle = last_of(see);
      dmi_see_lost(see->process, idle);
      dmi_net_drop(see->process->access.net, idle);
    }
    viewer = calloc(1, sizeof(*viewer));
    if (!viewer) return false;
    viewer->temp = temp;
  }
  viewer->next = see->viewers;
  see->viewers = viewer;
  /* Numbers that are not in order make large differences. */
  if (heard - viewer->heard > viewer->asked - viewer->heard) return false;
  if (viewer->asked - heard < unanswered(see, temp)) return false;
  viewer->heard = heard;
  if (dmi_net_queued(see->process->access.net, temp) > QUEUED) return false;
  return viewer->asked++ - heard < WINDOW;
}

void dmi_see_farewell(struct dmi_process *process, bool all, int status) {
  const struct viewer *at = process->see ? process->see->viewers : NULL;
  for (; at; at = at->next)
    dmi_see_send(process, at->temp, 0, all ? DMI_SEEN_GOOD : DMI_SEEN_NOBODY, (uint64_t)status,
                 (struct dmi_slice){0});
}

/* ---- Passing on ------------------------------------------------------------------------------ */

static void on_silent(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct relay *relay = timer->data, **at = &relay->see->relays;
  (void)loop;
  (void)events;
  while (*at != relay)
    at = &(*at)->next;
  dmi_see_send(relay->see->process, relay->temp, relay->theirs, DMI_SEEN_SILENT, 0,
               (struct dmi_slice){0});
  relay_free(at);
}

static double patience(uint32_t what) {
  return what == DMI_SEE_THREADS || what == DMI_SEE_LOCKS || what == DMI_SEE_MAPPINGS ||
                 what == DMI_SEE_PROFILE
             ? PATIENCE_PLACES
             : PATIENCE;
}

/* False: there is no such member, or no memory. */
static bool pass_on(struct dmi_see *see, uint32_t temp, const struct dmi_msg_see *ask) {
  struct dmi_process *process = see->process;
  struct dmi_msg msg = {.type = DMI_SEE_ASK, .see = *ask};
  struct ev_loop *loop = dmi_net_loop(process->access.net);
  struct relay *relay;
  if (!dmi_member_peer(process->member, ask->of)) return false;
  relay = calloc(1, sizeof(*relay));
  if (!relay) return false;
  relay->see = see;
  see->number = see->number % (DMI_TRACER_EVENTS - 1) + 1; /* others are the tracer's */
  relay->number = see->number;
  relay->to = ask->of;
  relay->temp = temp;
  relay->theirs = ask->number;
  msg.see.number = relay->number;
  msg.see.heard = 0;
  if (!dmi_net_send(process->access.net, relay->to, &msg)) {
    free(relay);
    return false;
  }
  relay->next = see->relays;
  see->relays = relay;
  ev_timer_init(&relay->timer, on_silent, patience(ask->what), 0.);
  ev_set_priority(&relay->timer, EV_MINPRI); /* an answer that is there already goes first */
  relay->timer.data = relay;
  ev_now_update(loop); /* this turn may have begun long ago */
  ev_timer_start(loop, &relay->timer);
  return true;
}

bool dmi_see_on_answer(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct relay **at = &process->see->relays;
  struct dmi_slice body = {.len = msg->body.len}; /* without memory the bytes were not kept */
  if (from >= DMI_NET_TEMP || msg->seen.how > DMI_SEEN_NOBODY) return false;
  if (msg->seen.number >= DMI_TRACER_EVENTS) return dmi_tracer_on_answer(process, from, msg);
  while (*at && ((*at)->number != msg->seen.number || (*at)->to != from))
    at = &(*at)->next;
  if (!*at) return true; /* it comes too late */
  if (msg->body.ptr && msg->body.len) body = dmi_slice_of(msg->body.frame, 0, msg->body.len);
  dmi_see_send(process, (*at)->temp, (*at)->theirs, (enum dmi_seen_how)msg->seen.how,
               msg->seen.next, body);
  relay_free(at);
  return true;
}

/* ---- Questions --------------------------------------------------------------------------------
 */

/* Answers a question about this process. */
static void answer(struct dmi_see *see, uint32_t to, const struct dmi_msg_see *ask) {
  char text[DMI_WIRE_SEEN];
  struct dmi_json json = {text, 0, sizeof(text)};
  uint64_t next;
  if (!dmi_see_by_daemon(ask->what)) {
    struct dmi_see_job job = {.type = DMI_SEE_JOB_ANSWER, .to = to, .ask = *ask};
    if (!dmi_see_thread_ask(see->thread, &job))
      dmi_see_send(see->process, to, ask->number, DMI_SEEN_SILENT, 0, (struct dmi_slice){0});
    return;
  }
  next = dmi_see_member(see->process, ask, see->began, &json);
  dmi_see_send(see->process, to, ask->number, DMI_SEEN_GOOD, next, dmi_slice_copy(text, json.at));
}

bool dmi_see_on_ask(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_see *see = process->see;
  const struct dmi_msg_see *ask = &msg->see;
  bool viewer = from >= DMI_NET_TEMP;
  if (!ask->what || ask->what >= DMI_SEE_KINDS) return false;
  if (viewer && !may_ask(see, from, ask->heard)) return false;
  if (!viewer && (ask->what == DMI_SEE_TRACE || ask->what == DMI_SEE_CLOCK))
    return dmi_tracer_on_ask(process, from, ask);
  if (ask->what == DMI_SEE_TRACE || ask->what == DMI_SEE_CLOCK) {
    dmi_see_send(process, from, ask->number, DMI_SEEN_NOBODY, 0, (struct dmi_slice){0});
  } else if (!ask->of || ask->of == process->access.core.self) {
    answer(see, from, ask);
  } else if (!viewer || !pass_on(see, from, ask)) {
    dmi_see_send(process, from, ask->number, DMI_SEEN_NOBODY, 0, (struct dmi_slice){0});
  }
  return true;
}

void dmi_see_stalled(struct dmi_process *process, dmi_uid_t uid, const char *name) {
  struct dmi_see_job job = {.type = DMI_SEE_JOB_SAY, .to = uid};
  snprintf(job.name, sizeof(job.name), "%s", name);
  dmi_see_thread_ask(process->see->thread, &job);
}

/* NULL: no memory. */
static struct dmi_see_names *names(struct dmi_process *process) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(process->member, &num);
  struct dmi_see_names *names = malloc(sizeof(*names) + num * sizeof(names->of[0]));
  if (!names) return NULL;
  names->num = num;
  for (uint32_t i = 0; i < num; i++) {
    names->of[i].uid = peers[i].uid;
    dmi_member_name(process->member, peers[i].uid, names->of[i].text);
  }
  return names;
}

void dmi_see_dump(struct dmi_process *process) {
  const struct dmi_see_job job = {.type = DMI_SEE_JOB_DUMP,
                                  .to = process->pulser ? dmi_net_port(process->access.net) : 0,
                                  .names = names(process)};
  dmi_see_thread_ask(process->see->thread, &job);
}

bool dmi_see_message(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(process, from, msg);
    DMI_MSGS_SEE(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}
