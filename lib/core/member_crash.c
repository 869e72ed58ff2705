/*
 * member_crash.c - a member when others were lost: it takes what was agreed on, tells the
 * coordinator of that view its own state, and recovers when it is told how (docs/crashes.md, "A
 * member's life in a crash").
 *
 * A crash may come at any time, also while the one before is being recovered from: then all of this
 * begins anew.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/coord_int.h"

#define UIDS_AHEAD 1000u /* that a coordinator may have given to processes nobody knows of */

/* ---- What the agreement has to know ---------------------------------------------------------- */

static bool removes(const struct dmi_view_body *view, uint32_t uid, uint32_t *heir) {
  for (uint32_t i = 0; i < view->removed_num; i++) {
    *heir = view->removed[i].heir;
    if (view->removed[i].uid == uid) return true;
  }
  return false;
}

struct dmi_pulse_view dmi_member_pulse_view(const struct dmi_member *m,
                                            const struct dmi_view_body *view) {
  struct dmi_pulse_view pulse = {.number = view->number, .coordinator = view->coordinator};
  struct dmi_pulse_member *members =
      dmi_xalloc(m->peers.num + view->added_num + 1u, sizeof(*members));
  for (uint32_t i = 0; i < m->peers.num; i++) {
    const struct dmi_peer *peer = &m->peers.at[i];
    uint32_t heir = 0;
    bool gone = removes(view, peer->uid, &heir);
    if (gone && !heir) continue;
    members[pulse.num++] =
        (struct dmi_pulse_member){peer->uid, peer->voter && !gone, peer->witness};
  }
  for (uint32_t i = 0; i < view->added_num; i++) {
    const struct dmi_peer *peer = &view->added[i];
    uint32_t at = 0;
    while (at < pulse.num && members[at].uid != peer->uid)
      at++;
    if (at == pulse.num) pulse.num++;
    members[at] = (struct dmi_pulse_member){peer->uid, peer->voter, peer->witness};
    if (peer->tie) pulse.tie = peer->uid;
  }
  pulse.members = members;
  return pulse;
}

/* ---- Views that were agreed on ----------------------------------------------------------------
 */

/* It was deposed.  Who asked it to join asks the next one. */
static void give_up_role(struct dmi_member *m, uint32_t coordinator) {
  for (uint32_t i = 0; i < m->coord->joins.num; i++)
    dmi_member_redirect(m, m->coord->joins.at[i].temp, coordinator);
  dmi_coord_free(m->coord);
  m->coord = NULL;
}

static void take(struct dmi_member *m, struct dmi_view_body *view, bool crash) {
  const struct dmi_addr none = {{0}, 0};
  const struct dmi_peer *maker = dmi_member_find(m, view->coordinator);
  /* Who has joined may be known as that process sees it. */
  const struct dmi_addr by = maker ? maker->addr : none;
  uint32_t coordinator = view->coordinator;
  if (crash) m->crash = m->last_crash = view->number;
  if (!crash && coordinator != m->coordinator && m->coordinator != m->uid)
    m->hears_on = m->refused < view->number;
  dmi_view_take(m, view, &by);
  /* Each coordinator that knows nothing gives uids of its own, also if those of the one before were
   * given to processes that nobody knows.  A member that joined later was told the number (ACCEPT),
   * so all agree. */
  if (crash) m->next_uid += UIDS_AHEAD;
  if (crash && m->coord && coordinator != m->uid) give_up_role(m, coordinator);
}

static void take_agreed(struct dmi_member *m, const struct dmi_slice *body, bool crash) {
  struct dmi_view_body view = {0};
  struct dmi_unpack unpack;
  bool understood, known;
  dmi_unpack_init(&unpack, body);
  understood = dmi_view_unpack(&unpack, &view);
  known = view.number != m->view + 1; /* it came from the coordinator, too */
  if (!understood || (!known && !dmi_view_removed_good(m, &view))) {
    dmi_member_fatal(m, "the others have agreed on a view that this process does not understand");
  } else if (!known) {
    take(m, &view, crash);
  }
  dmi_view_free(&view);
}

/* 0: no correct process has agreed on it, which is found out when it is taken. */
static uint64_t number_of(const struct dmi_slice *view) {
  struct dmi_unpack unpack;
  dmi_unpack_init(&unpack, view);
  return dmi_unpack_u64(&unpack);
}

