/*
 * node_page.c - the page protocol in a virtual node: carries out its actions, and delivers its
 * messages.
 *
 * Does what the product does around the core, and checks what the core asks for.
 */
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

/* ---- Actions -------------------------------------------------------------------------------- */

static void defer(struct node *node, uint32_t map, struct dmi_act *act) {
  struct sim_pmap *pmap = &node->pmap[map];
  struct dmi_deferred *kept;
  if (!atomic_load(&pmap->map.arriving))
    sim_bad(node->sim, "p%u defers %s though its home is not arriving", node->uid,
            dmi_wire_name(act->msg.type));
  kept = DMI_LIST_ADD(&pmap->deferred);
  kept->from = act->to;
  kept->msg = act->msg;
  /* A message to the process itself may borrow the operation's bytes; a deferred one must not. */
  if (kept->msg.body.len && !kept->msg.body.frame)
    kept->msg.body = dmi_slice_copy(kept->msg.body.ptr, kept->msg.body.len);
  if (kept->msg.list.len && !kept->msg.list.frame)
    kept->msg.list = dmi_slice_copy(kept->msg.list.ptr, kept->msg.list.len);
  node->sim->totals->deferred++;
}

static void count(struct node *node, uint32_t to, const struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  struct sim_thread *thread;
  dmi_op_t op;
  bool calm;
  if (msg->type == DMI_MSG_DONE && (thread = sim_thread_of(sim, msg->origin, msg->done.op))) {
    sim_ops_hint(sim, thread);
  } else if (msg->type == DMI_MSG_DONE) {
    sim_open_hint(sim, msg->origin, msg->done.op);
  }
  if (msg->type != DMI_MSG_GET && msg->type != DMI_MSG_PUT && msg->type != DMI_MSG_ATOMIC) return;
  op = msg->type == DMI_MSG_ATOMIC ? msg->atomic.op : msg->access.op;
  thread = sim_thread_of(sim, msg->origin, op);
  if (thread) thread->sent_from = node->uid, thread->sent_to = to;
  if (thread && (msg->flags & DMI_F_WAITING) && sim->opt.crashes) sim_ops_hint(sim, thread);
  /* R11: waiting operations move with the ownership */
  if (!thread || (msg->flags & DMI_F_WAITING)) return;
  if (++thread->hops > sim->totals->hops_max) sim->totals->hops_max = thread->hops;
  calm = thread->calm == sim->stir && !sim->pools;
  if (calm && thread->hops > sim->totals->hops_calm_max) sim->totals->hops_calm_max = thread->hops;
  /* Sent to the hint, to the home, to the tail; more often only while homes move. */
  if (thread->hops > (calm ? 3 : 15) && !sim->opt.crashes)
    sim_bad(sim, "a request of p%u chases the owner: sent %u times", msg->origin, thread->hops);
}

static void log_send(const struct node *node, uint32_t to, const struct dmi_msg *msg) {
  if (!node->sim->opt.verbose) return;
  sim_log(node->sim,
          "p%u (%u) sends %s to %u: map %u page %u origin p%u words %llu %llu %llu %llu flags %x",
          node->uid, node->num, dmi_wire_name(msg->type), to,
          dmi_wire_about_page(msg->type) ? sim_map_num(node->sim, msg->map) : 0,
          (unsigned)msg->page, msg->origin, (unsigned long long)msg->word[0],
          (unsigned long long)msg->word[1], (unsigned long long)msg->word[2],
          (unsigned long long)msg->word[3], msg->flags);
}

/* A GRANT to a process that is lost, though it may still run, arrives nowhere.  If the sender is
 * lost, too, or others have removed it, the page was not its own any more. */
static bool grants_nobody(const struct node *node, uint32_t to, const struct dmi_msg *msg) {
  const struct node *other = sim_by_uid(node->sim, to);
  if (!other) return false;
  if (other->noted && !node->noted) {
    node->sim->map[sim_map_num(node->sim, msg->map)].grants[msg->page]++;
    sim_lose_grant(node->sim, msg);
  }
  return other->noted || (node->noted && other->fenced[sim_uid(node->sim, node->uid)]);
}

