/*
 * coord_leave.c - DMI_goodbye and the leave that it begins; the end of the program.
 */
#include "base/error.h"
#include "core/coord_int.h"

/* ---- Heirs --------------------------------------------------------------------------------- */

/* The heir of `but`: a vital member that is not dismissed; if possible one that has not asked to
 * leave; the smallest uid. */
struct dmi_record *dmi_coord_heir(const struct dmi_coord *c, uint32_t but) {
  struct dmi_record *closing = NULL;
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record->uid == but || !record->vital) continue;
    if (record->life == DMI_LIFE_OPENED || record->life == DMI_LIFE_JOINED) return record;
    if (record->life == DMI_LIFE_CLOSING && !closing) closing = record;
  }
  return closing;
}

/* If there is no heir: a member that keeps its pages, or is about to. */
struct dmi_record *dmi_coord_keeper(const struct dmi_coord *c, uint32_t but) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    if (record->uid == but || !record->vital) continue;
    if (record->life == DMI_LIFE_NO_HEIR) return record;
    if (record->life == DMI_LIFE_LEAVING && record->heir == 0) return record;
  }
  return NULL;
}

/* True if it is the heir of a leave in progress. */
bool dmi_coord_is_heir(const struct dmi_coord *c, dmi_uid_t uid) {
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    if (record->life == DMI_LIFE_LEAVING && record->heir == uid) return true;
  }
  return false;
}

/* ---- Leaving ------------------------------------------------------------------------------- */

void dmi_coord_leave_go(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_record *heir) {
  struct dmi_pack body;
  record->life = DMI_LIFE_LEAVING;
  record->heir = heir ? heir->uid : 0;
  record->no_capacity = false;
  record->capacity_changes = m->coord->capacity_changes;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, record->heir);
  dmi_member_send(m, record->uid, DMI_CTL_LEAVE_GO, 0, 0, &body);
}

static void begin_leave(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_record *heir) {
  dmi_record_move(record, DMI_LIFE_LEAVING);
  dmi_coord_leave_go(m, record, heir);
}

bool dmi_coord_on_goodbye(struct dmi_member *m, struct dmi_record *asker,
                          const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {asker->uid, msg->member.op};
  struct dmi_unpack body;
  struct dmi_record *record, *heir;
  dmi_id_t dmi_id;
  dmi_unpack_init(&body, &msg->body);
  dmi_id.n = dmi_unpack_u32(&body);
  if (!dmi_unpack_done(&body)) return false;
  record = dmi_coord_by_id(c, dmi_id);
  if (!record && (msg->flags & DMI_F_AGAIN) && dmi_coord_goodbye_again(m, &caller, dmi_id))
    return true;
  if (!record) {
    dmi_coord_answer(m, &caller, DMI_EMEMBER, NULL);
  } else if (record->life != DMI_LIFE_CLOSING) {
    bool asked = record->life >= DMI_LIFE_LEAVING;
    dmi_coord_answer(m, &caller,
                     DMI_WHY(DMI_ENOTASKED, asked ? DMI_WHY_GOODBYE : DMI_WHY_NOT_ASKED), NULL);
  } else if (record->welcome.uid ||
             (dmi_coord_is_heir(c, record->uid) && !DMI_BROKEN(m, DMI_MBREAK_HEIR))) {
    dmi_deferred_add(&c->blocked_calls, asker->uid, msg);
  } else {
    heir = dmi_coord_heir(c, record->uid);
    /* a process that owns nothing needs no vital heir */
    if (!heir && !record->vital) heir = dmi_coord_find(c, m->uid);
    record->goodbye = caller;
    begin_leave(m, record, heir);
  }
  return true;
}

/* A leave has ended, or a possible heir has come: tries blocked calls again. */
void dmi_coord_retry(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  struct dmi_deferred_list blocked_calls = c->blocked_calls;
  c->retry = false;
  memset(&c->blocked_calls, 0, sizeof(c->blocked_calls));
  for (uint32_t i = 0; i < blocked_calls.num; i++) {
    dmi_coord_message(m, blocked_calls.at[i].from, &blocked_calls.at[i].msg);
  }
  dmi_deferred_free(&blocked_calls);
  for (uint32_t i = 0; i < c->records.num; i++) {
    struct dmi_record *record = &c->records.at[i];
    struct dmi_record *heir;
    if (record->life != DMI_LIFE_NO_HEIR || record->no_capacity) continue;
    heir = dmi_coord_heir(c, record->uid);
    if (heir) begin_leave(m, record, heir);
  }
}

/* It found no capacity, and now there may be some. A process that keeps its pages is told to
 * leave; about another one the program gets a notice again, once for each refusal. */
static void capacity_for(struct dmi_member *m, struct dmi_record *record) {
  if (!record->no_capacity) return;
  record->no_capacity = false;
  if (record->life == DMI_LIFE_NO_HEIR) {
    m->coord->retry = true;
  } else if (!DMI_BROKEN(m, DMI_MBREAK_RETRY)) {
    dmi_coord_notify(m, record, DMI_CLOSE);
  }
}

