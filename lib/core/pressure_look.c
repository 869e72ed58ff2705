/*
 * pressure_look.c - what the pager does next.
 *
 * A look goes through its stages in a fixed order (docs/replacement.md has the diagram): offers are
 * settled, stalled pages go on as far as there is memory, members that ask are answered, and pages
 * leave if the pool is above its mark or a page or member still waits. If none can leave, the
 * members are asked for memory; then pages go to the file; and if that fails, too, the first
 * waiting write fails. Each change begins a new look.
 */
#include "core/pressure_int.h"
#include "dmi_api.h"

/* ---- Stages --------------------------------------------------------------------------------- */

/* One call of dmi_pressure_next. */
struct step {
  struct dmi_pressure *p;
  struct dmi_pressure_action *action;
  struct dmi_capacity_out *out;
};

static void go(struct step *step, enum dmi_pressure_stage stage, enum dmi_pressure_do type,
               struct dmi_page *page) {
  dmi_pressure_check_move(step->p->stage, stage);
  step->p->stage = stage;
  step->action->type = type;
  step->action->page = page;
  step->action->error = DMI_OK;
  step->action->sleep = step->action->expects = false;
}

/* Takes one out of a list that is being gone through; its place goes later.  (The process may end
 * meanwhile.) */
static struct dmi_page *release(struct dmi_page_list *list, uint64_t at) {
  struct dmi_page *page = list->page[at];
  list->page[at] = NULL;
  return page;
}

/* Something has changed: begins a new look. */
static void look_again(struct step *step) {
  go(step, DMI_STAGE_REST, DMI_PRESSURE_REST, NULL);
}

/* After what may have changed something.  (ARM, too: what it is to tell of may have come just
 * before; if it was armed already the event is still to come.) */
static void go_on(struct step *step, bool changed, void (*on)(struct step *step)) {
  if (changed) {
    look_again(step);
  } else {
    on(step);
  }
}

static void sweep(struct step *step, enum dmi_pressure_stage stage, uint64_t need,
                  enum dmi_capacity_kind kind) {
  struct dmi_pressure *p = step->p;
  p->sweep_need = need;
  p->last = stage == DMI_STAGE_COPIES ? DMI_CLASS_COPY : DMI_CLASS_SOLE;
  p->kind = kind;
  p->to_file = stage == DMI_STAGE_SPILL;
  p->full = false;
  go(step, stage, DMI_PRESSURE_SWEEP, NULL);
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

static void rest(struct step *step) {
  struct dmi_pressure *p = step->p;
  bool sleep = dmi_pressure_set_marks(p);
  look_again(step);
  step->action->sleep = sleep;
  step->action->expects = p->waiting.num || p->offered.num;
}

/* ---- Nothing can leave ---------------------------------------------------------------------- */

/* True if some memory may become free without evicting a page. This is limited: it ends when the
 * transient use of the first look has ended, even if there is new transient use. A process with
 * a spill file does not wait, because others may wait for what is in its file. */
static bool memory_may_come(struct dmi_pressure *p) {
  uint64_t transient, ended, promised = dmi_capacity_promised(p->capacity);
  if (p->spills || DMI_BROKEN(p, DMI_PRESSURE_BREAK_PATIENCE)) return false;
  transient = dmi_pool_transient(p->pool);
  ended = dmi_pool_transient_ended(p->pool);
  if (!p->patience || DMI_BROKEN(p, DMI_PRESSURE_BREAK_FOREVER))
    p->patience = ended + transient + p->without;
  return ended < p->patience && (transient > promised || ended != p->ended);
}

static enum dmi_capacity_have ask_members(struct step *step) {
  struct dmi_pressure *p = step->p;
  enum dmi_capacity_kind kind = p->without ? DMI_CAPACITY_URGENT : DMI_CAPACITY_AHEAD;
  if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_OTHERS)) return DMI_CAPACITY_NONE;
  return dmi_capacity_need(p->capacity, p->need ? p->need : p->without, p->unit, kind, step->out);
}

/* True if there is memory for the first waiting page. */
static bool fits(const struct dmi_pressure *p) {
  return dmi_pool_used(p->pool) + p->without <= dmi_pool_limit(p->pool);
}

