/*
 * coord_view.c - view changes: add joiners, remove lost processes and one leaver; and hand the role
 * over.
 *
 * There is one change at a time: VIEW to all, VIEW_TAKEN from all, then the consequences. At most
 * one member that has left by a view still forwards messages, so it can reach all members that it
 * knows.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/coord_int.h"

#define ENDING "that program is ending"

/* ---- Asking to join ------------------------------------------------------------------------ */

bool dmi_coord_on_join(struct dmi_member *m, uint32_t temp, const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_unpack body;
  struct dmi_peer peer;
  struct dmi_addr ours, theirs;
  struct dmi_join *join;
  memset(&peer, 0, sizeof(peer));
  dmi_unpack_init(&body, &msg->body);
  dmi_member_unpack_addr(&body, &peer.addr);
  dmi_info_unpack(&body, &peer.info);
  dmi_member_unpack_birth(&body, &peer.info.birth);
  peer.witness = dmi_member_unpack_flag(&body);
  if (!dmi_unpack_done(&body)) return false;
  for (uint32_t i = 0; i < c->joins.num; i++) {
    if (c->joins.at[i].temp == temp) return false;
  }
  if (c->ending || dmi_coord_stops(m)) {
    dmi_member_refuse(m, temp, ENDING);
    return true;
  }
  m->env.addrs(m->env.arg, temp, &ours, &theirs);
  if (dmi_member_addr_unsaid(&peer.addr)) memcpy(peer.addr.ip, theirs.ip, sizeof(peer.addr.ip));
  join = DMI_LIST_ADD(&c->joins);
  join->temp = temp;
  join->peer = peer;
  return true;
}

void dmi_coord_drop_join(struct dmi_member *m, uint32_t temp) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->joins.num; i++) {
    if (c->joins.at[i].temp != temp) continue;
    DMI_LIST_DROP(&c->joins, i);
    return;
  }
}

void dmi_coord_refuse_joins(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->joins.num; i++)
    dmi_member_refuse(m, c->joins.at[i].temp, ENDING);
  c->joins.num = 0;
}

/* ---- Packing a view ------------------------------------------------------------------------ */

static void pack_view(struct dmi_pack *pack, const struct dmi_coord *c, uint32_t coordinator,
                      const struct dmi_peer *added, uint32_t added_num,
                      const struct dmi_removed *removed, uint32_t removed_num,
                      const struct dmi_roots *roots) {
  dmi_pack_u64(pack, c->view);
  dmi_pack_u32(pack, coordinator);
  dmi_pack_u32(pack, added_num);
  for (uint32_t i = 0; i < added_num; i++)
    dmi_member_pack_peer(pack, &added[i]);
  dmi_pack_u32(pack, removed_num);
  for (uint32_t i = 0; i < removed_num; i++) {
    dmi_pack_u32(pack, removed[i].uid);
    dmi_pack_u32(pack, removed[i].heir);
    dmi_pack_u8(pack, (uint8_t)((removed[i].main ? 1u : 0u) | (removed[i].lost ? 2u : 0u)));
  }
  if (roots->num) dmi_root_pack(pack, roots);
}

/* Is this the notice of a loss, of a process with this id? */
static bool tells_loss(const struct dmi_queued *queued, dmi_id_t id) {
  return queued->notice.state == DMI_LOST && dmi_id_is(queued->notice.dmi_id, id);
}

/* Used, or its loss has still to be told. */
static bool is_used(const struct dmi_coord *c, dmi_id_t id) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (dmi_id_is(c->records.at[i].dmi_id, id)) return true;
  }
  for (uint32_t i = 0; i < c->notices.num; i++) {
    if (tells_loss(&c->notices.at[i], id)) return true;
  }
  for (uint32_t i = 0; i < c->given.num; i++) { /* who was given it may be lost */
    if (tells_loss(&c->given.at[i].queued, id)) return true;
  }
  return false;
}

static dmi_id_t free_dmi_id(const struct dmi_coord *c) {
  dmi_id_t id = {0};
  while (is_used(c, id))
    id.n++;
  return id;
}

/* Does its vote count after a loss, in the view that is being made?  From its welcome on; a
 * witness's when it has joined. */
