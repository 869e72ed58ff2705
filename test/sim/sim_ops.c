/*
 * sim_ops.c - what the threads of virtual processes do: random operations, recorded for the
 * checker.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/ranges.h"
#include "core/syncop.h"
#include "dmi_api.h"
#include "sim.h"

static const char *const mode_names[] = {
    [DMI_REQ_GET] = "GET",        [DMI_REQ_READ] = "READ",  [DMI_REQ_PUT] = "PUT",
    [DMI_REQ_EXCL] = "EXCLUSIVE", [DMI_REQ_ATOMIC] = "PUT", [DMI_REQ_ATOMIC_EXCL] = "EXCLUSIVE",
};

/* Chooses a new mix: only some of the modes, on a hot page or spread, few or many operations at
 * once. */
void sim_ops_retune(struct sim *sim) {
  struct rng *rng = &sim->rng;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 6; i++) {
    sim->weight[i] = rng_once_in(rng, 3) ? 0 : rng_range(rng, 1, 10);
    sum += sim->weight[i];
  }
  if (!sum) sim->weight[DMI_REQ_READ] = sim->weight[DMI_REQ_PUT] = 1;
  sim->issue = rng_once_in(rng, 2) ? rng_range(rng, 20, 200) : rng_range(rng, 200, 900);
  sim->hot = rng_once_in(rng, 2) ? rng_range(rng, 60, 100) : rng_range(rng, 0, 30);
  sim->hot_map = rng_below(rng, sim->maps);
  sim->hot_page = rng_below(rng, SIM_PAGES);
  sim->whole = rng_once_in(rng, 2) ? rng_range(rng, 0, 10) : rng_range(rng, 10, 70);
  sim->small = rng_range(rng, 0, 90);
  sim->kick = rng_once_in(rng, 2) ? rng_range(rng, 0, 300) : 0;
  sim->drop = rng_once_in(rng, 3) ? rng_range(rng, 0, 300) : 0;
  sim->paging = rng_once_in(rng, 4) ? 0 : rng_range(rng, 10, 2000);
  sim->churn = rng_once_in(rng, 3) ? rng_range(rng, 50, 300) : rng_range(rng, 0, 30);
  if (rng_once_in(rng, 3)) { /* many threads fetch the same page several times: R13 */
    sim->weight[DMI_REQ_READ] = 40;
    sim->hot = rng_range(rng, 60, 100);
    sim->drop = rng_range(rng, 100, 2000);
  }
}

static uint32_t pick_type(struct sim *sim) {
  uint32_t sum = 0, at;
  for (uint32_t i = 0; i < 6; i++)
    sum += sim->weight[i];
  at = rng_below(&sim->rng, sum);
  for (uint32_t i = 0; i < 6; i++) {
    if (at < sim->weight[i]) return i;
    at -= sim->weight[i];
  }
  return DMI_REQ_GET;
}

static void pick_range(struct sim *sim, uint64_t size, struct dmi_req *req) {
  struct rng *rng = &sim->rng;
  if (rng_below(rng, 100) < sim->whole) {
    req->off = 0;
    req->len = size;
  } else if (rng_below(rng, 100) < sim->small) {
    req->off = rng_below(rng, 3); /* a few bytes that all threads use */
    req->len = rng_range(rng, 1, 2);
  } else {
    req->off = rng_below(rng, (uint32_t)size);
    req->len = rng_range(rng, 1, (uint32_t)(size - req->off));
  }
}

/* Chooses several ranges instead of one.  The history, and the thread's buffer for the answer, have
 * all bytes from the first range to the last, and a mask of those that belong to the ranges.
 * False: the page is too small for two. */
