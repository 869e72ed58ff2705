/*
 * member_view.c - taking views.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/member_int.h"

void dmi_view_free(struct dmi_view_body *view) {
  free(view->added);
  free(view->removed);
  dmi_root_free(&view->roots);
  memset(view, 0, sizeof(*view));
}

/* Reads the rest of an ACCEPT or VIEW. False: malformed, and nothing is allocated. */
bool dmi_view_unpack(struct dmi_unpack *unpack, struct dmi_view_body *view) {
  uint8_t flags;
  memset(view, 0, sizeof(*view));
  view->number = dmi_unpack_u64(unpack);
  view->coordinator = dmi_unpack_u32(unpack);
  view->added_num = dmi_unpack_count(unpack, DMI_PEER_BYTES);
  view->added = dmi_xalloc(view->added_num + 1u, sizeof(*view->added));
  for (uint32_t i = 0; i < view->added_num; i++)
    dmi_member_unpack_peer(unpack, &view->added[i]);
  view->removed_num = dmi_unpack_count(unpack, DMI_REMOVED_BYTES);
  view->removed = dmi_xalloc(view->removed_num + 1u, sizeof(*view->removed));
  for (uint32_t i = 0; i < view->removed_num; i++) {
    view->removed[i].uid = dmi_unpack_u32(unpack);
    view->removed[i].heir = dmi_unpack_u32(unpack);
    flags = dmi_unpack_u8(unpack);
    if (flags > 3) unpack->bad = true;
    view->removed[i].main = flags & 1;
    view->removed[i].lost = flags & 2;
  }
  if (unpack->left) dmi_root_unpack(unpack, &view->roots);
  if (unpack->left && !unpack->bad) dmi_survive_unpack(unpack, view);
  if (dmi_unpack_done(unpack)) return true;
  dmi_view_free(view);
  return false;
}

static void add_peer(struct dmi_member *m, const struct dmi_peer *peer, bool connected) {
  struct dmi_mact *act;
  *DMI_LIST_ADD(&m->peers) = *peer;
  if (peer->uid == m->uid || connected) return;
  act = dmi_mout_add(m->out, DMI_MACT_ADD_PEER);
  act->uid = peer->uid;
  act->addr = peer->addr;
}

static void tell_lost(struct dmi_member *m, const struct dmi_peer *peer) {
  char text[DMI_NAME_TEXT + 200], name[DMI_NAME_TEXT];
  dmi_info_name(name, peer->dmi_id, &peer->info);
  snprintf(text, sizeof(text),
           "lost %s, which had left the program, and with it DMI_main: the program goes on "
           "without it, until no thread runs any more",
           name);
  dmi_member_tell(m, text);
}

static void remove_peer(struct dmi_member *m, const struct dmi_removed *removed) {
  struct dmi_peer *peer = dmi_member_find(m, removed->uid);
  if (removed->heir) {
    peer->left = true;
    peer->voter = false;
    dmi_member_calls_left(m, peer);
    if (m->heir == removed->uid) m->heir = removed->heir; /* also in name, for STATE */
    if (removed->uid != m->uid) dmi_uid_set_add(&m->viewing_left, removed->uid);
    return;
  }
  if (removed->main) tell_lost(m, peer);
  if (removed->lost) dmi_member_crash_removed(m, peer);
  /* Only a loss is told later; and its own notes this process would have to tell again itself. */
  if (!removed->lost || peer->left) dmi_member_forget_got(m, removed->uid);
  DMI_LIST_DROP(&m->peers, peer - m->peers.at);
  dmi_uid_set_add(&m->viewing_lost, removed->uid);
}

/* Adds and removes members. The caller does its part at VIEW and answers. The lists of `view`
 * move into the action. */
