/*
 * sim_proc.c - a virtual process: keeps page records, carries out the core's actions.
 *
 * Does what the product does around the core, and checks what the core asks for.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/wire.h"
#include "simulator.h"

struct sim_proc *sim_by_uid(const struct sim *sim, uint32_t uid) {
  if (uid == 0 || uid > sim->uids || sim->slot_of[uid] < 0) return NULL;
  return sim->proc[sim->slot_of[uid]];
}

bool sim_has_left(const struct sim_proc *proc, uint32_t uid) {
  return (proc->left[uid / 8] >> (uid % 8)) & 1;
}

static bool is_member(void *arg, uint32_t uid) {
  const struct sim_proc *proc = arg;
  return uid > 0 && uid <= proc->sim->uids && !sim_has_left(proc, uid);
}

struct sim_proc *sim_proc_new(struct sim *sim) {
  uint32_t slot = 0;
  while (slot < SIM_PROCS && (sim->proc[slot] || (sim->crashed[slot] && !sim_net_idle(sim, slot))))
    slot++;
  if (slot == SIM_PROCS || sim->uids + 1 >= SIM_UIDS) return NULL;
  struct sim_proc *proc = calloc(1, sizeof(*proc));
  if (!proc) abort();
  proc->sim = sim;
  proc->slot = slot;
  proc->lives = true;
  proc->threads = rng_range(&sim->rng, 2, SIM_THREADS);
  proc->core.self = ++sim->uids;
  proc->core.broken = sim->opt.page_break;
  proc->core.is_member = is_member;
  proc->core.function = hist_user_function;
  proc->core.arg = proc;
  if (sim->opt.pagers) {
    sim_pager_init(proc);
  } else {
    sim_capacity_init(proc);
  }
  sim_handover_init(proc);
  sim_crash_init(proc);
  proc->core.hop = sim->hop;
  proc->core.block = sim->block;
  sim->slot_of[proc->core.self] = (int8_t)slot;
  sim->crashed[slot] = 0;
  sim->proc[slot] = proc;
  /* It begins with the newest view, and does not know mappings that are being unmapped. */
  for (uint32_t i = 0; i < sim->views; i++) {
    uint32_t uid = sim->view[i].uid;
    proc->left[uid / 8] = (uint8_t)(proc->left[uid / 8] | 1u << (uid % 8));
  }
  proc->views = sim->views;
  for (uint32_t i = 0; i < sim->maps; i++) {
    if (sim->map[i].unmapping) proc->pmap[i].known = SIM_FORGOTTEN;
  }
  if (proc->pager) sim_pager_joined(sim);
  return proc;
}

void sim_proc_free(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  sim_crash_fini(proc);
  sim_handover_fini(proc);
  for (uint32_t m = 0; m < sim->maps; m++) {
    struct sim_pmap *pmap = &proc->pmap[m];
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (!pmap->page[p]) continue;
      dmi_page_fini(&proc->core, pmap->page[p]);
      free(pmap->page[p]);
    }
    free(pmap->deferred);
    free(pmap->deferred_from);
  }
  sim_capacity_fini(proc);
  sim_pager_fini(proc);
  for (uint32_t t = 0; t <= SIM_THREADS; t++)
    sim_ops_fini(&proc->thread[t]);
  sim->slot_of[proc->core.self] = -1;
  sim->proc[proc->slot] = NULL;
  free(proc);
}

/* The home of the mapping in this process's view, as the directory answers. */
static uint32_t directory_home(const struct sim_proc *proc, uint32_t map) {
  const struct sim *sim = proc->sim;
  uint32_t home = sim->map[map].creator;
  for (uint32_t i = 0; i < sim->views && sim_has_left(proc, home); i++) {
    if (sim->view[i].uid == home) home = sim->view[i].heir;
  }
  return home;
}