static bool is_voter(const struct dmi_member *m, const struct dmi_record *record) {
  const struct dmi_peer *peer = dmi_member_find(m, record->uid);
  bool joined = record->witness && record->life >= DMI_LIFE_JOINED;
  if (m->coord->settles) return record->uid == m->uid;
  return m->env.survive && !record->left && ((peer && peer->voter) || record->welcomed || joined);
}

/* Is there a voter without a vote?  One that stays, as it has no heir, may be the only one that can
 * take the role of the coordinator (hand_over); one that is drained leaves by the next view. */
static bool voters_wait(const struct dmi_member *m) {
  for (uint32_t i = 0; m->env.survive && i < m->peers.num; i++) {
    const struct dmi_record *record = dmi_coord_find(m->coord, m->peers.at[i].uid);
    if (!record || !is_voter(m, record) || m->peers.at[i].voter) continue;
    if (record->life < DMI_LIFE_DRAINED || record->life == DMI_LIFE_NO_HEIR) return true;
  }
  return false;
}

/* Makes records of the waiting joiners; returns their peers. */
static struct dmi_peer *admit(struct dmi_member *m, uint32_t *num) {
  struct dmi_coord *c = m->coord;
  struct dmi_peer *added = dmi_xalloc(c->joins.num + 1u, sizeof(*added));
  for (uint32_t i = 0; i < c->joins.num; i++) {
    struct dmi_join *join = &c->joins.at[i];
    dmi_id_t dmi_id = free_dmi_id(c);
    struct dmi_record *record = DMI_LIST_ADD(&c->records);
    struct dmi_mact *act = dmi_mout_add(m->out, DMI_MACT_RENAME);
    record->uid = c->next_uid++;
    if (DMI_BROKEN(m, DMI_MBREAK_UID)) c->next_uid = record->uid > 3 ? 2 : c->next_uid;
    record->dmi_id = dmi_id;
    record->life = DMI_LIFE_NONE;
    record->info = join->peer.info;
    record->witness = join->peer.witness;
    dmi_record_move(record, DMI_LIFE_JOINING);
    act->id = join->temp;
    act->uid = record->uid;
    added[i] = join->peer;
    added[i].uid = record->uid;
    added[i].dmi_id = dmi_id;
  }
  *num = c->joins.num;
  c->joins.num = 0;
  return added;
}

static void pack_body(struct dmi_pack *pack, const struct dmi_coord *c,
                      const struct dmi_view_body *view) {
  dmi_pack_init(pack);
  pack_view(pack, c, view->coordinator, view->added, view->added_num, view->removed,
            view->removed_num, &view->roots);
  if (!view->settles) return;
  if (!view->roots.num) dmi_root_pack(pack, &view->roots); /* none */
  dmi_survive_pack(pack, view);
}

/* Sends ACCEPT with all members, old and new. */
static void send_accept(struct dmi_member *m, uint32_t uid, const struct dmi_view_body *view,
                        uint64_t ballot) {
  struct dmi_coord *c = m->coord;
  struct dmi_pack body, made;
  uint32_t num = 0, tie = ballot ? m->env.survive->tie(m->env.survive_arg) : 0;
  struct dmi_peer *all = dmi_xalloc(m->peers.num + view->added_num, sizeof(*all));
  struct dmi_roots roots = {0};
  for (uint32_t i = 0; i < m->peers.num; i++) {
    const struct dmi_record *record = dmi_coord_find(c, m->peers.at[i].uid);
    if (!record || record->removed) continue;
    all[num] = m->peers.at[i];
    all[num].left = record->left;
    all[num].voter = is_voter(m, record);
    all[num].tie = all[num].uid == tie;
    num++;
  }
  for (uint32_t i = 0; i < view->added_num; i++) {
    if (!dmi_member_find(m, view->added[i].uid)) all[num++] = view->added[i];
  }
  dmi_pack_init(&made);
  dmi_pack_init(&body);
  dmi_pack_raw(&body, m->program_id, sizeof(m->program_id));
  dmi_pack_u32(&body, uid);
  dmi_settings_pack(&body, &m->env.settings);
  if (m->env.settings.survive) {
    dmi_pack_bytes(&body, m->args.ptr, m->args.len);
    dmi_pack_u64(&body, m->last_crash);
    dmi_pack_u32(&body, m->next_uid);
  }
  if (ballot) pack_body(&made, c, view); /* others may hear of this view from it */
  dmi_pack_bytes(&body, made.bytes, made.len);
  dmi_pack_free(&made);
  dmi_root_change(&roots, &m->roots);
  dmi_root_change(&roots, &view->roots); /* this process itself takes them later */
  pack_view(&body, c, m->uid, all, num, NULL, 0, &roots);
  dmi_root_free(&roots);
  free(all);
  dmi_member_send(m, uid, DMI_CTL_ACCEPT, ballot, 0, &body);
}

