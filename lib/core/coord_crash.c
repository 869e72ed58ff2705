/*
 * coord_crash.c - the coordinator behind a crash view: it hears the state of all, names heirs,
 * waits until all have recovered, and goes on (docs/crashes.md).
 *
 * It may have been the coordinator before: then it knows everything, and forgets those that are
 * lost.  Else it makes its state anew from what the members tell.
 */
#include <stdlib.h>

#include "core/coord_int.h"

bool dmi_coord_recovers(const struct dmi_coord *c) {
  return c->change == DMI_CHANGE_STATES || c->change == DMI_CHANGE_READY;
}

bool dmi_coord_has_got(const struct dmi_coord *c, dmi_uid_t uid, uint32_t state) {
  for (uint32_t i = 0; i < c->got.num; i++) {
    if (c->got.at[i].uid == uid && c->got.at[i].state == state) return true;
  }
  return false;
}

static bool is_queued(const struct dmi_coord *c, uint32_t uid, uint32_t state) {
  for (uint32_t i = 0; i < c->notices.num; i++) {
    if (c->notices.at[i].uid == uid && c->notices.at[i].notice.state == state) return true;
  }
  return false;
}

/* ---- Those that are lost --------------------------------------------------------------------- */

/* What was given to it, and not acknowledged, is for somebody else. */
static void take_back(struct dmi_coord *c, uint32_t caller) {
  for (uint32_t i = c->given.num; i-- > 0;) {
    struct dmi_queued queued = c->given.at[i].queued;
    if (c->given.at[i].caller.uid != caller) continue;
    DMI_LIST_DROP(&c->given, i);
    (void)DMI_LIST_ADD(&c->notices);
    memmove(&c->notices.at[1], &c->notices.at[0], (c->notices.num - 1) * sizeof(queued));
    c->notices.at[0] = queued;
  }
}

/* A process of which the program has heard is said to be lost. */
static void lose(struct dmi_member *m, struct dmi_record *record) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller welcome = record->welcome, goodbye = record->goodbye;
  uint32_t uid = record->uid;
  bool left = record->left; /* its pages are with others: for the program it has gone in order */
  /* LOST: before the program called DMI_survive, and it was never welcomed */
  bool forgotten = record->life == DMI_LIFE_JOINING || record->life == DMI_LIFE_LOST;
  /* Who makes its state anew hears of all losses from the members. */
  bool known =
      !c->rebuilds && !left && !record->witness && !forgotten && !is_queued(c, uid, DMI_OPEN);
  if (known) {
    struct dmi_queued *queued = DMI_LIST_ADD(&c->lost);
    queued->uid = uid;
    queued->notice.state = DMI_LOST;
    queued->notice.dmi_id = record->dmi_id;
    queued->notice.uid = uid;
    queued->notice.info = record->info;
  }
  dmi_uid_set_add(&c->dead, uid);
  dmi_uid_set_drop(&c->last_requests, uid);
  dmi_coord_unnotify(c, uid);
  DMI_LIST_DROP(&c->records, record - c->records.at);
  dmi_coord_look_removing(c);
  dmi_coord_answer(m, &welcome, DMI_EMEMBER, NULL);
  dmi_coord_answer(m, &goodbye, left ? DMI_OK : DMI_EMEMBER, NULL);
  dmi_directory_lost(m, uid);
}

/* ---- Becoming the coordinator -----------------------------------------------------------------
 */

static void add_record(struct dmi_member *m, const struct dmi_peer *peer) {
  struct dmi_coord *c = m->coord;
  struct dmi_record *record = DMI_LIST_ADD(&c->records);
  uint32_t at = c->records.num - 1;
  while (at > 0 && c->records.at[at - 1].uid > peer->uid) { /* by uid */
    c->records.at[at] = c->records.at[at - 1];
    at--;
  }
  record = &c->records.at[at];
  memset(record, 0, sizeof(*record));
  record->uid = peer->uid;
  record->dmi_id = peer->dmi_id;
  record->info = peer->info;
  record->left = peer->left;
  record->witness = peer->witness;
  record->life = DMI_LIFE_JOINED; /* until its STATE is here */
}

static void rebuild(struct dmi_member *m) {
  struct dmi_coord *c = m->coord = dmi_coord_new();
  c->rebuilds = true;
  c->system.home = m->uid;
  for (uint32_t i = 0; i < m->peers.num; i++)
    add_record(m, &m->peers.at[i]);
  c->next_uid = m->next_uid;
  c->since = c->next_uid;
  c->next_forget = m->view << 32; /* behind all of the coordinators before */
}