static bool pick_ranges(struct sim *sim, struct sim_thread *thread, uint64_t size) {
  struct rng *rng = &sim->rng;
  struct dmi_req *req = &thread->req;
  uint64_t off = rng_below(rng, (uint32_t)size), total = 0;
  uint32_t num = 0, want = rng_range(rng, 2, SIM_RANGES), gap = rng_range(rng, 1, 8);
  struct dmi_part *part = thread->part;
  while (num < want && off < size) {
    uint64_t most = size - off < 9 ? size - off : 9;
    part[num].off = off;
    part[num].len = rng_range(rng, 1, (uint32_t)most);
    part[num].at = total;
    part[num].to = (int64_t)(off - part[0].off);
    total += part[num].len;
    off += part[num++].len + rng_range(rng, 1, gap);
  }
  if (num < 2) return false;
  req->ranges = req->parts = num;
  req->part = part;
  req->off = 0;
  req->len = total;
  thread->from = (uint32_t)part[0].off;
  thread->span = (uint32_t)(part[num - 1].off + part[num - 1].len - part[0].off);
  for (uint32_t i = 0; i < num; i++) {
    for (uint64_t at = 0; at < part[i].len; at++)
      thread->mask |= (uint64_t)1 << ((uint64_t)part[i].to + at);
  }
  return true;
}

/* Packs what the operation carries: the list and, for a write, the bytes of the ranges, taken from
 * `flat`, which has all bytes from the first range to the last.  Returns how many bytes. */
static uint64_t pack_ranges(struct sim_thread *thread, const unsigned char *flat, bool write) {
  uint64_t num = thread->req.ranges, at = num * sizeof(struct dmi_range);
  unsigned char packed[sizeof(thread->src)];
  for (uint64_t i = 0; i < num; i++) {
    const struct dmi_part *part = &thread->part[i];
    struct dmi_range range = {part->off, part->len};
    memcpy(packed + i * sizeof(range), &range, sizeof(range));
    if (write) memcpy(packed + at + part->at, flat + part->to, part->len);
  }
  if (write) at += thread->req.len;
  memcpy(thread->src, packed, at);
  return at;
}

static void random_bytes(struct sim *sim, unsigned char *bytes, uint64_t len) {
  bool zero = rng_once_in(&sim->rng, 16);
  for (uint64_t i = 0; i < len; i++)
    bytes[i] = zero ? 0 : (unsigned char)rng_next(&sim->rng);
}

/* Reads what the page holds now, so that a compare-and-swap may succeed. */
static void peek(struct sim *sim, uint32_t map, uint32_t page, const struct dmi_req *req,
                 unsigned char *bytes) {
  memset(bytes, 0, req->len);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct dmi_page *at = sim->proc[i] ? sim->proc[i]->pmap[map].page[page] : NULL;
    if (at && at->role == DMI_ROLE_OWNER && at->frame) {
      memcpy(bytes, at->frame->bytes + req->off, req->len);
    }
  }
}

/* Fills in the read-modify-write; returns the kind for the history. */
static enum hist_kind pick_atomic(struct sim *sim, struct sim_thread *thread, uint64_t size) {
  struct dmi_req *req = &thread->req;
  struct rng *rng = &sim->rng;
  req->kind = (uint8_t)rng_range(rng, DMI_RMW_CAS, DMI_RMW_USER);
  switch (req->kind) {
    case DMI_RMW_CAS:
      req->sizes = (struct dmi_rmw_sizes){req->len, req->len, 1};
      random_bytes(sim, thread->src, 2 * req->len);
      if (!rng_once_in(rng, 4)) peek(sim, thread->map, thread->page, req, thread->src);
      return HIST_CAS;
    case DMI_RMW_FAS:
      req->sizes = (struct dmi_rmw_sizes){req->len, 0, req->len};
      random_bytes(sim, thread->src, req->len);
      return HIST_FAS;
    case DMI_RMW_FAD:
      req->len = 8;
      req->off = rng_below(rng, (uint32_t)(size - 8 + 1));
      req->sizes = (struct dmi_rmw_sizes){8, 0, 8};
      random_bytes(sim, thread->src, 8);
      return HIST_FAD;
    default:
      req->sizes.out1 = rng_below(rng, (uint32_t)req->len + 1);
      req->sizes.out2 = rng_below(rng, 9);
      req->sizes.in = rng_below(rng, (uint32_t)req->len + 1);
      req->tag = (int8_t)rng_below(rng, 100);
      random_bytes(sim, thread->src, req->sizes.out1 + req->sizes.out2);
      return HIST_USER;
  }
}