/* True if since the beginning of this look memory has become free, or a member has reported
 * some. */
static bool comes_late(struct step *step) {
  struct dmi_pressure *p = step->p;
  return fits(p) || (p->have == DMI_CAPACITY_NONE && ask_members(step) != DMI_CAPACITY_NONE);
}

/* A member that had no memory before the first page began to wait may have some since, and its
 * report be in flight: memory that was freed before a call must count in it. */
static bool asks_again(struct step *step) {
  struct dmi_pressure *p = step->p;
  if (DMI_BROKEN(p, DMI_PRESSURE_BREAK_BEFORE)) return false;
  return dmi_capacity_forget(p->capacity, p->mark) && ask_members(step) != DMI_CAPACITY_NONE;
}

static void check_first(struct step *step) {
  go(step, DMI_STAGE_CHECK_FIRST, DMI_PRESSURE_CHECK, step->p->waiting.page[0]);
}

static void nothing_leaves(struct step *step) {
  struct dmi_pressure *p = step->p;
  if (!p->without) {
    rest(step);
  } else if (p->busy_seen && DMI_BROKEN(p, DMI_PRESSURE_BREAK_STEP)) {
    rest(step);
  } else if (p->busy_seen) { /* a page that could leave is busy: look again when it is idle */
    go(step, DMI_STAGE_ARM, DMI_PRESSURE_ARM, NULL);
  } else if (comes_late(step)) {
    look_again(step);
  } else if (memory_may_come(p)) {
    go_on(step, dmi_pool_transient_ended(p->pool) != p->ended, rest);
  } else {
    go_on(step, asks_again(step), check_first);
  }
}

/* All that wait do so now, if that is not known of the first one. */
static void mark(struct dmi_pressure *p) {
  if (p->marked) return;
  p->marked = p->waiting.num;
  p->mark = dmi_capacity_asked(p->capacity);
}

/* The first `num` do not wait any more. */
static void take(struct dmi_pressure *p, uint64_t num) {
  dmi_page_list_take(&p->waiting, num);
  p->marked -= num < p->marked ? num : p->marked;
  mark(p);
}

/* The first waiting page has failed: removes it. */
static void failed(struct step *step) {
  step->action->release = step->p->waiting.page[0];
  take(step->p, 1);
  step->p->patience = 0;
  look_again(step);
}

/* There is no memory anywhere for the first waiting page. It fails, but if its bytes are in the
 * file it gets memory above the limit, so that they are not lost. */
static void first_checked(struct step *step, enum dmi_pressure_fate fate) {
  struct dmi_pressure *p = step->p;
  struct dmi_page *page = p->waiting.page[0];
  bool back = fate == DMI_PRESSURE_SPILLED && !DMI_BROKEN(p, DMI_PRESSURE_BREAK_SPILLED);
  if (fate == DMI_PRESSURE_GONE) {
    failed(step);
    return;
  }
  for (uint64_t i = 0; i < p->stalled.num; i++) {
    if (p->stalled.page[i] == page) { /* it stalls again: see unmark */
      look_again(step);
      return;
    }
  }
  if (back) (void)dmi_pool_reserve(p->pool, page->map->page_size, true);
  go(step, DMI_STAGE_FAIL, DMI_PRESSURE_ADMIT, page);
  if (!back) step->action->error = DMI_ENOMEM;
}

static void spill_pages(struct step *step) {
  struct dmi_pressure *p = step->p;
  if (p->spills) {
    sweep(step, DMI_STAGE_SPILL, p->need ? p->need : p->without,
          p->without ? DMI_CAPACITY_URGENT : DMI_CAPACITY_AHEAD);
  } else {
    nothing_leaves(step);
  }
}

static void find_capacity(struct step *step) {
  struct dmi_pressure *p = step->p;
  bool itself = p->without && (!p->nowhere || p->without < p->nowhere);
  p->unit = itself ? p->without : p->nowhere;
  if (!p->unit) {
    rest(step);
    return;
  }
  p->have = ask_members(step);
  if (p->have == DMI_CAPACITY_ASKED) {
    rest(step);
  } else if (p->have == DMI_CAPACITY_NONE || DMI_BROKEN(p, DMI_PRESSURE_BREAK_ITSELF)) {
    spill_pages(step);
  } else if (!itself) { /* not busy since the sweep */
    look_again(step);
  } else { /* for the waiting page itself, not for other pages */
    p->kind = DMI_CAPACITY_URGENT;
    go(step, DMI_STAGE_OFFER, DMI_PRESSURE_OFFER, p->waiting.page[0]);
  }
}

