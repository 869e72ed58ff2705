/*
 * node_call.c - calls of user code in virtual nodes, and their results.
 */
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Notes a call of DMI_welcome or DMI_goodbye; true: it is the first one for this notice. */
static bool note_dismissal(struct sim *sim, enum dmi_msg_type type, dmi_id_t id,
                           const struct node *about) {
  bool sole = false, welcome = type == DMI_CTL_WELCOME;
  if (!about) sim->random_used[welcome][id.n] = true;
  for (uint32_t i = 0; i < sim->nodes; i++) {
    struct node *node = sim->all[i];
    if (!node->uid || !dmi_id_is(node->dmi_id, id) || (!node->alive && node != about)) continue;
    if ((welcome ? node->notes.welcomes++ : node->notes.goodbyes++) == 0 && node == about)
      sole = true;
  }
  return sole;
}

static void begin_call(struct node *node, struct sim_call call, struct dmi_input in, uint64_t arg) {
  struct sim *sim = node->sim;
  call.op = in.op = ++sim->next_op;
  call.type = in.call;
  call.crash = node->m->last_crash; /* it may not have heard of the last one yet */
  sim_log(sim, "p%u calls %s %llx", node->uid, dmi_wire_name((uint8_t)in.call),
          (unsigned long long)arg);
  *DMI_LIST_ADD(&node->calls) = call;
  (void)node_input(node, &in);
}

void node_call(struct node *node, enum dmi_msg_type type, uint64_t a, uint64_t b) {
  struct sim_call call = {.arg = type == DMI_CTL_THREAD ? b : a,
                          .uid = type == DMI_CTL_THREAD ? (uint32_t)a : 0};
  begin_call(node, call, (struct dmi_input){.type = DMI_IN_CALL, .call = type, .a = a, .b = b}, a);
}

void node_dismiss(struct node *node, enum dmi_msg_type type, dmi_id_t id, struct node *about) {
  struct sim_call call = {.about = about, .sole = note_dismissal(node->sim, type, id, about)};
  begin_call(node, call, (struct dmi_input){.type = DMI_IN_CALL, .call = type, .dmi_id = id}, id.n);
}

/* ---- Results of calls ----------------------------------------------------------------------- */

static bool created(struct node *node, const struct dmi_mact *act) {
  for (uint32_t i = 0; i < node->creating.num; i++) {
    struct sim_creating creating = node->creating.at[i];
    struct dmi_msg msg = {.type = SIM_CREATED, .word = {creating.from_op}};
    if (creating.op != act->op) continue;
    DMI_LIST_DROP(&node->creating, i);
    if (act->error) sim_bad(node->sim, "p%u cannot be busy: %d", node->uid, act->error);
    node->threads++;
    node_send(node, creating.from, &msg);
    return true;
  }
  return false;
}

/* A mapping whose home was lost before its maker knew of it: its pages are LOST from the start.  Or
 * the home was removed before it made it, and lives: what it does is lost at the next view. */
static void made_with_hole(struct sim *sim, uint32_t num, uint32_t home) {
  const struct node *at = sim_by_uid(sim, home);
  if (at && at->noted) memset(sim->map[num].orphan, true, sizeof(sim->map[num].orphan));
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct sim_pmap *known = sim->proc[i] ? &sim->proc[i]->pmap[num] : NULL;
    if (!known || known->known != SIM_KNOWN || !atomic_load(&known->map.hole)) continue;
    memset(sim->map[num].lost, true, sizeof(sim->map[num].lost));
  }
}

static void mapped(struct node *node, const struct dmi_entry *entry) {
  struct sim *sim = node->sim;
  uint32_t num = sim_map_num(node->sim, entry->base);
  struct sim_map *map = &sim->map[num];
  if (entry->home == node->uid && node_leave_heir(node))
    sim_bad(sim, "p%u is home again while it leaves", node->uid);
  node_enter(node, entry, 0);
  if (num + 1 >= SIM_MAPS) return;
  map->made = true;
  map->base = entry->base;
  map->page_size = entry->page_size;
  map->page_num = entry->page_num;
  map->sync = map->page_size >= 16 && rng_once_in(&sim->rng, 2);
  for (uint32_t i = 0; i < SIM_PAGES; i++)
    hist_init(&map->hist[i], (uint32_t)map->page_size);
  if (num >= sim->maps) sim->maps = num + 1;
  made_with_hole(sim, num, entry->home);
  sim->totals->maps++;
  if (!node->closed) return;
  /* So that pages are used for the first time while their home leaves: R8.2, R9. */
  sim->mix.hot_map = num;
  sim->mix.hot_page = SIM_PAGES;
  sim->mix.hot = 80;
  sim->mix.weight[DMI_REQ_EXCL] += 10;
}

static void looked_up(struct node *node, const struct sim_call *call, const struct dmi_mact *act) {
  struct node *home;
  node->pmap[sim_map_num(node->sim, call->arg)].asked = false;
  if (act->error) return;
  node_enter(node, &act->mapping, 0);
  home = sim_by_uid(node->sim, act->mapping.home);
  if (node_is_removed(node)) return; /* it was told before */
  if ((!home || !home->alive) && !(home && home->killed))
    sim_bad(node->sim, "the home of a mapping has ended");
}

void node_result(struct node *node, const struct dmi_mact *act) {
  struct sim *sim = node->sim;
  if (act->op && act->op == node->main_op) {
    if (node->main_runs && !act->error) node->threads++; /* DMI_recover runs here already */
    if (!node->main_runs) node->main_runs = !act->error;
    return;
  }
  if (created(node, act)) return;
  for (uint32_t i = 0; i < node->calls.num; i++) {
    struct sim_call call = node->calls.at[i];
    if (call.op != act->op) continue;
    DMI_LIST_DROP(&node->calls, i);
    sim_log(sim, "p%u: result of %s: %d", node->uid, dmi_wire_name((uint8_t)call.type), act->error);
    sim->totals->calls++;
    if (act->error == DMI_EINACTIVE) {
      if (call.type != DMI_CTL_POLL && !node->over)
        sim_bad(sim, "%s fails: inactive", dmi_wire_name((uint8_t)call.type));
      return;
    }
    sim_judge_result(node, &call, act);
    if (call.type == DMI_CTL_MMAP && !act->error) mapped(node, &act->mapping);
    if (call.type == DMI_CTL_LOOKUP) looked_up(node, &call, act);
    if (call.type == DMI_CTL_WELCOME && !act->error && call.about && !call.about->killed &&
        node_has_user(node)) {
      struct sim_pending *create = DMI_LIST_ADD(&node->pend);
      create->type = SIM_PEND_CREATE;
      create->uid = call.about->uid;
      create->must = call.about->notes.goodbyes == 0;
    }
    return;
  }
  if (act->op != 0)
    sim_bad(sim, "p%u: a result for no call: op %llu", node->uid, (unsigned long long)act->op);
}
