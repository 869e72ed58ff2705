/*
 * coord_notice.c - notices and the calls that wait for them, DMI_welcome, DMI_nodes.
 */
#include "base/error.h"
#include "core/coord_int.h"

static void fill_notice(struct dmi_notice *notice, const struct dmi_record *record,
                        uint32_t state) {
  memset(notice, 0, sizeof(*notice));
  notice->state = state;
  notice->dmi_id = record->dmi_id;
  notice->uid = record->uid;
  notice->info = record->info;
}

/* Gives the oldest notice to the caller that has waited longest, while there are both. */
void dmi_coord_deliver(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  while (c->notices.num > 0 && c->polls.num > 0) {
    struct dmi_caller caller = c->polls.at[0];
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u32(&body, 1);
    dmi_notice_pack(&body, &c->notices.at[0].notice);
    if (m->env.survive) {
      struct dmi_given *given = DMI_LIST_ADD(&c->given);
      given->caller = caller;
      given->queued = c->notices.at[0];
    }
    DMI_LIST_DROP(&c->polls, 0);
    DMI_LIST_DROP(&c->notices, 0);
    dmi_coord_answer(m, &caller, DMI_OK, &body);
  }
}

void dmi_coord_notify(struct dmi_member *m, const struct dmi_record *record, uint32_t state) {
  struct dmi_queued *queued = DMI_LIST_ADD(&m->coord->notices);
  queued->uid = record->uid;
  fill_notice(&queued->notice, record, state);
  dmi_coord_deliver(m);
}

void dmi_coord_notify_lost(struct dmi_member *m, const struct dmi_queued *lost) {
  *DMI_LIST_ADD(&m->coord->notices) = *lost;
  dmi_coord_deliver(m);
}

void dmi_coord_unpoll(struct dmi_coord *c, uint32_t uid) {
  for (uint32_t i = c->polls.num; i-- > 0;) {
    if (c->polls.at[i].uid == uid) DMI_LIST_DROP(&c->polls, i);
  }
}

void dmi_coord_unnotify(struct dmi_coord *c, uint32_t uid) {
  dmi_coord_unpoll(c, uid);
  for (uint32_t i = c->notices.num; i-- > 0;) {
    if (c->notices.at[i].uid == uid && c->notices.at[i].notice.state != DMI_NOTE)
      DMI_LIST_DROP(&c->notices, i);
  }
}

/* POLL, PEEK */
bool dmi_coord_on_poll(struct dmi_member *m, struct dmi_record *record, const struct dmi_msg *msg) {
  struct dmi_caller caller = {record->uid, msg->member.op};
  if (msg->body.len > 0) return false;
  if (dmi_coord_stops(m)) {
    dmi_coord_answer(m, &caller, DMI_EEND, NULL);
    return true;
  }
  if (msg->type == DMI_CTL_PEEK && m->coord->notices.num == 0) {
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u32(&body, 0);
    dmi_coord_answer(m, &caller, DMI_OK, &body);
    return true;
  }
  /* If there is a notice, no caller waits; otherwise this caller is the last in the queue. */
  *DMI_LIST_ADD(&m->coord->polls) = caller;
  dmi_coord_deliver(m);
  return true;
}

/* True if the program sees it as a member. From a successful DMI_goodbye on it is none, however
 * long its removal takes, its DMI_main runs, or its pages are kept. (In LEAVING for the second
 * time, after NO_HEIR, no goodbye waits for an answer.) */
static bool listed(const struct dmi_record *record) {
  if (record->witness) return false;
  if (record->life == DMI_LIFE_LEAVING || record->life == DMI_LIFE_DRAINED ||
      record->life == DMI_LIFE_FLUSHING) {
    return record->goodbye.uid != 0;
  }
  return record->life >= DMI_LIFE_JOINED && record->life < DMI_LIFE_LEAVING;
}

struct dmi_record *dmi_coord_by_id(const struct dmi_coord *c, dmi_id_t dmi_id) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (dmi_id_is(record->dmi_id, dmi_id) && listed(record)) return record;
  }
  return NULL;
}

/* Other processes with a vote, in the view that this one has taken. */
static uint32_t candidates(const struct dmi_member *m) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < m->peers.num; i++) {
    const struct dmi_peer *peer = &m->peers.at[i];
    num += peer->uid != m->uid && peer->voter && !peer->witness && !peer->left;
  }
  return num;
}

/* With `survive`: does the program survive the loss of any process from now on?  So it does if two
 * others have a vote, as without any one those that are left are a quorum.  Until then this one has
 * to have a vote itself, and a lease.  (Each vote takes a view of its own, so not all that are
 * welcomed one after the other wait for theirs.) */
