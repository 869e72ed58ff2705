/*
 * coord.c - the coordinator role: its table of members, and the dispatch of messages.
 *
 * Nothing here blocks: work that is not possible yet stays in a list, and dmi_coord_advance, called
 * after every event, begins what has become possible.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"
#include "core/heap.h"
#include "core/coord_int.h"

#define TO(life) (1u << DMI_LIFE_##life)

/* The states that may follow each state. */
static const uint32_t life_next[DMI_LIFE_NUM] = {
    [DMI_LIFE_JOINING] = TO(JOINED) | TO(LOST),
    [DMI_LIFE_JOINED] = TO(OPENED) | TO(CLOSING) | TO(LOST),
    [DMI_LIFE_OPENED] = TO(CLOSING),
    [DMI_LIFE_CLOSING] = TO(LEAVING) | TO(LOST),
    [DMI_LIFE_LEAVING] = TO(CLOSING) | TO(DRAINED) | TO(NO_HEIR) | TO(LOST),
    [DMI_LIFE_DRAINED] = TO(FLUSHING) | TO(LOST),
    [DMI_LIFE_NO_HEIR] = TO(LEAVING) | TO(LOST),
    [DMI_LIFE_FLUSHING] = TO(LEFT) | TO(LOST),
    [DMI_LIFE_LEFT] = TO(EXITING) | TO(LOST),
    [DMI_LIFE_EXITING] = TO(LOST),
    [DMI_LIFE_LOST] = TO(NONE),
    [DMI_LIFE_NONE] = TO(JOINING) | TO(JOINED),
};

const char *dmi_life_name(enum dmi_life life) {
  static const char *const names[DMI_LIFE_NUM] = {"JOINING", "JOINED",  "OPENED",  "CLOSING",
                                                  "LEAVING", "DRAINED", "NO_HEIR", "FLUSHING",
                                                  "LEFT",    "EXITING", "LOST",    "NONE"};
  return life < DMI_LIFE_NUM ? names[life] : "?";
}

void dmi_record_move(struct dmi_record *record, enum dmi_life life) {
  if (!(life_next[record->life] & (1u << life))) {
    fprintf(stderr, "dmi: bug: process %u goes from %s to %s\n", record->uid,
            dmi_life_name(record->life), dmi_life_name(life));
    abort();
  }
  record->life = life;
}

struct dmi_coord *dmi_coord_new(void) {
  struct dmi_coord *c = dmi_xalloc(1, sizeof(*c));
  c->next_uid = 1;
  c->next_base = DMI_FIRST_BASE;
  c->system = (struct dmi_entry){DMI_SYSTEM_BASE, DMI_SYSTEM_PAGE, DMI_SYSTEM_NUM, c->next_uid,
                                 DMI_TAG_SYSTEM};
  return c;
}

void dmi_coord_free(struct dmi_coord *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->forgets.num; i++)
    dmi_uid_set_free(&c->forgets.at[i].awaits);
  free(c->records.at);
  free(c->notices.at);
  free(c->polls.at);
  free(c->mappings.at);
  free(c->forgets.at);
  free(c->adopts.at);
  free(c->results.at);
  free(c->joins.at);
  free(c->got.at);
  free(c->inherits.at);
  dmi_causes_free(&c->causes);
  free(c->given.at);
  free(c->lost.at);
  dmi_deferred_free(&c->blocked_calls);
  dmi_deferred_free(&c->deferred);
  dmi_deferred_free(&c->root_sets);
  dmi_deferred_free(&c->root_gets);
  dmi_deferred_free(&c->stops);
  dmi_uid_set_free(&c->awaits);
  dmi_uid_set_free(&c->last_requests);
  dmi_uid_set_free(&c->dead);
  dmi_uid_set_free(&c->reserves);
  dmi_directory_known_free(&c->known);
  dmi_directory_settle(c);
  free(c);
}

