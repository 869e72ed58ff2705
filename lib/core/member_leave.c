/*
 * member_leave.c - how a member leaves, and its part in the leaves of others.
 *
 * Happy path: LEAVE_ASK; LEAVE_GO(heir), STOP_THREADS, START_DRAIN, DRAIN_END to the heir and its
 * DRAIN_OK, DRAINED; the view in which it has left, FLUSH, LAST_REQUEST of all that may have sent
 * something, LAST_MESSAGE to all that may have got something, LAST_MESSAGE_OK, FLUSHED, LEFT; EXIT
 * when it is idle, EXITED, FINISH.
 */
#include "base/error.h"
#include "base/log.h"
#include "core/member_int.h"

void dmi_member_ask_leave(struct dmi_member *m) {
  if (m->phase != DMI_PHASE_JOINED) return; /* before JOINED it is only remembered */
  dmi_member_send(m, m->coordinator, DMI_CTL_LEAVE_ASK, 0, 0, NULL);
  dmi_mout_add(m->out, DMI_MACT_CLOSED);
}

const char *dmi_member_waits_for(const struct dmi_member *m) {
  switch (m->phase) {
    case DMI_PHASE_START:
    case DMI_PHASE_ASKING:
    case DMI_PHASE_ACCEPTED:
      return "joining is not complete";
    case DMI_PHASE_JOINED:
    case DMI_PHASE_STOPPING:
      if (m->stop) return "DMI_exit was called, but DMI_main or threads have not returned yet";
      if (!m->asked) return "this process was not asked to leave";
      if (m->env.witness) return "the others are being told";
      if (m->no_capacity) return "the other processes have no memory for its pages";
      if (m->stays)
        return "DMI_goodbye failed for this process, as DMI threads ran here (DMI_EBUSY; dmirun "
               "--threads shows those that do)";
      return dmi_member_losable(m)
                 ? "not welcomed yet (DMI_welcome), nor dismissed (DMI_goodbye) by the program"
                 : "the program has not dismissed this process yet (DMI_goodbye)";
    case DMI_PHASE_DRAINING:
    case DMI_PHASE_DRAIN_SENT:
      return "its pages are moving to another process";
    case DMI_PHASE_DRAINED:
      if (!m->heir) return "no other process can take its pages";
      return "the others are being told";
    case DMI_PHASE_LEFT:
      if (m->left && m->busy > 0)
        return "DMI_main still runs here; no other process needs this one";
      return "the others are being told";
    default:
      return "the last messages are on their way";
  }
}

/* The first process may own pages from the start, others from their welcome on. */
bool dmi_member_losable(const struct dmi_member *m) {
  if (DMI_BROKEN(m, DMI_MBREAK_LEFT) && m->phase >= DMI_PHASE_DRAINED && m->heir) return true;
  return m->left || (!m->first && !m->opened);
}

/* ---- LEAVE_GO to DRAINED ------------------------------------------------------------------- */

/* If the heir was lost while the threads stopped, LEAVE_GO follows with another one, or with none.
 */
static void start_drain(struct dmi_member *m) {
  dmi_member_move(m, DMI_PHASE_DRAINING);
  if (m->heir && !dmi_member_find(m, m->heir)) return;
  dmi_mout_add(m->out, DMI_MACT_START_DRAIN)->uid = m->heir;
}

bool dmi_member_on_leave_go(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  uint32_t heir;
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  heir = dmi_unpack_u32(&body);
  if (!dmi_unpack_done(&body) || heir == m->uid) return false;
  if (heir && !dmi_member_find(m, heir)) return m->crash != 0; /* it is lost: another follows */
  m->no_capacity = false;
  if (m->phase == DMI_PHASE_JOINED) {
    m->heir = heir;
    dmi_member_move(m, DMI_PHASE_STOPPING);
    dmi_mout_add(m->out, DMI_MACT_STOP_THREADS);
  } else if (m->phase == DMI_PHASE_DRAINED && m->heir == 0 && heir) {
    m->heir = heir; /* it kept its pages until now, when another process can take them */
    start_drain(m);
  } else if (m->env.survive && m->phase == DMI_PHASE_STOPPING) {
    m->heir = heir; /* the one before was lost */
  } else if (m->env.survive &&
             (m->phase == DMI_PHASE_DRAINING || m->phase == DMI_PHASE_DRAIN_SENT ||
              m->phase == DMI_PHASE_DRAINED)) {
    m->heir = heir;
    start_drain(m);
  } else {
    return false;
  }
  return true;
}