/* The member with memory may have left meanwhile. */
static void offered(struct step *step, enum dmi_pressure_offer offer) {
  if (offer == DMI_PRESSURE_OFFERED) {
    look_again(step);
    return;
  }
  if (offer == DMI_PRESSURE_NOBODY) step->p->have = DMI_CAPACITY_NONE;
  spill_pages(step);
}

/* ---- Pages leave ---------------------------------------------------------------------------- */

/* How many bytes must leave. */
static uint64_t to_leave(const struct dmi_pressure *p) {
  uint64_t used = dmi_pool_used(p->pool), limit = dmi_pool_limit(p->pool), need = 0;
  if (used > limit - dmi_pressure_low(p)) need = used - (limit - dmi_pressure_high(p));
  if (p->without && p->without <= limit && used + p->without - limit > need &&
      used + p->without > limit)
    need = used + p->without - limit;
  return need > p->offered_bytes ? need - p->offered_bytes : 0;
}

static void swept(struct step *step, uint64_t made) {
  struct dmi_pressure *p = step->p;
  if (p->need && made >= p->need) {
    if (p->without && fits(p)) {
      look_again(step);
    } else {
      rest(step);
    }
  } else if (made) {
    look_again(step);
  } else if (p->offered.num) { /* wait until some offers are settled */
    rest(step);
  } else {
    find_capacity(step);
  }
}

static void leave(struct step *step) {
  struct dmi_pressure *p = step->p;
  p->busy_seen = false;
  p->nowhere = 0;
  p->need = atomic_load(&p->core->heir) ? 0 : to_leave(p);
  if (atomic_load(&p->core->heir) || (!p->need && !p->without)) {
    rest(step);
  } else if (p->need) {
    sweep(step, DMI_STAGE_SWEEP, p->need, p->without ? DMI_CAPACITY_URGENT : DMI_CAPACITY_AHEAD);
  } else {
    swept(step, 0);
  }
}

/* ---- Others --------------------------------------------------------------------------------- */

static void answer(struct step *step) {
  struct dmi_pressure *p = step->p;
  while (dmi_pressure_asker(p)) {
    uint64_t need = dmi_pressure_copies_for_asker(p);
    if (need) {
      sweep(step, DMI_STAGE_COPIES, need, DMI_CAPACITY_AHEAD);
      return;
    }
    dmi_pressure_answer(p, step->out);
  }
  dmi_pressure_tell(p, step->out);
  if (p->arm && !DMI_BROKEN(p, DMI_PRESSURE_BREAK_STEP)) {
    go(step, DMI_STAGE_ARM_COPIES, DMI_PRESSURE_ARM, NULL);
  } else {
    leave(step);
  }
}

/* Memory that was free when the need was computed may be in use now. */
static void copies_dropped(struct step *step, uint64_t made) {
  struct dmi_pressure *p = step->p;
  uint64_t more = made ? dmi_pressure_copies_for_asker(p) : 0;
  if (more) {
    sweep(step, DMI_STAGE_COPIES, more, DMI_CAPACITY_AHEAD);
  } else {
    dmi_pressure_answer(p, step->out);
    answer(step);
  }
}

/* ---- Pages that stall ----------------------------------------------------------------------- */

/* Lets waiting pages go on in order, as far as there is memory. */
static void serve(struct step *step) {
  struct dmi_pressure *p = step->p;
  if (p->at < p->waiting.num && !p->without) {
    go(step, DMI_STAGE_CHECK, DMI_PRESSURE_CHECK, p->waiting.page[p->at]);
    return;
  }
  if (p->at) p->patience = 0; /* another page is the first now */
  take(p, p->at);
  /* pages may have been stalled meanwhile */
  if (!p->without) dmi_pool_close(p->pool, p->stalled.num != 0);
  dmi_capacity_again(p->capacity);
  p->arm = false;
  answer(step);
}