/* The first process is a member without asking; the first notice is about itself. */
void dmi_coord_start(struct dmi_member *m) {
  struct dmi_record *record;
  m->coord = dmi_coord_new();
  m->coord->view = m->view;
  m->coord->next_uid = m->uid + 1;
  m->limit = m->env.survive ? dmi_directory_limit(DMI_FIRST_BASE) : DMI_SYSTEM_BASE;
  m->coord->limit = m->limit;
  record = DMI_LIST_ADD(&m->coord->records);
  record->uid = m->uid;
  record->dmi_id = m->dmi_id;
  record->info = m->info;
  record->life = DMI_LIFE_NONE;
  record->busy = true;
  record->vital = true;
  dmi_record_move(record, DMI_LIFE_JOINED);
  m->coord->change = DMI_CHANGE_VIEW; /* it takes its own first view like any other */
  dmi_uid_set_add(&m->coord->awaits, m->uid);
  dmi_coord_notify(m, record, DMI_OPEN);
}

struct dmi_record *dmi_coord_find(const struct dmi_coord *c, uint32_t uid) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (c->records.at[i].uid == uid) return &c->records.at[i];
  }
  return NULL;
}

void dmi_coord_answer(struct dmi_member *m, struct dmi_caller *caller, int error,
                      struct dmi_pack *body) {
  const struct dmi_record *record = caller->uid ? dmi_coord_find(m->coord, caller->uid) : NULL;
  if (record && record->life != DMI_LIFE_LOST) {
    dmi_member_send(m, caller->uid, DMI_CTL_RESULT, caller->op, error, body);
  } else if (body) {
    dmi_pack_free(body);
  }
  caller->uid = 0;
}

/* ---- Lost members -------------------------------------------------------------------------- */

/* A process that held part of the program is lost: the program ends. */
bool dmi_coord_abort(struct dmi_member *m, const struct dmi_record *record, const char *why) {
  struct dmi_coord *c = m->coord;
  const struct dmi_peer lost = {.dmi_id = record->dmi_id, .info = record->info};
  char text[DMI_TEXT_SIZE];
  dmi_lost_text(text, &lost, why);
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_pack body;
    uint32_t uid = c->records.at[i].uid;
    if (uid == m->uid || uid == record->uid) continue;
    dmi_pack_init(&body);
    dmi_pack_text(&body, text);
    dmi_member_send(m, uid, DMI_CTL_ABORT, 0, 0, &body);
  }
  dmi_member_fatal_lost(m, text);
  return true;
}

/* The process `record` may still run: only its connection with `from` is lost. Tells it that the
 * program goes on without it. */
static void tell_removed(struct dmi_member *m, const struct dmi_record *record,
                         const struct dmi_record *from) {
  struct dmi_pack body;
  char text[DMI_TEXT_SIZE], name[DMI_NAME_TEXT];
  dmi_info_name(name, from->dmi_id, &from->info);
  snprintf(text, sizeof(text),
           "%s has lost its connection with this one: the program goes on without this process, "
           "which ends",
           name);
  dmi_pack_init(&body);
  dmi_pack_text(&body, text);
  dmi_member_send(m, record->uid, DMI_CTL_ABORT, 0, DMI_EMEMBER, &body);
}

static void forget_lost(struct dmi_member *m, struct dmi_record *record) {
  struct dmi_coord *c = m->coord;
  record->main = record->life == DMI_LIFE_LEFT && record->busy;
  dmi_record_move(record, DMI_LIFE_LOST);
  dmi_coord_look_removing(c);
  dmi_uid_set_drop(&c->last_requests, record->uid);
  record->heir = 0;
  record->busy = false;
  record->no_capacity = false;
  dmi_coord_unnotify(c, record->uid);
  dmi_coord_answer(m, &record->welcome, DMI_EMEMBER, NULL);
  dmi_coord_answer(m, &record->goodbye, DMI_EMEMBER, NULL);
  dmi_directory_exited(m, record->uid);
  c->retry = true;
}

