/*
 * draw.c - chooses what a thread of a virtual process does next: any mode, any range, with changing
 * mixes and hot pages.
 */
#include <stddef.h>
#include <string.h>

#include "core/ranges.h"
#include "core/syncop.h"
#include "dmi_api.h"
#include "simulator.h"

static const char *const mode_names[] = {
    [DMI_REQ_GET] = "GET",        [DMI_REQ_READ] = "READ",  [DMI_REQ_PUT] = "PUT",
    [DMI_REQ_EXCL] = "EXCLUSIVE", [DMI_REQ_ATOMIC] = "PUT", [DMI_REQ_ATOMIC_EXCL] = "EXCLUSIVE",
};

/* Chooses a new mix: only some of the modes, on a hot page or spread, few or many operations at
 * once. */
void sim_draw_mix(struct sim *sim) {
  struct rng *rng = &sim->rng;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 6; i++) {
    sim->mix.weight[i] = rng_once_in(rng, 3) ? 0 : rng_range(rng, 1, 10);
    sum += sim->mix.weight[i];
  }
  if (!sum) sim->mix.weight[DMI_REQ_READ] = sim->mix.weight[DMI_REQ_PUT] = 1;
  sim->mix.issue = rng_once_in(rng, 2) ? rng_range(rng, 20, 200) : rng_range(rng, 200, 900);
  sim->mix.hot = rng_once_in(rng, 2) ? rng_range(rng, 60, 100) : rng_range(rng, 0, 30);
  sim->mix.hot_map = sim->maps ? rng_below(rng, sim->maps) : 0;
  sim->mix.hot_page = rng_below(rng, SIM_PAGES);
  sim->mix.whole = rng_once_in(rng, 2) ? rng_range(rng, 0, 10) : rng_range(rng, 10, 70);
  sim->mix.small = rng_range(rng, 0, 90);
  sim->mix.kick = rng_once_in(rng, 2) ? rng_range(rng, 0, 300) : 0;
  sim->mix.drop = rng_once_in(rng, 3) ? rng_range(rng, 0, 300) : 0;
  sim->mix.paging = rng_once_in(rng, 4) ? 0 : rng_range(rng, 10, 2000);
}

void sim_draw_readers(struct sim *sim) {
  struct rng *rng = &sim->rng;
  if (!rng_once_in(rng, 3)) return;
  sim->mix.weight[DMI_REQ_READ] = 40;
  sim->mix.hot = rng_range(rng, 60, 100);
  sim->mix.drop = rng_range(rng, 100, 2000);
}

static uint32_t pick_type(struct sim *sim) {
  uint32_t sum = 0, at;
  for (uint32_t i = 0; i < 6; i++)
    sum += sim->mix.weight[i];
  at = rng_below(&sim->rng, sum);
  for (uint32_t i = 0; i < 6; i++) {
    if (at < sim->mix.weight[i]) return i;
    at -= sim->mix.weight[i];
  }
  return DMI_REQ_GET;
}

