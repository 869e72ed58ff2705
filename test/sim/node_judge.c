/*
 * node_judge.c - checks what must hold for members, notices, calls and mappings, at each event and
 * when nothing is in flight.
 */
#include <stdlib.h>

#include "base/error.h"
#include "msg/wire.h"
#include "simulator.h"

struct node *sim_coordinator(struct sim *sim) {
  struct node *found = NULL;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->proc[i];
    if (!node || !dmi_member_is_coordinator(node->m)) continue;
    if (found && sim->agreement->calm(sim))
      sim_bad(sim, "p%u and p%u are both coordinator", found->uid, node->uid);
    if (found && dmi_member_view(found->m) > dmi_member_view(node->m)) continue; /* deposed */
    found = node;
  }
  return found;
}

static const struct dmi_record *record_of(struct sim *sim, const struct node *node) {
  const struct node *at = sim_coordinator(sim);
  return at ? dmi_coord_find(at->m->coord, node->uid) : NULL;
}

/* It was told to end: no user code runs there, and it need not be told anything.  (By one that is
 * lost?  It may have been, if it has left.) */
static bool is_exiting(struct sim *sim, const struct node *node) {
  const struct dmi_record *record = record_of(sim, node);
  const struct dmi_peer *self = dmi_member_peer(node->m, node->uid);
  if (!sim_coordinator(sim)) return self && self->left;
  return record && record->life == DMI_LIFE_EXITING;
}

static struct node *named(struct sim *sim, const struct dmi_node_info *info) {
  return sim->all[atoi(info->host + 1)];
}

/* ---- Joining -------------------------------------------------------------------------------- */

/* All processes that it knows must know it, so that none meets an unknown uid. */
void sim_judge_joined(struct node *node) {
  struct sim *sim = node->sim;
  if (node_is_removed(node)) return; /* removed before it hears that it has joined */
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *other = sim->proc[i];
    if (!other || other == node || !other->joined || is_exiting(sim, other)) continue;
    if (node_is_removed(other)) continue; /* and has not heard of it */
    if (dmi_id_is(other->dmi_id, node->dmi_id))
      sim_bad(sim, "p%u and p%u have the same id", node->uid, other->uid);
    if (dmi_member_peer(node->m, other->uid) && !other->view[sim_uid(sim, node->uid)])
      sim_bad(sim, "p%u is joined and p%u does not know it", node->uid, other->uid);
  }
}

/* ---- The end -------------------------------------------------------------------------------- */

/* It has heard FINISH: all that are left have heard END.  Else they could be too few to go on. */
void sim_judge_finish(struct node *node) {
  struct sim *sim = node->sim;
  if (!node->over || node->cut_off || node_is_removed(node)) return;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *other = sim->proc[i];
    if (!other || other->over || !other->joined || node_is_removed(other)) continue;
    if (dmi_member_peer(node->m, other->uid))
      sim_bad(sim, "p%u ends, and p%u has not heard that the program is over", node->uid,
              other->uid);
  }
}

/* ---- Notices -------------------------------------------------------------------------------- */

static uint32_t close_notices(struct sim *sim, const struct node *node) {
  const struct node *at = sim_coordinator(sim);
  uint32_t num = node->notes.close_got;
  for (uint32_t i = 0; at && i < at->m->coord->notices.num; i++) {
    const struct dmi_queued *queued = &at->m->coord->notices.at[i];
    num += queued->uid == node->uid && queued->notice.state == DMI_CLOSE;
  }
  return num;
}

void sim_judge_refused(struct node *node) {
  node->notes.refused_at = node->notes.drain_at; /* the coordinator compares with an earlier time */
  node->notes.refused_capacity = true;
  node->notes.close_base = close_notices(node->sim, node);
  /* The coordinator tells itself at once, and may have queued the next notice already. */
  if (node->m->coord && !dmi_coord_find(node->m->coord, node->uid)->no_capacity)
    node->notes.close_base--;
}

static void rank_records(struct node *node, const struct dmi_coord *c) {
  struct sim *sim = node->sim;
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    struct sim_notes *notes = &named(sim, &record->info)->notes;
    if (record->life == DMI_LIFE_JOINING || record->life == DMI_LIFE_LOST) continue;
    if (!notes->open_rank) notes->open_rank = sim->now;
    if (record->life >= DMI_LIFE_CLOSING && !notes->close_rank) notes->close_rank = sim->now;
  }
}