void dmi_member_agree(struct dmi_member *m, const struct dmi_slice *body, bool crash) {
  if (m->phase == DMI_PHASE_FINISHED || m->phase < DMI_PHASE_ACCEPTED) return;
  if (m->phase == DMI_PHASE_ENDED) {
    if (crash) dmi_member_over_crash(m, body);
  } else {
    struct dmi_agreed *agreed = DMI_LIST_ADD(&m->agreed);
    agreed->body = dmi_slice_xcopy(body->ptr, body->len);
    agreed->crash = crash;
    agreed->number = number_of(body);
    dmi_member_next_agreed(m);
  }
}

/* A join or leave overtakes, by the agreement, what its coordinator has said before it on the way
 * of the daemons: FORGET, so that this process would go on forwarding to one that has left; RESUME,
 * so that who joins would meet pages that drop its requests.  So it waits until the coordinator's
 * VIEW is here, too.  But if a crash view follows, all before it is taken: the coordinator may be
 * lost, and the recovery sees to all that it had said. */
static bool waits_for_view(const struct dmi_member *m) {
  for (uint32_t i = 0; i < m->agreed.num; i++) {
    if (m->agreed.at[i].crash) return false;
  }
  return m->refused < m->agreed.at[0].number;
}

void dmi_member_next_agreed(struct dmi_member *m) {
  while (m->agreed.num && !m->viewing && !waits_for_view(m)) {
    struct dmi_agreed agreed = m->agreed.at[0];
    DMI_LIST_DROP(&m->agreed, 0);
    take_agreed(m, &agreed.body, agreed.crash);
    dmi_slice_drop(&agreed.body);
  }
}

const struct dmi_queued *dmi_member_loss(const struct dmi_member *m, dmi_uid_t uid) {
  for (uint32_t i = 0; i < m->losses.num; i++) {
    if (m->losses.at[i].uid == uid) return &m->losses.at[i];
  }
  return NULL;
}

/* The view that is being taken removes it. */
void dmi_member_crash_removed(struct dmi_member *m, const struct dmi_peer *peer) {
  struct dmi_queued *queued;
  DMI_LIST_ADD(&m->lost)->uid = peer->uid;
  if (peer->left) return; /* it was none any more, for the program */
  queued = DMI_LIST_ADD(&m->losses);
  queued->uid = peer->uid;
  queued->witness = peer->witness;
  queued->notice.state = DMI_LOST;
  queued->notice.dmi_id = peer->dmi_id;
  queued->notice.uid = peer->uid;
  queued->notice.info = peer->info;
  /* It was welcomed, so its DMI_OPEN was given, perhaps to one that is lost, too. */
  if (peer->voter && !peer->witness) dmi_member_note_got(m, peer->uid, DMI_OPEN);
}

bool dmi_member_crash_lost(const struct dmi_member *m, uint32_t uid) {
  for (uint32_t i = 0; i < m->lost.num; i++) {
    if (m->lost.at[i].uid == uid) return true;
  }
  return false;
}

/* ---- STATE ----------------------------------------------------------------------------------- */

/* Once: DMI_CLOSE may be told again. */
void dmi_member_note_got(struct dmi_member *m, uint32_t uid, uint32_t state) {
  for (uint32_t i = 0; i < m->got.num; i++) {
    if (m->got.at[i].uid == uid && m->got.at[i].state == state) return;
  }
  *DMI_LIST_ADD(&m->got) = (struct dmi_got){uid, state};
}

void dmi_member_forget_got(struct dmi_member *m, uint32_t uid) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->got.num; i++) {
    if (m->got.at[i].uid != uid) m->got.at[kept++] = m->got.at[i];
  }
  m->got.num = kept;
}

static void send_state(struct dmi_member *m) {
  struct dmi_causes causes = {0};
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, m->view);
  dmi_pack_u8(&body, (uint8_t)m->phase);
  dmi_pack_u8(&body,
              (uint8_t)((m->opened ? DMI_STATE_OPENED : 0u) | (m->asked ? DMI_STATE_ASKED : 0u) |
                        (m->left ? DMI_STATE_LEFT : 0u) | (m->first ? DMI_STATE_FIRST : 0u) |
                        (m->no_capacity ? DMI_STATE_NO_CAPACITY : 0u)));
  dmi_pack_u32(&body, m->heir);
  dmi_pack_u32(&body, m->last_request_to);
  dmi_pack_u64(&body, m->ready > m->resumed ? m->ready : 0);
  dmi_pack_u64(&body, m->resumed);
  dmi_pack_u32(&body, m->lost.num);
  for (uint32_t i = 0; i < m->lost.num; i++) {
    dmi_pack_u32(&body, m->lost.at[i].uid);
    dmi_pack_u32(&body, m->lost.at[i].heir);
  }
  dmi_pack_u32(&body, m->got.num);
  for (uint32_t i = 0; i < m->got.num; i++) {
    dmi_pack_u32(&body, m->got.at[i].uid);
    dmi_pack_u32(&body, m->got.at[i].state);
  }
  dmi_causes_own(&causes, m);
  dmi_causes_pack(&body, &causes);
  dmi_causes_free(&causes);
  dmi_member_pack_state(m, &body);
  dmi_member_send(m, m->coordinator, DMI_CTL_STATE, 0, 0, &body);
}

