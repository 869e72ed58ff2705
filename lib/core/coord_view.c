/*
 * coord_view.c - view changes: joiners in, one leaver and lost ones out; and handing the role
 * over.
 *
 * One change at a time.  VIEW to all, VIEW_TAKEN from all, then what follows from it.  At most one
 * member has left by a view and not parted yet, so it can forward to all that it knows.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/member_int.h"

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
  if (!dmi_unpack_done(&body)) return false;
  for (uint32_t i = 0; i < c->joins.num; i++) {
    if (c->joins.at[i].temp == temp) return false;
  }
  if (c->ending) {
    dmi_member_refuse(m, temp, "that program is ending");
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

/* ---- Packing a view ------------------------------------------------------------------------ */

static void pack_view(struct dmi_pack *pack, const struct dmi_coord *c, uint32_t coordinator,
                      const struct dmi_peer *added, uint32_t added_num,
                      const struct dmi_removed *removed, uint32_t removed_num) {
  dmi_pack_u64(pack, c->view);
  dmi_pack_u32(pack, coordinator);
  dmi_pack_u32(pack, added_num);
  for (uint32_t i = 0; i < added_num; i++)
    dmi_member_pack_peer(pack, &added[i]);
  dmi_pack_u32(pack, removed_num);
  for (uint32_t i = 0; i < removed_num; i++) {
    dmi_pack_u32(pack, removed[i].uid);
    dmi_pack_u32(pack, removed[i].heir);
    dmi_pack_u8(pack, removed[i].main);
  }
}

static dmi_id_t free_dmi_id(const struct dmi_coord *c) {
  for (dmi_id_t id = {0};; id.n++) {
    bool used = false;
    for (uint32_t i = 0; i < c->records.num; i++) {
      if (dmi_id_is(c->records.at[i].dmi_id, id)) used = true;
    }
    if (!used) return id;
  }
}

/* The waiting joiners become records; returns their peers. */
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

/* ACCEPT with the whole table: who stays, and who is new. */
static void send_accept(struct dmi_member *m, uint32_t uid, const struct dmi_peer *added,
                        uint32_t added_num) {
  struct dmi_coord *c = m->coord;
  struct dmi_pack body;
  uint32_t num = 0;
  struct dmi_peer *all = dmi_xalloc(m->peers.num + added_num, sizeof(*all));
  for (uint32_t i = 0; i < m->peers.num; i++) {
    const struct dmi_record *record = dmi_coord_find(c, m->peers.at[i].uid);
    if (!record || record->removed) continue;
    all[num] = m->peers.at[i];
    all[num++].left = record->left;
  }
  memcpy(all + num, added, added_num * sizeof(*all));
  num += added_num;
  dmi_pack_init(&body);
  dmi_pack_raw(&body, m->program_id, sizeof(m->program_id));
  dmi_pack_u32(&body, uid);
  pack_view(&body, c, m->uid, all, num, NULL, 0);
  free(all);
  dmi_member_send(m, uid, DMI_CTL_ACCEPT, 0, 0, &body);
}

/* ---- Beginning a change -------------------------------------------------------------------- */

static void send_view(struct dmi_member *m, uint32_t coordinator, const struct dmi_peer *added,
                      uint32_t added_num, const struct dmi_removed *removed, uint32_t removed_num) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    struct dmi_pack body;
    if (record->removed || record->life == DMI_LIFE_EXITING || record->life == DMI_LIFE_LOST)
      continue;
    dmi_uid_set_add(&c->awaits, record->uid);
    if (record->life == DMI_LIFE_JOINING) {
      send_accept(m, record->uid, added, added_num);
      continue;
    }
    dmi_pack_init(&body);
    pack_view(&body, c, coordinator, added, added_num, removed, removed_num);
    dmi_member_send(m, record->uid, DMI_CTL_VIEW, 0, 0, &body);
  }
}

static void begin_handover(struct dmi_member *m, uint32_t successor) {
  struct dmi_coord *c = m->coord;
  c->change = DMI_CHANGE_HANDOVER;
  c->successor = successor;
  c->view++;
  send_view(m, successor, NULL, 0, NULL, 0);
}