struct sim_pmap *sim_pmap_get(struct sim_proc *proc, uint32_t map) {
  struct sim_pmap *pmap = &proc->pmap[map];
  const struct sim_map *real = &proc->sim->map[map];
  if (pmap->known == SIM_FORGOTTEN) return NULL;
  if (pmap->known == SIM_UNKNOWN) {
    if (atomic_load(&proc->core.frozen)) return NULL; /* the directory answers after RESUME */
    if (real->unmapping) {
      pmap->known = SIM_FORGOTTEN;
      return NULL;
    }
    pmap->known = SIM_KNOWN;
    pmap->map.base = real->base;
    pmap->map.page_size = real->page_size;
    pmap->map.page_num = real->page_num;
    atomic_store(&pmap->map.home, directory_home(proc, map));
    if (proc->sim->opt.crashes && real->creator != directory_home(proc, map)) {
      atomic_store(&pmap->map.hole, true); /* so its home was lost */
      memset(proc->sim->map[map].lost, true, sizeof(real->lost));
    }
  }
  return pmap;
}

struct dmi_page *sim_page_get(struct sim_proc *proc, uint32_t map, uint32_t page) {
  struct sim_pmap *pmap = &proc->pmap[map];
  if (!pmap->page[page]) {
    pmap->page[page] = calloc(1, sizeof(*pmap->page[page]));
    if (!pmap->page[page]) abort();
    dmi_page_init(&proc->core, &pmap->map, pmap->page[page], page);
  }
  sim_touch(proc->sim, map, page);
  return pmap->page[page];
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void defer(struct sim_proc *proc, uint32_t map, struct dmi_act *act) {
  struct sim_pmap *pmap = &proc->pmap[map];
  if (!atomic_load(&pmap->map.arriving)) {
    sim_bad(proc->sim, "p%u defers %s though its home is not arriving", proc->core.self,
            sim_msg_name(act->msg.type));
  }
  if (pmap->deferred_num == pmap->deferred_capacity) {
    pmap->deferred_capacity = pmap->deferred_capacity ? 2 * pmap->deferred_capacity : 8;
    pmap->deferred = realloc(pmap->deferred, pmap->deferred_capacity * sizeof(*pmap->deferred));
    pmap->deferred_from =
        realloc(pmap->deferred_from, pmap->deferred_capacity * sizeof(*pmap->deferred_from));
    if (!pmap->deferred || !pmap->deferred_from) abort();
  }
  pmap->deferred[pmap->deferred_num] = act->msg;
  /* A message to the process itself may borrow the operation's bytes; a deferred one must not. */
  struct dmi_msg *kept = &pmap->deferred[pmap->deferred_num];
  if (kept->body.len && !kept->body.frame) {
    kept->body = dmi_slice_copy(kept->body.ptr, kept->body.len);
  }
  pmap->deferred_from[pmap->deferred_num++] = act->to;
  proc->sim->totals->deferred++;
}

/* The receiver left after the core had decided to send. */
static void bounce(struct sim_proc *proc, uint32_t map, uint32_t page, struct dmi_act *act) {
  struct dmi_out out;
  sim_log(proc->sim, "p%u has %s for p%u sent back", proc->core.self, sim_msg_name(act->msg.type),
          act->to);
  proc->sim->totals->bounced++;
  dmi_out_init(&out);
  dmi_page_bounced(&proc->core, proc->pmap[map].page[page], act->to, &act->msg, &out);
  sim_act(proc, map, page, &out);
}

/* True if the process has taken the view without `uid` after its first `views` views. */
static bool left_since(const struct sim_proc *proc, uint32_t uid, uint32_t views) {
  for (uint32_t i = views; i < proc->views; i++) {
    if (proc->sim->view[i].uid == uid) return uid != proc->core.self;
  }
  return false;
}

void sim_act(struct sim_proc *proc, uint32_t map, uint32_t page, struct dmi_out *out) {
  /* The daemon may take a view before the messages of this step are sent. */
  uint32_t views = proc->views;
  if (proc->pmap[map].page[page]) sim_ops_waits(proc->sim, proc->pmap[map].page[page]);
  if (out->num && !proc->daemon && rng_once_in(&proc->sim->rng, 4)) sim_member_view_now(proc);
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *act = &out->act[i];
    switch ((enum dmi_act_type)act->type) {
      case DMI_ACT_SEND:
        if (left_since(proc, act->to, views)) {
          bounce(proc, map, page, act);
        } else {
          sim_send(proc, act->to, &act->msg);
        }
        break;
      case DMI_ACT_COMPLETE:
        sim_ops_complete(proc, act->req);
        break;
      case DMI_ACT_DEFER:
        defer(proc, map, act);
        break;
      case DMI_ACT_HOLD:
        sim_hold(proc, act->to, &act->msg);
        break;
      case DMI_ACT_STALLED:
        sim_log(proc->sim, "p%u stalls: map %u page %u", proc->core.self, map, page);
        proc->sim->totals->stalls++;
        if (proc->pager) sim_pager_stalled(proc, proc->pmap[map].page[page]);
        break;
      default:
        sim_bad(proc->sim, "p%u: a page has an action of the handover", proc->core.self);
    }
  }
  dmi_out_free(out);
  if (proc->pager) sim_pager_stepped(proc);
}