/* Members that have taken a newer view than this process: what they say waits. */
bool dmi_member_is_early(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  bool early = false;
  if (!m->env.survive || from >= DMI_NET_TEMP || from == m->uid) return false;
  for (uint32_t i = 0; i < m->early.num; i++) {
    if (m->early.at[i].from == from) early = true;
  }
  dmi_unpack_init(&body, &msg->body);
  if (msg->type == DMI_CTL_STATE && dmi_unpack_u64(&body) > m->view) early = true;
  if (msg->type == DMI_CTL_ENDED && msg->member.op > m->view) early = true;
  if (early) dmi_deferred_add(&m->early, from, msg);
  return early;
}

void dmi_member_replay_early(struct dmi_member *m) {
  struct dmi_deferred_list list = m->early;
  memset(&m->early, 0, sizeof(m->early));
  for (uint32_t i = 0; i < list.num; i++)
    (void)dmi_member_handle(m, list.at[i].from, &list.at[i].msg); /* a malformed one is dropped */
  dmi_deferred_free(&list);
}

/* The coordinator of a crash view is not the one before: it may have led once and been deposed, and
 * what it said then may still be on its way.  What it says now begins with RECOVER, as it waits for
 * this process's STATE first; or END, which is true whenever it was said. */
bool dmi_member_is_late(const struct dmi_member *m, const struct dmi_msg *msg) {
  return m->unheard && msg->type != DMI_CTL_RECOVER && msg->type != DMI_CTL_END;
}

/* A coordinator that makes its state anew forgets what came before STATE; one that has it ignores
 * what is sent again. */
void dmi_member_crash_taken(struct dmi_member *m) {
  if (m->coordinator != m->coordinator_next || m->hears_on) {
    m->unheard = true;
    m->exits = false; /* that one says it again */
  }
  m->hears_on = false;
  m->refused = 0;
  m->coordinator = m->coordinator_next;
  m->coordinator_before = 0;
  if (m->coordinator == m->uid) dmi_coord_crash(m);
  send_state(m);
  dmi_member_calls_again(m);
  dmi_member_next_agreed(m);
  /* If another crash view waited, it is taken first, with what comes before it: END, of which what
   * was early may tell, must not come while a view is being taken. */
  if (!m->viewing) dmi_member_replay_early(m);
}

/* ---- RECOVER, RESUME --------------------------------------------------------------------------
 */

/* This process was READY before, and then came another loss: do its marks count? */
static void carry(struct dmi_member *m, uint64_t carried) {
  if (m->ready > m->resumed && m->ready <= carried) m->resumed = m->ready;
  m->ready = 0;
}

/* If another loss comes before RESUME, they stay the heirs. */
static void note_heirs(struct dmi_member *m, const struct dmi_mact *act) {
  for (uint32_t i = 0; i < act->removed_num; i++) {
    for (uint32_t k = 0; k < m->lost.num; k++) {
      if (m->lost.at[k].uid == act->removed[i].uid) m->lost.at[k].heir = act->removed[i].heir;
    }
  }
}

static void unpack_inherited(struct dmi_unpack *body, struct dmi_mact *act) {
  act->mapping_num = dmi_unpack_count(body, DMI_MAPPING_BYTES);
  act->mappings = dmi_xalloc(act->mapping_num + 1u, sizeof(*act->mappings));
  for (uint32_t i = 0; i < act->mapping_num; i++) {
    dmi_member_unpack_mapping(body, &act->mappings[i]);
    if (!dmi_member_mapping_good(&act->mappings[i])) body->bad = true;
  }
}