static void begin_view(struct dmi_member *m, struct dmi_record *leaver) {
  struct dmi_coord *c = m->coord;
  uint32_t added_num, removed_num = 0;
  struct dmi_peer *added;
  struct dmi_removed *removed = dmi_xalloc(c->records.num + 1u, sizeof(*removed));
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record != leaver && record->life != DMI_LIFE_LOST) continue;
    record->left = true;
    record->removed = record != leaver;
    removed[removed_num].uid = record->uid;
    removed[removed_num].main = record->main;
    removed[removed_num++].heir = record == leaver ? record->heir : 0;
  }
  if (leaver) {
    for (uint32_t i = 0; i < c->records.num; i++) {
      if (c->records.at[i].heir == leaver->uid) c->records.at[i].heir = leaver->heir;
    }
  }
  c->change = DMI_CHANGE_VIEW;
  c->view++;
  added = admit(m, &added_num); /* may move the records */
  send_view(m, m->uid, added, added_num, removed, removed_num);
  free(added);
  free(removed);
}

/* As soon as its pages are elsewhere: then this process may soon be lost. */
static bool hand_over(struct dmi_member *m, const struct dmi_record *self) {
  const struct dmi_record *heir;
  if (self->life != DMI_LIFE_DRAINED) return false;
  if (self->busy && DMI_BROKEN(m, DMI_MBREAK_ROLE)) return false;
  heir = dmi_coord_heir(m->coord, m->uid);
  if (!heir) heir = dmi_coord_keeper(m->coord, m->uid);
  if (heir) begin_handover(m, heir->uid);
  return heir != NULL;
}

/* One that has left, and where no user code runs. */
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
  bool lost = false, free_to = c->removing == 0 || DMI_BROKEN(m, DMI_MBREAK_FLUSHED);
  if (c->removing == 0 && (hand_over(m, self) || send_out(m))) return true;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record->life == DMI_LIFE_LOST) lost = true;
    if (record == self || record->life != DMI_LIFE_DRAINED) continue;
    if (free_to && !leaver) leaver = record;
  }
  if (!leaver && !lost && c->joins.num == 0) return false;
  begin_view(m, leaver);
  return true;
}

/* ---- All have taken it --------------------------------------------------------------------- */

static void become_joined(struct dmi_member *m, struct dmi_record *record) {
  dmi_record_move(record, DMI_LIFE_JOINED);
  dmi_member_send(m, record->uid, DMI_CTL_JOINED, 0, 0, NULL);
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
  if (c->change == DMI_CHANGE_NONE || number != c->view) return false;
  if (!dmi_uid_set_drop(&c->awaits, record->uid)) return false;
  if (last_request) dmi_uid_set_add(&c->last_requests, record->uid);
  if (DMI_BROKEN(m, DMI_MBREAK_TAKEN) && record->life == DMI_LIFE_JOINING) become_joined(m, record);
  return true;
}

static void end_view(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  c->change = DMI_CHANGE_NONE;
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

/* All that was sent to us as coordinator is here, and nothing is on its way from us that was sent
 * after our VIEW: the next one can begin with exactly our state. */
static void end_handover(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  struct dmi_pack body;
  if (DMI_BROKEN(m, DMI_MBREAK_DEFER)) dmi_deferred_free(&c->deferred);
  if (DMI_BROKEN(m, DMI_MBREAK_POLLS)) c->polls.num = 0;
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
  if (m->coord->change == DMI_CHANGE_HANDOVER) {
    end_handover(m);
  } else {
    end_view(m);
  }
}

/* ---- Becoming the coordinator -------------------------------------------------------------- */

static void replay(struct dmi_member *m, struct dmi_deferred_list *list) {
  for (uint32_t i = 0; i < list->num && m->coord; i++) {
    const struct dmi_msg *msg = &list->at[i].msg;
    if (msg->type == DMI_CTL_JOIN) {
      dmi_coord_on_join(m, list->at[i].from, msg);
    } else {
      dmi_coord_message(m, list->at[i].from, msg); /* a malformed one is dropped */
    }
  }
  dmi_deferred_free(list);
}

bool dmi_coord_on_handed(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_coord *c;
  struct dmi_deferred_list list;
  if (m->coord || m->uid == 0 || m->coordinator != m->uid || from != m->coordinator_before) {
    return false;
  }
  dmi_unpack_init(&body, &msg->body);
  c = dmi_coord_unpack(&body);
  if (!c) return false;
  if (!dmi_coord_good(m, c)) {
    dmi_coord_free(c);
    return false;
  }
  m->handed_by = *dmi_member_find(m, from);
  m->coordinator_before = 0;
  m->coord = c;
  c->retry = true;
  list = c->deferred;
  memset(&c->deferred, 0, sizeof(c->deferred));
  replay(m, &list);
  list = m->deferred;
  memset(&m->deferred, 0, sizeof(m->deferred));
  m->deferred_bytes = 0;
  replay(m, &list);
  return true;
}
