/*
 * node_user.c - what the users of virtual nodes do: processes come and are asked to leave, user
 * code calls, threads are created and end, processes stop for long or are lost.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

/* ---- Who is there --------------------------------------------------------------------------- */

uint32_t node_users(const struct node *node) {
  return node->joined ? node->threads + node->main_runs : 0;
}

/* True if user code runs there, which can call the API. */
bool node_has_user(const struct node *node) {
  return node_users(node) > 0;
}

bool sim_user_code(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    if (!node) continue;
    if (node->main_runs || node->threads || node->idle_owed || node->creating.num ||
        node->own_creates)
      return true;
  }
  return false;
}

uint32_t sim_living(const struct sim *sim) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < SIM_LIVING; i++)
    num += sim->proc[i] != NULL;
  return num;
}

struct node *sim_pick(struct sim *sim, bool (*good)(const struct node *node)) {
  struct node *found = NULL;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    if (!node || !good(node)) continue;
    if (rng_once_in(&sim->rng, ++seen)) found = node;
  }
  return found;
}

static bool is_alive(const struct node *node) {
  return !node->over;
}

static bool acts(const struct node *node) {
  return node_has_user(node) && !node_frozen(node) && !node->over;
}

static bool is_joined(const struct node *node) {
  return node->joined && !node->over && !node->closed;
}

/* True if it may be lost without harm: it was never welcomed, or it has left. */
static bool is_losable(const struct node *node) {
  return !node->over && dmi_member_losable(node->m);
}

static bool is_parting(const struct node *node) {
  return node->m->phase == DMI_PHASE_LAST_REQUESTS || node->m->phase == DMI_PHASE_LAST_MESSAGES;
}

static bool has_left(const struct node *node) {
  return is_losable(node) && node->opened;
}

static bool asked_open(const struct node *node) {
  return node->notes.open_got > 0 && node->notes.welcomes == 0;
}

static bool asked_close(const struct node *node) {
  const struct sim_notes *notes = &node->notes;
  return notes->close_got > 0 && !notes->dismissed &&
         (notes->goodbyes == 0 || notes->refused_stop || notes->refused_capacity);
}

static uint32_t users_elsewhere(const struct sim *sim, const struct node *but) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i] && sim->proc[i] != but && !sim->proc[i]->over) num += node_users(sim->proc[i]);
  }
  return num;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

void node_create(struct node *node, uint32_t uid, bool must) {
  const struct dmi_input busy = {.type = DMI_IN_BUSY};
  struct dmi_msg msg = {.type = SIM_CREATE, .flags = must};
  if (uid == node->uid || node->view[sim_uid(node->sim, uid)] != 1) return;
  node->own_creates++;
  *DMI_LIST_ADD(&node->create_to) = uid;
  (void)node_input(node, &busy);
  msg.word[0] = ++node->sim->next_op;
  node_send(node, uid, &msg);
}

static uint32_t calls_of(const struct node *node, bool polls) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < node->calls.num; i++)
    num += (node->calls.at[i].type == DMI_CTL_POLL) == polls;
  return num;
}

static bool may_make_mapping(const struct sim *sim) {
  return sim->maps_asked + 1 < SIM_MAPS_ASKED && sim->maps + 10 < SIM_MAPS;
}

static void make_mapping(struct node *node) {
  struct sim *sim = node->sim;
  if (!may_make_mapping(sim)) return;
  sim->maps_asked++;
  node_call(node, DMI_CTL_MMAP, 8u << rng_below(&sim->rng, 4), rng_range(&sim->rng, 2, SIM_PAGES));
}

static void welcome_or_goodbye(struct node *node) {
  struct sim *sim = node->sim;
  bool open = rng_once_in(&sim->rng, 2);
  struct node *about = sim_pick(sim, open ? asked_open : asked_close);
  enum dmi_msg_type type = open ? DMI_CTL_WELCOME : DMI_CTL_GOODBYE;
  if (!about && !sim->random_ids) return;
  if (!about || (sim->random_ids && rng_once_in(&sim->rng, 8))) {
    node_dismiss(node, type, (dmi_id_t){rng_below(&sim->rng, SIM_LIVING + 1)}, NULL);
  } else {
    if (!open && node_has_user(about) && rng_once_in(&sim->rng, 3)) make_mapping(about);
    node_dismiss(node, type, about->dmi_id, about);
  }
}

/* ---- Mappings ------------------------------------------------------------------------------- */

static bool is_draining(const struct node *node) {
  return node_leave_heir(node) &&
         (node->m->phase == DMI_PHASE_DRAINING || node->m->phase == DMI_PHASE_DRAIN_SENT);
}

static uint32_t maps_alive(const struct sim *sim) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < sim->maps; i++)
    num += sim->map[i].made && !sim->map[i].unmapping;
  return num;
}

bool sim_is_unmapped(const struct sim *sim) {
  return !maps_alive(sim) && !may_make_mapping(sim);
}