bool sim_is_lost(const struct sim *sim, uint32_t uid) {
  return uid && !sim_by_uid(sim, uid);
}

struct sim_thread *sim_thread_of(const struct sim *sim, uint32_t uid, dmi_op_t op) {
  struct sim_proc *proc = sim_by_uid(sim, uid);
  for (uint32_t t = 0; proc && t <= SIM_THREADS; t++) {
    if (proc->thread[t].out && dmi_op_is(proc->thread[t].req.op, op)) return &proc->thread[t];
  }
  return NULL;
}

static void count(struct sim *sim, uint32_t from, uint32_t to, const struct dmi_msg *msg) {
  struct sim_thread *thread;
  dmi_op_t op;
  if (!dmi_wire_about_page(msg->type)) return;
  sim->totals->by_type[msg->type]++;
  if (msg->type == DMI_MSG_DONE && (thread = sim_thread_of(sim, msg->origin, msg->done.op))) {
    sim_ops_hint(sim, thread);
  } else if (msg->type == DMI_MSG_DONE) {
    sim_open_hint(sim, msg->origin, msg->done.op);
  }
  if (msg->type != DMI_MSG_GET && msg->type != DMI_MSG_PUT && msg->type != DMI_MSG_ATOMIC) return;
  op = msg->type == DMI_MSG_ATOMIC ? msg->atomic.op : msg->access.op;
  thread = sim_thread_of(sim, msg->origin, op);
  if (thread) thread->sent_from = from, thread->sent_to = to;
  /* R11: waiting operations move with the ownership */
  if (thread && (msg->flags & DMI_F_WAITING)) sim_ops_hint(sim, thread);
  if (!thread || (msg->flags & DMI_F_WAITING)) return;
  if (++thread->hops > sim->totals->hops_max) sim->totals->hops_max = thread->hops;
  bool calm = thread->calm == sim->stir && !sim->pools;
  if (calm && thread->hops > sim->totals->hops_calm_max) sim->totals->hops_calm_max = thread->hops;
  /* Sent to the hint, to the home, to the tail; more often only while homes move. */
  if (thread->hops > (calm ? 3 : 15) && !sim->opt.crashes) {
    sim_bad(sim, "a request of p%u chases the owner: sent %u times", msg->origin, thread->hops);
  }
}

/* Messages to a process that has left which nobody waits for, and which the product drops: the
 * answer to a READ that an own GRANT made needless, a RELEASE, and anything about a mapping that it
 * has forgotten (a leaver that has forgotten it, too, does not wait for acknowledgements);
 * REFUSE_PAGE, since a process that has left owns nothing. */
static bool may_drop(const struct sim_proc *proc, const struct dmi_msg *msg) {
  if (dmi_wire_about_page(msg->type)) {
    uint32_t map = (uint32_t)(msg->map >> 20) - 1;
    if (proc->pmap[map].known == SIM_FORGOTTEN) return true;
  }
  if (msg->type == DMI_MSG_DONE && proc->sim->totals->abandoned) return true;
  if (dmi_wire_class(msg) == DMI_CLASS_CAPACITY) return true;
  return msg->type == DMI_MSG_DATA || msg->type == DMI_MSG_BLOCK ||
         msg->type == DMI_MSG_REFUSE_PAGE || msg->type == DMI_MSG_RELEASE ||
         (msg->type == DMI_MSG_FAIL && dmi_fetch_any(msg->fail.fetch));
}