/* Sends a message about a page.  False: the receiver has left; the caller keeps the message. */
static bool send_page(struct node *node, uint32_t to, struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  bool grant = msg->type == DMI_MSG_GRANT;
  uint32_t *grants = grant ? &sim->map[sim_map_num(node->sim, msg->map)].grants[msg->page] : NULL;
  count(node, to, msg);
  log_send(node, to, msg);
  if (to == node->uid) {
    if (grant) sim_bad(sim, "p%u grants to itself", to);
    sim->totals->self_messages++;
    sim_net_self(node, msg);
    return true;
  }
  if (grant) {
    node_pager_granted(node);
    if (grants_nobody(node, to, msg)) {
      dmi_slice_drop(&msg->list);
      dmi_slice_drop(&msg->body);
      return true;
    }
    ++*grants;
    sim->totals->moves++;
  }
  if (sim_net_send(node, to, msg)) return true;
  if (grant) --*grants;
  return false;
}

static void bounce(struct node *node, uint32_t map, uint32_t page, uint32_t to, struct dmi_msg *msg,
                   struct dmi_out *out) {
  sim_log(node->sim, "p%u has %s for p%u sent back", node->uid, dmi_wire_name(msg->type), to);
  node->sim->totals->bounced++;
  dmi_page_bounced(&node->core, node->pmap[map].page[page], to, msg, out);
}

/* The daemon may take a view between a thread's step and the sending of its messages. */
static void view_between(struct node *node) {
  struct sim_end *end = sim_net_end(node, dmi_member_coordinator(node->m));
  if (!end || node->carrying || rng_once_in(&node->sim->rng, 4)) return;
  node->by_thread = false;
  (void)sim_net_take(end, DMI_CTL_VIEW);
  node->by_thread = true;
}

void node_act(struct node *node, uint32_t map, uint32_t page, struct dmi_out *out) {
  struct sim *sim = node->sim;
  bool by_thread = node->by_thread;
  if (node->pmap[map].page[page]) sim_ops_waits(sim, node->pmap[map].page[page]);
  if (out->num && by_thread) view_between(node);
  for (uint32_t i = 0; i < out->num; i++) { /* the list may grow, and move in memory, meanwhile */
    struct dmi_act act = out->act[i];
    switch (act.type) {
      case DMI_ACT_SEND:
        if (!send_page(node, act.to, &act.msg)) bounce(node, map, page, act.to, &act.msg, out);
        break;
      case DMI_ACT_COMPLETE:
        sim_ops_complete(node, act.req);
        break;
      case DMI_ACT_DEFER:
        defer(node, map, &act);
        break;
      case DMI_ACT_HOLD:
        sim_hold(node, act.to, &act.msg);
        break;
      case DMI_ACT_STALLED:
        sim_log(sim, "p%u stalls: map %u page %u", node->uid, map, page);
        sim->totals->stalls++;
        node_pager_stalled(node, node->pmap[map].page[page]);
        break;
      default: /* actions of the handover */
        break;
    }
  }
  dmi_out_free(out);
  node->stepped = true;
  node_pager_stepped(node);
}

void sim_act(struct node *node, uint32_t map, uint32_t page, struct dmi_out *out) {
  node->by_thread = true;
  node_act(node, map, page, out);
  node->by_thread = false;
}

