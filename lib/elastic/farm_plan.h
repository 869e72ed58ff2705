/*
 * farm_plan.h - which task of a farm is whose (docs/elastic.md, "A farm of tasks"): a table in
 * global memory, and the steps on it, each of which is one read-modify-write at the table's owner.
 *
 * Pure: a step changes the bytes that it is given, and nothing else.  Tasks are kept as ranges.
 * Those from `next` on were never given out; a range of the table is held by a thread (it is the
 * thread's slot), or is free: it was given out, and must be again.  All others are done.
 */
#ifndef DMI_ELASTIC_FARM_PLAN_H
#define DMI_ELASTIC_FARM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* In a program's processes a name is its dmi_id + 1, so that 0 is none. */
typedef int32_t dmi_farm_name_t;

struct dmi_farm_range {
  int64_t begin, num;
  dmi_farm_name_t
      owner;            /* process of the thread whose slot it is; 0: free, or unused if num is 0 */
  dmi_farm_name_t last; /* process in which its task has failed last; 0: none */
  int32_t tries;        /* how often its task has failed; if not 0, it is one task */
  uint32_t stop;        /* the slot's thread is to end */
};

#define DMI_FARM_MADE UINT64_C(0x6d726166696d64) /* dmi_farm_table.made */

struct dmi_farm_table {
  uint64_t made;  /* DMI_FARM_MADE; 0: it is not here yet */
  uint64_t wake;  /* count: threads that have nothing to do watch it */
  int64_t moved;  /* address of the table that has taken the place of this one; 0: none */
  int64_t tasks;  /* of the farm: numbers 0 to tasks - 1 */
  int64_t next;   /* from here on they were never given out */
  int64_t done;   /* how many are done, those included that have failed for good */
  int64_t failed; /* of these */
  int64_t note;   /* the next note is due when so many are done */
  int64_t every;  /* and then each time when so many more are */
  int32_t error;  /* DMI_E*: why the farm cannot go on; 0: it can */
  uint32_t stop;  /* all threads are to end */
  uint32_t capacity;
  uint32_t none;
  struct dmi_farm_range ranges[]; /* capacity */
};

enum dmi_farm_op {
  DMI_FARM_WORK = 1, /* a thread: what it has done of its range; what is it to do now? */
  DMI_FARM_SLOT,     /* a slot for a thread of this process */
  DMI_FARM_STOP,     /* threads of this process are to end; 0: all */
  DMI_FARM_LOST,     /* this process is lost */
  DMI_FARM_AGAIN,    /* these tasks, which were done, are not: num from begin on */
  DMI_FARM_FAILED,   /* of those that are done, so many have failed for good */
  DMI_FARM_ERROR,    /* the farm cannot go on: all threads are to end */
  DMI_FARM_MOVE,     /* another table takes its place; the answer is the bytes before */
  DMI_FARM_LOOK
};

struct dmi_farm_step {
  uint32_t op;
  uint32_t slot; /* WORK */
  dmi_farm_name_t process;
  int32_t error;  /* ERROR */
  int64_t done;   /* WORK: tasks at the begin of the slot's range that are done */
  int64_t failed; /* WORK: of these, have failed for good; FAILED */
  uint32_t again; /* WORK: the task behind those has failed, and is to be tried again */
  int32_t tries;  /* WORK: how often that one has failed before */
  uint32_t ends;  /* WORK: the thread ends, whatever there is to do */
  uint32_t none;
  int64_t want;  /* WORK: the most tasks that it wants */
  int64_t begin; /* AGAIN */
  int64_t num;   /* AGAIN */
  int64_t addr;  /* MOVE */
};

enum dmi_farm_what {
  DMI_FARM_DO = 1, /* WORK: the tasks in the answer, which may be among those it had */
  DMI_FARM_HERE,   /* WORK: there is no place for the task that failed: try it again at once */
  DMI_FARM_WAIT,   /* WORK: nothing to do, until `wake` is another number */
  DMI_FARM_END,    /* WORK: end; the slot is not the thread's any more */
  DMI_FARM_MOVED,  /* all: nothing was done; the table is at `addr` now */
  DMI_FARM_FULL,   /* SLOT, AGAIN: nothing was done; no range is unused */
  DMI_FARM_DONE,   /* all others */
  DMI_FARM_WRONG   /* that is no table, or no step on it */
};

struct dmi_farm_answer {
  uint32_t what;   /* enum dmi_farm_what */
  uint32_t notify; /* whoever runs the farm is to be told */
  int64_t begin, num;
  int32_t tries; /* of the task, if it has failed before */
  uint32_t slot; /* SLOT */
  uint64_t wake;
  int64_t addr;
  int64_t done, failed;
  int32_t error;
  uint32_t threads; /* that have slots: WORK: of all; else of the process that the step names; 0:
                       of all */
};

/* Bytes of a table with so many ranges. */
uint64_t dmi_farm_table_size(uint32_t capacity);

/* Makes a table in the memory at `table`: no task was given out. */
void dmi_farm_table_init(struct dmi_farm_table *table, uint32_t capacity, int64_t tasks);

/* Adds unused ranges to a table, so that it has `capacity`. */
void dmi_farm_table_grow(struct dmi_farm_table *table, uint32_t capacity);

/* A step.  `size`: bytes at `table`. */
void dmi_farm_table_step(struct dmi_farm_table *table, uint64_t size,
                         const struct dmi_farm_step *step, struct dmi_farm_answer *answer);

#endif
