/*
 * node_life.c - what the membership core decides, carried out; and what the shells say to each
 * other about threads.
 *
 * An action that has an answer (CONNECT, VIEW, STOP_THREADS, FORGET) is answered at once or later.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "node_sim.h"

static void event_begin(struct node *node) {
  node->by_thread = false;
}

/* ---- Answers ------------------------------------------------------------------------------------
 */

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
    dmi_member_connected(node->m, mine, &node->out);
  } else {
    dmi_member_not_connected(node->m, "nobody listens there", &node->out);
  }
}

static void stop_threads(struct node *node) {
  bool stopped = !node->threads && !node->creating.num;
  if (stopped) {
    node->creates = false;
  } else {
    node->notes.refused_stop = true;
  }
  dmi_member_stopped(node->m, stopped, &node->out);
}

static void answer(struct node *node, const struct sim_pending *pending) {
  switch (pending->type) {
    case SIM_PEND_CONNECT:
      connect_to(node, &pending->addr);
      break;
    case SIM_PEND_VIEWED:
      dmi_member_viewed(node->m, &node->out);
      break;
    case SIM_PEND_STOPPED:
      stop_threads(node);
      break;
    case SIM_PEND_FORGOT:
      dmi_member_forgot(node->m, pending->base, &node->out);
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
  event_begin(node);
  answer(node, &pending);
  node_carry(node);
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

/* ---- Views --------------------------------------------------------------------------------------
 */

static void see_members(struct node *node) {
  uint32_t num;
  const struct dmi_peer *peers = dmi_member_peers(node->m, &num);
  memset(node->view, 0, sizeof(node->view));
  for (uint32_t i = 0; i < num; i++)
    node->view[peers[i].uid] = peers[i].left && peers[i].uid != node->uid ? 2 : 1;
}

/* As the product: who is a member, then new homes; then those that left are barred. */
static void view(struct node *node, const struct dmi_mact *act) {
  struct sim *sim = node->sim;
  sim->totals->views++;
  see_members(node);
  for (uint32_t i = 0; i < act->removed_num; i++) {
    const struct dmi_removed *removed = &act->removed[i];
    struct node *gone = sim->by_uid[removed->uid];
    if (removed->main) {
      if (!gone->killed) sim_bad(sim, "p%u is said to be lost, and is not", removed->uid);
      gone->notes.told++;
    }
    if (removed->uid == node->uid) continue;
    node_leave_removed(node, removed->uid, removed->heir);
    node->barred[removed->uid] = true;
  }
  node_pager_view(node);
  answer_some_time(node, (struct sim_pending){.type = SIM_PEND_VIEWED});
}

/* ---- Other actions
 * ---------------------------------------------------------------------------------- */

static void set_self(struct node *node, uint32_t uid) {
  struct sim *sim = node->sim;
  if (uid >= SIM_NODES || sim->by_uid[uid]) {
    sim_bad(sim, "uid %u is used again", uid);
    return;
  }
  sim->by_uid[uid] = node;
  node->uid = node->core.self = uid;
}

static void add_peer(struct node *node, const struct dmi_mact *act) {
  struct sim_addr *addr = DMI_LIST_ADD(&node->addrs);
  addr->uid = act->uid;
  addr->addr = act->addr;
  node->knows[act->uid] = true;
}

static void close_peer(struct node *node, uint32_t id) {
  struct sim_end *end = sim_net_end(node, id);
  if (id < SIM_NODES) node->knows[id] = false;
  if (end) sim_net_close(end);
}

static void is_over(struct node *node) {
  node->over = true;
  if (sim_user_code(node->sim)) sim_bad(node->sim, "the program ends while user code runs");
}

static void expect_close(struct node *node) {
  struct sim *sim = node->sim;
  node->expect_close = true;
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
  node_pager_open(node);
  if (node->main_runs || !rng_once_in(&node->sim->rng, 3)) return;
  /* As if DMI_main ran here, too: user code that does not hinder its leaving. */
  node->main_runs = true;
  dmi_member_busy(node->m, 0, &node->out);
}

static void fatal(struct node *node, const char *text) {
  sim_log(node->sim, "p%u (%u): fatal: %s", node->uid, node->num, text);
  if (node->uid) sim_bad(node->sim, "p%u: fatal: %s", node->uid, text);
  node_end(node);
}

static void act_life(struct node *node, struct dmi_mact *act) {
  switch (act->type) {
    case DMI_MACT_JOINED:
      node->joined = true;
      node->dmi_id = act->dmi_id;
      if (node->m->first) node_pager_open(node);
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
      node_leave_start(node, act->uid);
      break;
    case DMI_MACT_LEFT:
      has_left(node);
      break;
    case DMI_MACT_ADOPT:
      if (node_leave_heir(node)) sim_bad(node->sim, "p%u leaves and shall adopt", node->uid);
      node_enter(node, &act->mapping, 0);
      break;
    case DMI_MACT_FORGET:
      node_forget(node, act->mapping.base);
      answer_some_time(node,
                       (struct sim_pending){.type = SIM_PEND_FORGOT, .base = act->mapping.base});
      break;
    case DMI_MACT_RESULT:
      node_result(node, act);
      break;
    case DMI_MACT_EXPECT_CLOSE:
      expect_close(node);
      break;
    case DMI_MACT_FINISH:
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
    case DMI_MACT_SEND:
      if (act->msg.type == DMI_CTL_COORD) node->sim->totals->handovers++;
      if (act->msg.type == DMI_CTL_FORGET) check_forget(node, &act->msg);
      node_send(node, act->id, &act->msg);
      memset(&act->msg, 0, sizeof(act->msg));
      break;
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

/* As the product does: in order; an event that an action causes adds its actions at the end. */
void node_carry(struct node *node) {
  if (node->carrying) return;
  node->carrying = true;
  for (uint32_t i = 0; i < node->out.num && !node->sim->bad; i++) {
    struct dmi_mout one = {1, 1, malloc(sizeof(struct dmi_mact))};
    if (!one.act) abort();
    one.act[0] = node->out.act[i];
    memset(&node->out.act[i], 0, sizeof(node->out.act[i]));
    if (!node->alive) sim_bad(node->sim, "p%u acts after its end", node->uid);
    act_net(node, &one.act[0]);
    dmi_mout_free(&one);
  }
  dmi_mout_clear(&node->out);
  node->carrying = false;
  if (!node->alive || node->sim->bad) return;
  if (node->m->phase == DMI_PHASE_ENDED && !node->over) is_over(node);
  dmi_member_check(node->m);
  sim_judge_watch(node);
}

/* ---- Events from elsewhere
 * ---------------------------------------------------------------------------- */

void node_lost(struct node *node, uint32_t id) {
  if (id < SIM_NODES) node->lost[id] = true;
  if (!node->alive || node->expect_close) return;
  sim_log(node->sim, "p%u lost %u", node->uid, id);
  event_begin(node);
  dmi_member_lost(node->m, id, "it broke", &node->out);
  node_carry(node);
}

/* User code that has ended counts as busy until its operations are complete. */
void node_idle_look(struct node *node) {
  while (node->idle_owed && !sim_ops_num(node)) {
    node->idle_owed--;
    dmi_member_idle(node->m, &node->out);
  }
  node_carry(node);
}

void node_shell_message(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  struct dmi_msg reply = {.type = SIM_CREATED, .word = {msg->word[0]}};
  struct sim_creating *creating;
  event_begin(node);
  if (msg->type == SIM_CREATED) {
    node->own_creates--;
    dmi_member_idle(node->m, &node->out);
  } else if (!node->creates) {
    if (!node->opened && msg->flags)
      sim_bad(sim, "p%u was welcomed and refuses a thread", node->uid);
    node_send(node, from, &reply);
  } else {
    creating = DMI_LIST_ADD(&node->creating);
    creating->op = ++sim->next_op;
    creating->from = from;
    creating->from_op = msg->word[0];
    dmi_member_busy(node->m, creating->op, &node->out);
  }
  node_carry(node);
}