bool dmi_member_on_recover(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_mact *act;
  uint64_t number, carried, limit;
  uint32_t num;
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  number = dmi_unpack_u64(&body);
  carried = dmi_unpack_u64(&body);
  num = dmi_unpack_count(&body, 8);
  act = dmi_mout_add(m->out, DMI_MACT_RECOVER);
  act->op = number;
  act->value = carried;
  act->removed = dmi_xalloc(num + 1u, sizeof(*act->removed));
  act->removed_num = num;
  for (uint32_t i = 0; i < num; i++) {
    act->removed[i].uid = dmi_unpack_u32(&body);
    act->removed[i].heir = dmi_unpack_u32(&body);
    act->removed[i].lost = true;
    /* that of a recovery before this one may be lost */
    if (number == m->crash && !dmi_member_find(m, act->removed[i].heir)) body.bad = true;
  }
  limit = dmi_unpack_u64(&body);
  unpack_inherited(&body, act);
  if (dmi_unpack_done(&body) && number == m->crash) {
    m->unheard = false;
    carry(m, carried);
    note_heirs(m, act);
    if (limit > m->limit) m->limit = limit;
    return true;
  }
  free(act->removed);
  free(act->mappings);
  m->out->num--;
  return dmi_unpack_done(&body); /* of a recovery that begins anew */
}

/* What was said to this process because it was to be the coordinator, before the view made another
 * one that: all of it is here now (CUT), and that one has it in STATE, or was told it again.  If
 * this process gets the role later, it must not do it a second time.  Who asked to join asks that
 * one. */
static void forget_deferred(struct dmi_member *m) {
  struct dmi_deferred_list list = m->deferred;
  memset(&m->deferred, 0, sizeof(m->deferred));
  m->deferred_bytes = 0;
  for (uint32_t i = 0; i < list.num; i++) {
    if (list.at[i].from >= DMI_NET_TEMP) dmi_member_redirect(m, list.at[i].from, m->coordinator);
  }
  dmi_deferred_free(&list);
}

void dmi_member_crash_recovered(struct dmi_member *m, uint64_t number, uint64_t pages) {
  struct dmi_pack body;
  if (number != m->crash || m->phase >= DMI_PHASE_ENDED) return;
  if (!m->coord) forget_deferred(m);
  m->ready = number;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, number);
  dmi_member_send(m, m->coordinator, DMI_CTL_READY, pages, 0, &body);
}

/* Who was lost since the last RESUME, why, and `pages` with all of them together: the last one's
 * action has that number.  Not if the program ends for it. */
static void tell_losses(struct dmi_member *m, uint64_t pages, const struct dmi_causes *causes) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < m->peers.num; i++)
    num += !m->peers.at[i].left && !m->peers.at[i].witness;
  for (; m->losses_told < m->losses.num; m->losses_told++) {
    const struct dmi_notice *lost = &m->losses.at[m->losses_told].notice;
    const char *cause = dmi_causes_of(causes, lost->uid);
    struct dmi_mact *act;
    if (m->env.main_lost == DMI_MAIN_ENDS && !m->stop &&
        lost->uid == dmi_root_get(&m->roots, "", 0))
      continue;
    act = dmi_mout_add(m->out, DMI_MACT_LOST);
    act->notices = dmi_xalloc(1, sizeof(*act->notices));
    act->notices[0] = *lost;
    act->notice_num = 1;
    act->flag = m->losses.at[m->losses_told].witness;
    act->peer_num = num;
    if (cause) act->text = dmi_xalloc_text(cause);
    if (m->losses_told + 1 == m->losses.num) act->value = pages;
  }
}

static void resume(struct dmi_member *m, uint64_t number, uint64_t pages,
                   const struct dmi_causes *causes) {
  m->crash = 0;
  m->resumed = number;
  m->lost.num = 0;
  tell_losses(m, pages, causes);
  dmi_mout_add(m->out, DMI_MACT_RESUME);
  dmi_member_calls_later(m);
  if (m->coord) dmi_coord_main_lost(m);
}

bool dmi_member_on_resume(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_causes causes = {0};
  struct dmi_unpack body;
  uint64_t number;
  bool good;
  (void)from;
  dmi_unpack_init(&body, &msg->body);
  number = dmi_unpack_u64(&body);
  dmi_causes_unpack(&body, &causes, m);
  good = dmi_unpack_done(&body);
  if (good && number == m->crash) resume(m, number, msg->member.op, &causes);
  dmi_causes_free(&causes);
  return good;
}

void dmi_member_crash_resumed(struct dmi_member *m) {
  if (m->exits && !m->crash) dmi_member_leave_exit(m);
}
