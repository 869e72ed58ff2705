/*
 * node_pressure.c - judges the pager of a virtual node: what it reports of its memory, to whom it
 * offers pages, when it sleeps and when it makes a write fail (pager_judge.h).
 */
#include <stdio.h>

#include "core/pressure_int.h"
#include "msg/wire.h"
#include "node_net.h"
#include "simulator.h"
#include "pager_judge.h"

/* ---- What the judge asks -------------------------------------------------------------------- */

static bool gives(void *arg) {
  const struct node *node = arg;
  bool may_own = node->opened || node->m->first;
  return node->m->phase == DMI_PHASE_JOINED && may_own && !node->pressure->leaving;
}

/* The judge knows processes by sim_uid. */
static bool is_member(void *arg, uint32_t num) {
  const struct node *node = arg;
  return node->view[num] == 1;
}

static bool member(const void *arg, uint32_t uid) {
  const struct node *node = arg;
  return node->view[sim_uid(node->sim, uid)] == 1;
}

static void each(void *arg, bool saved, void (*visit)(struct dmi_page *page, void *with),
                 void *with) {
  struct node *node = arg;
  (void)saved; /* no page is saved */
  for (uint32_t m = 0; m < node->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (node->pmap[m].page[p]) visit(node->pmap[m].page[p], with);
    }
  }
}

static void bad(void *arg, const char *why) {
  struct node *node = arg;
  sim_bad(node->sim, "p%u: %s", node->uid, why);
}

void node_room_init(struct node *node) {
  const struct pager_judge_env env = {node, gives, is_member, each, bad};
  node->judge = pager_judge_new(&env, node->pool, node->pressure);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static bool about_capacity(const struct dmi_msg *msg) {
  return msg->type < SIM_CREATE && dmi_wire_class(msg) == DMI_CLASS_CAPACITY;
}

/* A process that has promised memory must take the pages for which it did. */
static void sends_back(struct node *node, uint32_t to, const struct dmi_msg *msg) {
  if (!(msg->flags & DMI_F_MUST) || !node_pmap(node, msg->map)) return;
  if (dmi_capacity_promised(node->pressure->capacity))
    sim_bad(node->sim, "p%u sends a page back to p%u, and has promised memory", node->uid, to);
}

void node_room_sends(struct node *node, uint32_t to, const struct dmi_msg *msg) {
  if (node->judge && msg->type == DMI_MSG_REFUSE_PAGE) sends_back(node, to, msg);
  if (node->judge && about_capacity(msg))
    pager_judge_says(node->judge, sim_uid(node->sim, to), msg);
}

void node_room_takes(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  if (!node->judge) return;
  if (msg->type == DMI_MSG_REFUSE_PAGE) pager_judge_kept(node->judge, sim_uid(node->sim, from));
  if (about_capacity(msg) && member(node, from))
    pager_judge_hears(node->judge, sim_uid(node->sim, from), msg);
}

/* ---- Failing -------------------------------------------------------------------------------- */

/* True if a message about memory is in flight between these two. */
static bool talk_of_capacity(const struct node *a, const struct node *b) {
  const struct sim_end *end = sim_net_end(a, b->uid);
  for (int e = 0; end && e < 2; e++, end = sim_net_other(end)) {
    for (uint32_t k = 0; k < end->queue.num; k++) {
      const struct dmi_msg *msg =
          &end->queue.msg[(end->queue.first + k) & (end->queue.capacity - 1)];
      if (about_capacity(msg)) return true;
    }
  }
  return false;
}

static bool sleeps(const struct node *node) {
  const struct dmi_pressure_action *action = &node->action;
  return action->type == DMI_PRESSURE_REST && action->sleep && node->events == node->seen;
}

/* A process that has enough memory, has noticed it, and has told all that wait for it; 0: none. */
static uint32_t with_capacity(const struct node *node, uint64_t bytes) {
  const struct sim *sim = node->sim;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *other = sim->proc[i];
    if (!other || other == node || !other->uid || !other->judge) continue;
    if (!member(node, other->uid) || !member(other, node->uid)) continue;
    if (!sleeps(other) || talk_of_capacity(node, other)) continue;
    if (pager_judge_capacity(other->judge) >= bytes) return other->uid;
  }
  return 0;
}

void node_room_stepped(struct node *node) {
  const struct dmi_page *page = node->action.page;
  if (node->action.type == DMI_PRESSURE_REST) node->behind = false;
  if (sleeps(node)) pager_judge_rests(node->judge, node->watches_steps);
  if (node->pressure->stage != DMI_STAGE_CHECK_FIRST) return;
  node->hope = pager_judge_hopes(node->judge, page);
  node->has_capacity = 0;
  if (node->hope || node->behind) return;
  if (pager_judge_unasked(node->judge, page)) node->hope = "a member was not asked since it waits";
  node->has_capacity = with_capacity(node, page->map->page_size);
}

void node_room_fails(struct node *node, const struct dmi_page *page) {
  struct sim *sim = node->sim;
  if (!(page->flags & DMI_PAGE_STALLED)) return;
  if (page->flags & DMI_PAGE_SPILLED)
    sim_bad(sim, "p%u: what needs a spilled page fails", node->uid);
  if (node->hope) sim_bad(sim, "p%u: a write fails, and %s", node->uid, node->hope);
  if (node->has_capacity)
    sim_bad(sim, "p%u: a write fails, and p%u has memory", node->uid, node->has_capacity);
}

void node_room_look(struct node *node) {
  if (!node->alive || !node->judge) return;
  pager_judge_account(node->judge, false);
  if (sleeps(node)) pager_judge_sleeps(node->judge);
}