void dmi_view_take(struct dmi_member *m, struct dmi_view_body *view,
                   const struct dmi_addr *coordinator) {
  struct dmi_mact *act;
  for (uint32_t i = 0; i < view->added_num; i++) {
    struct dmi_peer *peer = &view->added[i], *known = dmi_member_find(m, peer->uid);
    if (m->next_uid <= peer->uid) m->next_uid = peer->uid + 1;
    if (known) { /* it is a voter now */
      known->voter = true;
      view->added[i--] = view->added[--view->added_num];
      continue;
    }
    peer->addr = dmi_member_addr_resolve(&peer->addr, coordinator);
    if (peer->uid == m->uid) {
      peer->addr = m->own;
    }
    /* The connection that accepted this process, or was accepted here, got its uid by RENAME. */
    add_peer(m, peer, m->coordinator == m->uid || peer->uid == m->coordinator);
  }
  for (uint32_t i = 0; i < view->removed_num; i++)
    remove_peer(m, &view->removed[i]);
  dmi_root_change(&m->roots, &view->roots);
  m->view = view->number;
  m->coordinator_next = view->coordinator;
  m->viewing = true;
  act = dmi_mout_add(m->out, DMI_MACT_VIEW);
  act->flag = m->crash == view->number;
  act->peers = view->added;
  act->peer_num = view->added_num;
  act->removed = view->removed;
  act->removed_num = view->removed_num;
  view->added = NULL;
  view->removed = NULL;
  dmi_member_stop_look(m);
}

static int by_uid(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Are these different processes?  Sorts them, and frees the array. */
static bool uids_good(uint32_t *uid, uint32_t num) {
  bool good = true;
  qsort(uid, num, sizeof(*uid), by_uid);
  for (uint32_t i = 0; i < num; i++) {
    if (uid[i] == 0 || uid[i] >= DMI_NET_TEMP || (i > 0 && uid[i] == uid[i - 1])) good = false;
  }
  free(uid);
  return good;
}

bool dmi_view_peers_good(const struct dmi_view_body *view) {
  uint32_t *uid = dmi_xalloc(view->added_num, sizeof(*uid));
  for (uint32_t i = 0; i < view->added_num; i++)
    uid[i] = view->added[i].uid;
  return uids_good(uid, view->added_num);
}

bool dmi_view_removed_good(const struct dmi_member *m, const struct dmi_view_body *view) {
  uint32_t *uid = dmi_xalloc(view->removed_num, sizeof(*uid));
  bool good = true;
  for (uint32_t i = 0; i < view->removed_num; i++) {
    const struct dmi_removed *removed = &view->removed[i];
    uid[i] = removed->uid;
    if (!dmi_member_find(m, removed->uid) || removed->heir == removed->uid) good = false;
    if (removed->heir && !dmi_member_find(m, removed->heir)) good = false;
    if (!removed->heir && removed->uid == m->uid) good = false;
  }
  return uids_good(uid, view->removed_num) && good;
}

/* The role moves in a separate view, to a member that has joined and is welcomed. */
static bool handover_good(const struct dmi_member *m, const struct dmi_view_body *view) {
  const struct dmi_peer *next = dmi_member_find(m, view->coordinator);
  if (view->coordinator == m->coordinator) return true;
  if (view->added_num || view->removed_num) return false;
  if (view->coordinator == m->uid && m->phase < DMI_PHASE_JOINED) return false;
  return next && !next->witness;
}

/* A member that was known before may become a voter. */
static bool becomes_voter(bool survive, const struct dmi_peer *before, const struct dmi_peer *now) {
  return survive && !before->voter && !before->left && now->voter;
}

/* True if a correct coordinator could send this view. */
static bool plausible(const struct dmi_member *m, const struct dmi_view_body *view) {
  bool survive = m->env.survive || view->settles;
  if (m->viewing || view->number != m->view + 1) return false;
  if (!dmi_view_peers_good(view) || !dmi_view_removed_good(m, view)) return false;
  for (uint32_t i = 0; i < view->added_num; i++) {
    const struct dmi_peer *peer = dmi_member_find(m, view->added[i].uid);
    if (view->added[i].left || (peer && !becomes_voter(survive, peer, &view->added[i])))
      return false;
  }
  for (uint32_t i = 0; i < view->removed_num; i++) {
    const struct dmi_removed *removed = &view->removed[i];
    const struct dmi_peer *peer = dmi_member_find(m, removed->uid);
    if (removed->uid == m->coordinator) return false;
    if (removed->heir && (peer->left || removed->main)) return false;
    if (removed->uid != m->uid) continue;
    if (m->phase != DMI_PHASE_DRAINED || !m->heir) return false;
  }
  return handover_good(m, view);
}

/* May this view be taken, for all that is agreed? */
static bool survives(struct dmi_member *m, const struct dmi_view_body *view,
                     const struct dmi_msg *msg) {
  struct dmi_pulse_view pulse;
  bool takes;
  if (view->number != m->view + 1 || m->agreed.num) return false;
  pulse = dmi_member_pulse_view(m, view);
  pulse.body = msg->body;
  takes = m->env.survive->take(m->env.survive_arg, &pulse, msg->member.op);
  free((void *)pulse.members);
  return takes;
}

/* From now on messages for the coordinator go to the next one, if the role moves. */
static void answer_view(struct dmi_member *m, bool last_request) {
  struct dmi_pack body;
  uint32_t old = m->coordinator;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, m->view);
  dmi_pack_u8(&body, last_request);
  dmi_member_send(m, old, DMI_CTL_VIEW_TAKEN, 0, 0, &body);
  m->coordinator = m->coordinator_next;
  if (m->coordinator != old) m->coordinator_before = old;
}

