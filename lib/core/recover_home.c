/*
 * recover_home.c - a home learns who owns its pages after a loss, and decides what becomes of those
 * that nobody owns (docs/crashes-pages.md): REPORT, ASK, DECIDE, MARKED.
 */
#include <stdlib.h>
#include <string.h>

#include "core/heap.h"
#include "core/recover_int.h"

/* ---- REPORT --------------------------------------------------------------------------------- */

static void say(struct dmi_recover *r, uint64_t base, dmi_pageno_t page, dmi_uid_t uid,
                const struct dmi_page_report *report) {
  DMI_XALLOC_GROW(r->said, r->said_num, r->said_capacity);
  r->said[r->said_num++] = (struct dmi_recover_said){{base, page}, uid, *report};
}

/* Notes a page that others have to be asked about. */
static void wonder(struct dmi_recover *r, uint64_t base, dmi_pageno_t page) {
  static const struct dmi_page_report nothing;
  say(r, base, page, 0, &nothing);
}

static void add_report(struct dmi_recover_list *list, const struct dmi_page *page,
                       const struct dmi_page_report *report, struct dmi_out *out) {
  struct dmi_reported entry = {.page = page->index,
                               .version = report->version,
                               .role = report->role,
                               .eligible = report->eligible};
  dmi_recover_add(list, &entry, sizeof(entry), out);
}

static struct dmi_recover_list reports_to(const struct dmi_recover *r, dmi_uid_t to,
                                          const struct dmi_map *map) {
  struct dmi_recover_list list = {.msg = dmi_recover_about(r, DMI_MSG_REPORT, 0), .to = to};
  if (!map) return list;
  list.msg.map = map->base;
  list.msg.report.page_size = map->page_size;
  list.msg.report.page_num = map->page_num;
  list.msg.report.tag = map->tag;
  return list;
}

/* Reports the pages of one mapping to its home; to a home that lives, only those that are PENDING
 * here. */
static void report_map(struct dmi_recover *r, struct dmi_map *map, struct dmi_out *out) {
  dmi_uid_t home = atomic_load(&map->home);
  bool mine = home == r->core->self, all = dmi_recover_is_rebuilt(r, map->base);
  struct dmi_recover_list list = reports_to(r, home, map);
  struct dmi_page *page;
  if (all) list.msg.flags |= DMI_F_LOST;
  EACH_RECORD(r, map, page) {
    struct dmi_page_report report;
    bool any = dmi_page_report(r->core, page, &report);
    if (mine && !all && page->tail && !r->core->is_member(r->core->arg, page->tail))
      wonder(r, map->base, page->index);
    if (any && (all || report.role == DMI_ROLE_PENDING)) {
      if (mine) {
        say(r, map->base, page->index, home, &report);
      } else {
        add_report(&list, page, &report, out);
      }
    }
    ENV(r, unlock, page);
  }
  /* The heir may never have used the mapping.  It must hear of it even if there is no page here;
   * otherwise it would take all pages for untouched ones instead of LOST. */
  dmi_recover_send(&list, all && !mine, out);
  dmi_recover_list_free(&list);
}

void dmi_recover_report(struct dmi_recover *r, struct dmi_out *out) {
  const struct dmi_msg end = dmi_recover_about(r, DMI_MSG_REPORT, 0);
  uint32_t first = out->num;
  struct dmi_map *map;
  EACH_MAP(r, map) {
    report_map(r, map, out);
  }
  dmi_recover_end_round(r, DMI_ROUND_REPORT, &end, first, out);
}

/* The mapping of a REPORT.  This process may have become the home of one that it has never used, of
 * a lost process.  One of which it was the home it has forgotten: it is being unmapped, and who
 * reports forgets it, too.  NULL. */
static struct dmi_map *reported_map(struct dmi_recover *r, const struct dmi_msg *msg) {
  struct dmi_map *map = ENV(r, find, msg->map);
  struct dmi_map what = {.base = msg->map,
                         .page_size = msg->report.page_size,
                         .page_num = msg->report.page_num,
                         .tag = msg->report.tag};
  uint64_t size;
  if (map || !(msg->flags & DMI_F_LOST) || !what.page_size || !what.page_num ||
      __builtin_mul_overflow(what.page_size, what.page_num, &size) || size >= (uint64_t)1 << 62)
    return map;
  atomic_init(&what.home, r->core->self);
  atomic_init(&what.arriving, r->core->self);
  ENV(r, enter, &what);
  dmi_recover_rebuild(r, msg->map, 0);
  return ENV(r, find, msg->map);
}