/* ---- Beginning a change -------------------------------------------------------------------- */

/* With `survive` the agreement has to know of it first; or it begins with this view. */
static void agree(struct dmi_member *m, const struct dmi_view_body *view, uint64_t ballot) {
  struct dmi_pulse_view pulse = dmi_member_pulse_view(m, view);
  struct dmi_pack body;
  pack_body(&body, m->coord, view);
  pulse.body = dmi_pack_slice(&body);
  if (view->settles) {
    pulse.tie = m->uid;
    m->env.survive->start(m->env.survive_arg, &pulse, ballot);
  } else {
    m->env.survive->change(m->env.survive_arg, &pulse);
  }
  dmi_slice_drop(&pulse.body);
  free((void *)pulse.members);
}

/* To all, those that are new get ACCEPT.  `ballot`: 0: without `survive`. */
static void send_view(struct dmi_member *m, const struct dmi_view_body *view, uint64_t ballot) {
  struct dmi_coord *c = m->coord;
  if (ballot) agree(m, view, ballot);
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    struct dmi_pack body;
    if (record->removed || record->life == DMI_LIFE_EXITING || record->life == DMI_LIFE_LOST)
      continue;
    dmi_uid_set_add(&c->awaits, record->uid);
    if (record->life == DMI_LIFE_JOINING) {
      send_accept(m, record->uid, view, ballot);
      continue;
    }
    pack_body(&body, c, view);
    dmi_member_send(m, record->uid, DMI_CTL_VIEW, ballot, 0, &body);
  }
}

static void begin_handover(struct dmi_member *m, uint32_t successor, uint64_t ballot) {
  struct dmi_coord *c = m->coord;
  struct dmi_view_body view = {.coordinator = successor};
  c->change = DMI_CHANGE_HANDOVER;
  c->successor = successor;
  view.number = ++c->view;
  send_view(m, &view, ballot);
}

/* Those that have been welcomed since the last view. */
static void add_voters(struct dmi_member *m, struct dmi_view_body *view) {
  for (uint32_t i = 0; m->env.survive && i < m->peers.num; i++) {
    const struct dmi_record *record = dmi_coord_find(m->coord, m->peers.at[i].uid);
    if (!record || m->peers.at[i].voter || !is_voter(m, record)) continue;
    view->added = dmi_xalloc_again(view->added, view->added_num + 1u, sizeof(*view->added));
    view->added[view->added_num] = m->peers.at[i];
    view->added[view->added_num++].voter = true;
  }
}

static void begin_view(struct dmi_member *m, struct dmi_record *leaver, uint64_t ballot) {
  struct dmi_coord *c = m->coord;
  struct dmi_view_body view = {.coordinator = m->uid};
  view.removed = dmi_xalloc(c->records.num + 1u, sizeof(*view.removed));
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record != leaver && record->life != DMI_LIFE_LOST) continue;
    record->left = true;
    record->removed = record != leaver;
    view.removed[view.removed_num].uid = record->uid;
    view.removed[view.removed_num].main = record->main;
    view.removed[view.removed_num++].heir = record == leaver ? record->heir : 0;
  }
  if (leaver) {
    for (uint32_t i = 0; i < c->records.num; i++) {
      if (c->records.at[i].heir == leaver->uid) c->records.at[i].heir = leaver->heir;
    }
  }
  c->change = DMI_CHANGE_VIEW;
  view.number = ++c->view;
  view.added = admit(m, &view.added_num); /* may reallocate the records */
  if (c->survives.uid && !m->env.survive) {
    dmi_coord_survive_view(m, &view);
    ballot = m->uid; /* as of a program that begins so */
  }
  add_voters(m, &view);
  dmi_coord_root_view(c, &view);
  send_view(m, &view, ballot);
  dmi_view_free(&view);
}

