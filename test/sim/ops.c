/*
 * ops.c - operations of threads in the history of their page: begins, records and ends them, and
 * finds those that wait.
 */
#include <string.h>

#include "core/ranges.h"
#include "core/syncop.h"
#include "dmi_api.h"
#include "simulator.h"

/* A hit, as the product does it, with no message and no request. */
static bool fast_path(struct sim *sim, struct dmi_core *core, struct sim_thread *thread,
                      struct dmi_page *page, enum hist_kind kind) {
  struct dmi_req *req = &thread->req;
  if (page->flags & DMI_PAGE_DEAD || rng_once_in(&sim->rng, 6)) return false;
  if (kind == HIST_READ && req->ranges && dmi_page_readable(core, page)) {
    dmi_parts_read(req->part, req->parts, page->frame ? page->frame->bytes : NULL, thread->dst);
    return true;
  }
  if (kind == HIST_WRITE && req->ranges) {
    return dmi_page_writable(core, page) &&
           dmi_page_write_parts_now(core, page, req->part, req->parts, thread->src);
  }
  if (kind == HIST_READ && dmi_page_readable(core, page)) {
    memset(thread->dst, 0, req->len);
    if (page->frame) memcpy(thread->dst, page->frame->bytes + req->off, req->len);
    return true;
  }
  return kind == HIST_WRITE && dmi_page_writable(core, page) &&
         dmi_page_write_now(core, page, req->off, thread->src, req->len);
}

/* The kind of the second half of an operation that waits; HIST_DIFFERS: it has none. */
static enum hist_kind second_half(enum hist_kind kind) {
  return kind == HIST_ARRIVE ? HIST_ROUND : HIST_DIFFERS;
}

static void record(struct sim *sim, struct dmi_core *core, struct sim_thread *thread, uint32_t num,
                   const struct sim_drawn *drawn) {
  enum hist_kind kind = drawn->kind;
  const struct dmi_req *req = &thread->req;
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  struct hist_op op = {.call = ++sim->now,
                       .mode = sim_draw_mode(req),
                       .uid = core->self,
                       .thread = (uint8_t)num,
                       .kind = (uint8_t)kind,
                       .off = (uint8_t)thread->from,
                       .len = (uint8_t)thread->span,
                       .mask = thread->mask,
                       .in_len = (uint16_t)drawn->input,
                       .out_len = (uint16_t)drawn->answer,
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

void sim_ops_hint(struct sim *sim, struct sim_thread *thread) {
  struct hist_op *op = &sim->map[thread->map].hist[thread->page].op[thread->hist];
  if (!op->hint) op->hint = ++sim->effects;
}

/* A REVIVE that the lost owner has answered is begun anew, and its page may be lost a second time:
 * so it may have two effects, and is two operations.  The answer of the first is not known. */
void sim_ops_again(struct sim *sim, struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  struct hist_op op = hist->op[thread->hist];
  if (op.kind != HIST_REVIVE || !op.hint) return;
  hist->op[thread->hist].until = ++sim->now;
  op.call = ++sim->now;
  op.hint = 0;
  thread->hist = hist_call(hist, &op, NULL);
}

void sim_ops_back(struct sim *sim, const struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  hist_back(hist, thread->hist, ++sim->now, thread->dst);
  if (thread->hist_wait != SIM_NO_WAIT) {
    hist_back(hist, thread->hist_wait, ++sim->now, thread->dst);
  }
}

bool sim_ops_call(struct sim *sim, struct dmi_core *core, struct sim_thread *thread, uint32_t num,
                  struct dmi_page *page, const struct sim_drawn *drawn) {
  struct dmi_req *req = &thread->req;
  uint64_t input = drawn->input;
  record(sim, core, thread, num, drawn);
  sim->begun++;
  sim->totals->ops++;
  sim_log(sim, "p%u.%u begins %s: map %u page %u [%u,%u) op %llu", core->self, num,
          sim_draw_mode(req), thread->map, thread->page, thread->from, thread->from + thread->span,
          (unsigned long long)req->op.n);
  if (fast_path(sim, core, thread, page, drawn->kind)) {
    sim_ops_hint(sim, thread);
    sim_ops_back(sim, thread);
    sim->totals->fast_ops++;
    return true;
  }
  thread->out = true;
  thread->hops = 0;
  thread->calm = sim_leaving(sim) ? UINT64_MAX : sim->stir;
  sim->out++;
  if (req->ranges) input = pack_ranges(thread, thread->src, drawn->kind == HIST_WRITE);
  thread->frame = (drawn->kind != HIST_READ || req->ranges) && rng_once_in(&sim->rng, 2);
  req->src = thread->frame ? dmi_slice_copy(thread->src, input)
                           : (struct dmi_slice){NULL, thread->src, input};
  memset(thread->dst, 0xee, sizeof(thread->dst));
  return false;
}

void sim_ops_failed(struct sim *sim, const struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  hist_failed(hist, thread->hist);
  if (thread->hist_wait != SIM_NO_WAIT) hist_failed(hist, thread->hist_wait);
}

bool sim_ops_refused(struct sim *sim, const struct sim_thread *thread) {
  struct hist *hist = &sim->map[thread->map].hist[thread->page];
  const struct dmi_req *req = &thread->req;
  /* It had arrived when a write changed the number of the last loss: its call stays open. */
  if (req->error == DMI_EBROKEN) return true;
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

void sim_ops_end(struct sim_thread *thread) {
  dmi_slice_drop(&thread->req.src);
  thread->frame = false;
  memset(thread->src, 0xdd, sizeof(thread->src)); /* these bytes must not be read again */
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
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    for (uint32_t m = 0; sim_at(sim, i) && m < sim->maps; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++) {
        const struct dmi_page *at = sim_record_at(sim, i, m, p);
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

static uint32_t waiting_num(const struct sim *sim) {
  uint32_t num = 0, map, page;
  while (waiting_at(sim, num, &map, &page))
    num++;
  return num;
}

const struct dmi_req *sim_ops_waiting(struct sim *sim, uint32_t *map, uint32_t *page) {
  uint32_t num = waiting_num(sim);
  return num ? waiting_at(sim, rng_below(&sim->rng, num), map, page) : NULL;
}
