/*
 * node_life.c - carries out what the membership core decides, and has the messages about threads.
 *
 * An action that has an answer (CONNECT, VIEW, STOP_THREADS, FORGET) is answered at once or later.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

bool node_input(struct node *node, const struct dmi_input *in) {
  bool good;
  node->by_thread = false;
  good = dmi_node_step(node->whole, in, &node->out);
  node_carry(node);
  return good;
}

static void input(struct node *node, struct dmi_input in) {
  (void)node_input(node, &in);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static struct sim_pending *pending_add(struct node *node, enum sim_pending_type type) {
  struct sim_pending *pending = DMI_LIST_ADD(&node->pend);
  pending->type = type;
  return pending;
}

static void connect_to(struct node *node, const struct dmi_addr *addr) {
  struct sim *sim = node->sim;
  struct node *to = addr->port ? sim_node_at(node, addr) : node->seed;
  if (to && to->alive && to != node) {
    uint32_t mine = sim->net.next_temp++, theirs = sim->net.next_temp++;
    sim_net_connect(node, to, mine, theirs);
    input(node, (struct dmi_input){.type = DMI_IN_CONNECTED, .id = mine});
  } else {
    input(node, (struct dmi_input){.type = DMI_IN_NOT_CONNECTED, .text = "nobody listens there"});
  }
}

static void stop_threads(struct node *node) {
  bool stopped = !node->threads && !node->creating.num;
  if (stopped) {
    node->creates = false;
  } else {
    node->notes.refused_stop = true;
  }
  input(node, (struct dmi_input){.type = DMI_IN_STOPPED, .yes = stopped});
}

static void answer(struct node *node, const struct sim_pending *pending) {
  switch (pending->type) {
    case SIM_PEND_CONNECT:
      connect_to(node, &pending->addr);
      break;
    case SIM_PEND_STOPPED:
      stop_threads(node);
      break;
    case SIM_PEND_CREATE:
      if (node_has_user(node)) node_create(node, pending->uid, pending->must);
      break;
  }
}

bool node_answer(struct node *node) {
  struct sim_pending pending;
  uint32_t i;
  if (!node->pend.num || node_frozen(node)) return false;
  i = rng_below(&node->sim->rng, node->pend.num);
  pending = node->pend.at[i];
  DMI_LIST_DROP(&node->pend, i);
  answer(node, &pending);
  return true;
}

/* Now, or some time later. */
static void answer_some_time(struct node *node, struct sim_pending pending) {
  if (rng_once_in(&node->sim->rng, 2)) {
    *pending_add(node, pending.type) = pending;
  } else {
    answer(node, &pending);
  }
}

/* ---- Views ---------------------------------------------------------------------------------- */

static void see_members(struct node *node) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(node->m, &num);
  memset(node->view, 0, sizeof(node->view));
  for (uint32_t i = 0; i < num; i++)
    node->view[sim_uid(node->sim, peers[i].uid)] =
        peers[i].left && peers[i].uid != node->uid ? 2 : 1;
}

/* As in the product: first the members, then the new homes; then those that left are barred. */
static void view(struct node *node, const struct dmi_mact *act) {
  struct sim *sim = node->sim;
  sim->totals->views++;
  for (uint32_t i = 0; i < act->removed_num; i++) {
    if (act->removed[i].lost) node_fence(node, act->removed[i].uid);
  }
  see_members(node);
  for (uint32_t i = 0; i < act->removed_num; i++) {
    const struct dmi_removed *removed = &act->removed[i];
    struct node *gone = sim_by_uid(sim, removed->uid);
    if (removed->lost) {
      node_creates_lost(node, removed->uid);
    } else if (removed->main && !sim->opt.crashes) {
      if (!gone->killed) sim_bad(sim, "p%u is said to be lost, and is not", removed->uid);
      gone->notes.told++;
    }
    if (removed->uid == node->uid) continue;
    node->barred[sim_uid(sim, removed->uid)] = true;
  }
}

/* ---- Other actions -------------------------------------------------------------------------- */

static void set_self(struct node *node, uint32_t uid) {
  struct sim *sim = node->sim;
  if (!sim_uid(sim, uid) || sim_by_uid(sim, uid)) {
    sim_bad(sim, "uid %u is used again", uid);
    return;
  }
  sim->by_uid[sim_uid(sim, uid)] = node;
  node->uid = uid;
}

static void add_peer(struct node *node, const struct dmi_mact *act) {
  struct sim_addr *addr = DMI_LIST_ADD(&node->addrs);
  addr->uid = act->uid;
  addr->addr = act->addr;
  node->knows[sim_uid(node->sim, act->uid)] = true;
}