static void checked(struct step *step, enum dmi_pressure_fate fate) {
  struct dmi_pressure *p = step->p;
  struct dmi_page *page = p->waiting.page[p->at];
  bool leaver = atomic_load(&p->core->heir) != 0;
  uint64_t size;
  if (fate == DMI_PRESSURE_GONE) {
    step->action->release = release(&p->waiting, p->at++);
    serve(step);
    return;
  }
  size = page->map->page_size;
  if (dmi_pool_reserve_first(p->pool, size) || (leaver && dmi_pool_reserve(p->pool, size, true))) {
    go(step, DMI_STAGE_ADMIT, DMI_PRESSURE_ADMIT, page);
  } else {
    p->without = size;
    serve(step);
  }
}

/* A page that stalls again while it is in the list still waits only since then. */
static void unmark(struct dmi_pressure *p) {
  for (uint64_t i = 0; i < p->stalled.num; i++) {
    for (uint64_t k = 0; k < p->marked; k++) {
      if (p->waiting.page[k] == p->stalled.page[i]) p->marked = k;
    }
  }
}

static void begin_to_serve(struct step *step) {
  struct dmi_pressure *p = step->p;
  unmark(p);
  for (uint64_t i = 0; i < p->stalled.num; i++) {
    if (i == 0 || !DMI_BROKEN(p, DMI_PRESSURE_BREAK_STALLED))
      dmi_page_list_add(&p->waiting, p->stalled.page[i]);
  }
  p->stalled.num = 0;
  mark(p);
  p->at = p->without = 0;
  serve(step);
}

/* ---- Offers --------------------------------------------------------------------------------- */

static void settle(struct step *step) {
  struct dmi_pressure *p = step->p;
  if (p->at < p->offered.num) {
    go(step, DMI_STAGE_SETTLE, DMI_PRESSURE_SETTLE, p->offered.page[p->at]);
    return;
  }
  p->offered.num = p->kept;
  begin_to_serve(step);
}

static void settled(struct step *step, enum dmi_pressure_fate fate) {
  struct dmi_pressure *p = step->p;
  struct dmi_page *page = release(&p->offered, p->at++);
  bool lost = fate == DMI_PRESSURE_BACK && DMI_BROKEN(p, DMI_PRESSURE_BREAK_SETTLE);
  if (fate == DMI_PRESSURE_OUT || lost) {
    p->offered.page[p->kept++] = page;
  } else {
    p->offered_bytes -= page->map->page_size;
    step->action->release = page;
  }
  settle(step);
}

/* ---- One thing after the other -------------------------------------------------------------- */

static void begin(struct step *step) {
  struct dmi_pressure *p = step->p;
  p->ended = dmi_pool_transient_ended(p->pool);
  p->at = p->kept = 0;
  settle(step);
}

void dmi_pressure_next(struct dmi_pressure *p, const struct dmi_pressure_result *result,
                       struct dmi_pressure_action *action, struct dmi_capacity_out *out) {
  struct step step = {p, action, out};
  action->release = NULL;
  dmi_mutex_lock(&p->lock);
  switch (p->stage) {
    case DMI_STAGE_REST:
      begin(&step);
      break;
    case DMI_STAGE_SETTLE:
      settled(&step, result->fate);
      break;
    case DMI_STAGE_CHECK:
      checked(&step, result->fate);
      break;
    case DMI_STAGE_ADMIT:
      action->release = release(&p->waiting, p->at++);
      serve(&step);
      break;
    case DMI_STAGE_COPIES:
      copies_dropped(&step, result->bytes);
      break;
    case DMI_STAGE_ARM_COPIES:
      go_on(&step, result->yes, leave);
      break;
    case DMI_STAGE_SWEEP:
      swept(&step, result->bytes);
      break;
    case DMI_STAGE_OFFER:
      offered(&step, result->offer);
      break;
    case DMI_STAGE_SPILL:
      go_on(&step, result->bytes != 0, nothing_leaves);
      break;
    case DMI_STAGE_ARM:
      go_on(&step, result->yes, rest);
      break;
    case DMI_STAGE_CHECK_FIRST:
      first_checked(&step, result->fate);
      break;
    default: /* FAIL */
      failed(&step);
  }
  dmi_mutex_unlock(&p->lock);
}
