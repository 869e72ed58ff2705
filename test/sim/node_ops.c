/*
 * node_ops.c - page operations of the threads of virtual nodes: begins, records and completes them,
 * and ends waits.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/ranges.h"
#include "core/syncop.h"
#include "dmi_api.h"
#include "node_sim.h"

/* A hit, as the product does it, with no message and no request. */
static bool fast_path(struct node *node, struct sim_thread *thread, struct dmi_page *page,
                      enum hist_kind kind) {
  struct dmi_req *req = &thread->req;
  if (page->flags & DMI_PAGE_DEAD || rng_once_in(&node->sim->rng, 6)) return false;
  if (kind == HIST_READ && req->ranges && dmi_page_readable(&node->core, page)) {
    dmi_parts_read(req->part, req->parts, page->frame ? page->frame->bytes : NULL, thread->dst);
    return true;
  }
  if (kind == HIST_WRITE && req->ranges) {
    return dmi_page_writable(&node->core, page) &&
           dmi_page_write_parts_now(&node->core, page, req->part, req->parts, thread->src);
  }
  if (kind == HIST_READ && dmi_page_readable(&node->core, page)) {
    memset(thread->dst, 0, req->len);
    if (page->frame) memcpy(thread->dst, page->frame->bytes + req->off, req->len);
    return true;
  }
  return kind == HIST_WRITE && dmi_page_writable(&node->core, page) &&
         dmi_page_write_now(&node->core, page, req->off, thread->src, req->len);
}

/* The kind of the second half of an operation that waits; HIST_DIFFERS: it has none. */
static enum hist_kind second_half(enum hist_kind kind) {
  if (kind == HIST_LOCK) return HIST_TURN;
  return kind == HIST_ARRIVE ? HIST_ROUND : HIST_DIFFERS;
}

static void record(struct node *node, struct sim_thread *thread, enum hist_kind kind,
                   uint64_t input, uint64_t answer) {
  struct sim *sim = node->sim;
  const struct dmi_req *req = &thread->req;
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  struct hist_op op = {.call = ++sim->now,
                       .mode = sim_ops_mode(req),
                       .uid = node->uid,
                       .thread = (uint8_t)(thread - node->thread),
                       .kind = (uint8_t)kind,
                       .off = (uint8_t)thread->from,
                       .len = (uint8_t)thread->span,
                       .mask = thread->mask,
                       .in_len = (uint16_t)input,
                       .out_len = (uint16_t)answer,
                       .out1_len = (uint16_t)req->sizes.out1,
                       .tag = req->tag};
  thread->hist = hist_call(hist, &op, thread->src);
  thread->hist_wait = SIM_NO_WAIT;
  thread->waits = req->type == DMI_REQ_ATOMIC && dmi_syncop_may_wait(req->kind);
  sim->totals->by_kind[kind]++;
  if (req->ranges) sim->totals->list_ops++;
  if (second_half(kind) == HIST_DIFFERS) return;
  op.call = ++sim->now;
  op.kind = (uint8_t)second_half(kind);
  op.in_len = 0;
  thread->hist_wait = hist_call(hist, &op, NULL);
  sim->totals->by_kind[op.kind]++;
}

static void back(struct sim *sim, const struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  hist_back(hist, thread->hist, ++sim->now, thread->dst);
  if (thread->hist_wait != SIM_NO_WAIT) {
    hist_back(hist, thread->hist_wait, ++sim->now, thread->dst);
  }
}

/* True while homes or views change. */
static bool anybody_leaves(const struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    if (sim->live[i] && sim->live[i]->m->phase != DMI_PHASE_JOINED) return true;
  }
  return false;
}