static void pick_range(struct sim *sim, uint64_t size, struct dmi_req *req) {
  struct rng *rng = &sim->rng;
  if (rng_below(rng, 100) < sim->mix.whole) {
    req->off = 0;
    req->len = size;
  } else if (rng_below(rng, 100) < sim->mix.small) {
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

static void random_bytes(struct sim *sim, unsigned char *bytes, uint64_t len) {
  bool zero = rng_once_in(&sim->rng, 16);
  for (uint64_t i = 0; i < len; i++)
    bytes[i] = zero ? 0 : (unsigned char)rng_next(&sim->rng);
}

/* Reads what the page holds now, so that a compare-and-swap may succeed. */
static void peek(struct sim *sim, uint32_t map, uint32_t page, const struct dmi_req *req,
                 unsigned char *bytes) {
  memset(bytes, 0, req->len);
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const struct dmi_page *at = sim_record_at(sim, i, map, page);
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

/* Waits for one of the tickets that are served next. */
static enum hist_kind pick_turn(struct sim *sim, struct sim_thread *thread) {
  struct dmi_req *req = &thread->req;
  struct dmi_tickets now;
  uint64_t number;
  peek(sim, thread->map, thread->page, req, (unsigned char *)&now);
  number = now.serving + rng_below(&sim->rng, 3) * DMI_SYNC_UNIT;
  req->kind = DMI_RMW_TURN;
  req->sizes = (struct dmi_rmw_sizes){8, 0, 8};
  memcpy(thread->src, &number, 8);
  return HIST_TURN;
}

/* On pages that begin with tickets or a barrier: chooses an operation on these.  `exclusive`: none
 * that may wait. */
static enum hist_kind pick_sync(struct sim *sim, struct sim_thread *thread, uint64_t size,
                                bool exclusive) {
  struct dmi_req *req = &thread->req;
  struct rng *rng = &sim->rng;
  bool barrier = size >= sizeof(struct dmi_round) && !sim->mix.once && rng_once_in(rng, 2);
  uint64_t num, most = rng_once_in(rng, 3) ? UINT64_MAX : 1;
  struct dmi_arrive head;
  req->off = size >= 64 ? 40 : 0;
  req->len = sizeof(struct dmi_tickets);
  if (exclusive || (!barrier && rng_once_in(rng, 3))) { /* signal, or count: FAD of one number */
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
    head = (struct dmi_arrive){rng_once_in(rng, 10) ? 2 : 3, 0};
    memcpy(thread->src, &head, sizeof(head));
    return HIST_ARRIVE;
  }
  switch (sim->mix.once ? 4 : rng_below(rng, 5)) {
    case 0:
    case 1:
      req->kind = DMI_RMW_TICKET;
      req->sizes.in = 8;
      return HIST_TICKET;
    case 2:
      req->kind = DMI_RMW_SIGNAL;
      req->sizes.out1 = 8;
      memcpy(thread->src, &most, 8);
      return HIST_SIGNAL;
    default:
      return pick_turn(sim, thread);
  }
}

/* The same; if the bytes are no longer an object, usually makes them one again. */
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

/* True if the owner of the page says that its bytes are lost. */
static bool is_lost(struct sim *sim, uint32_t map, uint32_t page) {
  for (uint32_t i = 0; i < SIM_PLACES; i++) {
    const struct dmi_page *at = sim_record_at(sim, i, map, page);
    if (at && (at->flags & DMI_PAGE_LOST)) return true;
  }
  return false;
}

static enum hist_kind pick_revive(struct dmi_req *req) {
  req->kind = DMI_RMW_REVIVE;
  req->off = req->len = 0;
  req->sizes = (struct dmi_rmw_sizes){0, 0, 8};
  return HIST_REVIVE;
}

/* Chooses the bytes and the kind of a request whose type and range are chosen. */
static void draw_input(struct sim *sim, struct sim_thread *thread, struct sim_drawn *drawn) {
  struct dmi_req *req = &thread->req;
  const struct sim_map *map = &sim->map[thread->map];
  *drawn = (struct sim_drawn){0};
  if (req->type == DMI_REQ_GET || req->type == DMI_REQ_READ) {
    req->kind = rng_once_in(&sim->rng, 2) ? DMI_KIND_INVALIDATE : DMI_KIND_UPDATE;
    drawn->kind = HIST_READ;
    drawn->answer = thread->span;
    return;
  }
  if (req->type == DMI_REQ_PUT || req->type == DMI_REQ_EXCL) {
    drawn->kind = HIST_WRITE;
    drawn->input = thread->span;
    random_bytes(sim, thread->src, thread->span);
    return;
  }
  bool exclusive = req->type == DMI_REQ_ATOMIC_EXCL;
  if (!exclusive && sim->mix.once &&
      rng_once_in(&sim->rng, is_lost(sim, thread->map, thread->page) ? 3 : 30)) {
    drawn->kind = pick_revive(req);
  } else if (!exclusive && rng_once_in(&sim->rng, 6)) {
    drawn->kind = pick_watch(sim, thread);
  } else if (map->sync && !rng_once_in(&sim->rng, 20)) {
    drawn->kind = pick_object(sim, thread, map->page_size, exclusive);
  } else {
    drawn->kind = pick_atomic(sim, thread, map->page_size);
  }
  thread->from = (uint32_t)req->off; /* some have chosen another one */
  thread->span = (uint32_t)req->len;
  drawn->input = req->sizes.out1 + req->sizes.out2;
  drawn->answer = req->sizes.in;
}

/* Begins a request of this thread. */
static void begin(struct sim_thread *thread, uint32_t map, uint32_t page, dmi_op_t op) {
  memset(&thread->req, 0, sizeof(thread->req));
  thread->map = (uint8_t)map;
  thread->page = (uint8_t)page;
  thread->mask = 0;
  thread->req.op = op;
  thread->req.dst = thread->dst;
}

void sim_draw_op(struct sim *sim, struct sim_thread *thread, uint32_t map, uint32_t page,
                 dmi_op_t op, struct sim_drawn *drawn) {
  struct dmi_req *req = &thread->req;
  uint64_t size = sim->map[map].page_size;
  begin(thread, map, page, op);
  req->type = (uint8_t)pick_type(sim);
  if (sim->map[map].sync && !rng_once_in(&sim->rng, 20)) {
    if (req->type == DMI_REQ_PUT) req->type = DMI_REQ_ATOMIC;
    if (req->type == DMI_REQ_EXCL) req->type = DMI_REQ_ATOMIC_EXCL;
  }
  pick_range(sim, size, req);
  if (req->type < DMI_REQ_EXCL && rng_once_in(&sim->rng, 3)) {
    struct dmi_req one = *req;
    if (!pick_ranges(sim, thread, size)) *req = one;
  }
  if (!req->ranges) {
    thread->from = (uint32_t)req->off;
    thread->span = (uint32_t)req->len;
  }
  draw_input(sim, thread, drawn);
}

void sim_draw_kick(struct sim *sim, struct sim_thread *thread, uint32_t map, uint32_t page,
                   dmi_op_t op, const struct dmi_req *req, struct sim_drawn *drawn) {
  begin(thread, map, page, op);
  thread->req.type = rng_once_in(&sim->rng, 2) ? DMI_REQ_PUT : DMI_REQ_EXCL;
  thread->req.off = req->off;
  if (req->kind == DMI_RMW_WATCH) {
    thread->req.len = 1;
    thread->src[0] = req->src.ptr[0] ^ 0x5a;
  } else { /* it waits until the second number of its object is the first one of its input */
    thread->req.off += 8;
    thread->req.len = 8;
    memcpy(thread->src, req->src.ptr, 8);
  }
  thread->from = (uint32_t)thread->req.off;
  thread->span = (uint32_t)thread->req.len;
  *drawn = (struct sim_drawn){.kind = HIST_WRITE, .input = thread->req.len};
}

const char *sim_draw_mode(const struct dmi_req *req) {
  if (req->type == DMI_REQ_READ) return req->kind == DMI_KIND_UPDATE ? "UPDATE" : "INVALIDATE";
  return mode_names[req->type];
}