/* Sends a message of the daemon; drops it if it cannot be sent. */
void node_send(struct node *node, uint32_t to, struct dmi_msg *msg) {
  node->sim->totals->refused_pages += msg->type == DMI_MSG_REFUSE_PAGE;
  log_send(node, to, msg);
  node_room_sends(node, to, msg);
  if (sim_net_send(node, to, msg)) return;
  node->sim->totals->dropped++;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

/* ---- Messages that arrive ------------------------------------------------------------------- */

static void unknown_map(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct dmi_msg reply;
  uint32_t to = dmi_page_unknown(from, msg, &reply);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  if (to == node->uid) {
    sim_net_self(node, &reply);
  } else if (to) {
    node_send(node, to, &reply);
  }
}

/* It may become known here by the recovery. */
static void unknown_frozen(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (dmi_recover_unknown(dmi_node_recover(node->whole), from, msg)) {
    sim_hold(node, from, msg);
    return;
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

/* The operation that this message answers; NULL: none. */
static struct dmi_req *answered(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  uint32_t map = sim_map_num(sim, msg->map);
  struct sim_thread *thread;
  dmi_op_t op;
  if (!dmi_msg_answers(msg, &op)) return NULL;
  thread = sim_thread_of(sim, node->uid, op);
  if (thread && (thread->map != map || thread->page != msg->page))
    sim_bad(sim, "p%u gets %s for an operation on another page", node->uid,
            dmi_wire_name(msg->type));
  if (!thread && !sim->map[map].unmapping)
    sim_bad(sim, "p%u gets %s from p%u, which nobody waits for", node->uid,
            dmi_wire_name(msg->type), from);
  return thread ? &thread->req : NULL;
}

void node_page_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  struct sim *sim = node->sim;
  uint32_t map = sim_map_num(node->sim, msg->map), num = (uint32_t)msg->page;
  struct sim_pmap *pmap = &node->pmap[map];
  struct dmi_page *page;
  struct dmi_req *own;
  struct dmi_out out;
  uint8_t type = msg->type;
  dmi_op_t op;
  bool answer = dmi_msg_answers(msg, &op);
  /* An operation keeps the records of its mapping; for others an unmapped one is unknown. */
  if (pmap->known != SIM_KNOWN &&
      !(answer && pmap->page[num] && sim_thread_of(sim, node->uid, op))) {
    if (atomic_load(&node->core.frozen)) {
      unknown_frozen(node, from, msg);
      return;
    }
    unknown_map(node, from, msg);
    return;
  }
  own = answered(node, from, msg);
  page = node_page(node, map, num);
  dmi_out_init(&out);
  if (!dmi_page_message(&node->core, page, from, msg, own, &out)) {
    sim_bad(sim, "p%u rejects %s from p%u (map %u page %u)", node->uid, dmi_wire_name(type), from,
            map, num);
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  node_act(node, map, num, &out);
}

/* The page that a DATA or BLOCK is about; NULL: there is no record. */
static struct dmi_page *part_page(struct node *node, const struct dmi_msg *msg) {
  const uint32_t map = sim_map_num(node->sim, msg->map);
  if (!node->alive || node->pmap[map].known != SIM_KNOWN) return NULL;
  return node->pmap[map].page[msg->page];
}

void node_part_begins(struct node *node, uint32_t from, struct dmi_msg *msg) {
  sim_part_begins(&node->core, part_page(node, msg), from, msg);
}

void node_part(struct node *node, const struct dmi_msg *msg, uint64_t off, uint64_t got) {
  struct dmi_page *page = part_page(node, msg);
  struct dmi_out out;
  if (!page) return;
  dmi_out_init(&out);
  dmi_page_part(&node->core, page, msg, off, got, &out);
  node_act(node, sim_map_num(node->sim, msg->map), (uint32_t)msg->page, &out);
}

void node_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  node_room_takes(node, from, msg);
  node_handle(node, from, msg);
}

void node_handle(struct node *node, uint32_t from, struct dmi_msg *msg) {
  const struct dmi_input in = {
      .type = DMI_IN_MESSAGE, .id = from, .msg = msg, .class = dmi_wire_class(msg)};
  struct sim *sim = node->sim;
  uint8_t type = msg->type;
  if (type >= SIM_CREATE) {
    node_shell_message(node, from, msg);
  } else if (dmi_wire_class(msg) == DMI_CLASS_PAGE) {
    /* True if a thread that waits may receive it: answers; the daemon receives all others. */
    node->by_thread = dmi_wire_type(type)->lendable && from != node->uid &&
                      !atomic_load(&node->core.frozen) && rng_once_in(&sim->rng, 2);
    node_page_message(node, from, msg);
    node->by_thread = false;
  } else {
    if (type == DMI_SVC_CAPACITY_REPORT && msg->capacity_report.number == 0) sim_judge_told(node);
    if (!node_input(node, &in) && !(sim_by_uid(sim, from) && sim_by_uid(sim, from)->killed))
      sim_bad(sim, "p%u refuses %s from %u", node->uid, dmi_wire_name(type), from);
  }
}
