/*
 * directory_crash.c - the directory of mappings behind a crash view: made anew from what the
 * members tell in STATE, or mended; who becomes the home of what was a lost process's
 * (docs/crashes.md, "Mappings and results").
 *
 * A mapping that a living member knows stays known.  A mapping of which nobody living knows is
 * gone: its address is not given again, since all members know a limit below which addresses may
 * have been given, before any is.
 */
#include <stdlib.h>

#include "core/coord_int.h"

/* ---- STATE ------------------------------------------------------------------------------------
 */

static void read_lists(struct dmi_known *known, dmi_uid_t by, struct dmi_unpack *body) {
  uint32_t num = dmi_unpack_count(body, DMI_MAPPING_BYTES + 4);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_told *told = DMI_LIST_ADD(&known->told);
    told->by = by;
    dmi_member_unpack_mapping(body, &told->entry);
    told->before = dmi_unpack_u32(body);
    if (!dmi_member_mapping_good(&told->entry)) body->bad = true;
  }
  num = dmi_unpack_count(body, 8);
  for (uint32_t i = 0; i < num; i++)
    *DMI_LIST_ADD(&known->forgotten) = dmi_unpack_u64(body);
  num = dmi_unpack_count(body, 20);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_adopted *adopted = DMI_LIST_ADD(&known->adopted);
    dmi_member_unpack_caller(body, &adopted->caller);
    adopted->base = dmi_unpack_u64(body);
  }
  num = dmi_unpack_count(body, 16);
  for (uint32_t i = 0; i < num; i++) {
    struct dmi_result *result = DMI_LIST_ADD(&known->results);
    result->uid = by;
    result->ended.seq = dmi_unpack_u64(body);
    result->ended.value = dmi_unpack_u64(body);
  }
}

bool dmi_directory_unpack_state(struct dmi_known *known, dmi_uid_t by, struct dmi_unpack *body) {
  struct dmi_known before = *known;
  uint64_t limit = dmi_unpack_u64(body);
  read_lists(known, by, body);
  if (dmi_unpack_done(body) && limit <= DMI_SYSTEM_BASE) {
    if (limit > known->limit) known->limit = limit;
    return true;
  }
  known->told.num = before.told.num; /* as if it had not come */
  known->forgotten.num = before.forgotten.num;
  known->adopted.num = before.adopted.num;
  known->results.num = before.results.num;
  return false;
}

void dmi_directory_known_free(struct dmi_known *known) {
  free(known->told.at);
  free(known->forgotten.at);
  free(known->adopted.at);
  free(known->results.at);
  memset(known, 0, sizeof(*known));
}

/* ---- Who is the home? -------------------------------------------------------------------------
 */

static int by_base(const void *left, const void *right) {
  const struct dmi_told *a = left, *b = right;
  if (a->entry.base != b->entry.base) return a->entry.base < b->entry.base ? -1 : 1;
  return a->by < b->by ? -1 : a->by > b->by;
}

/* What was told about one mapping: known.told[first, end). */
static uint32_t end_of(const struct dmi_known *known, uint32_t first) {
  uint32_t end = first + 1;
  while (end < known->told.num &&
         known->told.at[end].entry.base == known->told.at[first].entry.base)
    end++;
  return end;
}

/* Has `by` given it away?  (Who only takes its own heir for the home has not.) */
static bool is_given(const struct dmi_told *told) {
  return told->before == told->by && told->entry.home != told->by;
}

/* Has `by` handed it over to its heir, where it has not arrived completely? */
static bool is_handed(const struct dmi_coord *c, const struct dmi_told *told) {
  const struct dmi_record *leaver = dmi_coord_find(c, told->by);
  return is_given(told) && leaver && leaver->heir == told->entry.home;
}

/* Has the heir of a leaver handed it on?  Then who takes that heir for the home knows less. */
static bool is_handed_on(const struct dmi_coord *c, uint32_t first, uint32_t end, dmi_uid_t heir) {
  for (uint32_t i = first; i < end; i++) {
    if (c->known.told.at[i].by == heir) return is_handed(c, &c->known.told.at[i]);
  }
  return false;
}

/* Who says that it is the home, is.  If nobody does, it is lost, or on its way from a leaver to its
 * heir; those that take the leaver for the home know less than the leaver.  A process that lives
 * and does not say so is not the home: a leaver has said that it would be, and is lost, and with it
 * what was on its way; the pages are as those of a lost home.  `lost`: some process that is. */
static dmi_uid_t home_of(const struct dmi_coord *c, uint32_t first, uint32_t end, dmi_uid_t lost) {
  const struct dmi_told *told = c->known.told.at;
  dmi_uid_t any = 0;
  for (uint32_t i = first; i < end; i++) {
    if (told[i].by == told[i].entry.home) return told[i].by;
  }
  for (uint32_t i = first; i < end; i++) {
    if (is_handed(c, &told[i]) && !is_handed_on(c, first, end, told[i].entry.home))
      return told[i].entry.home;
  }
  for (uint32_t i = first; i < end; i++) {
    dmi_uid_t home = told[i].entry.home;
    if (home && !dmi_coord_find(c, home)) return home;
    if (home) any = home;
  }
  if (!any) return told[first].by; /* the heir, and nobody else knows it any more */
  return lost ? lost : any;
}

