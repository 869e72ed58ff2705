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

/* What a thread is given: the address of this, in global memory.  One read: each one makes the
 * thread wait. */
struct dmi_farm_arg {
  int64_t table;
  uint64_t table_size;
  int64_t slot;
  int64_t about_addr;
  struct dmi_farm_about about;
};

/* ---- farm_table.c: the table in global memory ---- */
/* struct dmi_program's `step`: carries a step out at the owner of a table. */
void dmi_farm_table_rmw(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                        int64_t out2_size, void *in, int64_t in_size, int8_t tag);
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
/* The same in two halves, so that the thread computes while the step is done: `step` and `answer`
 * stay where they are until the second one has returned, which waits. */
void dmi_farm_table_begin(const struct dmi_farm_at *at, const struct dmi_farm_step *step,
                          struct dmi_farm_answer *answer, DMI_local_status_t *status);
int32_t dmi_farm_table_end(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                           struct dmi_farm_answer *answer, DMI_local_status_t *status);
/* The same of a step that needs an unused range: as long as there is none the table is replaced by
 * a larger one.  Only the process that runs the farm calls this, dmi_farm_table_more and _reserve:
 * who makes a table owns it, so losing another process loses none. */
int32_t dmi_farm_table_insert(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                              struct dmi_farm_answer *answer);
/* Makes a table for a new farm. */
int32_t dmi_farm_table_new(struct dmi_farm_at *at, int64_t tasks);
/* Makes one with more ranges, which takes its place.  The old one stays until all threads have
 * ended. */
int32_t dmi_farm_table_more(struct dmi_farm_at *at);
/* Until it has `num` ranges, if there is memory for that. */
void dmi_farm_table_reserve(struct dmi_farm_at *at, uint32_t num);
/* Unmaps a table, and those that have taken its place. */
void dmi_farm_table_free(struct dmi_process *process, int64_t addr);

/* ---- farm_member.c: the processes that take part ---- */
/* One of them, until it has left or is lost. */
struct dmi_farm_member {
  struct dmi_farm_member *next;
  int32_t dmi_id;
  int32_t core; /* how many it has */
  enum {
    DMI_FARM_IN,  /* was welcomed */
    DMI_FARM_OUT, /* has asked to leave: its threads are to end, if there are any */
    DMI_FARM_GOES /* DMI_goodbye was called; `goodbye` tells what became of that */
  } state;
  DMI_local_status_t goodbye;
};
struct dmi_farm_members {
  struct dmi_process *process;
  struct dmi_farm_member *first;
};
/* How many do tasks, or will when the farm begins. */
int32_t dmi_farm_members_in(const struct dmi_farm_members *members);
/* NULL: it is not in the list. */
struct dmi_farm_member *dmi_farm_member_of(const struct dmi_farm_members *members, int32_t dmi_id);
/* One that was welcomed.  NULL: no memory. */
struct dmi_farm_member *dmi_farm_member_add(struct dmi_farm_members *members,
                                            const DMI_node_t *node);
/* It is gone: a goodbye has its answer, or gets it now. */
void dmi_farm_member_drop(struct dmi_farm_members *members, struct dmi_farm_member *m);
/* Dismisses it, without waiting.  The last goodbye to it, if there was one, has its answer. */
void dmi_farm_member_goodbye(struct dmi_farm_members *members, struct dmi_farm_member *m);
/* It GOES, and its notice has come again. */
void dmi_farm_member_asks_again(struct dmi_farm_members *members, struct dmi_farm_member *m);
/* Forgets those that have left.  Where threads still ran that the program itself has made, the
 * notice DMI_CLOSE does not come again: so goodbye is said again, with each notice of others. */
void dmi_farm_members_look(struct dmi_farm_members *members);
/* All is done: waits until those that were dismissed have left, or cannot; the list is empty. */
void dmi_farm_members_finish(struct dmi_farm_members *members);

/* ---- farm_thread.c ---- */
int64_t dmi_farm_thread(int64_t addr);
/* Is the calling thread in DMI_farm_task? */
bool dmi_farm_in_task(void);

/* ---- farm_team.c: the threads on one process ---- */
struct dmi_farm_team {
  int32_t dmi_id;
  int32_t num;   /* threads */
  int32_t asked; /* of these, while dmi_farm_team_await was not called: all; else 0 */
  struct dmi_farm_worker *workers;
  int64_t args;  /* dmi_farm_arg of each */
  bool stopping; /* its process has asked to leave */
};
/* Asks for up to `num` threads.  `arg`: what each is told, but for its slot and the table. */
void dmi_farm_team_ask(struct dmi_farm_team *team, struct dmi_farm_at *at,
                       const struct dmi_farm_arg *arg, int32_t dmi_id, int32_t num);
/* Waits until they run.  `team` has those that could be started. */
void dmi_farm_team_await(struct dmi_farm_team *team, struct dmi_farm_at *at);
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
/* The same in two halves; `entries` stay where they are until the second one has returned, which
 * waits. */
void dmi_farm_result_begin(struct dmi_process *process, const struct dmi_farm_about *about,
                           int64_t task, int64_t num, const char *entries,
                           DMI_local_status_t *status);
int32_t dmi_farm_result_end(struct dmi_process *process, const struct dmi_farm_about *about,
                            int64_t task, int64_t num, const char *entries,
                            DMI_local_status_t *status);
/* Behind losses, when no thread runs: has tasks done again whose results are not there.  *missing
 * gets how many, *failed how many of the others have failed. */
int32_t dmi_farm_result_check(struct dmi_farm_at *at, const struct dmi_farm_about *about,
                              int64_t *missing, int64_t *failed);

#endif