/* Checks that notices are in the order of the requests; returns the rank of the first. */
static uint64_t check_queue(struct node *node, const struct dmi_coord *c) {
  struct sim *sim = node->sim;
  uint64_t oldest = UINT64_MAX, last = 0;
  for (uint32_t i = 0; i < c->notices.num; i++) {
    const struct dmi_notice *notice = &c->notices.at[i].notice;
    const struct sim_notes *notes = &named(sim, &notice->info)->notes;
    uint64_t rank = notice->state == DMI_OPEN ? notes->open_rank : notes->close_rank;
    /* this notice may come again */
    if (notice->state == DMI_CLOSE && notes->refused_capacity) continue;
    if (rank < last) sim_bad(sim, "notices are not in the order of asking");
    if (notice->state == DMI_OPEN ? notes->open_out : notes->close_out)
      sim_bad(sim, "a notice came back");
    last = rank;
    if (rank < oldest) oldest = rank;
  }
  return oldest;
}

/* Before each action: a leave may begin again in the same event, and user code run in between. */
void sim_judge_capacity(struct node *node) {
  const struct dmi_coord *c = node->m->coord;
  if (!c) return;
  if (node->notes.capacity && node->notes.capacity < c->capacity_changes)
    node->sim->retry_event = node->sim->now;
  node->notes.capacity = c->capacity_changes;
}

void sim_judge_watch(struct node *node) {
  struct sim *sim = node->sim;
  const struct dmi_coord *c = node->m->coord;
  uint64_t oldest;
  sim_judge_capacity(node);
  if (!c) return;
  if (sim->last_crash) return; /* a new coordinator does not know the order */
  rank_records(node, c);
  oldest = check_queue(node, c);
  for (uint32_t s = 0; s < SIM_LIVING; s++) {
    struct node *other = sim->proc[s];
    struct sim_notes *notes = other ? &other->notes : NULL;
    bool open = false, close = false;
    for (uint32_t i = 0; other && other->uid && i < c->notices.num; i++) {
      if (c->notices.at[i].uid != other->uid) continue;
      if (c->notices.at[i].notice.state == DMI_OPEN) open = true;
      if (c->notices.at[i].notice.state == DMI_CLOSE) close = true;
    }
    if (!other) continue;
    if (notes->open_rank && !open && !notes->open_out) {
      notes->open_out = true;
      if (notes->open_rank > oldest) sim_bad(sim, "a younger notice was given first");
    }
    if (notes->close_rank && !close && !notes->close_out) {
      notes->close_out = true;
      if (notes->close_rank > oldest) sim_bad(sim, "a younger notice was given first");
    }
  }
}

/* With losses: is it a notice that was given before, to somebody who is lost now?  That of a loss
 * is checked as the others. */
static bool given_before(struct node *node, const struct dmi_notice *notice,
                         struct sim_notes *notes) {
  bool refused = notice->state == DMI_CLOSE && notes->refused_capacity;
  struct node **to = notice->state == DMI_OPEN    ? &notes->open_to
                     : notice->state == DMI_CLOSE ? &notes->close_to
                                                  : &notes->lost_to;
  struct node *before = *to;
  *to = node;
  if (notice->state != DMI_OPEN && notice->state != DMI_CLOSE && notice->state != DMI_LOST)
    sim_bad(node->sim, "a notice of state %u", notice->state);
  if (before && !before->killed && !before->left && !before->over && !refused)
    sim_bad(node->sim, "notice %u of p%u was given to p%u, which lives, and to p%u", notice->state,
            notice->uid, before->uid, node->uid);
  return (before && !refused) || notice->state == DMI_LOST;
}

void sim_judge_notice(struct node *node, const struct dmi_notice *notice) {
  struct sim *sim = node->sim;
  struct node *about = named(sim, &notice->info);
  struct sim_notes *notes = &about->notes;
  uint32_t *got = notice->state == DMI_OPEN ? &notes->open_got : &notes->close_got;
  sim->totals->notices++;
  sim_log(sim, "p%u is given notice %u of p%u", node->uid, notice->state, notice->uid);
  if (node_is_removed(node)) return; /* it was sent before, and is given again */
  if (sim->opt.crashes && given_before(node, notice, notes)) return;
  if (++*got > 1 && !(notice->state == DMI_CLOSE && notes->refused_capacity))
    sim_bad(sim, "a notice of p%u was given twice", about->uid);
  if (!about->joined) about->dmi_id = notice->dmi_id; /* JOINED is in flight to it */
  if (!dmi_id_is(notice->dmi_id, about->dmi_id)) sim_bad(sim, "a notice with the wrong id");
  if (notice->state == DMI_CLOSE && !about->closed && !about->killed)
    sim_bad(sim, "p%u has not asked", about->uid);
}