static bool may_go_on(struct dmi_member *m, const struct dmi_record *record) {
  const struct dmi_peer *peer = dmi_member_find(m, record->uid);
  if (!m->env.survive || record->left) return true;
  if (m->coord->candidates >= 2 && candidates(m) >= 2) return true;
  if (DMI_BROKEN(m, DMI_MBREAK_VOTE)) return true;
  if (!peer || !peer->voter) return false;
  if (m->coord->change != DMI_CHANGE_NONE)
    return false; /* perhaps others do not know of its vote */
  return DMI_BROKEN(m, DMI_MBREAK_LEASE) || m->env.survive->leased(m->env.survive_arg, record->uid);
}

/* Answers DMI_welcome, if it is complete. */
static void end_welcome(struct dmi_member *m, struct dmi_record *record) {
  if (!record->welcomed || !record->welcome.uid || !may_go_on(m, record)) return;
  dmi_coord_answer(m, &record->welcome, DMI_OK, NULL);
  m->coord->retry = true; /* a DMI_goodbye may wait for this */
}

void dmi_coord_welcome_look(struct dmi_member *m) {
  for (uint32_t i = 0; i < m->coord->records.num; i++)
    end_welcome(m, &m->coord->records.at[i]);
}

void dmi_coord_welcome_taken(struct dmi_member *m) {
  m->coord->candidates = candidates(m);
  dmi_coord_welcome_look(m);
}

/* Also for a process that has asked to leave already, because each DMI_OPEN notice can be
 * answered by a successful welcome. The caller gets its answer when the process knows of the
 * welcome, so that it accepts threads from then on; and, with `survive`, when the program
 * survives the loss of any process from then on. */
bool dmi_coord_on_welcome(struct dmi_member *m, struct dmi_record *asker,
                          const struct dmi_msg *msg) {
  struct dmi_caller caller = {asker->uid, msg->member.op};
  struct dmi_unpack body;
  struct dmi_record *record;
  dmi_id_t dmi_id;
  dmi_unpack_init(&body, &msg->body);
  dmi_id.n = dmi_unpack_u32(&body);
  if (!dmi_unpack_done(&body)) return false;
  record = dmi_coord_by_id(m->coord, dmi_id);
  if (!record) {
    dmi_coord_answer(m, &caller, DMI_EMEMBER, NULL);
    return true;
  }
  if (record->welcomed && (msg->flags & DMI_F_AGAIN)) { /* by the coordinator that was lost */
    if (record->welcome.uid) { /* and so is another one's, of which it is not known who was first */
      dmi_deferred_add(&m->coord->blocked_calls, asker->uid, msg);
    } else {
      record->welcome = caller;
      end_welcome(m, record);
    }
    return true;
  }
  if (record->welcomed || record->welcome.uid ||
      (record->life != DMI_LIFE_JOINED && record->life != DMI_LIFE_CLOSING)) {
    bool before = record->welcomed || record->welcome.uid;
    dmi_coord_answer(m, &caller,
                     DMI_WHY(DMI_ENOTASKED, before ? DMI_WHY_WELCOMED : DMI_WHY_GOODBYE), NULL);
    return true;
  }
  record->welcome = caller;
  dmi_member_send(m, record->uid, DMI_CTL_OPEN, 0, 0, NULL);
  if (DMI_BROKEN(m, DMI_MBREAK_OPENED)) {
    dmi_coord_answer(m, &caller, DMI_OK, NULL);
  }
  return true;
}

bool dmi_coord_on_opened(struct dmi_member *m, struct dmi_record *record,
                         const struct dmi_msg *msg) {
  (void)msg;
  if (record->welcomed || !record->welcome.uid) return false;
  record->welcomed = record->vital = true;
  if (record->life == DMI_LIFE_JOINED) dmi_record_move(record, DMI_LIFE_OPENED);
  if (DMI_BROKEN(m, DMI_MBREAK_OPENED)) {
    record->welcome.uid = 0;
  } else {
    end_welcome(m, record);
  }
  m->coord->retry = true; /* a call may wait for an heir */
  dmi_coord_leave_retry(m);
  return true;
}

bool dmi_coord_on_nodes(struct dmi_member *m, struct dmi_record *asker, const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {asker->uid, msg->member.op};
  struct dmi_pack body;
  struct dmi_pack nodes;
  uint32_t num = 0;
  if (msg->body.len > 0) return false;
  dmi_pack_init(&nodes);
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    struct dmi_notice notice;
    uint32_t state = record->life == DMI_LIFE_JOINED   ? DMI_OPEN
                     : record->life == DMI_LIFE_OPENED ? DMI_OPENED
                                                       : DMI_CLOSE;
    if (!listed(record)) continue;
    fill_notice(&notice, record, state);
    dmi_notice_pack(&nodes, &notice);
    num++;
  }
  dmi_pack_init(&body);
  dmi_pack_u32(&body, num);
  dmi_pack_raw(&body, nodes.bytes, nodes.len);
  dmi_pack_free(&nodes);
  dmi_coord_answer(m, &caller, DMI_OK, &body);
  return true;
}
