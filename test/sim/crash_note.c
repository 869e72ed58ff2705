/*
 * crash_note.c - DMI_notify in crash_sim: users make notes, and in the end each was given to one
 * process that lives at most, and none that a living process made is missing.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "crash_note.h"
#include "dmi_api.h"

bool sim_notes_user(struct sim *sim, struct sim_notes *notes, struct dmi_member *m, uint64_t op,
                    struct dmi_mout *out) {
  if (notes->op || sim->resting || rng_below(&sim->rng, 3)) return false;
  notes->op = op;
  dmi_member_notify(m, op, (uint64_t)dmi_member_uid(m) << 32 | ++notes->made, out);
  return true;
}

void sim_notes_result(struct sim *sim, struct sim_notes *notes, const struct dmi_mact *act) {
  if (act->op == notes->op) {
    if (act->error == DMI_OK) notes->said = notes->made;
    notes->op = 0;
    sim->totals->notes++;
  }
  if (!act->notice_num || act->notices[0].state != DMI_NOTE) return;
  DMI_XALLOC_GROW(notes->got, notes->num, notes->capacity);
  notes->got[notes->num++] = act->notices[0].value;
}

static uint32_t count(const struct sim_notes *notes, uint64_t value) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < notes->num; i++)
    num += notes->got[i] == value;
  return num;
}

static bool is_queued(const struct dmi_coord *c, uint64_t value) {
  for (uint32_t i = 0; c && i < c->notices.num; i++) {
    if (c->notices.at[i].notice.state == DMI_NOTE && c->notices.at[i].notice.value == value)
      return true;
  }
  return false;
}

void sim_notes_check(struct sim *sim, const struct dmi_coord *c, const struct sim_notes *const *all,
                     uint32_t maker) {
  const struct sim_proc *proc = &sim->proc[maker];
  for (uint64_t number = 1; number <= all[maker]->made; number++) {
    uint64_t value = (uint64_t)proc->uid << 32 | number;
    uint32_t living = 0, any = 0;
    for (uint32_t i = 1; i < PROCS; i++) {
      uint32_t num = all[i] ? count(all[i], value) : 0;
      any += num;
      if (sim->proc[i].alive) living += num;
    }
    if (living > 1)
      sim_bad(sim, "note %u of p%u was given %u times", (unsigned)number, proc->uid, living);
    if (proc->alive && number <= all[maker]->said && !any && !is_queued(c, value))
      sim_bad(sim, "note %u of p%u is lost", (unsigned)number, proc->uid);
  }
}