void sim_send(struct sim_proc *proc, uint32_t to, struct dmi_msg *msg) {
  struct sim *sim = proc->sim;
  count(sim, proc->core.self, to, msg);
  sim->totals->refused_pages += msg->type == DMI_MSG_REFUSE_PAGE;
  if (sim->opt.verbose) {
    sim_log(sim,
            "p%u sends %s to p%u: map %u page %u origin p%u words %llu %llu %llu %llu flags %x",
            proc->core.self, sim_msg_name(msg->type), to, (unsigned)(msg->map >> 20),
            (unsigned)msg->page, msg->origin, (unsigned long long)msg->word[0],
            (unsigned long long)msg->word[1], (unsigned long long)msg->word[2],
            (unsigned long long)msg->word[3], msg->flags);
  }
  if (to == proc->core.self) {
    sim->totals->self_messages++;
    if (msg->type == DMI_MSG_GRANT) sim_bad(sim, "p%u grants to itself", to);
    sim_page_message(proc, to, msg);
    return;
  }
  struct sim_proc *other = sim_by_uid(sim, to);
  struct dmi_frame *hold = NULL;
  proc->spoke[to] = true;
  if (!other && sim_crash_to_nobody(sim, msg)) return;
  if (!other || sim_has_left(proc, to)) {
    if (!may_drop(proc, msg)) {
      sim_bad(sim, "p%u sends %s to p%u, which has left", proc->core.self, sim_msg_name(msg->type),
              to);
    }
    sim->totals->dropped++;
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
    return;
  }
  /* Copies borrowed bytes: they may change as soon as this returns. */
  if (msg->body.len && (!msg->body.frame || proc->pager)) {
    hold = msg->body.frame; /* counts in the sender's account while this is in flight */
    msg->body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  }
  if (msg->list.len && !msg->list.frame) msg->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  if (msg->type == DMI_MSG_GRANT) {
    sim->map[(msg->map >> 20) - 1].grants[msg->page]++;
    sim->totals->moves++;
    if (proc->pager) sim_pager_granted(proc);
  }
  sim_net_put(sim, proc->slot, other->slot, msg, hold);
}

/* ---- Messages that arrive ------------------------------------------------------------------- */

static void unknown_map(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_msg reply;
  uint32_t to = dmi_page_unknown(from, msg, &reply);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  if (to) sim_send(proc, to, &reply);
}

