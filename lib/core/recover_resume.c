/*
 * recover_resume.c - the end of a recovery: pages and operations go on as was decided
 * (docs/crashes-pages.md, step 6).
 */
#include "core/recover_int.h"

static void resume_ops(struct dmi_recover *r) {
  struct dmi_page *page;
  struct dmi_req *req;
  uint64_t at = 0;
  while ((req = r->ops->next_op(r->ops->arg, &at, &page))) {
    struct dmi_out out;
    dmi_out_init(&out);
    dmi_page_op_resume(r->core, page, req, dmi_recover_place_of(r, req->op), &out);
    ENV(r, step_end, page, &out);
  }
}

/* Makes records for the pages that were decided here: each has the page's tail. */
static void make_records(struct dmi_recover *r, struct dmi_map *map) {
  uint64_t i = dmi_recover_first_mark(r, map->base);
  for (; i < r->mark_num && r->mark[i].at.base == map->base; i++) {
    struct dmi_page *page;
    if (!r->mark[i].mark.home) continue;
    page = ENV(r, record, map, r->mark[i].at.page, true);
    if (page) ENV(r, unlock, page);
  }
}

static void resume_map(struct dmi_recover *r, struct dmi_map *map, struct dmi_out *out) {
  bool home = atomic_load(&map->home) == r->core->self;
  bool rebuilt = home && dmi_recover_is_rebuilt(r, map->base);
  uint64_t at = dmi_recover_first_mark(r, map->base);
  struct dmi_page *page;
  if (home) make_records(r, map);
  ENV(r, hold, map);
  if (rebuilt) atomic_store(&map->hole, true);
  EACH_RECORD(r, map, page) {
    struct dmi_page_mark mark = dmi_recover_next_mark(r, page, &at);
    struct dmi_out step;
    if (rebuilt && !mark.home)
      mark = (struct dmi_page_mark){.lost = true, .home = true, .tail = r->core->self};
    dmi_out_init(&step);
    dmi_page_resume(r->core, page, &mark, &step);
    ENV(r, step_end, page, &step);
  }
  if (rebuilt) {
    ENV(r, arrived, map);
    dmi_out_add(out, DMI_ACT_REPLAY)->map = map;
  }
  ENV(r, release, map);
}

void dmi_recover_resume(struct dmi_recover *r, struct dmi_out *out) {
  struct dmi_map *map;
  dmi_recover_sort_marks(r);
  resume_ops(r);
  EACH_MAP(r, map) {
    resume_map(r, map, out);
  }
  atomic_store(&r->core->frozen, false);
  /* Records that were made meanwhile: nothing was decided about them. */
  EACH_MAP(r, map) {
    struct dmi_page *page;
    EACH_RECORD(r, map, page) {
      struct dmi_page_mark none = {0};
      struct dmi_out step;
      dmi_out_init(&step);
      dmi_page_resume(r->core, page, &none, &step);
      ENV(r, step_end, page, &step);
    }
  }
  dmi_recover_lock(r);
  r->note_num = r->place_num = r->said_num = r->mark_num = r->rebuilt_num = 0;
  r->state = DMI_RECOVER_RUNS;
  dmi_recover_unlock(r);
  (void)dmi_out_add(out, DMI_ACT_RESUMED);
}
