/*
 * pressure.c - start and end, the marks of the pool, the order of stages, and the page steps that
 * the pager's actions need.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "core/pressure_int.h"
#include "dmi_api.h"

/* ---- Start and end -------------------------------------------------------------------------- */

struct dmi_pressure *dmi_pressure_new(struct dmi_core *core, struct dmi_pool *pool, bool spills) {
  struct dmi_pressure *p = dmi_xalloc(1, sizeof(*p));
  p->core = core;
  p->pool = pool;
  p->spills = spills;
  p->capacity = dmi_capacity_new();
  dmi_mutex_init(&p->lock, DMI_RANK_PAGER);
  if (spills) dmi_capacity_spill(p->capacity);
  return p;
}

#ifdef DMI_MUTATIONS
void dmi_pressure_set_break(struct dmi_pressure *p, enum dmi_pressure_break broken,
                            enum dmi_capacity_break capacity) {
  p->broken = broken;
  dmi_capacity_set_break(p->capacity, capacity);
}
#endif

void dmi_page_list_add(struct dmi_page_list *list, struct dmi_page *page) {
  DMI_XALLOC_GROW(list->page, list->num, list->capacity);
  list->page[list->num++] = page;
}

void dmi_page_list_take(struct dmi_page_list *list, uint64_t num) {
  if (!num) return;
  list->num -= num;
  memmove(list->page, list->page + num, list->num * sizeof(struct dmi_page *));
}

void dmi_pressure_close(struct dmi_pressure *p, void (*release)(void *arg, struct dmi_page *page),
                        void *arg) {
  struct dmi_page_list *lists[3] = {&p->stalled, &p->waiting, &p->offered};
  dmi_mutex_lock(&p->lock);
  p->closed = true;
  dmi_mutex_unlock(&p->lock);
  for (int l = 0; l < 3; l++) {
    for (uint64_t i = 0; i < lists[l]->num; i++) {
      if (lists[l]->page[i]) release(arg, lists[l]->page[i]);
    }
    free(lists[l]->page);
    *lists[l] = (struct dmi_page_list){0, 0, NULL};
  }
}

void dmi_pressure_free(struct dmi_pressure *p, void (*release)(void *arg, struct dmi_page *page),
                       void *arg) {
  dmi_pressure_close(p, release, arg);
  dmi_mutex_destroy(&p->lock);
  dmi_capacity_free(p->capacity);
  free(p->holder);
  free(p);
}

/* ---- Marks ---------------------------------------------------------------------------------- */

static uint64_t mark(const struct dmi_pressure *p, unsigned share) {
  uint64_t bytes = dmi_pool_limit(p->pool) / share, page = dmi_pool_refused(p->pool);
  uint64_t most = dmi_pool_limit(p->pool) / 2;
  if (page > bytes) bytes = page;
  return bytes > most ? most : bytes;
}

uint64_t dmi_pressure_low(const struct dmi_pressure *p) {
  return mark(p, 16);
}

uint64_t dmi_pressure_high(const struct dmi_pressure *p) {
  return mark(p, 8);
}

/* The use of the pool below which a member that waits for memory here can have it; 0: none
 * waits. */
static uint64_t falls_for_others(const struct dmi_pressure *p) {
  uint64_t limit = dmi_pool_limit(p->pool), high = limit - dmi_pressure_high(p), fall = 0;
  uint64_t ahead, urgent;
  if (!dmi_pressure_can_give(p) || DMI_BROKEN(p, DMI_PRESSURE_BREAK_WATCH)) return 0;
  /* a process that asked to leave and found no memory takes no pages ahead of need */
  ahead = p->refused ? 0 : dmi_capacity_owed(p->capacity, DMI_CAPACITY_AHEAD);
  urgent = dmi_capacity_owed(p->capacity, DMI_CAPACITY_URGENT);
  if (ahead && ahead <= high) fall = high - ahead + 1;
  if (urgent && urgent <= limit && limit - urgent + 1 > fall) fall = limit - urgent + 1;
  return fall;
}

