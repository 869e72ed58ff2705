/*
 * member_check.c - the invariants of membership, which hold between two events (debug builds and
 * tests).
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/coord_int.h"

/* True if a rule is switched off: then other checks must notice the consequences. */
static bool any_broken(const struct dmi_member *m) {
#ifdef DMI_MUTATIONS
  return m->broken != DMI_MBREAK_NOTHING;
#else
  (void)m;
  return false;
#endif
}

static void must(bool holds, const struct dmi_member *m, const char *what) {
  if (holds) return;
  fprintf(stderr, "dmi: bug in membership at %u (view %llu): violated: %s\n", m->uid,
          (unsigned long long)m->view, what);
  abort();
}

static void check_member(const struct dmi_member *m) {
  uint32_t not_polls = 0;
  for (uint32_t i = 0; i < m->calls.num; i++) {
    if (m->calls.at[i].type != DMI_CTL_POLL) not_polls++;
    for (uint32_t j = 0; j < i; j++) {
      must(m->calls.at[i].op != m->calls.at[j].op, m, "calls have different numbers");
    }
  }
  must(m->loop.num == 0, m, "messages to this process itself are delivered at once");
  must(not_polls == m->calls_busy, m, "calls_busy counts the calls that are not polls");
  must(m->busy_acked <= m->busy_seq, m, "BUSY_OK follows BUSY");
  for (uint32_t i = 0; i < m->peers.num; i++) {
    for (uint32_t j = 0; j < i; j++) {
      must(m->peers.at[i].uid != m->peers.at[j].uid, m, "uids in a view are different");
      must(!dmi_id_is(m->peers.at[i].dmi_id, m->peers.at[j].dmi_id), m,
           "ids in a view are different");
    }
  }
  if (m->phase < DMI_PHASE_ACCEPTED) return;
  must(dmi_member_find(m, m->uid) != NULL, m, "a member is in its view");
  must(dmi_member_find(m, m->coordinator) != NULL, m, "the coordinator is in the view");
}

static void check_record(const struct dmi_member *m, const struct dmi_record *record) {
  const struct dmi_coord *c = m->coord;
  const struct dmi_record *heir;
  if (record->heir == 0) {
    must(record->life != DMI_LIFE_DRAINED && record->life != DMI_LIFE_FLUSHING, m,
         "who is drained has an heir");
    return;
  }
  heir = dmi_coord_find(c, record->heir);
  if (record->life == DMI_LIFE_LEAVING && record->vital) {
    must(heir != NULL, m, "an heir is a member");
    must(heir->life >= DMI_LIFE_JOINED && heir->life <= DMI_LIFE_CLOSING, m,
         "an heir does not leave while it inherits");
  }
  must(record->life != DMI_LIFE_LEAVING || !heir || !heir->left, m,
       "an heir has not left while it inherits");
  must(record->life != DMI_LIFE_NO_HEIR && record->life < DMI_LIFE_LOST, m,
       "only a leaver has an heir");
}

static void check_coordinator(const struct dmi_member *m) {
  const struct dmi_coord *c = m->coord;
  const struct dmi_record *self = dmi_coord_find(c, m->uid);
  uint64_t end = 0;
  must(self && !self->left, m, "the coordinator is a member");
  must(c->notices.num == 0 || c->polls.num == 0, m, "no notice waits while somebody polls");
  must(c->change != DMI_CHANGE_NONE || c->awaits.num == 0, m, "no view, no VIEW_TAKEN");
  must(c->change == DMI_CHANGE_HANDOVER || dmi_coord_recovers(c) || c->deferred.num == 0, m,
       "deferred only at a handover, and behind a crash view");
  for (uint32_t i = 0; i < c->records.num; i++) {
    must(i == 0 || c->records.at[i - 1].uid < c->records.at[i].uid, m, "records are in order");
    for (uint32_t j = 0; j < i; j++) {
      must(!dmi_id_is(c->records.at[i].dmi_id, c->records.at[j].dmi_id), m, "ids are different");
    }
    if (!any_broken(m) && !dmi_coord_recovers(c)) check_record(m, &c->records.at[i]);
  }
  if (dmi_coord_recovers(c)) return; /* homes may be lost, and heirs drained, which begin anew */
  for (uint32_t i = 0; i < c->mappings.num; i++) {
    const struct dmi_entry *mapping = &c->mappings.at[i];
    const struct dmi_record *home = dmi_coord_find(c, mapping->home);
    must(mapping->base >= end, m, "mappings do not overlap");
    must(home != NULL, m, "the home of a mapping is a member");
    must((home->life != DMI_LIFE_DRAINED && !home->left) || any_broken(m), m,
         "who is drained is no home");
    end = mapping->base + mapping->page_size * mapping->page_num;
  }
  must(end <= c->next_base, m, "the next mapping is behind all others");
}

void dmi_member_check(const struct dmi_member *m) {
  if (m->phase == DMI_PHASE_FINISHED) return;
  check_member(m);
  if (m->coord) check_coordinator(m);
}