/* The agreement brings it, or has: all is here now that its coordinator has said before it. */
static void hear_view(struct dmi_member *m, const struct dmi_view_body *view) {
  if (view->number <= m->view) return;
  m->refused = view->number;
  dmi_member_next_agreed(m);
}

bool dmi_member_on_view(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_view_body view;
  struct dmi_addr by;
  bool begins;
  if (m->phase < DMI_PHASE_ACCEPTED || m->phase > DMI_PHASE_LEFT) return false;
  dmi_unpack_init(&body, &msg->body);
  if (!dmi_view_unpack(&body, &view)) return false;
  begins = view.settles && from != m->uid;
  if (begins && (!m->agreement || m->env.survive)) {
    dmi_view_free(&view);
    return false;
  }
  if (m->env.survive && from != m->uid && !survives(m, &view, msg)) {
    hear_view(m, &view);
    dmi_view_free(&view);
    return true; /* it is known, or of a coordinator that was deposed */
  }
  if (!plausible(m, &view)) {
    dmi_view_free(&view);
    return false;
  }
  if (begins) dmi_survive_take(m, &view, msg);
  by = dmi_member_find(m, from)->addr;
  dmi_view_take(m, &view, &by);
  dmi_view_free(&view);
  return true;
}

/* The caller has done its part: from here on nothing is sent to members that have left except
 * answers, LAST_REQUEST and LAST_MESSAGE_OK. Only now is it certain whether there is a
 * connection to them. */
void dmi_view_taken(struct dmi_member *m) {
  bool last_request = false;
  if (!m->viewing) abort();
  m->viewing = false;
  if (m->phase == DMI_PHASE_FINISHED) return;
  for (uint32_t i = 0; i < m->viewing_lost.num; i++) {
    dmi_mout_add(m->out, DMI_MACT_CLOSE_PEER)->id = m->viewing_lost.at[i];
    dmi_member_leave_lost(m, m->viewing_lost.at[i]);
  }
  for (uint32_t i = 0; i < m->viewing_left.num; i++) {
    uint32_t uid = m->viewing_left.at[i];
    if (!m->env.connected(m->env.arg, uid)) continue;
    dmi_member_send(m, uid, DMI_CTL_LAST_REQUEST, 0, 0, NULL);
    m->last_request_to = uid;
    last_request = true;
  }
  dmi_uid_set_free(&m->viewing_lost);
  dmi_uid_set_free(&m->viewing_left);
  if (m->crash == m->view) {
    dmi_member_crash_taken(m);
    return;
  }
  if (!m->hears_on) answer_view(m, last_request);
  dmi_member_next_agreed(m);
}