/* Who has heard END says so again, and who has not is told when its STATE comes. */
void dmi_coord_over(struct dmi_member *m) {
  dmi_coord_free(m->coord);
  rebuild(m);
  m->coord->rebuilds = false;
  m->coord->ending = true;
  m->coord->view = m->view;
  dmi_coord_ended(m, dmi_coord_find(m->coord, m->uid));
}

void dmi_coord_crash(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  if (c && c->change == DMI_CHANGE_HANDOVER) { /* others have spoken to the successor already */
    m->coord = NULL;
    rebuild(m);
    m->coord->joins = c->joins;
    memset(&c->joins, 0, sizeof(c->joins));
    dmi_coord_free(c);
  }
  if (!m->coord) rebuild(m);
  c = m->coord;
  for (uint32_t i = c->records.num; i-- > 0;) { /* first: they may be about each other */
    if (!dmi_member_find(m, c->records.at[i].uid)) take_back(c, c->records.at[i].uid);
  }
  for (uint32_t i = c->records.num; i-- > 0;) {
    if (!dmi_member_find(m, c->records.at[i].uid)) lose(m, &c->records.at[i]);
  }
  dmi_coord_deliver(m);
  c->view = m->view;
  c->change = DMI_CHANGE_STATES;
  c->got.num = 0;
  c->inherits.num = 0;
  c->causes.num = 0;
  dmi_directory_known_free(&c->known);
  dmi_uid_set_free(&c->awaits);
  for (uint32_t i = 0; i < c->records.num; i++)
    dmi_uid_set_add(&c->awaits, c->records.at[i].uid);
}

/* ---- STATE ----------------------------------------------------------------------------------- */

struct state {
  uint64_t number;
  enum dmi_phase phase;
  uint8_t flags;
  uint32_t heir, last_request_to;
  uint64_t ready, resumed;
  struct dmi_causes causes;
};

static enum dmi_life leaver_life(const struct dmi_record *record, const struct state *state) {
  switch (state->phase) {
    case DMI_PHASE_STOPPING:
    case DMI_PHASE_DRAINING:
    case DMI_PHASE_DRAIN_SENT:
      return DMI_LIFE_LEAVING;
    case DMI_PHASE_DRAINED:
      return state->heir || record->left ? DMI_LIFE_DRAINED : DMI_LIFE_NO_HEIR;
    case DMI_PHASE_LAST_REQUESTS:
    case DMI_PHASE_LAST_MESSAGES:
      return DMI_LIFE_FLUSHING;
    default: /* LEFT; of FLUSHED see end_ready */
      return state->flags & DMI_STATE_LEFT ? DMI_LIFE_LEFT : DMI_LIFE_FLUSHING;
  }
}

static void set_life(struct dmi_member *m, struct dmi_record *record, const struct state *state) {
  bool opened = state->flags & DMI_STATE_OPENED;
  record->welcomed = opened;
  record->heir = state->phase > DMI_PHASE_JOINED ? state->heir : 0; /* else of an attempt before */
  record->no_capacity = state->flags & DMI_STATE_NO_CAPACITY;
  if (state->phase == DMI_PHASE_ACCEPTED) {
    record->life = DMI_LIFE_JOINING;
  } else if (state->phase > DMI_PHASE_JOINED) {
    record->life = leaver_life(record, state);
  } else {
    record->life = state->flags & DMI_STATE_ASKED ? DMI_LIFE_CLOSING
                   : opened                       ? DMI_LIFE_OPENED
                                                  : DMI_LIFE_JOINED;
  }
  record->vital = (opened || (state->flags & DMI_STATE_FIRST)) && record->life != DMI_LIFE_LEFT;
  record->flushed = state->phase == DMI_PHASE_LEFT && !(state->flags & DMI_STATE_LEFT);
  dmi_coord_look_removing(m->coord);
}

/* What it said before STATE is in STATE, or comes again. */
static void forget_before(struct dmi_deferred_list *list, uint32_t from) {
  for (uint32_t i = list->num; i-- > 0;) {
    if (list->at[i].from == from) dmi_deferred_drop(list, i);
  }
}