void sim_judge_notices(struct sim *sim) {
  for (uint32_t i = 0; !sim->notices_lost && i < sim->nodes; i++) {
    const struct node *node = sim->all[i];
    const struct sim_notes *notes = &node->notes;
    if (node->killed) continue;
    if (notes->open_out && notes->open_got != 1)
      sim_bad(sim, "the notice OPEN of p%u was lost", node->uid);
    if (notes->close_out &&
        (notes->refused_capacity ? notes->close_got < 1 : notes->close_got != 1))
      sim_bad(sim, "the notice CLOSE of p%u was lost", node->uid);
  }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* It was made again behind a crash view, and came to the coordinator behind that of another
 * caller. */
static bool is_overtaken(const struct sim *sim, const struct sim_call *call, int error) {
  return call->crash != sim->last_crash && call->about->notes.goodbyes > 1 &&
         error == DMI_WHY(DMI_ENOTASKED, DMI_WHY_GOODBYE);
}

/* When a process has been welcomed, the program survives the loss of any one: two others than the
 * coordinator have votes, it among them or not, or it has its own, and a lease. */
static void check_vote(struct sim *sim, const struct node *node) {
  const struct dmi_peer *self = dmi_member_peer(node->m, node->uid);
  uint32_t num, others = 0;
  const struct dmi_peer *peers = dmi_member_peers(node->m, &num);
  if (node->notes.goodbyes || node->killed || !node->m->env.survive || !self) return;
  if (dmi_member_is_coordinator(node->m)) return;
  for (uint32_t i = 0; i < num; i++) {
    /* one that has left may have done so while the answer was on its way */
    bool candidate = (peers[i].voter || peers[i].left) && !peers[i].witness;
    others += candidate && peers[i].uid != dmi_member_coordinator(node->m);
  }
  if (others >= 2) return;
  if (!self->voter) sim_bad(sim, "p%u is welcomed, and has no vote", node->uid);
  if (sim->opt.agree && !node->was_leased)
    sim_bad(sim, "p%u is welcomed, and was given no lease", node->uid);
}

static void check_dismissal(struct sim *sim, const struct sim_call *call, int error) {
  struct node *about = call->about;
  struct sim_notes *notes = &about->notes;
  bool sole = call->sole && !is_overtaken(sim, call, error);
  if (node_is_removed(about)) return; /* perhaps before it heard that it had joined */
  if (sim->random_used[0][about->dmi_id.n] || sim->random_used[1][about->dmi_id.n]) sole = false;
  if (call->type == DMI_CTL_WELCOME) {
    if (error == DMI_OK && notes->welcomed && !sim->last_crash)
      sim_bad(sim, "p%u was welcomed twice", about->uid);
    if (error == DMI_OK) notes->welcomed = true;
    if (error == DMI_OK && call->crash == sim->last_crash) check_vote(sim, about);
    if (error && sole && notes->goodbyes == 0)
      sim_bad(sim, "the only welcome of p%u fails: %d", about->uid, error);
    return;
  }
  if (error == DMI_OK && notes->dismissed && !sim->last_crash)
    sim_bad(sim, "p%u was dismissed twice", about->uid);
  if (error == DMI_OK) notes->dismissed = true;
  if (error == DMI_EBUSY && !notes->refused_stop) sim_bad(sim, "p%u was not busy", about->uid);
  if (error == DMI_ENOMEM && !notes->refused_capacity)
    sim_bad(sim, "others had memory for p%u", about->uid);
  if (error && error != DMI_EBUSY && error != DMI_ENOMEM && sole)
    sim_bad(sim, "the only goodbye of p%u fails: %d", about->uid, error);
}

static void check_unmapped(struct sim *sim, uint64_t base) {
  uint32_t num = sim_map_num(sim, base);
  sim->map[num].unmapped = true;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    if (node && node->pmap[num].known == SIM_KNOWN && !is_exiting(sim, node))
      sim_bad(sim, "p%u knows mapping %u after DMI_munmap returned", node->uid, num);
  }
}