/* Capacity may have become free: a process was welcomed, or a mapping was freed. */
void dmi_coord_leave_retry(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  c->capacity_changes++;
  for (uint32_t i = 0; i < c->records.num; i++)
    capacity_for(m, &c->records.at[i]);
}

bool dmi_coord_on_leave_ask(struct dmi_member *m, struct dmi_record *record,
                            const struct dmi_msg *msg) {
  if (msg->body.len > 0) return false;
  if (record->life != DMI_LIFE_JOINED && record->life != DMI_LIFE_OPENED) return false;
  dmi_record_move(record, DMI_LIFE_CLOSING);
  dmi_coord_closing(m, record);
  return true;
}

void dmi_coord_closing(struct dmi_member *m, struct dmi_record *record) {
  if (record->witness) { /* it owns nothing, so it needs no heir with memory */
    const struct dmi_record *heir = dmi_coord_heir(m->coord, record->uid);
    begin_leave(m, record, heir ? heir : dmi_coord_find(m->coord, m->uid));
  } else {
    dmi_coord_notify(m, record, DMI_CLOSE);
  }
}

/* The answers to LEAVE_GO name its heir.  Is it an answer to one that came before a crash, since
 * which the leaver has got another heir? */
static bool answers_before(const struct dmi_member *m, const struct dmi_record *record,
                           const struct dmi_msg *msg) {
  return m->env.survive && msg->member.op != record->heir;
}

/* The second time, after NO_HEIR, no DMI_goodbye waits for an answer; the leave is tried again
 * when there may be memory: dmi_coord_leave_retry. */
bool dmi_coord_on_leave_no(struct dmi_member *m, struct dmi_record *record,
                           const struct dmi_msg *msg) {
  /* One that does run threads was not dismissed: who called DMI_goodbye was lost. */
  bool orphan = m->env.survive && msg->member.error == DMI_EBUSY;
  bool dismissed = record->goodbye.uid == 0 && !orphan;
  if (answers_before(m, record, msg)) return true;
  if (record->life != DMI_LIFE_LEAVING || msg->member.op != record->heir || msg->body.len > 0)
    return false;
  if (msg->member.error != DMI_ENOMEM && (msg->member.error != DMI_EBUSY || dismissed))
    return false;
  dmi_record_move(record, dismissed ? DMI_LIFE_NO_HEIR : DMI_LIFE_CLOSING);
  record->heir = 0;
  record->no_capacity = msg->member.error == DMI_ENOMEM;
  dmi_coord_answer(m, &record->goodbye, msg->member.error, NULL);
  /* the members' answers may be older than that */
  if (record->capacity_changes != m->coord->capacity_changes && !DMI_BROKEN(m, DMI_MBREAK_RETRIED))
    capacity_for(m, record);
  m->coord->retry = true;
  return true;
}

bool dmi_coord_on_leave_retry(struct dmi_member *m, struct dmi_record *record,
                              const struct dmi_msg *msg) {
  if (msg->body.len > 0) return false;
  capacity_for(m, record);
  return true;
}

static bool has_result(const struct dmi_coord *c, dmi_uid_t uid, uint64_t seq) {
  for (uint32_t i = 0; i < c->results.num; i++)
    if (c->results.at[i].uid == uid && c->results.at[i].ended.seq == seq) return true;
  return false;
}

/* The results of its threads, which a leaver tells with its first DRAINED.  False: malformed. */
static bool take_results(struct dmi_coord *c, const struct dmi_record *record,
                         const struct dmi_msg *msg) {
  struct dmi_unpack body;
  uint32_t num, before = c->results.num;
  dmi_unpack_init(&body, &msg->body);
  num = dmi_unpack_count(&body, 16);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_result result = {.uid = record->uid};
    result.ended.seq = dmi_unpack_u64(&body);
    result.ended.value = dmi_unpack_u64(&body);
    if (!has_result(c, result.uid, result.ended.seq)) *DMI_LIST_ADD(&c->results) = result;
  }
  if (dmi_unpack_done(&body)) return true;
  c->results.num = before;
  return false;
}

bool dmi_coord_on_drained(struct dmi_member *m, struct dmi_record *record,
                          const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  if (answers_before(m, record, msg)) return take_results(c, record, msg);
  if (record->life != DMI_LIFE_LEAVING || msg->member.op != record->heir) return false;
  if (!take_results(c, record, msg)) return false;
  dmi_record_move(record, record->heir ? DMI_LIFE_DRAINED : DMI_LIFE_NO_HEIR);
  if (record->heir) dmi_directory_rename(c, record->uid, record->heir);
  if (!record->heir) dmi_coord_answer(m, &record->goodbye, DMI_OK, NULL);
  if (DMI_BROKEN(m, DMI_MBREAK_LEFT)) record->vital = false;
  c->retry = true;
  return true;
}