static void unpack_heirs(struct dmi_coord *c, struct dmi_unpack *body) {
  uint32_t num = dmi_unpack_count(body, 8);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_inherits *inherits = DMI_LIST_ADD(&c->inherits);
    inherits->uid = dmi_unpack_u32(body);
    inherits->heir = dmi_unpack_u32(body);
  }
}

static void unpack_got(struct dmi_coord *c, struct dmi_unpack *body) {
  uint32_t num = dmi_unpack_count(body, 8);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_got *got = DMI_LIST_ADD(&c->got);
    got->uid = dmi_unpack_u32(body);
    got->state = dmi_unpack_u32(body);
  }
}

/* All but what it knows of mappings, which follows.  False: malformed. */
static bool unpack_state(struct dmi_member *m, struct dmi_unpack *body, struct state *state) {
  uint8_t phase;
  state->number = dmi_unpack_u64(body);
  phase = dmi_unpack_u8(body);
  state->phase = (enum dmi_phase)phase;
  state->flags = dmi_unpack_u8(body);
  state->heir = dmi_unpack_u32(body);
  state->last_request_to = dmi_unpack_u32(body);
  state->ready = dmi_unpack_u64(body);
  state->resumed = dmi_unpack_u64(body);
  unpack_heirs(m->coord, body);
  unpack_got(m->coord, body);
  dmi_causes_unpack(body, &state->causes, m);
  return !body->bad && phase >= DMI_PHASE_ACCEPTED && phase <= DMI_PHASE_LEFT;
}

static bool is_awaited(const struct dmi_coord *c, const struct dmi_record *record,
                       const struct state *state) {
  return c->change == DMI_CHANGE_STATES && state->number == c->view &&
         dmi_uid_set_has(&c->awaits, record->uid);
}

static void take_state(struct dmi_member *m, struct dmi_record *record, const struct state *state) {
  struct dmi_coord *c = m->coord;
  dmi_uid_set_drop(&c->awaits, record->uid);
  record->last_request_to = state->last_request_to;
  record->ready = state->ready;
  record->resumed = state->resumed;
  for (uint32_t i = 0; i < state->causes.num; i++)
    dmi_causes_add(&c->causes, state->causes.at[i].uid, state->causes.at[i].text);
  if (!c->rebuilds) return;
  set_life(m, record, state);
  forget_before(&c->deferred, record->uid);
  forget_before(&m->deferred, record->uid);
}

bool dmi_coord_on_state(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct state state = {0};
  struct dmi_unpack body;
  uint32_t heirs = c->inherits.num, got = c->got.num;
  bool good, takes;
  dmi_unpack_init(&body, &msg->body);
  good = unpack_state(m, &body, &state);
  if (good && c->ending && state.number == c->view)
    dmi_member_send(m, record->uid, DMI_CTL_END, 0, 0, NULL);
  takes = good && is_awaited(c, record, &state); /* else it is of a crash before this one */
  if (takes) takes = good = dmi_directory_unpack_state(&c->known, record->uid, &body);
  if (takes) {
    take_state(m, record, &state);
  } else { /* as if it had not come */
    c->got.num = got;
    c->inherits.num = heirs;
  }
  dmi_causes_free(&state.causes);
  return good;
}

/* Who gets the homes of those that are lost: rather one that stays; else one that has still to hand
 * over what it has. */
static const struct dmi_record *choose_heir(struct dmi_member *m) {
  const struct dmi_record *heir = dmi_coord_heir(m->coord, 0);
  if (!heir) heir = dmi_coord_keeper(m->coord, 0);
  for (uint32_t i = 0; !heir && i < m->coord->records.num; i++) {
    const struct dmi_record *record = &m->coord->records.at[i];
    bool gives = record->life <= DMI_LIFE_LEAVING || !dmi_coord_find(m->coord, record->heir);
    if (!record->left && !record->witness && gives) heir = record;
  }
  return heir ? heir : dmi_coord_find(m->coord, m->uid);
}

/* Some have resumed the recovery of this number, or may have: all that are left were READY. */
static bool is_carried(const struct dmi_coord *c, uint64_t number) {
  bool any = false, all = true;
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    any |= record->resumed >= number;
    all &= record->resumed >= number || record->ready == number;
  }
  return any || all;
}

/* The newest recovery whose marks count, of those in which somebody was READY; 0: none. */
static uint64_t carried(const struct dmi_coord *c) {
  uint64_t number = 0;
  for (uint32_t i = 0; i < c->records.num; i++) {
    uint64_t ready = c->records.at[i].ready;
    if (ready > number && is_carried(c, ready)) number = ready;
  }
  return number;
}