/* May a view be made now?  With `survive` `ballot` is set. */
static bool may_change(struct dmi_member *m, uint64_t *ballot) {
  *ballot = 0;
  if (!m->env.survive) return true;
  *ballot = m->env.survive->may_change(m->env.survive_arg);
  return *ballot != 0;
}

/* Behind a loss only a voter leads; who has been welcomed since the last view is none yet, and the
 * next view makes it one. */
static bool may_lead(const struct dmi_member *m, const struct dmi_record *heir) {
  const struct dmi_peer *peer = dmi_member_find(m, heir->uid);
  return !m->env.survive || (peer && peer->voter);
}

/* Hands the role over as soon as this process's pages are elsewhere, so that its loss does no
 * harm soon. */
static bool hand_over(struct dmi_member *m, const struct dmi_record *self) {
  const struct dmi_record *heir;
  uint64_t ballot;
  if (self->life != DMI_LIFE_DRAINED) return false;
  if (self->busy && DMI_BROKEN(m, DMI_MBREAK_ROLE)) return false;
  heir = dmi_coord_heir(m->coord, m->uid);
  if (!heir) heir = dmi_coord_keeper(m->coord, m->uid);
  if (!heir || !may_lead(m, heir) || !may_change(m, &ballot)) return false;
  begin_handover(m, heir->uid, ballot);
  return true;
}

/* Begins to remove a process that has left and runs no user code. */
static bool send_out(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (c->records.at[i].life != DMI_LIFE_LEFT || c->records.at[i].busy) continue;
    dmi_coord_exit(m, &c->records.at[i]);
    return true;
  }
  return false;
}

bool dmi_coord_begin_change(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  struct dmi_record *self = dmi_coord_find(c, m->uid);
  struct dmi_record *leaver = NULL;
  uint64_t ballot;
  bool lost = false, free_to = c->removing == 0 || DMI_BROKEN(m, DMI_MBREAK_FLUSHED);
  if (c->removing == 0 && (hand_over(m, self) || send_out(m))) return true;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record->life == DMI_LIFE_LOST) lost = true;
    if (record == self || record->life != DMI_LIFE_DRAINED) continue;
    if (dmi_coord_is_heir(c, record->uid)) continue; /* the answer of its leaver names it */
    if (free_to && !leaver) leaver = record;
  }
  if (!leaver && !lost && c->joins.num == 0 && !voters_wait(m) && c->root_sets.num == 0 &&
      !c->survives.uid)
    return false;
  if (!may_change(m, &ballot)) return false;
  begin_view(m, leaver, ballot);
  return true;
}

/* ---- All have taken it --------------------------------------------------------------------- */

static void become_joined(struct dmi_member *m, struct dmi_record *record) {
  uint64_t limit = m->coord->reserve ? m->coord->reserve : m->coord->limit;
  dmi_record_move(record, DMI_LIFE_JOINED);
  dmi_member_send(m, record->uid, DMI_CTL_JOINED, limit, 0, NULL);
  /* A coordinator that was lost may have said so before: JOINED did not arrive, but the notice did.
   */
  if (!record->witness && !dmi_coord_has_got(m->coord, record->uid, DMI_OPEN))
    dmi_coord_notify(m, record, DMI_OPEN);
}

bool dmi_coord_on_taken(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_unpack body;
  uint64_t number;
  uint8_t last_request;
  dmi_unpack_init(&body, &msg->body);
  number = dmi_unpack_u64(&body);
  last_request = dmi_unpack_u8(&body);
  if (!dmi_unpack_done(&body) || last_request > 1) return false;
  if (m->env.survive && number < c->view) return true; /* STATE says it */
  /* one that was told to end: the agreement has given it the view, too */
  if (m->env.survive && number == c->view && record->life == DMI_LIFE_EXITING) return true;
  if (c->change == DMI_CHANGE_NONE || number != c->view || dmi_coord_recovers(c)) return false;
  if (!dmi_uid_set_drop(&c->awaits, record->uid)) return false;
  if (last_request) dmi_uid_set_add(&c->last_requests, record->uid);
  if (DMI_BROKEN(m, DMI_MBREAK_TAKEN) && record->life == DMI_LIFE_JOINING) become_joined(m, record);
  return true;
}