/* With losses: nobody who lives knows this mapping, so it is gone. */
static bool is_gone(struct sim *sim, uint64_t base) {
  uint32_t num = sim_map_num(sim, base);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->proc[i] && sim->proc[i]->pmap[num].known == SIM_KNOWN) return false;
  }
  if (!sim->last_crash) return false;
  sim->map[num].unmapping = sim->map[num].gone = true;
  return true;
}

void sim_judge_result(struct node *node, const struct sim_call *call, const struct dmi_mact *act) {
  struct sim *sim = node->sim;
  switch (call->type) {
    case DMI_CTL_POLL:
    case DMI_CTL_PEEK:
      if (act->flag) sim_judge_notice(node, &act->notices[0]);
      break;
    case DMI_CTL_WELCOME:
    case DMI_CTL_GOODBYE:
      if (call->about) check_dismissal(sim, call, act->error);
      break;
    case DMI_CTL_MMAP:
      if (act->error) sim_bad(sim, "mmap fails: %d", act->error);
      break;
    case DMI_CTL_MUNMAP:
      if (act->error && is_gone(sim, call->arg)) break;
      if (act->error) {
        sim_bad(sim, "munmap of mapping %u fails: %d", sim_map_num(sim, call->arg), act->error);
      } else {
        check_unmapped(sim, call->arg);
      }
      break;
    case DMI_CTL_LOOKUP:
      if (act->error && is_gone(sim, call->arg)) break;
      if (act->error && !sim->map[sim_map_num(sim, call->arg)].unmapping)
        sim_bad(sim, "lookup of mapping %u fails: %d", sim_map_num(sim, call->arg), act->error);
      break;
    case DMI_CTL_THREAD:
      if (sim->last_crash && (act->error == DMI_ELOST || act->error == DMI_ETHREAD)) break;
      if (act->error || act->value != call->arg * 1000 + call->uid)
        sim_bad(sim, "result of thread %u:%llu: %d", call->uid, (unsigned long long)call->arg,
                act->error);
      break;
    default:
      break;
  }
}

/* Of one that is lost, or to one, nothing is handed over any more. */
static bool hands_over(struct sim *sim, struct sim_end *end) {
  const struct node *to = end->node;
  return sim->net.conn[end->line / 2].used && to->alive && !node_is_removed(to) &&
         !node_is_removed(sim_net_other(end)->node);
}

/* No process may be told to forget a mapping whose home is being handed over: the heir would enter
 * it again. */
void sim_judge_forget(struct sim *sim, uint64_t base) {
  sim_log(sim, "mapping %u is to be forgotten", sim_map_num(sim, base));
  for (uint32_t i = 0; i < 2 * SIM_CONNS; i++) {
    struct sim_end *end = sim_line(sim, (uint16_t)i);
    const struct sim_queue *queue = &end->queue;
    for (uint32_t k = 0; k < queue->num && hands_over(sim, end); k++) {
      const struct dmi_msg *msg = &queue->msg[(queue->first + k) & (queue->capacity - 1)];
      if (msg->type == DMI_MSG_HOME_BEGIN && msg->map == base)
        sim_bad(sim, "mapping %u is forgotten while its home moves", sim_map_num(sim, base));
    }
  }
}

/* ---- Quiet: nothing is in flight ----------------------------------------- */

static uint32_t check_calls(struct sim *sim, const struct node *node) {
  uint32_t polls = 0;
  for (uint32_t i = 0; i < node->calls.num; i++) {
    const struct sim_call *call = &node->calls.at[i];
    if (call->type == DMI_CTL_POLL) {
      polls++;
    } else {
      sim_bad(sim, "%s of p%u has no answer", dmi_wire_name((uint8_t)call->type), node->uid);
    }
  }
  if (node->own_creates || node->creating.num)
    sim_bad(sim, "a create of p%u has no answer", node->uid);
  return polls;
}