/* The heir of a lost process.  One that was named before stays it, while it lives: its part of the
 * recovery may have been carried out, at some or all. */
static dmi_uid_t heir_of(const struct dmi_coord *c, dmi_uid_t lost, dmi_uid_t else_heir) {
  for (uint32_t i = 0; i < c->inherits.num; i++) {
    const struct dmi_inherits *inherits = &c->inherits.at[i];
    if (inherits->uid == lost && inherits->heir && dmi_coord_find(c, inherits->heir))
      return inherits->heir;
  }
  return else_heir;
}

/* STATE of all is here. */
void dmi_coord_end_states(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  const struct dmi_record *heir = choose_heir(m);
  uint64_t counts = carried(c);
  dmi_directory_rebuild(c, m->lost.num ? m->lost.at[0].uid : 0, counts);
  for (uint32_t i = 0; i < m->lost.num; i++)
    m->lost.at[i].heir = heir_of(c, m->lost.at[i].uid, heir->uid);
  c->change = DMI_CHANGE_READY;
  c->pages_lost = 0;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u64(&body, c->view);
    dmi_pack_u64(&body, counts);
    dmi_pack_u32(&body, m->lost.num);
    for (uint32_t k = 0; k < m->lost.num; k++) {
      dmi_pack_u32(&body, m->lost.at[k].uid);
      dmi_pack_u32(&body, m->lost.at[k].heir);
    }
    dmi_pack_u64(&body, c->limit);
    dmi_directory_pack_homes(&body, c, c->records.at[i].uid, m->lost.at, m->lost.num);
    dmi_member_send(m, c->records.at[i].uid, DMI_CTL_RECOVER, 0, 0, &body);
    dmi_uid_set_add(&c->awaits, c->records.at[i].uid);
  }
  dmi_directory_inherit(c, m->lost.at, m->lost.num, heir->uid);
}

/* ---- READY ----------------------------------------------------------------------------------- */

bool dmi_coord_on_ready(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  uint64_t number;
  if (!dmi_member_unpack_number(msg, &number)) return false;
  if (c->change != DMI_CHANGE_READY || number != c->view) return true;
  if (!dmi_uid_set_drop(&c->awaits, record->uid)) return false;
  c->pages_lost += msg->member.op;
  return true;
}

/* Does another process have the id of this lost one, or had one that was lost later?  It got the id
 * only after the notice of the loss was given, to somebody who is lost now.  A second notice would
 * seem to be about the process that has the id. */
static bool id_went_on(const struct dmi_member *m, uint32_t at) {
  const struct dmi_queued *lost = &m->losses.at[at];
  for (uint32_t i = 0; i < m->coord->records.num; i++) {
    const struct dmi_record *record = &m->coord->records.at[i];
    if (!record->witness && dmi_id_is(record->dmi_id, lost->notice.dmi_id)) return true;
  }
  for (uint32_t i = at + 1; i < m->losses.num; i++) {
    const struct dmi_queued *later = &m->losses.at[i];
    if (!later->witness && dmi_id_is(later->notice.dmi_id, lost->notice.dmi_id)) return true;
  }
  return false;
}

/* Notices that no member was given. */
static void rebuild_notices(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    bool joined = record->life >= DMI_LIFE_JOINED && record->life <= DMI_LIFE_CLOSING;
    if (joined && !record->welcomed && !record->witness &&
        !dmi_coord_has_got(c, record->uid, DMI_OPEN))
      dmi_coord_notify(m, record, DMI_OPEN);
    if (record->life == DMI_LIFE_CLOSING && !dmi_coord_has_got(c, record->uid, DMI_CLOSE)) {
      record->no_capacity = false;
      dmi_coord_closing(m, record);
    }
  }
  for (uint32_t i = 0; i < m->losses.num; i++) {
    uint32_t uid = m->losses.at[i].uid;
    if (dmi_coord_has_got(c, uid, DMI_OPEN) && !dmi_coord_has_got(c, uid, DMI_LOST) &&
        !id_went_on(m, i))
      *DMI_LIST_ADD(&c->lost) = m->losses.at[i];
  }
}

/* A member tells to whom it gave its pages; that one may have left since, and given them to its own
 * heir.  0: that one is lost. */