bool dmi_recover_on_report(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                           struct dmi_out *out) {
  const struct dmi_map *map = msg->map ? reported_map(r, msg) : NULL;
  struct dmi_recover_peer *peer = dmi_recover_peer(r, from);
  struct dmi_reported entry;
  for (uint64_t at = 0; map && at + sizeof(entry) <= msg->list.len; at += sizeof(entry)) {
    struct dmi_page_report report;
    memcpy(&entry, msg->list.ptr + at, sizeof(entry));
    if (entry.page >= map->page_num || entry.role > DMI_ROLE_OWNER) return false;
    report = (struct dmi_page_report){
        .role = (uint8_t)entry.role, .eligible = entry.eligible != 0, .version = entry.version};
    say(r, map->base, entry.page, from, &report);
  }
  if (!msg->map && r->asked) peer->answered = true;
  if (!msg->map) peer->ended[DMI_ROUND_REPORT] = true;
  dmi_recover_reported(r, out);
  return true;
}

/* ---- ASK ------------------------------------------------------------------------------------ */

static int by_page(const void *a, const void *b) {
  const struct dmi_recover_said *x = a, *y = b;
  int order = dmi_recover_order(&x->at, &y->at);
  if (order) return order;
  return x->uid < y->uid ? -1 : x->uid > y->uid;
}

/* Most often they are in order already: pages are gone through in theirs. */
static void sort(void *entries, uint64_t num, size_t size, int (*by)(const void *, const void *)) {
  const char *entry = entries;
  for (uint64_t i = 1; i < num; i++, entry += size) {
    if (by(entry, entry + size) <= 0) continue;
    qsort(entries, num, size, by);
    return;
  }
}

static void sort_said(struct dmi_recover *r) {
  sort(r->said, r->said_num, sizeof(*r->said), by_page);
}

/* True if it is the first entry about its page, and others must be asked about that: those of a
 * home that was lost have reported everything. */
static bool is_question(const struct dmi_recover *r, uint64_t i) {
  const struct dmi_recover_said *said = &r->said[i];
  if (dmi_recover_is_rebuilt(r, said->at.base)) return false;
  return i == 0 || dmi_recover_order(&said[-1].at, &said->at) != 0;
}

static void ask(struct dmi_recover *r, dmi_uid_t to, struct dmi_out *out) {
  struct dmi_recover_list list = {.msg = dmi_recover_about(r, DMI_MSG_ASK, 0), .to = to};
  for (uint64_t i = 0; i < r->said_num; i++) {
    if (!is_question(r, i)) continue;
    if (list.msg.map != r->said[i].at.base) dmi_recover_send(&list, false, out);
    list.msg.map = r->said[i].at.base;
    dmi_recover_add(&list, &r->said[i].at.page, sizeof(r->said[i].at.page), out);
  }
  dmi_recover_send(&list, false, out);
  list.msg.map = 0;
  dmi_recover_send(&list, true, out);
  dmi_recover_list_free(&list);
}

/* What this process itself would report about a page. */
static bool look_at(struct dmi_recover *r, struct dmi_map *map, dmi_pageno_t index,
                    struct dmi_page_report *report) {
  struct dmi_page *page = index < map->page_num ? ENV(r, record, map, index, false) : NULL;
  bool any = page && dmi_page_report(r->core, page, report);
  if (page) ENV(r, unlock, page);
  return any;
}

static void ask_oneself(struct dmi_recover *r) {
  uint64_t num = r->said_num; /* more are added */
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_recover_at at = r->said[i].at;
    struct dmi_map *map = is_question(r, i) ? ENV(r, find, at.base) : NULL;
    struct dmi_page_report report;
    if (map && look_at(r, map, at.page, &report)) say(r, at.base, at.page, r->core->self, &report);
  }
}

bool dmi_recover_on_ask(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                        struct dmi_out *out) {
  struct dmi_map *map = msg->list.len ? ENV(r, find, msg->map) : NULL;
  struct dmi_recover_list list = reports_to(r, from, map);
  dmi_pageno_t index;
  for (uint64_t at = 0; map && at + sizeof(index) <= msg->list.len; at += sizeof(index)) {
    struct dmi_page_report report;
    struct dmi_reported entry;
    memcpy(&index, msg->list.ptr + at, sizeof(index));
    if (!look_at(r, map, index, &report)) continue;
    entry = (struct dmi_reported){
        .page = index, .version = report.version, .role = report.role, .eligible = report.eligible};
    dmi_recover_add(&list, &entry, sizeof(entry), out);
  }
  dmi_recover_send(&list, !msg->list.len, out);
  dmi_recover_list_free(&list);
  return true;
}