/* Does the home that this coordinator knows live, and say nothing of the mapping, and all that know
 * it take it for the home?  Then the answer to its DMI_mmap is under way to it, behind its STATE.
 */
static bool is_being_told(const struct dmi_coord *c, uint32_t first, uint32_t end, dmi_uid_t home) {
  const struct dmi_told *told = c->known.told.at;
  const struct dmi_record *record = dmi_coord_find(c, home);
  for (uint32_t i = first; i < end; i++) {
    if (told[i].by == home || told[i].entry.home != home) return false;
  }
  return record && !record->left && !c->rebuilds;
}

/* Of a recovery that is void nothing counts: neither that some have moved homes in it.  So all mean
 * the same process when they tell who the home is, and all that take a lost one for it report their
 * pages. */
static void take_back_homes(struct dmi_coord *c, uint64_t carried) {
  for (uint32_t i = 0; i < c->known.told.num; i++) {
    struct dmi_told *told = &c->known.told.at[i];
    const struct dmi_record *record = dmi_coord_find(c, told->by);
    bool counts = record && record->ready && record->ready <= carried;
    if (!counts && !is_given(told)) told->entry.home = told->before;
  }
}

/* ---- The directory ----------------------------------------------------------------------------
 */

static uint64_t end_of_last(const struct dmi_coord *c) {
  const struct dmi_entry *last = c->mappings.num ? &c->mappings.at[c->mappings.num - 1] : NULL;
  return last ? last->base + last->page_size * last->page_num : 0;
}

/* Adds it, unless a faulty process has told it.  What was being unmapped goes at RESUME. */
static void add_told(struct dmi_coord *c, const struct dmi_entry *entry) {
  if (entry->base >= c->system.base || entry->base < end_of_last(c)) return;
  *DMI_LIST_ADD(&c->mappings) = *entry;
}

static void take_limit(struct dmi_coord *c) {
  if (c->known.limit > c->next_base) c->next_base = c->known.limit;
  if (end_of_last(c) > c->next_base) c->next_base = end_of_last(c);
  c->limit = dmi_directory_limit(c->next_base);
}

static void take_results(struct dmi_coord *c) {
  c->results.num = 0;
  for (uint32_t i = 0; i < c->known.results.num; i++)
    *DMI_LIST_ADD(&c->results) = c->known.results.at[i];
}

/* A coordinator that stays begins each recovery with the homes of the last RESUME.  Those of one
 * that another loss has ended are void: an heir may not have heard of a mapping, and the leaver, or
 * RECOVER, that was to tell it may be lost.  If members know better, they tell. */
static void begin_homes(struct dmi_coord *c) {
  bool first = !c->homes.num; /* since RESUME; later there is one at least, of the system mapping */
  if (c->rebuilds) return;
  for (uint32_t i = 0; first && i <= c->mappings.num; i++) {
    const struct dmi_entry *entry = i < c->mappings.num ? &c->mappings.at[i] : &c->system;
    *DMI_LIST_ADD(&c->homes) = (struct dmi_home){entry->base, entry->home};
  }
  for (uint32_t i = 0; !first && i < c->homes.num; i++) {
    struct dmi_entry *entry = dmi_directory_find(c, c->homes.at[i].base);
    if (entry) entry->home = c->homes.at[i].uid; /* none: dropped, and addresses are not reused */
  }
}

void dmi_directory_settle(struct dmi_coord *c) {
  free(c->homes.at);
  memset(&c->homes, 0, sizeof(c->homes));
}

void dmi_directory_rebuild(struct dmi_coord *c, dmi_uid_t lost, uint64_t carried) {
  uint32_t end;
  begin_homes(c);
  take_back_homes(c, carried);
  if (c->known.told.num)
    qsort(c->known.told.at, c->known.told.num, sizeof(*c->known.told.at), by_base);
  if (c->rebuilds) {
    c->mappings.num = 0;
    c->system.home = lost;
  }
  for (uint32_t first = 0; first < c->known.told.num; first = end) {
    struct dmi_entry entry = c->known.told.at[first].entry, *known;
    end = end_of(&c->known, first);
    entry.home = home_of(c, first, end, lost);
    known = dmi_directory_find(c, entry.base);
    if (known && known->base == entry.base) {
      if (!is_being_told(c, first, end, known->home)) known->home = entry.home;
    } else if (c->rebuilds) {
      add_told(c, &entry);
    }
  }
  if (!c->rebuilds) return;
  take_limit(c);
  take_results(c);
}

/* ---- RECOVER ----------------------------------------------------------------------------------
 */