/* Begins the operation that was chosen for `thread`. */
static void launch(struct node *node, struct sim_thread *thread, enum hist_kind kind,
                   uint64_t input, uint64_t answer) {
  struct sim *sim = node->sim;
  struct dmi_out out;
  struct dmi_page *page = node_page(node, thread->map, thread->page);
  struct dmi_req *req = &thread->req;
  record(node, thread, kind, input, answer);
  sim->begun++;
  sim->totals->ops++;
  sim_log(sim, "p%u.%u begins %s: map %u page %u [%u,%u) op %llu", node->uid,
          (unsigned)(thread - node->thread), sim_ops_mode(req), thread->map, thread->page,
          thread->from, thread->from + thread->span, (unsigned long long)req->op.n);
  if (fast_path(node, thread, page, kind)) {
    sim_ops_hint(sim, thread);
    back(sim, thread);
    sim->totals->fast_ops++;
    return;
  }
  thread->out = true;
  thread->hops = 0;
  thread->calm = anybody_leaves(sim) ? UINT64_MAX : sim->stir;
  sim->out++;
  if (req->ranges) input = sim_ops_pack(thread, thread->src, kind == HIST_WRITE);
  thread->frame = (kind != HIST_READ || req->ranges) && rng_once_in(&sim->rng, 2);
  req->src = thread->frame ? dmi_slice_copy(thread->src, input)
                           : (struct dmi_slice){NULL, thread->src, input};
  memset(thread->dst, 0xee, sizeof(thread->dst));
  dmi_out_init(&out);
  node->by_thread = true;
  dmi_page_begin(&node->core, page, req, &out);
  node_act(node, thread->map, thread->page, &out);
  node->by_thread = false;
}

static void begin(struct node *node, struct sim_thread *thread) {
  enum hist_kind kind;
  uint64_t input, answer;
  if (sim_ops_pick(node, thread, &kind, &input, &answer)) launch(node, thread, kind, input, answer);
}

void sim_ops_hint(struct sim *sim, struct sim_thread *thread) {
  struct hist_op *op = &sim->map[thread->map].hist[thread->page].op[thread->hist];
  if (!op->hint) op->hint = ++sim->effects;
}

/* True if the operation was rightly refused, because there are no tickets, or no barrier. */
static bool refused(struct sim *sim, const struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  const struct dmi_req *req = &thread->req;
  if (req->error != DMI_EINVAL || req->type != DMI_REQ_ATOMIC || req->kind < DMI_RMW_TRYLOCK ||
      req->kind > DMI_RMW_ARRIVE) {
    return false;
  }
  hist->op[thread->hist].kind = HIST_NONE;
  hist_back(hist, thread->hist, ++sim->now, thread->dst);
  if (thread->hist_wait != SIM_NO_WAIT) hist_failed(hist, thread->hist_wait);
  sim->totals->by_kind[HIST_NONE]++;
  return true;
}

void sim_ops_complete(struct node *node, struct dmi_req *req) {
  struct sim *sim = node->sim;
  struct sim_thread *thread = NULL;
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (&node->thread[t].req == req) thread = &node->thread[t];
  }
  if (!thread || !thread->out) {
    sim_bad(sim, "p%u completes an operation twice", node->uid);
    return;
  }
  thread->out = thread->given_up = false;
  sim->out--;
  sim_log(sim, "p%u.%u completes op %llu, error %d", node->uid, (unsigned)(thread - node->thread),
          (unsigned long long)req->op.n, req->error);
  const struct sim_map *map = &sim->map[thread->map];
  if (req->error && refused(sim, thread)) {
    sim_log(sim, "there was no object");
  } else if (req->error) {
    struct hist *hist = &sim->map[thread->map].hist[thread->page];
    sim->totals->failed_ops++;
    if (req->error == DMI_ENOMEM && sim->pools && req->type > DMI_REQ_READ) {
      sim->totals->refused++;
      sim->kicks_refused += thread == &node->thread[SIM_THREADS];
      hist_failed(hist, thread->hist);
      if (thread->hist_wait != SIM_NO_WAIT) hist_failed(hist, thread->hist_wait);
    } else if (!map->unmapping) {
      sim_bad(sim, "p%u: an operation on a living mapping fails with %d", node->uid, req->error);
    }
  } else {
    sim_ops_hint(sim, thread);
    back(sim, thread);
    if (thread == &node->thread[SIM_THREADS]) sim->kicks_refused = 0;
  }
  dmi_slice_drop(&req->src);
  thread->frame = false;
  memset(thread->src, 0xdd, sizeof(thread->src)); /* nobody may read it any more */
}

bool node_ops_begin(struct node *node) {
  uint32_t users = !node->over && !node_frozen(node) ? node_users(node) : 0, which;
  if (users > SIM_THREADS) users = SIM_THREADS;
  if (!users) return false;
  which = rng_below(&node->sim->rng, users);
  for (uint32_t t = 0; t < users; t++) {
    struct sim_thread *thread = &node->thread[(which + t) % users];
    if (thread->out) continue;
    begin(node, thread);
    return true;
  }
  return false;
}

bool sim_ops_begin(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_LIVING);
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    struct node *node = sim->live[(start + i) % SIM_LIVING];
    if (node && node_ops_begin(node)) return true;
  }
  return false;
}