static void check_views(struct sim *sim) {
  const struct node *first = NULL;
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    uint32_t num = 0;
    if (!node) continue;
    if (!node->joined)
      sim_bad(sim, "process %u asks to join for ever (phase %d)", node->num, node->m->phase);
    if (node->m->phase == DMI_PHASE_LAST_REQUESTS || node->m->phase == DMI_PHASE_LAST_MESSAGES)
      sim_bad(sim, "p%u does not part", node->uid);
    if (!first) first = node;
    if (dmi_member_view(node->m) != dmi_member_view(first->m) ||
        dmi_member_coordinator(node->m) != dmi_member_coordinator(first->m))
      sim_bad(sim, "views of p%u and p%u differ", node->uid, first->uid);
    for (uint32_t uid = 1; uid < SIM_NODES; uid++) {
      num += node->view[uid] != 0;
      if (!node->view[uid] != !first->view[uid])
        sim_bad(sim, "views of p%u and p%u differ", node->uid, first->uid);
      if (node->view[uid] && (!sim->by_uid[uid] || !sim->by_uid[uid]->alive))
        sim_bad(sim, "p%u has a dead process in its view", node->uid);
    }
    if (num != sim_living(sim)) sim_bad(sim, "p%u misses a member", node->uid);
  }
}

/* A process that found no memory is told as soon as there may be some, and is not forgotten until
 * then. */
static void check_refused(struct sim *sim, const struct node *node) {
  const struct dmi_record *record = record_of(sim, node);
  const struct sim_notes *notes = &node->notes;
  if (!node->m->no_capacity || !record) return;
  if (record->no_capacity &&
      (sim->retry_event > notes->refused_at || notes->retry_at > notes->refused_at))
    sim_bad(sim, "there may be memory for p%u, and nobody is told", node->uid);
  if (!sim->notices_lost && !record->no_capacity && record->life == DMI_LIFE_CLOSING &&
      close_notices(sim, node) <= notes->close_base)
    sim_bad(sim, "p%u found no memory and was forgotten", node->uid);
}

static void check_member(struct sim *sim, const struct node *node) {
  bool away = dmi_member_peer(node->m, node->uid) && dmi_member_peer(node->m, node->uid)->left;
  if (node->notes.dismissed && !node->left)
    sim_bad(sim, "p%u was dismissed and does not know", node->uid);
  /* a leaver whose heir has its pages, and where no user code runs, must have ended */
  if (node->left && node_leave_heir(node) && !node_has_user(node) && !node->idle_owed)
    sim_bad(sim, "p%u should have gone", node->uid);
  if (node->m->phase == DMI_PHASE_LEFT && !dmi_member_losable(node->m))
    sim_bad(sim, "p%u may be lost and does not know", node->uid);
  if (away && !node->left) sim_bad(sim, "p%u has left and does not say so", node->uid);
  if (node->m->phase > DMI_PHASE_JOINED && node->m->phase < DMI_PHASE_DRAINED)
    sim_bad(sim, "p%u cannot leave: phase %d, owns %llu", node->uid, node->m->phase,
            (unsigned long long)atomic_load(&node->core.owned));
}

/* All have recovered, and what is known of mappings agrees with the directory. */
static void check_recovered(struct sim *sim, const struct node *at, const struct node *node) {
  if (atomic_load(&node->core.frozen) || node->m->crash)
    sim_bad(sim, "p%u waits for RESUME", node->uid);
  if (node->held.num) sim_bad(sim, "p%u holds messages for ever", node->uid);
  for (uint32_t m = 0; m < sim->maps; m++) {
    const struct sim_pmap *pmap = &node->pmap[m];
    const struct dmi_entry *entry;
    uint32_t home = atomic_load(&pmap->map.home);
    if (pmap->known != SIM_KNOWN || sim->map[m].unmapping || !sim->map[m].made) continue;
    entry = dmi_directory_find(at->m->coord, pmap->map.base);
    if (!entry) {
      sim_bad(sim, "p%u knows mapping %u, and the directory does not", node->uid, m);
    } else if (entry->home != home) {
      sim_bad(sim, "the home of mapping %u: p%u in the directory, p%u for p%u", m, entry->home,
              home, node->uid);
    } else if (home == node->uid && node_leave_heir(node)) {
      sim_bad(sim, "p%u is home of mapping %u, and has left", node->uid, m);
    }
  }
}