/* What `by` has told to be the home; 0: it does not know the mapping. */
static dmi_uid_t told_by(const struct dmi_known *known, uint64_t base, dmi_uid_t by) {
  const struct dmi_told key = {.by = by, .entry = {.base = base}}, *found = NULL;
  if (known->told.num) found = bsearch(&key, known->told.at, known->told.num, sizeof(key), by_base);
  return found ? found->entry.home : 0;
}

static bool is_heir_of(const struct dmi_removed *lost, uint32_t num, dmi_uid_t home,
                       dmi_uid_t uid) {
  for (uint32_t i = 0; i < num; i++) {
    if (lost[i].uid == home) return lost[i].heir == uid;
  }
  return false;
}

static bool is_forgotten(const struct dmi_known *known, uint64_t base) {
  for (uint32_t i = 0; i < known->forgotten.num; i++) {
    if (known->forgotten.at[i] == base) return true;
  }
  return false;
}

/* Before the homes of lost processes are their heirs'.  Who is to be the home, and knows another
 * one, hears of it from the leaver: HOME_BEGIN comes before that one's CUT. */
void dmi_directory_pack_homes(struct dmi_pack *pack, const struct dmi_coord *c, dmi_uid_t to,
                              const struct dmi_removed *lost, uint32_t lost_num) {
  struct dmi_pack list;
  uint32_t num = 0;
  dmi_pack_init(&list);
  for (uint32_t i = 0; i <= c->mappings.num; i++) {
    const struct dmi_entry *entry = i < c->mappings.num ? &c->mappings.at[i] : &c->system;
    dmi_uid_t told = told_by(&c->known, entry->base, to);
    if (told ? told == entry->home || entry->home == to
             : !is_heir_of(lost, lost_num, entry->home, to))
      continue;
    if (is_forgotten(&c->known, entry->base)) continue; /* all are told to forget it */
    dmi_member_pack_mapping(&list, entry);
    num++;
  }
  dmi_pack_u32(pack, num);
  dmi_pack_raw(pack, list.bytes, list.len);
  dmi_pack_free(&list);
}

void dmi_directory_inherit(struct dmi_coord *c, const struct dmi_removed *lost, uint32_t lost_num,
                           dmi_uid_t heir) {
  for (uint32_t i = 0; i < lost_num; i++)
    dmi_directory_rename(c, lost[i].uid, lost[i].heir);
  for (uint32_t i = 0; i <= c->mappings.num; i++) { /* of a faulty process */
    struct dmi_entry *entry = i < c->mappings.num ? &c->mappings.at[i] : &c->system;
    const struct dmi_record *home = dmi_coord_find(c, entry->home);
    if (!home || home->left || home->life == DMI_LIFE_DRAINED) entry->home = heir;
  }
}

/* ---- What was under way -----------------------------------------------------------------------
 */

void dmi_directory_lost(struct dmi_member *m, dmi_uid_t uid) {
  struct dmi_coord *c = m->coord;
  dmi_directory_exited(m, uid);
  for (uint32_t i = 0; i < c->adopts.num; i++) {
    if (c->adopts.at[i].home != uid) continue;
    dmi_directory_drop(c, c->adopts.at[i].mapping.base); /* nobody else has heard of it */
    c->adopts.at[i].home = 0;
  }
}

/* Before RESUME is sent: a leaver must not hand over the home of what its heir has forgotten, and
 * it hands over nothing until then. */
void dmi_directory_forget_rest(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = c->adopts.num; i-- > 0;) {
    struct dmi_adopt adopt = c->adopts.at[i];
    if (!adopt.home || dmi_coord_find(c, adopt.caller.uid)) continue;
    DMI_LIST_DROP(&c->adopts, i); /* who asked for it is lost */
    dmi_directory_unmap(m, adopt.mapping.base);
  }
  for (uint32_t i = 0; i < c->known.forgotten.num; i++)
    dmi_directory_forget_again(m, c->known.forgotten.at[i]);
}

/* RESUME was sent.  A home that was to adopt a mapping is lost: another one is. */
void dmi_directory_resume(struct dmi_member *m) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = c->adopts.num; i-- > 0;) {
    struct dmi_adopt adopt = c->adopts.at[i];
    struct dmi_record *record = dmi_coord_find(c, adopt.caller.uid);
    if (adopt.home) continue;
    DMI_LIST_DROP(&c->adopts, i);
    if (record) dmi_directory_map(m, record, adopt.caller.op, &adopt.mapping);
  }
}

/* MMAP that the coordinator before had given to a home other than the caller.  NULL: it had not. */
const struct dmi_entry *dmi_directory_adopted_before(struct dmi_coord *c,
                                                     const struct dmi_caller *caller) {
  for (uint32_t i = 0; i < c->known.adopted.num; i++) {
    const struct dmi_adopted *adopted = &c->known.adopted.at[i];
    if (adopted->caller.uid == caller->uid && adopted->caller.op == caller->op)
      return dmi_directory_find(c, adopted->base);
  }
  return NULL;
}