void dmi_member_leave_stopped(struct dmi_member *m, bool stopped) {
  if (m->phase != DMI_PHASE_STOPPING) return;
  if (stopped) {
    start_drain(m);
    return;
  }
  dmi_member_move(m, DMI_PHASE_JOINED);
  m->stays = true;
  dmi_member_send(m, m->coordinator, DMI_CTL_LEAVE_NO, m->heir, DMI_EBUSY, NULL);
}

/* A process that was already dismissed keeps its pages. */
void dmi_member_leave_no_capacity(struct dmi_member *m) {
  uint32_t heir = m->heir;
  if (m->phase != DMI_PHASE_DRAINING || !heir) return;
  m->heir = 0;
  m->no_capacity = true;
  if (!m->no_capacity_told) {
    dmi_member_tell(
        m,
        "waiting for memory: cannot leave yet, as the other processes have no memory for "
        "the pages of this one. Start one more process, or have the program free "
        "memory; then it leaves by itself");
  }
  m->no_capacity_told = true;
  dmi_member_move(m, m->left_shown ? DMI_PHASE_DRAINED : DMI_PHASE_JOINED);
  dmi_member_send(m, m->coordinator, DMI_CTL_LEAVE_NO, heir, DMI_ENOMEM, NULL);
}

void dmi_member_leave_retry_said(struct dmi_member *m) {
  if (!m->no_capacity) return;
  if (m->phase != DMI_PHASE_JOINED && m->phase != DMI_PHASE_DRAINED) return;
  dmi_member_send(m, m->coordinator, DMI_CTL_LEAVE_RETRY, 0, 0, NULL);
}

static void show_left(struct dmi_member *m) {
  if (!m->left_shown) dmi_mout_add(m->out, DMI_MACT_LEFT);
  m->left_shown = true;
}

static void send_drained(struct dmi_member *m) {
  struct dmi_pack body;
  uint32_t num = m->results_sent ? 0 : m->results.num;
  dmi_member_move(m, DMI_PHASE_DRAINED);
  dmi_pack_init(&body);
  dmi_pack_u32(&body, num);
  for (uint32_t i = 0; i < num; i++) {
    dmi_pack_u64(&body, m->results.at[i].seq);
    dmi_pack_u64(&body, m->results.at[i].value);
  }
  dmi_member_send(m, m->coordinator, DMI_CTL_DRAINED, m->heir, 0, &body);
  m->results_sent = true;
  if (!m->heir) show_left(m);
}

/* The heir receives everything sent to it before DRAIN_END, so its answer says that it has all
 * of it. */
void dmi_member_leave_drained(struct dmi_member *m, const struct dmi_ended *ended, uint32_t num) {
  if (m->phase != DMI_PHASE_DRAINING) return;
  for (uint32_t i = 0; i < num; i++)
    *DMI_LIST_ADD(&m->results) = ended[i];
  if (m->heir == 0) {
    send_drained(m);
    return;
  }
  dmi_member_move(m, DMI_PHASE_DRAIN_SENT);
  dmi_member_send(m, m->heir, DMI_CTL_DRAIN_END, 0, 0, NULL);
}

/* Handled at the heir. */
bool dmi_member_on_drain_end(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)msg;
  if (!dmi_member_find(m, from)) return false;
  dmi_member_send(m, from, DMI_CTL_DRAIN_OK, 0, 0, NULL);
  return true;
}

bool dmi_member_on_drain_ok(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)msg;
  if (m->phase == DMI_PHASE_ENDED) return true;
  if (m->phase != DMI_PHASE_DRAIN_SENT || from != m->heir) return false;
  send_drained(m);
  return true;
}

/* ---- FLUSH to EXITED --------------------------------------------------------------------------
 */

static void send_flushed(struct dmi_member *m) {
  dmi_member_move(m, DMI_PHASE_LEFT);
  dmi_member_send(m, m->coordinator, DMI_CTL_FLUSHED, 0, 0, NULL);
}

/* All have sent their last request: nothing will arrive any more that must be forwarded or
 * answered, so this process has sent everything that it had to send for others. */
static void send_last_message(struct dmi_member *m) {
  dmi_member_move(m, DMI_PHASE_LAST_MESSAGES);
  for (uint32_t i = 0; i < m->peers.num; i++) {
    uint32_t uid = m->peers.at[i].uid;
    if (uid == m->uid || !m->env.connected(m->env.arg, uid)) continue;
    dmi_member_send(m, uid, DMI_CTL_LAST_MESSAGE, 0, 0, NULL);
    dmi_uid_set_add(&m->awaits, uid);
  }
  if (m->awaits.num == 0) send_flushed(m);
}