/* On pages that begin with tickets or a barrier: chooses an operation on these.  `exclusive`: none
 * that may wait. */
static enum hist_kind pick_sync(struct sim *sim, struct sim_thread *thread, uint64_t size,
                                bool exclusive) {
  struct dmi_req *req = &thread->req;
  struct rng *rng = &sim->rng;
  bool barrier = size >= sizeof(struct dmi_round) && rng_once_in(rng, 2);
  uint64_t num, most = rng_once_in(rng, 3) ? UINT64_MAX : 1;
  req->off = size >= 64 ? 40 : 0;
  req->len = sizeof(struct dmi_tickets);
  if (exclusive || (!barrier && rng_once_in(rng, 3))) { /* unlock, or count: FAD of one number */
    req->kind = DMI_RMW_FAD;
    req->off += rng_once_in(rng, 8) ? 0 : 8;
    req->len = 8;
    req->sizes = (struct dmi_rmw_sizes){8, 0, 8};
    num = DMI_SYNC_UNIT;
    memcpy(thread->src, &num, 8);
    return HIST_FAD;
  }
  if (barrier) {
    req->kind = DMI_RMW_ARRIVE;
    req->off = 0;
    req->len = sizeof(struct dmi_round);
    num = rng_range(rng, 1, 3);
    req->sizes = (struct dmi_rmw_sizes){8 + 8 * num, 0, sizeof(struct dmi_arrived)};
    for (uint64_t i = 0; i < num; i++) {
      double value = rng_below(rng, 1000);
      memcpy(thread->src + 8 + 8 * i, &value, 8);
    }
    num = rng_once_in(rng, 10) ? 2 : 3; /* pnum */
    memcpy(thread->src, &num, 8);
    return HIST_ARRIVE;
  }
  switch (rng_below(rng, 5)) {
    case 0:
      req->kind = DMI_RMW_TICKET;
      req->sizes.in = 8;
      return HIST_TICKET;
    case 1:
      req->kind = DMI_RMW_TRYLOCK;
      req->sizes.in = 1;
      return HIST_TRY;
    case 2:
      req->kind = DMI_RMW_SIGNAL;
      req->sizes.out1 = 8;
      memcpy(thread->src, &most, 8);
      return HIST_SIGNAL;
    default:
      req->kind = DMI_RMW_LOCK;
      req->sizes.in = 8;
      return HIST_LOCK;
  }
}

/* The same; if the bytes are not an object any more, usually makes one again. */
static enum hist_kind pick_object(struct sim *sim, struct sim_thread *thread, uint64_t size,
                                  bool exclusive) {
  enum hist_kind kind = pick_sync(sim, thread, size, exclusive);
  struct dmi_req *req = &thread->req;
  unsigned char now[sizeof(struct dmi_round)];
  if (kind == HIST_FAD) return kind;
  peek(sim, thread->map, thread->page, req, now);
  if (hist_is_object(now, (uint32_t)req->len) || rng_once_in(&sim->rng, 3)) return kind;
  req->kind = DMI_RMW_FAS;
  req->sizes = (struct dmi_rmw_sizes){req->len, 0, req->len};
  memset(thread->src, 0, req->len);
  return HIST_FAS;
}

/* A watch, usually for bytes that differ from the present ones. */
static enum hist_kind pick_watch(struct sim *sim, struct sim_thread *thread) {
  struct dmi_req *req = &thread->req;
  req->kind = DMI_RMW_WATCH;
  req->sizes = (struct dmi_rmw_sizes){req->len, 0, req->len};
  random_bytes(sim, thread->src, req->len);
  if (!rng_once_in(&sim->rng, 8)) peek(sim, thread->map, thread->page, req, thread->src);
  return HIST_WATCH;
}