void sim_ops_fini(struct node *node) {
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    struct sim_thread *thread = &node->thread[t];
    dmi_slice_drop(&thread->req.src);
    node->sim->out -= thread->out;
    thread->ghost = thread->out; /* it may still take effect */
    thread->out = thread->frame = false;
  }
}

struct sim_thread *sim_thread_of(const struct sim *sim, uint32_t uid, dmi_op_t op) {
  struct node *node = uid < SIM_NODES ? sim->by_uid[uid] : NULL;
  for (uint32_t t = 0; node && t <= SIM_THREADS; t++) {
    if ((node->thread[t].out || node->thread[t].ghost) && dmi_op_is(node->thread[t].req.op, op))
      return &node->thread[t];
  }
  return NULL;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

void sim_ops_waits(struct sim *sim, const struct dmi_page *page) {
  if (!page->busy) return;
  for (const struct dmi_req *req = page->busy->waiting_ops.first; req; req = req->next) {
    struct sim_thread *thread = sim_thread_of(sim, req->origin, req->op);
    if (!thread || thread->hist_wait == SIM_NO_WAIT) continue;
    struct hist_op *op = &sim->map[thread->map].hist[thread->page].op[thread->hist];
    if (op->hint) continue;
    sim->totals->waited++;
    sim_ops_hint(sim, thread);
  }
}

/* The waiting operation number `which`, counted over all pages; NULL: there are fewer. */
static const struct dmi_req *waiting_at(const struct sim *sim, uint32_t which, uint32_t *map,
                                        uint32_t *page) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    for (uint32_t m = 0; sim->live[i] && m < sim->maps; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++) {
        const struct dmi_page *at = sim->live[i]->pmap[m].page[p];
        const struct dmi_req *req = at && at->busy ? at->busy->waiting_ops.first : NULL;
        for (; req; req = req->next) {
          *map = m;
          *page = p;
          if (which-- == 0) return req;
        }
      }
    }
  }
  return NULL;
}

static uint32_t deferred_num(const struct sim *sim) {
  uint32_t num = 0, map, page;
  while (waiting_at(sim, num, &map, &page))
    num++;
  return num;
}

bool sim_ops_kick(struct sim *sim) {
  uint32_t num = deferred_num(sim), map = 0, page = 0, start = rng_below(&sim->rng, SIM_LIVING);
  const struct dmi_req *req = num ? waiting_at(sim, rng_below(&sim->rng, num), &map, &page) : NULL;
  for (uint32_t i = 0; req && i < SIM_LIVING; i++) {
    struct node *node = sim->live[(start + i) % SIM_LIVING];
    if (!node || node->over || (!node_has_user(node) && !node->idle_owed) ||
        node->pmap[map].known != SIM_KNOWN)
      continue;
    struct sim_thread *thread = &node->thread[SIM_THREADS];
    if (thread->out) continue;
    memset(&thread->req, 0, sizeof(thread->req));
    thread->map = (uint8_t)map;
    thread->page = (uint8_t)page;
    thread->req.type = rng_once_in(&sim->rng, 2) ? DMI_REQ_PUT : DMI_REQ_EXCL;
    thread->req.op.n = ++node->ops;
    thread->req.dst = thread->dst;
    thread->req.off = req->off;
    if (req->kind == DMI_RMW_WATCH) {
      thread->req.len = 1;
      thread->src[0] = req->src.ptr[0] ^ 0x5a;
    } else { /* it waits until the second number of its object is the first one of its input */
      thread->req.off += 8;
      thread->req.len = 8;
      memcpy(thread->src, req->src.ptr, 8);
    }
    thread->mask = 0;
    thread->from = (uint32_t)thread->req.off;
    thread->span = (uint32_t)thread->req.len;
    sim->totals->kicks++;
    launch(node, thread, HIST_WRITE, thread->req.len, 0);
    return true;
  }
  return false;
}

uint32_t sim_ops_num(const struct node *node) {
  uint32_t num = 0;
  for (uint32_t t = 0; t <= SIM_THREADS; t++)
    num += node->thread[t].out && !node->thread[t].given_up;
  return num;
}

void sim_ops_give_up(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_LIVING; i++) {
    for (uint32_t t = 0; sim->live[i] && t <= SIM_THREADS; t++) {
      struct sim_thread *thread = &sim->live[i]->thread[t];
      if (!thread->out || !thread->waits || thread->given_up) continue;
      thread->given_up = true;
      sim->totals->given_up++;
    }
  }
}