static void close_peer(struct node *node, uint32_t id) {
  struct sim_end *end = sim_net_end(node, id);
  if (id < DMI_NET_TEMP) node->knows[sim_uid(node->sim, id)] = false;
  if (end) sim_net_close(end);
}

static void is_over(struct node *node) {
  node->over = true;
  if (sim_user_code(node->sim)) sim_bad(node->sim, "the program ends while user code runs");
}

static void expect_close(struct node *node) {
  struct sim *sim = node->sim;
  node->expect_close = true;
  if (node->pulse) dmi_pulse_ending(node->pulse);
  if (node->over || node->m->coord) {
    is_over(node);
    return;
  }
  sim->totals->leaves++;
  if (node->threads || node->main_runs)
    sim_bad(sim, "p%u is removed while user code runs there", node->uid);
  for (uint32_t m = 0; m < node->maps; m++) {
    const struct sim_pmap *pmap = &node->pmap[m];
    if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == node->uid)
      sim_bad(sim, "p%u leaves as home of mapping %u", node->uid, m);
  }
}

static void has_left(struct node *node) {
  struct sim *sim = node->sim;
  node->left = true;
  for (uint32_t i = 0; i < node->ended.num; i++) {
    struct sim_departed *departed = DMI_LIST_ADD(&sim->departed);
    departed->uid = node->uid;
    departed->seq = node->ended.at[i].seq;
  }
  node->ended.num = 0;
}

static void opened(struct node *node) {
  if (node->opened) sim_bad(node->sim, "p%u is opened twice", node->uid);
  node->opened = node->creates = true;
  if (node->main_runs || !rng_once_in(&node->sim->rng, 3)) return;
  /* As if DMI_main ran here, too: user code that does not prevent a leave; it begins when the
   * coordinator knows. */
  node->main_op = ++node->sim->next_op;
  input(node, (struct dmi_input){.type = DMI_IN_BUSY, .op = node->main_op});
}

static void fatal(struct node *node, const char *text) {
  sim_log(node->sim, "p%u (%u): fatal: %s", node->uid, node->num, text);
  if (node->uid && !node->noted) sim_bad(node->sim, "p%u: fatal: %s", node->uid, text);
  node_end(node);
}

static void act_life(struct node *node, struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_JOINED:
      node->joined = true;
      node->dmi_id = act->dmi_id;
      node->sim->totals->joins++;
      sim_judge_joined(node);
      break;
    case DMI_MACT_OPENED:
      opened(node);
      break;
    case DMI_MACT_CLOSED:
      node->closed = true;
      break;
    case DMI_MACT_STOP_THREADS:
      answer_some_time(node, (struct sim_pending){.type = SIM_PEND_STOPPED});
      break;
    case DMI_MACT_START_DRAIN:
      node->sim->stir++;
      node->notes.drain_at = node->sim->now;
      sim_log(node->sim, "p%u is to leave, heir p%u", node->uid, act->uid);
      break;
    case DMI_MACT_LEFT:
      has_left(node);
      break;
    case DMI_MACT_FORGET:
      node->pmap[sim_map_num(node->sim, act->mapping.base)].known =
          SIM_FORGOTTEN; /* also if it was unknown */
      break;
    case DMI_MACT_RESULT:
      node_result(node, act);
      break;
    case DMI_MACT_MAIN_LOST:
      node_main_lost(node);
      break;
    case DMI_MACT_EXPECT_CLOSE:
      expect_close(node);
      break;
    case DMI_MACT_FINISH:
      sim_judge_finish(node);
      node_end(node);
      break;
    case DMI_MACT_FATAL:
      fatal(node, act->text);
      break;
    default:
      break; /* TELL */
  }
}

static void check_forget(struct node *node, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  dmi_unpack_init(&body, &msg->body);
  sim_judge_forget(node->sim, dmi_unpack_u64(&body));
}

static void act_net(struct node *node, struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_CONNECT:
      pending_add(node, SIM_PEND_CONNECT)->addr = act->addr;
      break;
    case DMI_MACT_SELF:
      set_self(node, act->id);
      break;
    case DMI_MACT_RENAME:
      sim_net_rename(node, act->id, act->uid);
      break;
    case DMI_MACT_ADD_PEER:
      add_peer(node, act);
      break;
    case DMI_MACT_CLOSE_PEER:
      close_peer(node, act->id);
      break;
    case DMI_MACT_VIEW:
      view(node, act);
      break;
    default:
      act_life(node, act);
  }
}

static void drained(struct node *node) {
  sim_log(node->sim, "p%u is drained", node->uid);
  node->drain = false;
  if (dmi_handover_state(dmi_node_handover(node->whole)) == DMI_HANDOVER_DRAINED)
    sim_judge_drained(node);
  input(node, (struct dmi_input){
                  .type = DMI_IN_DRAINED, .ended = node->ended.at, .ended_num = node->ended.num});
}

