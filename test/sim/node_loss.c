/*
 * node_loss.c - virtual nodes that are lost: killed at any step, or cut off, without a lease, and
 * removed while they live; what the others do about it beside the protocol.
 */
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

/* ---- Who may be lost ------------------------------------------------------------------------ */

static bool users_elsewhere(const struct sim *sim, const struct node *but) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    if (node && node != but && !node->no_lease && node_users(node)) return true;
  }
  return false;
}

/* The others go on without it: a voter lives, and user code runs somewhere. */
static bool is_spared(const struct node *node) {
  const struct sim *sim = node->sim;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i] && sim->proc[i]->over) return false;
  }
  return !node->no_lease && sim->agreement->spares(sim, node) && users_elsewhere(sim, node);
}

static bool is_coordinator(const struct node *node) {
  return node->m->coord && is_spared(node);
}

static bool is_leaver(const struct node *node) {
  return node->m->phase > DMI_PHASE_JOINED && node->m->phase < DMI_PHASE_ENDED && is_spared(node);
}

static bool is_joiner(const struct node *node) {
  return !node->opened && is_spared(node);
}

static bool is_heir(const struct node *node) {
  const struct sim *sim = node->sim;
  for (uint32_t i = 0; node->uid && i < SIM_LIVING; i++) {
    if (sim->proc[i] && sim->proc[i]->m->heir == node->uid) return is_spared(node);
  }
  return false;
}

static struct node *victim(struct sim *sim) {
  static bool (*const kinds[])(const struct node *node) = {is_spared,      is_spared, is_leaver,
                                                           is_coordinator, is_heir,   is_joiner};
  return sim_pick(sim, kinds[rng_below(&sim->rng, sizeof(kinds) / sizeof(kinds[0]))]);
}

/* ---- Losing --------------------------------------------------------------------------------- */

static void note_loss(struct node *node) {
  struct sim *sim = node->sim;
  sim->totals->crashes++;
  sim->stir++;
  sim->notices_lost = true;
  node->killed = true;
  sim_lose_pages(node);
  sim_net_ungrant(node);
  sim_drop_held(node);
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (!node->thread[t].out) continue;
    sim->out--;
    sim_open_call(sim, &node->thread[t], node->uid);
  }
  node->noted = true;
}

void node_lose(struct node *node) {
  sim_log(node->sim, "p%u (%u) is lost", node->uid, node->num);
  note_loss(node);
  node_end(node);
}

/* Its pages are others' from now on; it may still handle messages, for a while. */
void node_doom(struct node *node) {
  struct sim *sim = node->sim;
  sim_log(sim, "p%u (%u) is removed, and lives", node->uid, node->num);
  note_loss(node);
  sim->proc[node->slot] = NULL;
  *DMI_LIST_ADD(&sim->doomed) = node;
}

bool node_is_removed(const struct node *node) {
  return node->killed || node->astray;
}

void node_end_doomed(struct node *node) {
  struct sim *sim = node->sim;
  uint32_t at = 0;
  while (sim->doomed.at[at] != node)
    at++;
  DMI_LIST_DROP(&sim->doomed, at);
  if (node->alive) node_end(node);
}

/* It has nobody to agree with. */
void node_cut_off(struct node *node) {
  node->cut_off = true;
  (void)node_input(node, &(struct dmi_input){.type = DMI_IN_CUT_OFF, .text = "nobody is left"});
}

static bool end_doomed(struct sim *sim) {
  if (!sim->doomed.num) return false;
  node_end_doomed(sim->doomed.at[rng_below(&sim->rng, sim->doomed.num)]);
  return true;
}

/* ---- Cuts ----------------------------------------------------------------------------------- */

/* Nothing arrives between those that are cut off and the others: `ways` 1 to them, 2 from them, 3
 * both. */
static void cut_lines(struct sim *sim) {
  for (uint32_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, (uint16_t)i);
    if (!sim->net.conn[i / 2].used || sim->net.conn[i / 2].self) continue;
    sim_cut_look(end);
  }
}

void sim_cut_look(struct sim_end *end) {
  const struct node *to = end->node, *from = sim_net_other(end)->node;
  end->cut = (to->cut & 1 && !from->cut) || (from->cut & 2 && !to->cut);
}

static void cut_some(struct sim *sim, bool removed) {
  struct node *first = victim(sim), *second = rng_once_in(&sim->rng, 3) ? victim(sim) : NULL;
  uint8_t ways = (uint8_t)rng_range(&sim->rng, 1, 3);
  if (!first || !first->started) return;
  if (second && (!second->started || second == first)) second = NULL;
  first->cut = removed ? 3 : ways;
  if (removed) {
    first->no_lease = true;
    if (second && !is_spared(second)) second = NULL;
  }
  if (second) second->cut = first->cut;
  if (second) second->no_lease = removed;
  sim->totals->cuts++;
  sim->heals = sim->steps + rng_range(&sim->rng, 10, 2000);
  cut_lines(sim);
  sim_log(sim, "p%u is cut off, ways %u%s", first->uid, ways, removed ? ", to be removed" : "");
  if (!removed) return;
  if (!atomic_load(&first->core.paused)) sim_pause_one(first);
  if (second && !atomic_load(&second->core.paused)) sim_pause_one(second);
}

/* Those that were removed are not cut off any more then; and others hear that they have ended.
 * False: nobody was cut off. */
static bool heal(struct sim *sim) {
  bool any = false;
  for (uint32_t i = 0; i < sim->nodes; i++) {
    any |= sim->all[i]->cut != 0;
    sim->all[i]->cut = 0;
  }
  cut_lines(sim);
  sim->heals = 0;
  return any;
}