/* All have taken the view in which it has left: from now on no process sends it requests. */
void dmi_coord_flush(struct dmi_member *m, struct dmi_record *record) {
  struct dmi_coord *c = m->coord;
  struct dmi_pack body;
  dmi_record_move(record, DMI_LIFE_FLUSHING);
  c->removing = record->uid;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, c->last_requests.num);
  for (uint32_t i = 0; i < c->last_requests.num; i++)
    dmi_pack_u32(&body, c->last_requests.at[i]);
  dmi_member_send(m, record->uid, DMI_CTL_FLUSH, 0, 0, &body);
}

void dmi_coord_look_removing(struct dmi_coord *c) {
  c->removing = 0;
  for (uint32_t i = 0; i < c->records.num; i++) {
    enum dmi_life life = c->records.at[i].life;
    if (life == DMI_LIFE_FLUSHING || life == DMI_LIFE_EXITING) c->removing = c->records.at[i].uid;
  }
}

/* Everything that it had to forward or answer has arrived: from now on its loss does no harm. */
bool dmi_coord_on_flushed(struct dmi_member *m, struct dmi_record *record,
                          const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  if (record->life != DMI_LIFE_FLUSHING || (msg && msg->body.len > 0)) return false;
  dmi_record_move(record, DMI_LIFE_LEFT);
  record->vital = DMI_BROKEN(m, DMI_MBREAK_LOST);
  dmi_coord_look_removing(c);
  dmi_coord_answer(m, &record->goodbye, DMI_OK, NULL);
  dmi_member_send(m, record->uid, DMI_CTL_LEFT, 0, 0, NULL);
  return true;
}

/* No user code runs there any more: tells it to end. */
void dmi_coord_exit(struct dmi_member *m, struct dmi_record *record) {
  dmi_record_move(record, DMI_LIFE_EXITING);
  m->coord->removing = record->uid;
  dmi_coord_unpoll(m->coord, record->uid);
  dmi_member_send(m, record->uid, DMI_CTL_EXIT, 0, 0, NULL);
}

/* It has ended, or was lost shortly before. */
void dmi_coord_exited(struct dmi_member *m, struct dmi_record *record) {
  dmi_record_move(record, DMI_LIFE_LOST);
  record->heir = 0;
  record->busy = false;
  dmi_coord_look_removing(m->coord);
  dmi_directory_exited(m, record->uid);
}

bool dmi_coord_on_exited(struct dmi_member *m, struct dmi_record *record,
                         const struct dmi_msg *msg) {
  if (record->life != DMI_LIFE_EXITING || msg->body.len > 0) return false;
  dmi_coord_exited(m, record);
  return true;
}

/* ---- The end ------------------------------------------------------------------------------- */

/* True if no user code runs anywhere, and no message in flight could start any. (A DMI_create
 * keeps its caller busy until the coordinator knows that the process of the new thread is busy.) */
bool dmi_coord_may_end(const struct dmi_coord *c) {
  if (c->change != DMI_CHANGE_NONE || c->removing != 0) return false;
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (c->records.at[i].busy || c->records.at[i].life == DMI_LIFE_LOST) return false;
  }
  return true;
}

void dmi_coord_end(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  c->ending = true;
  dmi_coord_refuse_joins(m);
  for (uint32_t i = 0; i < c->records.num; i++) {
    dmi_member_send(m, c->records.at[i].uid, DMI_CTL_END, 0, 0, NULL);
  }
}

/* Sends FINISH to all when all have ended. */
void dmi_coord_ended(struct dmi_member *m, struct dmi_record *record) {
  struct dmi_coord *c = m->coord;
  record->ended = true;
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (!c->records.at[i].ended) return;
  }
  for (uint32_t i = 0; i < c->records.num; i++) {
    if (c->records.at[i].removed) continue; /* lost after END */
    dmi_member_send(m, c->records.at[i].uid, DMI_CTL_FINISH, 0, 0, NULL);
  }
}

/* The coordinator before has said END: there is no recovery. */
static bool hear_end(struct dmi_member *m, struct dmi_record *record) {
  struct dmi_coord *c = m->coord;
  if (!dmi_member_may_be_over(m)) return false;
  c->change = DMI_CHANGE_NONE;
  c->rebuilds = false;
  dmi_uid_set_free(&c->awaits);
  dmi_deferred_free(&c->deferred);
  record->ended = true;
  dmi_coord_end(m);
  return true;
}

/* ENDED: after END, or behind a crash view. */
bool dmi_coord_on_ended(struct dmi_member *m, struct dmi_record *record,
                        const struct dmi_msg *msg) {
  (void)msg;
  if (dmi_coord_recovers(m->coord)) return hear_end(m, record);
  if (!m->coord->ending) return false;
  if (record->ended) return m->env.survive; /* to this one as another crash view's coordinator */
  dmi_coord_ended(m, record);
  return true;
}