/* Chooses page and operation.  False: this process has no mapping. */
static bool pick(struct sim_proc *proc, struct sim_thread *thread, enum hist_kind *kind,
                 uint64_t *input, uint64_t *answer) {
  struct sim *sim = proc->sim;
  struct dmi_req *req = &thread->req;
  uint32_t map = rng_below(&sim->rng, sim->maps), page = rng_below(&sim->rng, SIM_PAGES);
  if (rng_below(&sim->rng, 100) < sim->hot) {
    map = sim->hot_map;
    if (sim->hot_page < SIM_PAGES) page = sim->hot_page;
  }
  for (uint32_t i = 0; i < SIM_MAPS && !sim_pmap_get(proc, map); i++) {
    if (rng_once_in(&sim->rng, 20) && proc->pmap[map].page[0]) {
      page = 0; /* sometimes, one that this process has forgotten */
      break;
    }
    map = rng_below(&sim->rng, sim->maps);
  }
  if (!sim_pmap_get(proc, map) && !proc->pmap[map].page[0]) return false;
  uint64_t size = sim->map[map].page_size;
  if (page >= sim->map[map].page_num) page = 0;
  if (!sim_pmap_get(proc, map)) page = 0;
  memset(req, 0, sizeof(*req));
  thread->map = (uint8_t)map;
  thread->page = (uint8_t)page;
  req->type = (uint8_t)pick_type(sim);
  if (sim->map[map].sync && !rng_once_in(&sim->rng, 20)) {
    if (req->type == DMI_REQ_PUT) req->type = DMI_REQ_ATOMIC;
    if (req->type == DMI_REQ_EXCL) req->type = DMI_REQ_ATOMIC_EXCL;
  }
  req->op.n = ++proc->ops;
  req->dst = thread->dst;
  pick_range(sim, size, req);
  thread->mask = 0;
  if (req->type < DMI_REQ_EXCL && rng_once_in(&sim->rng, 3)) {
    struct dmi_req one = *req;
    if (!pick_ranges(sim, thread, size)) *req = one;
  }
  if (!req->ranges) {
    thread->from = (uint32_t)req->off;
    thread->span = (uint32_t)req->len;
  }
  *input = *answer = 0;
  if (req->type == DMI_REQ_GET || req->type == DMI_REQ_READ) {
    req->kind = rng_once_in(&sim->rng, 2) ? DMI_KIND_INVALIDATE : DMI_KIND_UPDATE;
    *kind = HIST_READ;
    *answer = thread->span;
  } else if (req->type == DMI_REQ_PUT || req->type == DMI_REQ_EXCL) {
    *kind = HIST_WRITE;
    *input = thread->span;
    random_bytes(sim, thread->src, thread->span);
  } else {
    bool exclusive = req->type == DMI_REQ_ATOMIC_EXCL;
    if (!exclusive && rng_once_in(&sim->rng, 6)) {
      *kind = pick_watch(sim, thread);
    } else if (sim->map[map].sync && !rng_once_in(&sim->rng, 20)) {
      *kind = pick_object(sim, thread, size, exclusive);
    } else {
      *kind = pick_atomic(sim, thread, size);
    }
    thread->from = (uint32_t)req->off; /* some have chosen another one */
    thread->span = (uint32_t)req->len;
    *input = req->sizes.out1 + req->sizes.out2;
    *answer = req->sizes.in;
  }
  return true;
}

/* A hit, as the product does it, with no message and no request. */
static bool fast_path(struct sim_proc *proc, struct sim_thread *thread, struct dmi_page *page,
                      enum hist_kind kind) {
  struct dmi_req *req = &thread->req;
  if (page->flags & DMI_PAGE_DEAD || rng_once_in(&proc->sim->rng, 6)) return false;
  if (kind == HIST_READ && req->ranges && dmi_page_readable(&proc->core, page)) {
    dmi_parts_read(req->part, req->parts, page->frame ? page->frame->bytes : NULL, thread->dst);
    return true;
  }
  if (kind == HIST_WRITE && req->ranges) {
    return dmi_page_writable(&proc->core, page) &&
           dmi_page_write_parts_now(&proc->core, page, req->part, req->parts, thread->src);
  }
  if (kind == HIST_READ && dmi_page_readable(&proc->core, page)) {
    memset(thread->dst, 0, req->len);
    if (page->frame) memcpy(thread->dst, page->frame->bytes + req->off, req->len);
    return true;
  }
  return kind == HIST_WRITE && dmi_page_writable(&proc->core, page) &&
         dmi_page_write_now(&proc->core, page, req->off, thread->src, req->len);
}