/* ---- DECIDE --------------------------------------------------------------------------------- */

static void mark(struct dmi_recover *r, const struct dmi_recover_at *at,
                 struct dmi_page_mark what) {
  DMI_XALLOC_GROW(r->mark, r->mark_num, r->mark_capacity);
  r->mark[r->mark_num++] = (struct dmi_recover_mark){*at, what};
}

/* The owner of the page that said[first, end) are about, or whose copy is promoted.  0: the page is
 * LOST. */
static dmi_uid_t owner_of(const struct dmi_recover *r, uint64_t first, uint64_t end,
                          bool *promoted) {
  const struct dmi_recover_said *best = NULL;
  *promoted = false;
  for (uint64_t i = first; i < end; i++) {
    const struct dmi_recover_said *said = &r->said[i];
    if (said->report.role == DMI_ROLE_OWNER) return said->uid;
    if (said->report.eligible &&
        (!best || dmi_version_older(best->report.version, said->report.version)))
      best = said;
  }
  *promoted = best != NULL;
  return best ? best->uid : 0;
}

/* Marks what concerns this process.  Returns the other process whose copy is promoted, and which
 * must be told; 0: there is none. */
static dmi_uid_t decide_page(struct dmi_recover *r, uint64_t first, uint64_t end) {
  bool promoted, mine;
  dmi_uid_t owner = owner_of(r, first, end, &promoted);
  mine = owner == r->core->self;
  mark(r, &r->said[first].at,
       (struct dmi_page_mark){.promoted = promoted && mine,
                              .lost = !owner,
                              .home = true,
                              .tail = owner ? owner : r->core->self});
  return promoted && !mine ? owner : 0;
}

/* Tells one process which of its copies are promoted.  The list is in the order of mappings, so
 * there are few messages. */
static void tell(struct dmi_recover *r, dmi_uid_t to, const struct dmi_recover_said *promoted,
                 uint64_t num, struct dmi_out *out) {
  struct dmi_recover_list list = {.msg = dmi_recover_about(r, DMI_MSG_DECIDE, 0), .to = to};
  uint32_t before = out->num;
  for (uint64_t i = 0; i < num; i++) {
    if (promoted[i].uid != to) continue;
    if (list.msg.map != promoted[i].at.base) dmi_recover_send(&list, false, out);
    list.msg.map = promoted[i].at.base;
    dmi_recover_add(&list, &promoted[i].at.page, sizeof(promoted[i].at.page), out);
  }
  dmi_recover_send(&list, false, out);
  dmi_recover_list_free(&list);
  r->marking += out->num - before;
}

static void decide(struct dmi_recover *r, struct dmi_out *out) {
  struct dmi_recover_said *promoted = dmi_xalloc(r->said_num + 1, sizeof(*promoted));
  uint64_t num = 0, end;
  sort_said(r);
  for (uint64_t first = 0; first < r->said_num; first = end) {
    dmi_uid_t to;
    end = first + 1;
    while (end < r->said_num && !dmi_recover_order(&r->said[first].at, &r->said[end].at))
      end++;
    to = decide_page(r, first, end);
    if (to) promoted[num++] = (struct dmi_recover_said){.at = r->said[first].at, .uid = to};
  }
  for (uint32_t i = 0; i < r->peer_num; i++)
    tell(r, r->peer[i].uid, promoted, num, out);
  free(promoted);
  if (!r->marking) dmi_recover_ready(r, out);
}

static bool all_answered(const struct dmi_recover *r) {
  for (uint32_t i = 0; i < r->peer_num; i++) {
    if (!r->peer[i].answered) return false;
  }
  return true;
}

void dmi_recover_reported(struct dmi_recover *r, struct dmi_out *out) {
  bool any = false;
  if (r->state != DMI_RECOVER_DECIDES || r->marking) return;
  if (!dmi_recover_round_over(r, DMI_ROUND_REPORT) || (r->asked && !all_answered(r))) return;
  if (!r->asked) {
    sort_said(r);
    for (uint64_t i = 0; i < r->said_num && !any; i++)
      any = is_question(r, i);
  }
  if (!any) {
    decide(r, out);
    return;
  }
  r->asked = true;
  for (uint32_t i = 0; i < r->peer_num; i++)
    ask(r, r->peer[i].uid, out);
  ask_oneself(r);
  if (!r->peer_num) decide(r, out);
}