static void leaves(struct node *node) {
  sim_log(node->sim, "p%u hands over to p%u", node->uid, node_leave_heir(node));
  node->drain = true;
  if (rng_once_in(&node->sim->rng, 3)) sim_net_slow(node, node_leave_heir(node));
}

static void send(struct node *node, struct dmi_act *act) {
  if (act->msg.type == DMI_CTL_COORD) node->sim->totals->handovers++;
  if (act->msg.type == DMI_CTL_FORGET) check_forget(node, &act->msg);
  node_send(node, act->to, &act->msg);
  memset(&act->msg, 0, sizeof(act->msg));
}

static void carry_out(struct node *node, struct dmi_act *act) {
  switch (act->type) {
    case DMI_ACT_SEND:
      send(node, act);
      break;
    case DMI_ACT_MEMBER:
      act_net(node, act->member);
      break;
    case DMI_ACT_REPLAY:
      node_replay(node, act->map);
      break;
    case DMI_ACT_FREED:
      node_freed(node, act->map);
      break;
    case DMI_ACT_LOOK:
      node->events++;
      break;
    case DMI_ACT_LEAVES:
      leaves(node);
      break;
    case DMI_ACT_STAYS:
      node->creates = node->opened;
      break;
    case DMI_ACT_DRAINED:
      drained(node);
      break;
    case DMI_ACT_HOLD:
      sim_hold(node, act->to, &act->msg);
      memset(&act->msg, 0, sizeof(act->msg));
      break;
    case DMI_ACT_RESUMED:
      node_replay_held(node);
      break;
    default: /* TAKEN; a page's, or the node's own */
      break;
  }
}

/* As in the product, one action after the other; user code may run in between. */
void node_carry(struct node *node) {
  struct sim *sim = node->sim;
  struct dmi_act act;
  if (node->carrying) return;
  node->carrying = true;
  while (!sim->bad && dmi_node_next(node->whole, &node->out, &act)) {
    if (!node->alive) { /* the last one may end with the program while it resumes */
      if (!node->over) sim_bad(sim, "p%u acts after its end", node->uid);
      dmi_act_end(&act);
      continue;
    }
    sim_judge_capacity(node);
    if (node->m->no_capacity && !node->no_capacity) sim_judge_refused(node);
    node->no_capacity = node->m->no_capacity;
    carry_out(node, &act);
    dmi_act_end(&act);
    if (node->alive && !sim->resting && rng_once_in(&sim->rng, 30)) (void)node_ops_begin(node);
  }
  node->carrying = false;
  if (!node->alive) {
    node_bury(node);
  } else if (!sim->bad) {
    if (node->m->phase == DMI_PHASE_ENDED && !node->over) is_over(node);
    dmi_member_check(node->m);
    if (sim->opt.crashes) node_loss_look(node);
    sim_judge_watch(node);
  }
}

/* ---- Events from elsewhere ------------------------------------------------------------------ */

void node_lost(struct node *node, uint32_t id) {
  if (id < DMI_NET_TEMP) node->lost[sim_uid(node->sim, id)] = true;
  if (!node->alive || node->expect_close) return;
  sim_log(node->sim, "p%u lost %u", node->uid, id);
  if (id < DMI_NET_TEMP) sim_pulse_broken(node, id);
  input(node, (struct dmi_input){.type = DMI_IN_LOST, .id = id, .text = "it broke"});
}

/* User code that has ended counts as busy until its operations are complete. */
void node_idle_look(struct node *node) {
  while (node->alive && node->idle_owed && !sim_ops_num(node)) {
    node->idle_owed--;
    input(node, (struct dmi_input){.type = DMI_IN_IDLE});
  }
}

void node_shell_message(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  struct dmi_msg reply = {.type = SIM_CREATED};
  struct sim_creating *creating;
  reply.member.op = msg->member.op;
  if (msg->type == SIM_CREATED) {
    for (uint32_t i = 0; i < node->create_to.num; i++) {
      if (node->create_to.at[i] != from) continue;
      DMI_LIST_DROP(&node->create_to, i);
      break;
    }
    node->own_creates--;
    input(node, (struct dmi_input){.type = DMI_IN_IDLE});
  } else if (!node->creates) {
    if (!node->opened && msg->flags)
      sim_bad(sim, "p%u was welcomed and refuses a thread", node->uid);
    node_send(node, from, &reply);
  } else {
    creating = DMI_LIST_ADD(&node->creating);
    creating->op = ++sim->next_op;
    creating->from = from;
    creating->from_op = msg->member.op;
    input(node, (struct dmi_input){.type = DMI_IN_BUSY, .op = creating->op});
  }
}