/* Stops waiting for a member that has answered, or is lost. */
static void no_more_of(struct dmi_member *m, uint32_t uid) {
  if (!dmi_uid_set_drop(&m->awaits, uid) || m->awaits.num > 0) return;
  if (m->phase == DMI_PHASE_LAST_REQUESTS) {
    send_last_message(m);
  } else {
    send_flushed(m);
  }
}

bool dmi_member_on_flush(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  const struct dmi_peer *self = dmi_member_find(m, m->uid);
  struct dmi_unpack body;
  uint32_t num;
  (void)from;
  if (m->phase != DMI_PHASE_DRAINED || !self->left) return false;
  dmi_unpack_init(&body, &msg->body);
  num = dmi_unpack_count(&body, 4);
  for (uint32_t i = 0; i < num; i++) {
    uint32_t uid = dmi_unpack_u32(&body);
    if (dmi_member_crash_lost(m, uid)) continue;   /* the coordinator has not heard of it yet */
    if (!dmi_member_find(m, uid)) body.bad = true; /* its LAST_REQUEST would never arrive */
    if (!body.bad && !dmi_uid_set_has(&m->last_requests, uid)) dmi_uid_set_add(&m->awaits, uid);
  }
  if (!dmi_unpack_done(&body)) {
    dmi_uid_set_free(&m->awaits);
    return false;
  }
  dmi_member_move(m, DMI_PHASE_LAST_REQUESTS);
  if (DMI_BROKEN(m, DMI_MBREAK_LAST_REQUEST)) dmi_uid_set_free(&m->awaits);
  if (m->awaits.num == 0) send_last_message(m);
  return true;
}

bool dmi_member_on_last_request(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)msg;
  if (!dmi_member_find(m, from)) return false;
  if (m->phase != DMI_PHASE_DRAINED && m->phase != DMI_PHASE_LAST_REQUESTS) {
    return DMI_BROKEN(m, DMI_MBREAK_LAST_REQUEST);
  }
  dmi_uid_set_add(&m->last_requests, from);
  if (m->phase == DMI_PHASE_LAST_REQUESTS) no_more_of(m, from);
  return true;
}

/* The leaver has sent everything that it had to send for others. */
bool dmi_member_on_last_message(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  const struct dmi_peer *peer = dmi_member_find(m, from);
  (void)msg;
  if (!peer || !peer->left) return false;
  dmi_member_send(m, from, DMI_CTL_LAST_MESSAGE_OK, 0, 0, NULL);
  return true;
}

bool dmi_member_on_last_message_ok(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)msg;
  if (m->phase != DMI_PHASE_LAST_MESSAGES || !dmi_uid_set_has(&m->awaits, from)) return false;
  no_more_of(m, from);
  return true;
}

/* Stops waiting for a lost process. (If it was vital, the coordinator ends the program.) */
void dmi_member_leave_lost(struct dmi_member *m, uint32_t uid) {
  if (DMI_BROKEN(m, DMI_MBREAK_AWAITS)) return;
  if (m->phase == DMI_PHASE_LAST_REQUESTS || m->phase == DMI_PHASE_LAST_MESSAGES)
    no_more_of(m, uid);
}

bool dmi_member_on_left(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from, (void)msg;
  if (m->phase != DMI_PHASE_LEFT || m->left) return false;
  m->left = true;
  show_left(m);
  return true;
}

void dmi_member_leave_exit(struct dmi_member *m) {
  dmi_member_end_calls(m);
  dmi_member_send(m, m->coordinator, DMI_CTL_EXITED, 0, 0, NULL);
  dmi_member_leave_finish(m);
}

/* While the members recover from a loss they count on this one, too. */
bool dmi_member_on_exit(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from, (void)msg;
  if (m->phase != DMI_PHASE_LEFT || !m->left) return false;
  m->exits = m->crash != 0;
  if (!m->exits) dmi_member_leave_exit(m);
  return true;
}

/* ---- What the coordinator says beside ------------------------------------------------------ */

bool dmi_member_on_open(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from, (void)msg;
  if (m->phase < DMI_PHASE_JOINED || m->opened) return false;
  m->opened = true;
  dmi_mout_add(m->out, DMI_MACT_OPENED);
  dmi_member_send(m, m->coordinator, DMI_CTL_OPENED, 0, 0, NULL);
  return true;
}

bool dmi_member_on_abort(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  char text[DMI_TEXT_SIZE];
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  dmi_unpack_text(&body, text);
  if (!dmi_unpack_done(&body)) return false;
  dmi_log_printable(text);
  if (msg->member.error == DMI_OK) {
    dmi_member_fatal_lost(m, text);
  } else if (msg->member.error == DMI_EEND) {
    dmi_member_fatal_all(m, text);
  } else { /* only this process ends */
    dmi_member_fatal(m, text);
  }
  return true;
}
