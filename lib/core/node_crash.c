/*
 * node_crash.c - the node's part when a member was lost: membership says when, core/recover.h
 * recovers the pages, and both hear of each other (docs/crashes.md, "A member's life in a crash").
 */
#include <stdlib.h>

#include "core/node_int.h"

/* ---- For dmi_core, with a page locked -------------------------------------------------------- */

static bool is_cut(void *recover, dmi_uid_t uid) {
  return dmi_recover_is_cut(recover, uid);
}

static void dropped(void *recover, dmi_uid_t origin, dmi_op_t op) {
  dmi_recover_dropped(recover, origin, op);
}

static void held(void *recover, dmi_uid_t origin, dmi_op_t op) {
  dmi_recover_held(recover, origin, op);
}

void dmi_node_crash_init(struct dmi_node *node) {
  node->recover = dmi_recover_new(node->core, &node->env->records, &node->env->ops);
  node->core->is_cut = is_cut;
  node->core->dropped = dropped;
  node->core->held = held;
  node->core->recover = node->recover;
}

/* ---- From step to step ---------------------------------------------------------------------- */

/* The handover of a home that has begun is sent to its end: in half of one no REPORT has a place.
 */
static void end_home(struct dmi_node *node, struct dmi_out *out) {
  enum dmi_handover_state state = dmi_handover_state(node->handover);
  while (state == DMI_HANDOVER_BEGUN || state == DMI_HANDOVER_TAILS) {
    (void)dmi_handover_go_on(node->handover, out);
    state = dmi_handover_state(node->handover);
  }
}

/* The leave of this process, if its heir is lost.  For one that has left the heir is only a name,
 * by which it knows that it owns nothing any more. */
static void lose_heir(struct dmi_node *node, const dmi_uid_t *lost, uint32_t num,
                      struct dmi_out *out) {
  const struct dmi_peer *self = dmi_member_peer(node->member, node->core->self);
  if (!self || !self->left) {
    dmi_handover_lost(node->handover, lost, num, out);
    return;
  }
  for (uint32_t i = 0; i < num; i++) {
    dmi_uid_t heir = lost[i];
    (void)atomic_compare_exchange_strong(&node->core->heir, &heir,
                                         dmi_member_coordinator_next(node->member));
  }
}

void dmi_node_crash_view(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out) {
  dmi_uid_t *lost = dmi_xalloc(act->removed_num + 1, sizeof(*lost));
  for (uint32_t i = 0; i < act->removed_num; i++)
    lost[i] = act->removed[i].uid;
  end_home(node, out);
  dmi_handover_frozen(node->handover);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_FREEZE)) dmi_recover_freeze(node->recover);
  lose_heir(node, lost, act->removed_num, out);
  free(lost);
}

/* Homes as the coordinator knows them from all.  Those that are lost go to their heirs then. */
static void correct_homes(struct dmi_node *node, const struct dmi_mact *act, struct dmi_out *out) {
  for (uint32_t i = 0; i < act->mapping_num; i++) {
    struct dmi_map *map = dmi_node_enter(node, &act->mappings[i]);
    dmi_recover_correct_home(node->recover, map, act->mappings[i].home, out);
  }
}

void dmi_node_crash_recover(struct dmi_node *node, const struct dmi_mact *act,
                            struct dmi_out *out) {
  struct dmi_recover_view view = {.number = act->op,
                                  .coordinator = dmi_member_coordinator(node->member),
                                  .removed_num = act->removed_num};
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(node->member, &num);
  dmi_uid_t *member = dmi_xalloc(num + 1, sizeof(*member));
  struct dmi_homeless *removed = dmi_xalloc(act->removed_num + 1, sizeof(*removed));
  for (uint32_t i = 0; i < num; i++)
    member[view.member_num++] = peers[i].uid;
  for (uint32_t i = 0; i < act->removed_num; i++)
    removed[i] = (struct dmi_homeless){act->removed[i].uid, act->removed[i].heir};
  view.member = member;
  view.removed = removed;
  /* What one has carried out all must, else they disagree on homes and owners. */
  dmi_recover_carry(node->recover, act->value, out);
  correct_homes(node, act, out);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_RECOVER)) dmi_recover_begin(node->recover, &view, out);
  free(member);
  free(removed);
}

void dmi_node_crash_ready(struct dmi_node *node, uint64_t number, struct dmi_out *out) {
  uint64_t pages = dmi_recover_lost_pages(node->recover);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_READY))
    LIFE(node, out, recovered, number, pages, &node->life);
}

void dmi_node_crash_resume(struct dmi_node *node, struct dmi_out *out) {
  if (dmi_recover_state(node->recover) != DMI_RECOVER_READY) return;
  if (DMI_BROKEN(node, DMI_NODE_BREAK_RESUME)) return;
  dmi_recover_resume(node->recover, out);
  dmi_handover_resumed(node->handover);
  node->goes_on = true;
  (void)dmi_out_add(out, DMI_ACT_LOOK);
  LIFE(node, out, resumed, &node->life);
}

bool dmi_node_crash_holds(struct dmi_node *node, dmi_uid_t from, struct dmi_msg *msg,
                          struct dmi_out *out) {
  if (!atomic_load(&node->core->frozen) || !dmi_recover_is_cut(node->recover, from)) return false;
  if (DMI_BROKEN(node, DMI_NODE_BREAK_HOLD)) return false;
  dmi_out_hold(out, from, msg);
  return true;
}
