/*
 * crash_note.h - DMI_notify in member_sim: who has made notes, and who was given them.
 */
#ifndef CRASH_NOTE_H
#define CRASH_NOTE_H

#include "crash_sim.h"
#include "core/coord_int.h"

struct sim_notes {
  uint64_t made, said;    /* number of the last one; of the last whose call was answered well */
  uint64_t op;            /* the call that is out; 0: none */
  uint64_t *got;          /* values of notes that were given here */
  uint32_t num, capacity; /* of `got` */
};

/* The user of `m` makes a note.  False: not now. */
bool sim_notes_user(struct sim *sim, struct sim_notes *notes, struct dmi_member *m, uint64_t op,
                    struct dmi_mout *out);
/* A call of the user of `notes` is complete. */
void sim_notes_result(struct sim *sim, struct sim_notes *notes, const struct dmi_mact *act);
/* In the end: those that process `maker` has made.  `all`: of each process, NULL: it never began;
 * `c`: the coordinator's state. */
void sim_notes_check(struct sim *sim, const struct dmi_coord *c, const struct sim_notes *const *all,
                     uint32_t maker);

#endif