/* The kind of the second half of an operation that waits; HIST_DIFFERS: it has none. */
static enum hist_kind second_half(enum hist_kind kind) {
  if (kind == HIST_LOCK) return HIST_TURN;
  return kind == HIST_ARRIVE ? HIST_ROUND : HIST_DIFFERS;
}

static void record(struct sim_proc *proc, struct sim_thread *thread, enum hist_kind kind,
                   uint64_t input, uint64_t answer) {
  struct sim *sim = proc->sim;
  const struct dmi_req *req = &thread->req;
  const char *mode = mode_names[req->type];
  if (req->type == DMI_REQ_READ) mode = req->kind == DMI_KIND_UPDATE ? "UPDATE" : "INVALIDATE";
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  struct hist_op op = {.call = ++sim->now,
                       .mode = mode,
                       .uid = proc->core.self,
                       .thread = (uint8_t)(thread - proc->thread),
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

/* Begins the operation that was chosen for `thread`. */
static void launch(struct sim_proc *proc, struct sim_thread *thread, enum hist_kind kind,
                   uint64_t input, uint64_t answer) {
  struct sim *sim = proc->sim;
  struct dmi_out out;
  struct dmi_page *page = sim_page_get(proc, thread->map, thread->page);
  struct dmi_req *req = &thread->req;
  record(proc, thread, kind, input, answer);
  sim->begun++;
  sim->totals->ops++;
  sim_log(sim, "p%u.%u begins %s: map %u page %u [%u,%u) op %llu", proc->core.self,
          (unsigned)(thread - proc->thread), mode_names[req->type], thread->map + 1u, thread->page,
          thread->from, thread->from + thread->span, (unsigned long long)req->op.n);
  if (fast_path(proc, thread, page, kind)) {
    sim_ops_hint(sim, thread);
    back(sim, thread);
    sim->totals->fast_ops++;
    return;
  }
  thread->out = true;
  thread->hops = 0;
  thread->calm = sim_leaving(sim) ? UINT64_MAX : sim->stir;
  sim->out++;
  if (req->ranges) input = pack_ranges(thread, thread->src, kind == HIST_WRITE);
  thread->frame = (kind != HIST_READ || req->ranges) && rng_once_in(&sim->rng, 2);
  req->src = thread->frame ? dmi_slice_copy(thread->src, input)
                           : (struct dmi_slice){NULL, thread->src, input};
  memset(thread->dst, 0xee, sizeof(thread->dst));
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, page, req, &out);
  sim_act(proc, thread->map, thread->page, &out);
}

static void begin(struct sim_proc *proc, struct sim_thread *thread) {
  enum hist_kind kind;
  uint64_t input, answer;
  if (pick(proc, thread, &kind, &input, &answer)) launch(proc, thread, kind, input, answer);
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

/* The page is LOST, and nothing was done; or the operation had gone to a lost process: then its
 * call stays open, as it may have taken effect. */
static void lost(struct sim_proc *proc, const struct sim_thread *thread) {
  struct sim *sim = proc->sim;
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  bool halves = thread->hist_wait != SIM_NO_WAIT;
  sim->totals->elost++;
  if (proc->away) sim->totals->away++;
  if (!proc->away && !hist->op[thread->hist].hint) { /* nor has it done its first half */
    hist_failed(hist, thread->hist);
    if (halves) hist_failed(hist, thread->hist_wait);
    return;
  }
  sim_crash_open(sim, thread, proc->core.self);
}

void sim_ops_complete(struct sim_proc *proc, struct dmi_req *req) {
  struct sim *sim = proc->sim;
  struct sim_thread *thread = NULL;
  for (uint32_t t = 0; t <= SIM_THREADS; t++) {
    if (&proc->thread[t].req == req) thread = &proc->thread[t];
  }
  if (!thread || !thread->out) {
    sim_bad(sim, "p%u completes an operation twice", proc->core.self);
    return;
  }
  thread->out = false;
  sim->out--;
  sim_log(sim, "p%u.%u completes op %llu, error %d", proc->core.self,
          (unsigned)(thread - proc->thread), (unsigned long long)req->op.n, req->error);
  const struct sim_map *map = &sim->map[thread->map];
  if (req->error == DMI_ELOST && sim->opt.crashes) {
    lost(proc, thread);
  } else if (req->error && refused(sim, thread)) {
    sim_log(sim, "there was no object");
  } else if (req->error) {
    sim->totals->failed_ops++;
    bool read = req->type == DMI_REQ_READ && dmi_fetch_any(req->fetch) && sim->fetch_refused;
    if (req->error == DMI_ENOMEM && (read || sim->refusals)) {
      struct hist *hist = &sim->map[thread->map].hist[thread->page];
      if (!read) sim->refusals--;
      sim->totals->refused++;
      hist_failed(hist, thread->hist);
      if (thread->hist_wait != SIM_NO_WAIT) hist_failed(hist, thread->hist_wait);
    } else if (!map->unmapping) {
      sim_bad(sim, "p%u: an operation on a living mapping fails with %d", proc->core.self,
              req->error);
    }
  } else {
    sim_ops_hint(sim, thread);
    back(sim, thread);
  }
  dmi_slice_drop(&req->src);
  thread->frame = false;
  memset(thread->src, 0xdd, sizeof(thread->src)); /* nobody may read it any more */
}

bool sim_ops_begin(struct sim *sim) {
  uint32_t start = rng_below(&sim->rng, SIM_PROCS), which = rng_below(&sim->rng, SIM_THREADS);
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc || proc->mute) continue;
    for (uint32_t t = 0; t < proc->threads; t++) {
      struct sim_thread *thread = &proc->thread[(which + t) % proc->threads];
      if (thread->out) continue;
      begin(proc, thread);
      return true;
    }
  }
  return false;
}