/* A mapping that was not in use here becomes known after RESUME only. */
static void frozen_unknown(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  if (dmi_recover_unknown(proc->recover, from, msg)) {
    sim_hold(proc, from, msg);
    return;
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

void sim_page_message(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct sim *sim = proc->sim;
  uint32_t map = (uint32_t)(msg->map >> 20) - 1;
  uint32_t num = (uint32_t)msg->page;
  struct dmi_req *own = NULL;
  struct dmi_out out;
  uint8_t type = msg->type;
  dmi_op_t op;
  bool answer = dmi_msg_answers(msg, &op);
  if (!sim_pmap_get(proc, map) && proc->pmap[map].known == SIM_UNKNOWN) {
    frozen_unknown(proc, from, msg);
    return;
  }
  if (!sim_pmap_get(proc, map) && !proc->pmap[map].page[num]) {
    unknown_map(proc, from, msg);
    return;
  }
  if (answer) {
    struct sim_thread *thread = sim_thread_of(sim, proc->core.self, op);
    if (thread) own = &thread->req;
    if (thread && (thread->map != map || thread->page != num)) {
      sim_bad(sim, "p%u gets %s for an operation on another page", proc->core.self,
              sim_msg_name(type));
    }
    if (!own && !sim->map[map].unmapping && !proc->abandons) {
      sim_bad(sim, "p%u gets %s from p%u, which nobody waits for", proc->core.self,
              sim_msg_name(type), from);
    }
  }
  struct dmi_page *page = sim_page_get(proc, map, num);
  dmi_out_init(&out);
  if (!dmi_page_message(&proc->core, page, from, msg, own, &out)) {
    sim_bad(sim, "p%u rejects %s from p%u (map %u page %u)", proc->core.self, sim_msg_name(type),
            from, map, num);
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  sim_act(proc, map, num, &out);
}

void sim_part(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg,
              uint64_t off, uint64_t got) {
  struct sim_proc *proc = sim->proc[to_slot], *sender = sim->proc[from_slot];
  uint32_t from = sender ? sender->core.self : sim->crashed[from_slot];
  uint32_t map = (uint32_t)(msg->map >> 20) - 1;
  struct dmi_msg copy; /* the queue may move meanwhile */
  struct dmi_page *page;
  struct dmi_out out;
  if (!proc || !from || !sim_pmap_get(proc, map) || !proc->pmap[map].page[msg->page]) return;
  page = sim_page_get(proc, map, (uint32_t)msg->page);
  if (!off) sim_part_begins(&proc->core, page, from, msg);
  copy = *msg;
  dmi_out_init(&out);
  dmi_page_part(&proc->core, page, &copy, off, got, &out);
  sim_act(proc, map, (uint32_t)copy.page, &out);
}

void sim_handle(struct sim_proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct sim *sim = proc->sim;
  const struct dmi_page *page;
  switch (msg->type) {
    case SIM_LAST_REQUEST:
      proc->byes++;
      break;
    case SIM_FOUND:
      sim_handover_found(proc, msg);
      break;
    case DMI_MSG_CHANNEL_CUT:
    case DMI_MSG_BACK:
    case DMI_MSG_REPORT:
    case DMI_MSG_ASK:
    case DMI_MSG_DECIDE:
    case DMI_MSG_MARKED:
    case DMI_MSG_TELLS:
    case DMI_MSG_TELLERS:
      sim_crash_message(proc, from, msg);
      break;
    case DMI_SVC_CAPACITY_ASK:
    case DMI_SVC_CAPACITY_REPORT:
    case DMI_SVC_CAPACITY_RETURN:
      sim_pager_message(proc, from, msg);
      break;
    case DMI_MSG_TAKE:
    case DMI_MSG_REFUSE_PAGE:
    case DMI_MSG_HOME_BEGIN:
    case DMI_MSG_HOME_TAILS:
    case DMI_MSG_HOME_END:
    case DMI_MSG_HOME_DONE:
      sim_handover_message(proc, from, msg);
      break;
    case DMI_MSG_GRANT:
      sim->map[(msg->map >> 20) - 1].grants[msg->page]--;
      page = proc->pmap[(msg->map >> 20) - 1].page[msg->page];
      /* the page has got bytes meanwhile */
      proc->pool.excused = page && (page->flags & DMI_PAGE_ZEROS);
      sim_page_message(proc, from, msg);
      proc->pool.excused = false;
      break;
    default:
      sim_page_message(proc, from, msg);
  }
}

void sim_deliver(struct sim *sim, uint32_t from_slot, uint32_t to_slot, struct dmi_msg *msg) {
  struct sim_proc *proc = sim->proc[to_slot], *sender = sim->proc[from_slot];
  uint32_t from = sender ? sender->core.self : sim->crashed[from_slot];
  sim->totals->messages++;
  if (sim_crash_drops(sim, from_slot, to_slot, msg)) return;
  if (!proc || !from) {
    sim_bad(sim, "%s under way from or to a process that is gone", sim_msg_name(msg->type));
    return;
  }
  if (sim->opt.verbose) {
    sim_log(sim, "p%u takes %s from p%u: map %u page %u", proc->core.self, sim_msg_name(msg->type),
            from, (unsigned)(msg->map >> 20), (unsigned)msg->page);
  }
  if (dmi_wire_class(msg) == DMI_CLASS_HANDOVER && sim_crash_holds(proc, from)) {
    sim_hold(proc, from, msg);
  } else {
    sim_handle(proc, from, msg);
  }
}
