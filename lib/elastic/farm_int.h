/*
 * farm_int.h - private to the files about farms.
 */
#ifndef DMI_ELASTIC_FARM_INT_H
#define DMI_ELASTIC_FARM_INT_H

#include "elastic/farm.h"
#include "elastic/farm_plan.h"

/* The description of a farm, in global memory; its job is behind it. */
struct dmi_farm_about {
  int64_t tasks;
  int64_t result_size;
  int64_t results;  /* address of the entries of all tasks */
  int64_t entry;    /* bytes of one: its mark, its result */
  int64_t per_page; /* entries in a page of `results` */
  int64_t job_size;
  int64_t retries;
};

/* An entry begins with its mark: 0, nobody has done the task yet. */
#define DMI_FARM_MARK_DONE INT64_C(1)
/* ... has failed for good, with this status. */
#define DMI_FARM_MARK_FAILED(status) ((int64_t)((uint64_t)(uint32_t)(status) << 32 | 2))

/* What a thread is given: the address of this, in global memory. */
struct dmi_farm_arg {
  int64_t table;
  int64_t slot;
};

/* ---- farm_table.c: the table in global memory ---- */
struct dmi_farm_at {
  struct dmi_process *process;
  int64_t addr;
  uint64_t size;
};
/* Finds out the size of the table at at->addr; waits until it is there. */
int32_t dmi_farm_table_open(struct dmi_farm_at *at);
/* After a call that has failed.  True: for lack of memory, so nothing was done: it is to be called
 * again, a little later, which it is now. */
bool dmi_farm_pause(struct dmi_process *process);
/* Does a step; follows the table when it has moved.  While there is no memory for it, it is tried
 * again, until the program ends: if it were not done, tasks would be nobody's.  DMI_FALSE: the step
 * was not done, or this is not known (DMI_ELOST). */
int32_t dmi_farm_table_ask(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                           struct dmi_farm_answer *answer);
/* Makes a table for a new farm. */
int32_t dmi_farm_table_new(struct dmi_farm_at *at, int64_t about, int64_t tasks);
/* Makes one with more ranges, which takes its place.  The old one stays until all threads have
 * ended. */
int32_t dmi_farm_table_more(struct dmi_farm_at *at);
/* Unmaps a table, and those that have taken its place. */
void dmi_farm_table_free(struct dmi_process *process, int64_t addr);

/* ---- farm_thread.c ---- */
int64_t dmi_farm_thread(int64_t addr);

/* ---- farm_team.c: the threads on one process ---- */
struct dmi_farm_team {
  int32_t dmi_id;
  int32_t num; /* threads */
  DMI_thread_t *threads;
  int64_t args;  /* dmi_farm_arg of each */
  bool stopping; /* its process has asked to leave */
};
/* Starts up to `num` threads; `team` has those that could be started. */
void dmi_farm_team_start(struct dmi_farm_team *team, struct dmi_farm_at *at, int32_t dmi_id,
                         int32_t num);
/* Waits for the ends of its threads, and frees what it has. */
void dmi_farm_team_join(struct dmi_farm_team *team, struct dmi_process *process);

/* ---- farm_result.c: where results are ---- */
/* Fills in what is about results, and maps memory for them. */
int32_t dmi_farm_result_map(struct dmi_process *process, struct dmi_farm_about *about);
/* DMI_farm_result and the others can be called from now on. */
void dmi_farm_result_keep(DMI_farm_t *farm, const struct dmi_farm_about *about);
/* Writes the entries of `num` tasks. */
int32_t dmi_farm_result_write(struct dmi_process *process, const struct dmi_farm_about *about,
                              int64_t task, int64_t num, const char *entries);
/* Behind losses, when no thread runs: has tasks done again whose results are not there.  *missing
 * gets how many, *failed how many of the others have failed. */
int32_t dmi_farm_result_check(struct dmi_farm_at *at, const struct dmi_farm_about *about,
                              int64_t *missing, int64_t *failed);

#endif