void dmi_coord_end_view(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  c->change = DMI_CHANGE_NONE;
  dmi_coord_root_taken(m);
  dmi_coord_survive_taken(m);
  dmi_coord_welcome_taken(m);
  for (uint32_t i = 0; i < c->records.num;) {
    struct dmi_record *record = &c->records.at[i];
    if (record->life == DMI_LIFE_JOINING) {
      become_joined(m, record);
    } else if (record->left && record->life == DMI_LIFE_DRAINED) {
      dmi_coord_flush(m, record);
    } else if (record->removed && record->life == DMI_LIFE_LOST) {
      dmi_record_move(record, DMI_LIFE_NONE);
      DMI_LIST_DROP(&c->records, i);
      continue;
    }
    i++;
  }
  dmi_uid_set_free(&c->last_requests);
}

/* Every message to us as coordinator has arrived, and nothing is in flight from us that was sent
 * after our VIEW, so the next coordinator can begin with exactly our state. */
static void end_handover(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  struct dmi_pack body;
  if (DMI_BROKEN(m, DMI_MBREAK_DEFER)) dmi_deferred_free(&c->deferred);
  if (DMI_BROKEN(m, DMI_MBREAK_POLLS)) c->polls.num = 0;
  dmi_coord_root_defer(c);
  dmi_pack_init(&body);
  dmi_coord_pack(&body, c);
  dmi_member_send(m, c->successor, DMI_CTL_COORD, 0, 0, &body);
  for (uint32_t i = 0; i < c->joins.num; i++) {
    dmi_member_redirect(m, c->joins.at[i].temp, c->successor);
  }
  dmi_coord_free(c);
  m->coord = NULL;
}

void dmi_coord_end_change(struct dmi_member *m) {
  if (m->coord->change == DMI_CHANGE_STATES) {
    dmi_coord_end_states(m);
  } else if (m->coord->change == DMI_CHANGE_READY) {
    dmi_coord_end_ready(m);
  } else if (m->coord->change == DMI_CHANGE_HANDOVER) {
    end_handover(m);
  } else {
    if (m->env.survive) m->env.survive->all_taken(m->env.survive_arg, m->coord->view);
    dmi_coord_end_view(m);
  }
}

/* ---- Becoming the coordinator -------------------------------------------------------------- */

void dmi_coord_replay(struct dmi_member *m, struct dmi_deferred_list *list) {
  for (uint32_t i = 0; i < list->num && m->coord; i++) {
    const struct dmi_msg *msg = &list->at[i].msg;
    if (msg->type == DMI_CTL_JOIN) {
      dmi_coord_on_join(m, list->at[i].from, msg);
    } else {
      dmi_coord_message(m, list->at[i].from, msg); /* malformed messages are dropped */
    }
  }
  dmi_deferred_free(list);
}

bool dmi_coord_on_handed(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_coord *c;
  struct dmi_deferred_list list;
  if (m->uid == 0) return false;
  dmi_unpack_init(&body, &msg->body);
  c = dmi_coord_unpack(&body);
  if (!c) return false;
  if (m->env.survive && c->view < m->view) { /* a crash view has come between */
    dmi_coord_free(c);
    return true;
  }
  if (m->coord || m->coordinator != m->uid || from != m->coordinator_before ||
      !dmi_coord_good(m, c)) {
    dmi_coord_free(c);
    return false;
  }
  m->handed_by = *dmi_member_find(m, from);
  m->coordinator_before = 0;
  m->coord = c;
  if (m->env.survive) m->env.survive->all_taken(m->env.survive_arg, m->coord->view);
  c->retry = true;
  dmi_coord_welcome_taken(m);
  list = c->deferred;
  memset(&c->deferred, 0, sizeof(c->deferred));
  dmi_coord_replay(m, &list);
  list = m->deferred;
  memset(&m->deferred, 0, sizeof(m->deferred));
  m->deferred_bytes = 0;
  dmi_coord_replay(m, &list);
  return true;
}