/* A mapping in use; preferably one whose home is being handed over. */
static struct sim_map *some_mapping(struct sim *sim) {
  const struct node *leaver = sim_pick(sim, is_draining);
  uint32_t start = rng_below(&sim->rng, sim->maps);
  for (uint32_t i = 0; i < sim->maps; i++) {
    uint32_t m = (start + i) % sim->maps;
    if (!sim->map[m].made || sim->map[m].unmapping) continue;
    if (!leaver || leaver->pmap[m].known != SIM_KNOWN) return &sim->map[m];
    if (atomic_load(&leaver->pmap[m].map.home) == node_leave_heir(leaver)) return &sim->map[m];
  }
  return NULL;
}

static void use_mappings(struct node *node) {
  struct sim *sim = node->sim;
  uint32_t alive = maps_alive(sim), calls = 0;
  struct sim_map *map;
  for (uint32_t i = 0; i < SIM_LIVING; i++) { /* those being made count */
    for (uint32_t c = 0; sim->proc[i] && c < sim->proc[i]->calls.num; c++)
      calls += sim->proc[i]->calls.at[c].type == DMI_CTL_MMAP;
  }
  if (alive + calls < 1 || (alive + calls < 4 && rng_once_in(&sim->rng, 2))) {
    make_mapping(node);
    return;
  }
  map = alive > 1 && sim->maps_asked + 4 < SIM_MAPS_ASKED ? some_mapping(sim) : NULL;
  if (!map || !rng_once_in(&sim->rng, 3)) return;
  map->unmapping = true;
  sim->totals->unmaps++;
  node_call(node, DMI_CTL_MUNMAP, map->base, 0);
}