bool dmi_pressure_set_marks(const struct dmi_pressure *p) {
  uint64_t rise = dmi_pool_limit(p->pool) - dmi_pressure_low(p), used = dmi_pool_used(p->pool);
  uint64_t fall = falls_for_others(p);
  if (used > rise) { /* above the mark, but nothing can be done now */
    if (rise > fall) fall = rise;
    rise = UINT64_MAX;
  }
  if (p->waiting.num || p->offered.num) {
    fall = used;
    /* some ended since this look began */
    if (dmi_pool_transient_ended(p->pool) != p->ended) return false;
  }
  dmi_pool_watch(p->pool, rise, fall);
  used = dmi_pool_used(p->pool);
  return used <= rise && used >= fall;
}

/* ---- Stages --------------------------------------------------------------------------------- */

#ifdef DMI_DEBUG
#define BIT(stage) (1u << DMI_STAGE_##stage)
#define TO_FAILING (BIT(ARM) | BIT(CHECK_FIRST) | BIT(REST))
#define TO_FINDING (BIT(OFFER) | BIT(SPILL) | TO_FAILING)
#define TO_LEAVING (BIT(SWEEP) | TO_FINDING)
#define TO_ANSWERING (BIT(COPIES) | BIT(ARM_COPIES) | TO_LEAVING)

/* The allowed transitions. A stage that needs no action is skipped. */
static const uint32_t allowed[DMI_STAGES] = {
    [DMI_STAGE_REST] = BIT(SETTLE) | BIT(CHECK) | TO_ANSWERING,
    [DMI_STAGE_SETTLE] = BIT(SETTLE) | BIT(CHECK) | TO_ANSWERING,
    [DMI_STAGE_CHECK] = BIT(CHECK) | BIT(ADMIT) | TO_ANSWERING,
    [DMI_STAGE_ADMIT] = BIT(CHECK) | TO_ANSWERING,
    [DMI_STAGE_COPIES] = TO_ANSWERING,
    [DMI_STAGE_ARM_COPIES] = TO_LEAVING,
    [DMI_STAGE_SWEEP] = TO_FINDING,
    [DMI_STAGE_OFFER] = BIT(SPILL) | TO_FAILING,
    [DMI_STAGE_SPILL] = TO_FAILING,
    [DMI_STAGE_ARM] = BIT(REST),
    [DMI_STAGE_CHECK_FIRST] = BIT(FAIL) | BIT(REST),
    [DMI_STAGE_FAIL] = BIT(REST),
};
#endif

void dmi_pressure_check_move(enum dmi_pressure_stage from, enum dmi_pressure_stage to) {
#ifdef DMI_DEBUG
  if (allowed[from] >> to & 1) return;
  fprintf(stderr, "bug: the pager goes from stage %u to stage %u\n", from, to);
  abort();
#else
  (void)from;
  (void)to;
#endif
}

/* ---- The actions' steps --------------------------------------------------------------------- */

enum dmi_pressure_fate dmi_pressure_offered(const struct dmi_page *page) {
  if (page->flags & DMI_PAGE_OFFERED) return DMI_PRESSURE_OUT;
  if (page->role == DMI_ROLE_NONE && !(page->flags & DMI_PAGE_DEAD)) return DMI_PRESSURE_SENT;
  return DMI_PRESSURE_BACK;
}

enum dmi_pressure_fate dmi_pressure_stalls(const struct dmi_page *page) {
  if (!(page->flags & DMI_PAGE_STALLED) || (page->flags & DMI_PAGE_DEAD)) return DMI_PRESSURE_GONE;
  return page->flags & DMI_PAGE_SPILLED ? DMI_PRESSURE_SPILLED : DMI_PRESSURE_STALLS;
}

bool dmi_pressure_admit(struct dmi_pressure *p, struct dmi_page *page, int error,
                        struct dmi_out *out) {
  if (dmi_page_unstall(p->core, page, error, out) || error != DMI_OK) return false;
  if (dmi_pressure_stalls(page) == DMI_PRESSURE_SPILLED) return true;
  dmi_pool_release(p->pool, page->map->page_size);
  return false;
}

bool dmi_pressure_read_back(struct dmi_pressure *p, struct dmi_page *page, struct dmi_frame *frame,
                            struct dmi_out *out) {
  if (dmi_page_unspill(p->core, page, frame, out)) return true;
  dmi_pool_release(p->pool, page->map->page_size);
  dmi_frame_unref(frame);
  return false;
}