/* ---- What happens --------------------------------------------------------------------------- */

void sim_lose_some(struct sim *sim) {
  struct node *node;
  if (!sim->agreement->calm(sim) && !rng_once_in(&sim->rng, 8)) return;
  switch (rng_below(&sim->rng, 12)) {
    case 0:
    case 1:
      if (!sim->heals) cut_some(sim, false);
      break;
    case 2:
      if (!sim->heals) cut_some(sim, !sim->opt.agree);
      break;
    case 3:
      sim->agreement->coup(sim);
      break;
    case 4:
    case 5:
    case 6:
      if (!sim->opt.agree) (void)sim_pause(sim);
      break;
    default:
      node = victim(sim);
      if (node && node->uid) node_lose(node);
      if (rng_once_in(&sim->rng, 8) && (node = victim(sim))) node_lose(node); /* two at once */
  }
}

/* With --agree a cut lasts while time goes by. */
static bool heals(struct sim *sim, bool forced) {
  if (!sim->heals) return false;
  if (forced && sim->opt.agree) forced = rng_once_in(&sim->rng, 200);
  return (forced || sim->steps > sim->heals) && heal(sim);
}

/* All user code ends, or has ended: any process may be lost that the others can go on without. When
 * some have heard that the program is over, any at all, with the real agreement: those that have
 * not may then be unable to go on, and it decides that. */
static bool is_spared_at_end(const struct node *node) {
  const struct sim *sim = node->sim;
  bool over = false;
  for (uint32_t i = 0; i < SIM_LIVING; i++)
    over |= sim->proc[i] && sim->proc[i]->over;
  if (!node->uid || !node->started || node->no_lease) return false;
  return (over && sim->opt.agree) || sim->agreement->spares(sim, node);
}

void sim_lose_at_end(struct sim *sim) {
  struct node *node = sim_pick(sim, is_spared_at_end);
  if (node) node_lose(node);
}

bool sim_losses_go_on(struct sim *sim, bool forced) {
  if (heals(sim, forced)) return true;
  if (!sim->opt.agree && (forced || rng_once_in(&sim->rng, 10)) && sim_unpause(sim)) return true;
  if (sim->agreement->step(sim, forced)) return true;
  return (forced || rng_once_in(&sim->rng, 20)) && end_doomed(sim);
}

/* ---- What the others do --------------------------------------------------------------------- */

/* Nothing of it arrives here any more. */
void node_fence(struct node *node, uint32_t uid) {
  struct sim_end *end = sim_net_end(node, uid);
  node->fenced[sim_uid(node->sim, uid)] = true;
  if (!end) return;
  sim_queue_drop(node->sim, &end->queue);
  sim_queue_drop(node->sim, &end->bulk);
  sim_line_look(node->sim, end);
}

/* DMI_create there ends, and gives up its reason to be busy. */
void node_creates_lost(struct node *node, uint32_t uid) {
  const struct dmi_input idle = {.type = DMI_IN_IDLE};
  for (uint32_t i = node->create_to.num; i-- > 0;) {
    if (node->create_to.at[i] != uid) continue;
    DMI_LIST_DROP(&node->create_to, i);
    node->own_creates--;
    (void)node_input(node, &idle);
  }
}

/* DMI_main runs here now, as DMI_recover. */
void node_main_lost(struct node *node) {
  node->sim->totals->recovers++;
  if (node->main_runs) node->threads++;
  node->main_runs = node->real_main = true;
}

void node_replay_held(struct node *node) {
  struct dmi_deferred_list held = node->held;
  memset(&node->held, 0, sizeof(node->held));
  for (uint32_t i = 0; i < held.num; i++) {
    struct dmi_msg *msg = &held.at[i].msg;
    if (!node->alive || !node->view[sim_uid(node->sim, held.at[i].from)]) {
      sim_lose_message(node->sim, msg);
      continue;
    }
    if (msg->type == DMI_MSG_GRANT)
      node->sim->map[sim_map_num(node->sim, msg->map)].grants[msg->page]--;
    node_handle(node, held.at[i].from, msg);
  }
  free(held.at);
}

/* ---- The recovery --------------------------------------------------------------------------- */

static void settle(void *arg) {
  sim_net_settle(arg);
}

/* The first call of a resume is that before anything is changed. */
static struct dmi_req *next_op(void *arg, uint64_t *at, struct dmi_page **page) {
  struct node *node = arg;
  struct dmi_recover *recover = dmi_node_recover(node->whole);
  if (*at == 0 && dmi_recover_state(recover) == DMI_RECOVER_READY) {
    sim_check_ready(node, recover);
    node->had_any = sim_copies_at_work(node, node->had);
    node->had_at = ++node->sim->effects;
  }
  return sim_next_op(arg, at, page);
}

void node_loss_init(struct node *node) {
  struct sim *sim = node->sim;
  node->env.net.survive = sim->agreement->survive;
  node->env.net.survive_arg = node;
  node->env.net.settings = (struct dmi_settings){.survive = true, .dead_after = 5};
  node->env.net.main_lost = sim->recovers ? DMI_MAIN_RECOVERS : DMI_MAIN_IGNORED;
  node->env.ops = (struct dmi_recover_env){.arg = node, .next_op = next_op, .settle = settle};
}

/* To be called after its actions. */
void node_loss_look(struct node *node) {
  struct dmi_recover *recover = dmi_node_recover(node->whole);
  bool ready = dmi_recover_state(recover) == DMI_RECOVER_READY;
  if (ready && !node->ready) sim_check_ready(node, recover);
  node->ready = ready;
  if (!ready && node->had_any) {
    sim_hint_promoted(node, node->had, node->had_at);
    node->had_any = false;
  }
}