static void ask_departed(struct node *node) {
  struct sim *sim = node->sim;
  struct sim_departed *departed;
  if (!sim->departed.num) return;
  departed = &sim->departed.at[rng_below(&sim->rng, sim->departed.num)];
  if (departed->asked) return;
  departed->asked = true;
  node_call(node, DMI_CTL_THREAD, departed->uid, departed->seq);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void create_somewhere(struct node *node) {
  struct node *to = node->sim->proc[rng_below(&node->sim->rng, SIM_LIVING)];
  if (to && to->opened && to->threads < SIM_THREADS) node_create(node, to->uid, false);
}

/* True if no call of its threads is unanswered (polls are threads of their own). */
static bool may_end_thread(const struct node *node) {
  return node_users(node) > 1 || calls_of(node, false) == 0;
}

static void end_thread(struct node *node, bool main) {
  sim_log(node->sim, "p%u: %s ends", node->uid, main ? "main" : "a thread");
  if (main) {
    node->main_runs = false;
    if (node->real_main)
      (void)node_input(node, &(struct dmi_input){.type = DMI_IN_MAIN_ENDED, .yes = true});
    node->real_main = false;
  } else {
    node->threads--;
    /* those that run when it has stopped its threads are only like DMI_main: node_main_lost */
    if (node->m->phase < DMI_PHASE_DRAINING && rng_once_in(&node->sim->rng, 2)) {
      struct dmi_ended *ended = DMI_LIST_ADD(&node->ended);
      ended->seq = ++node->next_seq;
      ended->value = ended->seq * 1000 + node->uid;
    }
  }
  node->idle_owed++;
  node_idle_look(node);
}

static void end_some(struct node *node) {
  struct sim *sim = node->sim;
  bool last = node_users(node) == 1 && !users_elsewhere(sim, node);
  if (last || !may_end_thread(node)) return;
  if (node->threads && (node->closed || rng_once_in(&sim->rng, 4))) {
    end_thread(node, false);
  } else if (node->main_runs && node->closed && users_elsewhere(sim, node) &&
             rng_once_in(&sim->rng, 3)) {
    end_thread(node, true);
  }
}

/* ---- What happens next ---------------------------------------------------------------------- */

static void user_acts(struct node *node) {
  struct sim *sim = node->sim;
  switch (rng_below(&sim->rng, 16)) {
    case 0:
    case 1:
    case 2:
      if (calls_of(node, true) < 2) node_call(node, DMI_CTL_POLL, 0, 0);
      break;
    case 3:
      node_call(node, DMI_CTL_PEEK, 0, 0);
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      welcome_or_goodbye(node);
      break;
    case 8:
    case 9:
      use_mappings(node);
      break;
    case 10:
      node_call(node, DMI_CTL_NODES, 0, 0);
      break;
    case 11:
    case 12:
      create_somewhere(node);
      break;
    case 13:
    case 14:
      end_some(node);
      break;
    default:
      ask_departed(node);
  }
}

static void ask_to_leave(struct sim *sim) {
  const struct dmi_input in = {.type = DMI_IN_LEAVE_ASKED};
  struct node *node = sim_pick(sim, is_joined);
  if (!node || sim_living(sim) < 3) return;
  sim_log(sim, "p%u: asked to leave", node->uid);
  (void)node_input(node, &in);
}

static void kill_one(struct sim *sim) {
  struct node *node = sim_pick(sim, rng_once_in(&sim->rng, 2) ? has_left : is_losable);
  if (!node || !rng_once_in(&sim->rng, sim_pick(sim, is_parting) ? 2 : 8)) return;
  if (!users_elsewhere(sim, node)) return;
  sim_log(sim, "p%u (%u): killed", node->uid, node->num);
  sim->totals->kills++;
  node->killed = true;
  node->notes.main_lost = (node->main_runs || node->idle_owed) && node->left;
  for (uint32_t i = 0; i < node->calls.num; i++) {
    uint8_t type = (uint8_t)node->calls.at[i].type;
    if (type == DMI_CTL_POLL || type == DMI_CTL_PEEK) sim->notices_lost = true;
  }
  node_end(node);
}

static void spawn(struct sim *sim) {
  struct node *seed = sim_pick(sim, is_alive);
  if (seed && sim_living(sim) < SIM_LIVING - 1 && sim->nodes + 1 < SIM_NODES) node_new(sim, seed);
}

void sim_user_step(struct sim *sim) {
  struct node *node;
  switch (rng_below(&sim->rng, 16)) {
    case 0:
      spawn(sim);
      break;
    case 1:
      if (rng_once_in(&sim->rng, 2)) ask_to_leave(sim);
      break;
    case 2:
      if (sim->opt.crashes) {
        sim_lose_some(sim);
      } else {
        kill_one(sim);
      }
      break;
    default:
      node = sim_pick(sim, acts);
      if (node) user_acts(node);
  }
}

void sim_user_freeze(struct sim *sim) {
  struct node *node = sim->proc[rng_below(&sim->rng, SIM_LIVING)];
  if (!node) return;
  node->frozen = sim->steps + rng_range(&sim->rng, 10, 3000);
  sim->totals->freezes++;
  sim_log(sim, "p%u (%u) stops for a while", node->uid, node->num);
}

/* ---- The end of the program ----------------------------------------------------------------- */

/* Ends user code where it can end; with `creates`, it may still create threads elsewhere. */
static bool end_users(struct sim *sim, bool creates) {
  bool moved = false;
  for (uint32_t i = 0; i < SIM_LIVING && !sim->bad; i++) {
    struct node *node = sim->proc[i];
    if (!node || !acts(node)) continue;
    if (creates && rng_once_in(&sim->rng, 4)) create_somewhere(node);
    if (!may_end_thread(node) || !rng_once_in(&sim->rng, creates ? 6 : 3)) continue;
    moved = true;
    end_thread(node, node->main_runs && (!node->threads || rng_once_in(&sim->rng, 2)));
  }
  return moved;
}

/* DMI_exit, by any user code. */
static void call_exit(struct sim *sim) {
  struct node *node = sim_pick(sim, acts);
  if (node) node_call(node, DMI_CTL_STOP, rng_below(&sim->rng, 256), 0);
}

static bool end_steps(struct sim *sim) {
  bool moved = false;
  for (uint32_t i = 0; i < SIM_LIVING && !sim->bad; i++) {
    if (sim->proc[i] && sim_leave_look(sim->proc[i])) moved = true;
    if (sim->proc[i]) node_idle_look(sim->proc[i]);
    if (sim->proc[i] && rng_once_in(&sim->rng, 2) && node_answer(sim->proc[i])) moved = true;
    if (sim->proc[i] && node_pager_step(sim->proc[i])) moved = true;
  }
  if (sim->opt.crashes && sim_losses_go_on(sim, false)) moved = true;
  return sim_net_step(sim) || moved;
}

static bool anything_due(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i] && (sim->proc[i]->pend.num || node_frozen(sim->proc[i]))) return true;
  }
  return false;
}

/* Ends all user code; when none is left, the program must end. */
void sim_user_end_all(struct sim *sim) {
  uint64_t limit = 2000000, creates = rng_below(&sim->rng, 60);
  uint32_t losses = sim->opt.crashes ? rng_below(&sim->rng, 4) : 0;
  uint32_t rate = losses ? rng_range(&sim->rng, 5, 400) : 0;
  uint32_t exits = rng_below(&sim->rng, 3);
  sim->ending = sim->resting = true;
  while (sim_living(sim) > 0 && !sim->bad) {
    bool moved;
    sim->now++;
    sim->steps++;
    if (sim->opt.agree) sim_clock_step(sim);
    moved = end_users(sim, creates > 0);
    creates -= creates > 0;
    if (exits && rng_once_in(&sim->rng, 20)) {
      call_exit(sim);
      exits--;
    }
    if (losses && rng_once_in(&sim->rng, rate)) {
      sim_lose_at_end(sim);
      losses--;
    }
    if (end_steps(sim)) moved = true;
    if (!moved && sim->opt.crashes) moved = sim_losses_go_on(sim, true);
    if (!moved && sim_living(sim) > 0 && !sim_user_code(sim) && !anything_due(sim)) {
      sim_judge_print(sim);
      sim_bad(sim, "nothing runs, nothing is in flight, and %u processes have not ended",
              sim_living(sim));
    }
    if (--limit == 0) {
      sim_judge_print(sim);
      sim_bad(sim, "it does not end");
    }
  }
}