/* If the lost process was never welcomed, or has left, a view without it is enough. */
bool dmi_coord_on_lost(struct dmi_member *m, struct dmi_record *from, const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_unpack body;
  struct dmi_record *record;
  char why[DMI_TEXT_SIZE];
  uint32_t uid;
  dmi_unpack_init(&body, &msg->body);
  uid = dmi_unpack_u32(&body);
  dmi_unpack_text(&body, why);
  if (!dmi_unpack_done(&body) || uid == from->uid || uid == m->uid) return false;
  dmi_log_printable(why);
  record = dmi_coord_find(c, uid);
  if (!record || record->life == DMI_LIFE_LOST) return true;
  if (c->ending && (record->ended || !record->vital)) {
    record->removed = true; /* it gets no FINISH */
    if (!record->ended) dmi_coord_ended(m, record);
    return true;
  }
  if (record->vital) return dmi_coord_abort(m, record, why);
  dmi_uid_set_drop(&c->awaits, uid);
  if (c->change == DMI_CHANGE_HANDOVER) {
    /* the next coordinator removes it; this one only stops waiting for its VIEW_TAKEN */
    dmi_deferred_add(&c->deferred, from->uid, msg);
  } else if (record->life == DMI_LIFE_EXITING) {
    /* Another member may report its loss before its EXITED arrives here. */
    if (from->uid == m->uid) dmi_coord_exited(m, record);
  } else {
    tell_removed(m, record, from);
    forget_lost(m, record);
  }
  return true;
}

bool dmi_coord_untake(struct dmi_member *m, uint32_t uid, const char *why) {
  struct dmi_coord *c = m->coord;
  const struct dmi_record *record = dmi_coord_find(c, uid);
  if (c->change != DMI_CHANGE_HANDOVER || !record) return true;
  if (record->vital) {
    dmi_coord_abort(m, record, why);
    return false;
  }
  dmi_uid_set_drop(&c->awaits, uid);
  return true;
}

/* ---- Messages ------------------------------------------------------------------------------ */

bool dmi_coord_on_busy(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  record->busy = true;
  dmi_member_send(m, record->uid, DMI_CTL_BUSY_OK, msg->member.op, 0, NULL);
  return true;
}

bool dmi_coord_on_idle(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  (void)m, (void)msg;
  record->busy = false;
  return true;
}

static bool dispatch(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(m, record, msg);
    DMI_MSGS_COORD(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

bool dmi_coord_message(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_record *record = dmi_coord_find(c, from);
  if (!record) return c->ending && m->env.survive; /* it is lost; there is no view any more */
  if (record->life == DMI_LIFE_LOST) return true;
  if (msg->type == DMI_CTL_VIEW_TAKEN || msg->type == DMI_CTL_LOST) return dispatch(m, record, msg);
  if (msg->type == DMI_CTL_STATE || msg->type == DMI_CTL_READY) return dispatch(m, record, msg);
  if (msg->type == DMI_CTL_ENDED && dmi_coord_recovers(c)) return dispatch(m, record, msg);
  if (dmi_coord_recovers(c) && !c->rebuilds && (msg->flags & DMI_F_AGAIN)) return true;
  if (c->change == DMI_CHANGE_HANDOVER || dmi_coord_recovers(c)) {
    dmi_deferred_add(&c->deferred, from, msg);
    return true;
  }
  if (c->ending) {
    if (msg->type == DMI_CTL_ENDED) return dispatch(m, record, msg);
    return msg->type != DMI_CTL_BUSY; /* sent before END arrived there: all were idle */
  }
  if (record->life == DMI_LIFE_EXITING && msg->type != DMI_CTL_EXITED &&
      msg->type != DMI_CTL_FORGOT) {
    return true; /* a poll, sent before EXIT arrived there; nobody waits for it any more */
  }
  return dispatch(m, record, msg);
}

/* ---- What can begin? ----------------------------------------------------------------------- */

void dmi_coord_advance(struct dmi_member *m) {
  if (m->viewing && m->crash == m->view) return; /* when it is taken all waits for STATE */
  while (m->coord && m->phase != DMI_PHASE_FINISHED && !m->coord->ending) {
    struct dmi_coord *c = m->coord;
    if (c->change != DMI_CHANGE_NONE && c->awaits.num == 0) {
      dmi_coord_end_change(m);
    } else if (c->retry && c->change != DMI_CHANGE_HANDOVER && !dmi_coord_recovers(c)) {
      dmi_coord_retry(m);
    } else if (c->change == DMI_CHANGE_NONE && m->loop.num == 0) {
      /* only if no work of our own remains, which might make a process busy */
      if (dmi_coord_may_end(c)) {
        dmi_coord_end(m);
      } else if (!dmi_coord_begin_change(m)) {
        return;
      }
    } else {
      return;
    }
  }
}