void sim_judge_quiet(struct sim *sim) {
  struct node *at = sim_coordinator(sim);
  uint32_t polls = 0;
  if (!sim_living(sim)) return;
  if (!at) {
    sim_bad(sim, "nobody is coordinator");
    return;
  }
  check_views(sim);
  for (uint32_t i = 0; i < sim->nodes; i++) {
    if (sim->all[i]->notes.main_lost && !sim->all[i]->notes.told)
      sim_bad(sim, "nobody was told that DMI_main was lost with p%u", sim->all[i]->uid);
  }
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    uint32_t own;
    if (!node) continue;
    own = check_calls(sim, node);
    polls += own;
    check_refused(sim, node);
    check_member(sim, node);
    if (sim->opt.crashes) check_recovered(sim, at, node);
    if (own && at->m->coord->notices.num)
      sim_bad(sim, "p%u polls while there is a notice", node->uid);
  }
  if (polls != at->m->coord->polls.num) sim_bad(sim, "callers of DMI_poll were forgotten");
  if (!sim_user_code(sim)) sim_bad(sim, "nothing runs and the program does not end");
}

void sim_judge_print(struct sim *sim) {
  const struct node *at = sim_coordinator(sim);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    const struct node *node = sim->proc[i];
    const struct dmi_record *record = node && at ? dmi_coord_find(at->m->coord, node->uid) : NULL;
    if (!node) continue;
    fprintf(stderr,
            "  p%u (%u)%s: phase %d, main %d, threads %u, owed %u, creates %u, busy %u, calls %u, "
            "answers due %u; at the coordinator %s, busy %d\n",
            node->uid, node->num, node == at ? " coordinator" : "", node->m->phase, node->main_runs,
            node->threads, node->idle_owed, node->own_creates, node->m->busy, node->calls.num,
            node->pend.num, record ? dmi_life_name(record->life) : "unknown",
            record ? record->busy : 0);
    for (uint32_t t = 0; t <= SIM_THREADS; t++) {
      const struct sim_thread *thread = &node->thread[t];
      if (!thread->out) continue;
      fprintf(stderr, "    thread %u: op %llu, map %u page %u, waits %d, given up %d\n", t,
              (unsigned long long)thread->req.op.n, thread->map, thread->page, thread->waits,
              thread->given_up);
    }
  }
}

/* ---- Memory --------------------------------------------------------------------------------- */

void sim_judge_told(struct node *node) {
  enum dmi_phase phase = node->m->phase;
  if (node->m->no_capacity && (phase == DMI_PHASE_JOINED || phase == DMI_PHASE_DRAINED))
    node->notes.retry_at = node->sim->now;
}

void sim_judge_drained(struct node *node) {
  struct sim *sim = node->sim;
  if (atomic_load(&node->core.owned)) sim_bad(sim, "p%u says drained and owns pages", node->uid);
  for (uint32_t m = 0; m < node->maps; m++) {
    const struct sim_pmap *pmap = &node->pmap[m];
    if (pmap->known != SIM_KNOWN) continue;
    if (atomic_load(&pmap->map.home) == node->uid)
      sim_bad(sim, "p%u says drained and is home of mapping %u", node->uid, m);
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      if (pmap->page[p] && pmap->page[p]->copy)
        sim_bad(sim, "p%u says drained and has a copy: map %u page %u", node->uid, m, p);
    }
  }
}

void sim_judge_pool(struct node *node) {
  struct sim *sim = node->sim;
  uint64_t bytes = 0;
  for (uint32_t m = 0; m < node->maps; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      const struct dmi_page *page = node->pmap[m].page[p];
      if (!page) continue;
      if (page->frame) bytes += page->map->page_size;
      if (page->flags & (DMI_PAGE_OFFERED | DMI_PAGE_STALLED | DMI_PAGE_RESERVED))
        sim_bad(sim, "p%u: flags %x stay, map %u page %u", node->uid, page->flags, m, p);
      if (!(page->flags & DMI_PAGE_SPILLED) != !node->pmap[m].disk[p])
        sim_bad(sim, "p%u: map %u page %u is spilled and has no bytes, or the other way round",
                node->uid, m, p);
    }
  }
  if (dmi_pool_used(node->pool) != bytes)
    sim_bad(sim, "p%u: %llu bytes are in use, %llu of pages", node->uid,
            (unsigned long long)dmi_pool_used(node->pool), (unsigned long long)bytes);
}
