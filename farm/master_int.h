/*
 * master_int.h - what the files of the master share; no other file includes it.
 */
#ifndef FARM_MASTER_INT_H
#define FARM_MASTER_INT_H

#include <dmi_api.h>
#include <dmi_ext.h>
#include <pthread.h>

#include "alarm.h"
#include "job.h"
#include "options.h"
#include "plan.h"
#include "progress.h"
#include "share.h"
#include "store.h"

/* One task at a time, at a worker. */
struct farm_place {
  enum farm_place_state {
    FARM_PLACE_NEW, /* it has not reported yet */
    FARM_PLACE_FREE,
    FARM_PLACE_RUNS, /* the worker has the turn */
    FARM_PLACE_SENDS /* what was printed comes, in parts */
  } state;
  struct farm_run run;
  farm_ms_t begin;
  int64_t begin_date;  /* ms since 1970 */
  int files[2];        /* program and data, if they travel in parts; else -1 */
  int out;             /* what is received; -1: nothing */
  enum farm_file file; /* it is this one */
  char *bad;           /* a reason why this version is not to go on */
  struct farm_told told;
  struct farm_order order; /* the last one */
};

struct farm_member {
  int64_t number; /* no other worker has it */
  int32_t dmi_id;
  char *host;
  enum farm_member_state { FARM_MEMBER_COMES, FARM_MEMBER_HERE, FARM_MEMBER_GOES } state;
  bool leaves; /* it asks to leave: it is to be dismissed when its thread has ended */
  bool ends;   /* it is to run nothing any more */
  bool lost;
  struct farm_place *places;
  struct farm_member *next;
  /* A chore (master_member.c), and what it uses while it is busy: */
  bool busy;
  pthread_t chore;
  struct farm_start start; /* `places` and `worker` never change */
  int64_t start_addr;
  DMI_thread_t thread;
  bool created;  /* the thread is */
  bool gone;     /* it was lost before */
  int32_t error; /* why it could not come */
};

struct farm_master {
  const struct farm_options *options;
  struct farm_job job;
  struct farm_plan *plan;
  struct farm_store *store;
  struct farm_progress *progress;
  struct farm_alarm *alarm;
  struct farm_member *members;
  int64_t numbers; /* given to workers */
  int64_t bin_addr, bin_size;
  int32_t my_dmi_id;
  char *fatal;   /* the job cannot go on */
  bool stopped;  /* Ctrl+C */
  bool over;     /* nothing is run any more: nobody is welcome */
  bool finished; /* `finish` has ended */
};

/* ---- master.c: the loop ---- */
/* Workers that are here, and how many tasks they may run at a time. */
void farm_master_count(const struct farm_master *master, uint32_t *workers, uint32_t *places);
/* Answers a notice. */
void farm_master_hear(struct farm_master *master, const DMI_node_t *node);

/* ---- master_finish.c: the end of the job ---- */
/* The exit status. */
int farm_master_finish(struct farm_master *master);

/* ---- master_member.c: workers ---- */
void farm_member_come(struct farm_master *master, const DMI_node_t *node);
/* It cannot go on, or the job is over: what it runs is given back, and its thread ended. */
void farm_member_end(struct farm_master *master, struct farm_member *member);
/* It asks to leave. */
void farm_member_leave(struct farm_master *master, const DMI_node_t *node);
void farm_member_lost(struct farm_master *master, struct farm_member *member);
/* A chore for it is done. */
void farm_member_done(struct farm_master *master, struct farm_member *member);
/* Waits for all chores, and forgets all workers: nobody polls any more. */
void farm_member_wait(struct farm_master *master);
struct farm_member *farm_member_find(struct farm_master *master, int32_t dmi_id);
struct farm_member *farm_member_of(struct farm_master *master, int64_t number);

/* ---- master_place.c: what places run ---- */
/* Gives tasks to places that are free.  The time at which to try again, or FARM_NEVER. */
farm_ms_t farm_place_assign(struct farm_master *master);
/* A place has reported. */
void farm_place_hear(struct farm_master *master, struct farm_member *member, int32_t number);
/* What it runs ends without a result. */
void farm_place_drop(struct farm_master *master, struct farm_member *member, int32_t number,
                     enum farm_end end, const char *status);
/* Versions that need not go on are told so. */
void farm_stop_versions(struct farm_master *master, const struct farm_verdict *verdict);
/* Writes place->order, with a new number. */
void farm_place_order(struct farm_master *master, struct farm_member *member, int32_t number);

/* ---- master_end.c: how versions end ---- */
/* The version that a place runs has ended, all that it printed is here; the place becomes free. */
void farm_place_ended(struct farm_master *master, struct farm_member *member, int32_t number);
/* The end of a version without a result, as the log has it. */
void farm_place_log(struct farm_master *master, struct farm_member *member,
                    struct farm_place *place, const char *status);
/* The same, of a version with which the task is given up. */
void farm_place_give_up(struct farm_master *master, struct farm_member *member,
                        struct farm_place *place);
/* Ends that are no success: "exit status 3"; new memory. */
char *farm_told_text(const struct farm_told *told);
/* The job cannot go on: takes over `why`. */
void farm_master_fail(struct farm_master *master, char *why);

#endif
