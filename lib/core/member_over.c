/*
 * member_over.c - the end of the program: END, ENDED, FINISH; and if a process is lost before all
 * have heard of it (docs/crashes.md, "The end").
 *
 * END is said when no user code runs anywhere, so nothing can begin again: whoever has heard END
 * knows that the program is over for all.  A crash view that finds such a member is no recovery.
 * Its members tell the coordinator (ENDED), and that one tells those that have not heard of it.
 */
#include <stdlib.h>

#include "core/coord_int.h"

/* ---- END, FINISH ----------------------------------------------------------------------------- */

/* Could the program be over, as far as this process knows? */
bool dmi_member_may_be_over(const struct dmi_member *m) {
  if (m->phase < (m->env.survive ? DMI_PHASE_ACCEPTED : DMI_PHASE_JOINED)) return false;
  if (m->phase > DMI_PHASE_LEFT) return false;
  if (m->phase == DMI_PHASE_LAST_REQUESTS || m->phase == DMI_PHASE_LAST_MESSAGES) return false;
  return !m->busy_told; /* else user code runs, and the coordinator knows it */
}

static void send_ended(struct dmi_member *m) {
  dmi_member_send(m, m->coordinator, DMI_CTL_ENDED, m->view, 0, NULL);
}

bool dmi_member_on_end(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from, (void)msg;
  if (m->phase == DMI_PHASE_ENDED) return m->env.survive; /* the one before has said it, too */
  if (!dmi_member_may_be_over(m)) return false;
  m->unheard = false;
  dmi_member_end_calls(m);
  dmi_member_move(m, DMI_PHASE_ENDED);
  send_ended(m);
  return true;
}

void dmi_member_leave_finish(struct dmi_member *m) {
  dmi_mout_add(m->out, DMI_MACT_EXPECT_CLOSE);
  dmi_mout_add(m->out, DMI_MACT_FINISH);
  dmi_member_move(m, DMI_PHASE_FINISHED);
}

bool dmi_member_on_finish(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from, (void)msg;
  if (m->phase != DMI_PHASE_ENDED) return false;
  dmi_member_leave_finish(m);
  return true;
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* With dead_after 0 nobody is dead for silence, or for a connection that broke, and leases do not
 * end: the agreement might never tell what follows. */
static bool agrees_on_losses(const struct dmi_member *m) {
  return m->env.survive && m->env.settings.dead_after > 0;
}

/* Without `survive` the coordinator hears of it as ever (LOST). */
bool dmi_member_over_lost(struct dmi_member *m, dmi_uid_t uid) {
  struct dmi_record *record;
  if (m->phase != DMI_PHASE_ENDED || agrees_on_losses(m)) return false;
  if (m->coord && !m->env.survive) return false;
  if (!m->coord) { /* that process should have said FINISH */
    if (uid == m->coordinator) dmi_member_leave_finish(m);
    return true;
  }
  record = dmi_coord_find(m->coord, uid);
  if (record) record->removed = true; /* it gets no FINISH */
  if (record && !record->ended) dmi_coord_ended(m, record);
  return true;
}

/* It has nobody left to agree with, or is removed. */
void dmi_member_alone(struct dmi_member *m, const char *why) {
  if (m->phase == DMI_PHASE_ENDED) {
    dmi_member_leave_finish(m);
  } else {
    dmi_member_fatal(m, why);
  }
}

static void forget_lost(struct dmi_member *m, const struct dmi_view_body *view) {
  for (uint32_t i = 0; i < view->removed_num; i++) {
    const struct dmi_peer *peer = dmi_member_find(m, view->removed[i].uid);
    DMI_LIST_DROP(&m->peers, peer - m->peers.at);
  }
}

/* A crash view, in phase ENDED. */
void dmi_member_over_crash(struct dmi_member *m, const struct dmi_slice *body) {
  struct dmi_view_body view = {0};
  struct dmi_unpack unpack;
  dmi_unpack_init(&unpack, body);
  if (!dmi_view_unpack(&unpack, &view) || !dmi_view_removed_good(m, &view)) {
    dmi_view_free(&view);
    dmi_member_leave_finish(m); /* of a faulty process; the program is over in any case */
    return;
  }
  forget_lost(m, &view);
  m->view = view.number;
  m->crash = 0;
  m->unheard = false;
  m->coordinator = m->coordinator_next = view.coordinator;
  dmi_view_free(&view);
  if (m->coordinator == m->uid) {
    dmi_coord_over(m);
  } else {
    dmi_coord_free(m->coord);
    m->coord = NULL;
    send_ended(m);
  }
  dmi_member_replay_early(m);
}