static uint32_t last_heir(const struct dmi_coord *c, uint32_t uid) {
  const struct dmi_record *heir = dmi_coord_find(c, uid);
  for (uint32_t i = 0; heir && heir->left && i < c->records.num; i++)
    heir = dmi_coord_find(c, heir->heir);
  return heir && !heir->left ? heir->uid : 0;
}

static void follow_heirs(struct dmi_coord *c) {
  DMI_LIST(uint32_t) last = {0};
  for (uint32_t i = 0; i < c->records.num; i++)
    *DMI_LIST_ADD(&last) = last_heir(c, c->records.at[i].heir);
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (last.at[i]) c->records.at[i].heir = last.at[i];
  }
  free(last.at);
}

/* Who was giving its pages to one that is lost gets another heir, and begins anew; for one that has
 * left already it is only a name. */
static void new_heirs(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record->heir && !record->left && !last_heir(c, record->heir))
      dmi_coord_leave_go(m, record, dmi_coord_heir(c, record->uid));
  }
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    uint32_t last = last_heir(c, record->heir); /* one that has left may be gone soon */
    if (record->heir && record->left) record->heir = last ? last : m->uid;
  }
}

/* Who has sent LAST_REQUEST to one that has still to be told FLUSH. */
static void gather_last_requests(struct dmi_coord *c) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *leaver = dmi_coord_find(c, c->records.at[i].last_request_to);
    if (leaver && leaver->left && leaver->life == DMI_LIFE_DRAINED)
      dmi_uid_set_add(&c->last_requests, c->records.at[i].uid);
  }
}

void dmi_coord_end_ready(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  struct dmi_deferred_list list = c->deferred;
  bool rebuilds = c->rebuilds;
  c->rebuilds = false;
  memset(&c->deferred, 0, sizeof(c->deferred));
  m->env.survive->all_taken(m->env.survive_arg, m->coord->view);
  dmi_directory_settle(c);
  dmi_directory_forget_rest(m);
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u64(&body, c->view);
    dmi_causes_pack(&body, &c->causes);
    dmi_member_send(m, c->records.at[i].uid, DMI_CTL_RESUME, c->pages_lost, 0, &body);
  }
  gather_last_requests(c);
  if (rebuilds) rebuild_notices(m); /* first: those that join now are announced by the next line */
  dmi_coord_end_view(m);
  for (uint32_t i = 0; rebuilds && i < c->records.num; i++) {
    if (c->records.at[i].flushed) (void)dmi_coord_on_flushed(m, &c->records.at[i], NULL);
  }
  if (rebuilds) follow_heirs(c);
  if (rebuilds)
    dmi_coord_leave_retry(m); /* there may be memory: what the one before knew is lost */
  new_heirs(m);
  for (uint32_t i = 0; i < c->lost.num; i++)
    dmi_coord_notify_lost(m, &c->lost.at[i]);
  c->lost.num = 0;
  c->retry = true;
  dmi_directory_resume(m);
  dmi_coord_replay(m, &list);
  if (!m->coord) return;
  list = m->deferred; /* those that came before this process was the coordinator */
  memset(&m->deferred, 0, sizeof(m->deferred));
  m->deferred_bytes = 0;
  dmi_coord_replay(m, &list);
  if (m->coord) dmi_directory_known_free(&m->coord->known);
}

/* ---- Calls that were under way -------------------------------------------------------------- */

bool dmi_coord_goodbye_again(struct dmi_member *m, struct dmi_caller *caller, dmi_id_t dmi_id) {
  for (uint32_t i = 0; i < m->coord->records.num; i++) {
    struct dmi_record *record = &m->coord->records.at[i];
    if (!dmi_id_is(record->dmi_id, dmi_id) || record->life < DMI_LIFE_LEAVING) continue;
    if (record->life == DMI_LIFE_NO_HEIR || record->life >= DMI_LIFE_LEFT) {
      dmi_coord_answer(m, caller, DMI_OK, NULL);
    } else if (!record->goodbye.uid) {
      record->goodbye = *caller;
    } else {
      return false;
    }
    return true;
  }
  return false;
}

/* ---- Notices --------------------------------------------------------------------------------- */

bool dmi_coord_on_notice_ok(struct dmi_member *m, struct dmi_record *record,
                            const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->given.num; i++) {
    if (c->given.at[i].caller.uid != record->uid || c->given.at[i].caller.op != msg->member.op)
      continue;
    dmi_coord_note_given(m, &c->given.at[i].queued);
    DMI_LIST_DROP(&c->given, i);
    break;
  }
  return true;
}