bool dmi_recover_on_decide(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                           struct dmi_out *out) {
  struct dmi_msg reply = dmi_recover_about(r, DMI_MSG_MARKED, msg->map);
  struct dmi_recover_at at = {.base = msg->map};
  for (uint64_t i = 0; i + sizeof(at.page) <= msg->list.len; i += sizeof(at.page)) {
    memcpy(&at.page, msg->list.ptr + i, sizeof(at.page));
    mark(r, &at, (struct dmi_page_mark){.promoted = true});
  }
  dmi_out_send(out, from, &reply);
  return true;
}

bool dmi_recover_on_marked(struct dmi_recover *r, uint32_t from, struct dmi_msg *msg,
                           struct dmi_out *out) {
  (void)from, (void)msg;
  if (r->state != DMI_RECOVER_DECIDES || !r->marking) return false;
  if (!--r->marking) dmi_recover_ready(r, out);
  return true;
}

static int by_at(const void *a, const void *b) {
  const struct dmi_recover_mark *x = a, *y = b;
  return dmi_recover_order(&x->at, &y->at);
}

void dmi_recover_sort_marks(struct dmi_recover *r) {
  sort(r->mark, r->mark_num, sizeof(*r->mark), by_at);
}

struct dmi_page_mark dmi_recover_mark_of(const struct dmi_recover *r, const struct dmi_page *page) {
  struct dmi_recover_mark key = {.at = {page->map->base, page->index}}, *found;
  found = r->mark_num ? bsearch(&key, r->mark, r->mark_num, sizeof(key), by_at) : NULL;
  return found ? found->mark : (struct dmi_page_mark){0};
}

/* The marks mark[first, end) are those of this mapping: how many of its pages become LOST. */
static uint64_t lost_of(const struct dmi_recover *r, const struct dmi_map *map, uint64_t first,
                        uint64_t end) {
  uint64_t lost = 0, known = 0;
  if (map->base >= DMI_SYSTEM_BASE || atomic_load(&map->home) != r->core->self) return 0;
  for (uint64_t i = first; i < end; i++) {
    if (!r->mark[i].mark.home) continue;
    known++;
    lost += r->mark[i].mark.lost;
  }
  /* with a hole, they were LOST before */
  if (dmi_recover_is_rebuilt(r, map->base) && !atomic_load(&map->hole))
    lost += map->page_num - known;
  return lost;
}

uint64_t dmi_recover_lost_pages(struct dmi_recover *r) {
  uint64_t lost = 0;
  struct dmi_map *map;
  dmi_recover_sort_marks(r);
  EACH_MAP(r, map) {
    uint64_t first = dmi_recover_first_mark(r, map->base), end;
    for (end = first; end < r->mark_num && r->mark[end].at.base == map->base;)
      end++;
    lost += lost_of(r, map, first, end);
  }
  return lost;
}

uint64_t dmi_recover_first_mark(const struct dmi_recover *r, uint64_t base) {
  uint64_t low = 0, high = r->mark_num;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (r->mark[middle].at.base < base) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct dmi_page_mark dmi_recover_next_mark(const struct dmi_recover *r, const struct dmi_page *page,
                                           uint64_t *at) {
  const struct dmi_recover_at where = {page->map->base, page->index};
  while (*at < r->mark_num && dmi_recover_order(&r->mark[*at].at, &where) < 0)
    (*at)++;
  if (*at == r->mark_num || dmi_recover_order(&r->mark[*at].at, &where))
    return (struct dmi_page_mark){0};
  return r->mark[*at].mark;
}

bool dmi_recover_gives_up(const struct dmi_recover *r, const struct dmi_map *map,
                          dmi_pageno_t page) {
  struct dmi_recover_at at = {map->base, page};
  if (atomic_load(&map->home) != r->core->self) return false;
  for (uint64_t i = 0; i < r->mark_num; i++) {
    if (!dmi_recover_order(&r->mark[i].at, &at) && r->mark[i].mark.home)
      return r->mark[i].mark.lost;
  }
  return dmi_recover_is_rebuilt(r, map->base);
}