void sim_ops_fini(struct sim_thread *thread) {
  dmi_slice_drop(&thread->req.src);
  thread->frame = false;
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
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    for (uint32_t m = 0; sim->proc[i] && m < sim->maps; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++) {
        const struct dmi_page *at = sim->proc[i]->pmap[m].page[p];
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
  uint32_t num = deferred_num(sim), map = 0, page = 0, start = rng_below(&sim->rng, SIM_PROCS);
  const struct dmi_req *req = num ? waiting_at(sim, rng_below(&sim->rng, num), &map, &page) : NULL;
  for (uint32_t i = 0; req && i < SIM_PROCS; i++) {
    struct sim_proc *proc = sim->proc[(start + i) % SIM_PROCS];
    if (!proc || proc->mute || !sim_pmap_get(proc, map)) continue;
    struct sim_thread *thread = &proc->thread[SIM_THREADS];
    if (thread->out) continue;
    memset(&thread->req, 0, sizeof(thread->req));
    thread->map = (uint8_t)map;
    thread->page = (uint8_t)page;
    thread->req.type = rng_once_in(&sim->rng, 2) ? DMI_REQ_PUT : DMI_REQ_EXCL;
    thread->req.op.n = ++proc->ops;
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
    launch(proc, thread, HIST_WRITE, thread->req.len, 0);
    return true;
  }
  return false;
}

bool sim_ops_abandon(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  bool some = false;
  if (!proc->mute || atomic_load(&proc->core.owned)) return false;
  for (uint32_t t = 0; t < proc->threads; t++) {
    struct sim_thread *thread = &proc->thread[t];
    if (!thread->out || thread->req.kind != DMI_RMW_WATCH || thread->req.type != DMI_REQ_ATOMIC) {
      continue;
    }
    thread->out = false;
    sim->out--;
    sim->totals->abandoned++;
    proc->abandons = some = true;
    dmi_slice_drop(&thread->req.src);
  }
  return some;
}
