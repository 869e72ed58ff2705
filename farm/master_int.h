/*
 * master_int.h - what the files of the master share; no other file includes it.
 */
#ifndef FARM_MASTER_INT_H
#define FARM_MASTER_INT_H

#include <dmi_api.h>
#include <dmi_ext.h>

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
  struct farm_order order;    /* the last one */
  DMI_local_status_t written; /* of its writing */
  bool writing;
};

struct farm_member {
  int64_t number; /* no other worker has it */
  int32_t dmi_id;
  char *host;
  struct farm_start start;
  int64_t start_addr;
  DMI_thread_t thread;
  struct farm_place *places;
  struct farm_member *next;
};

struct farm_master {
  const struct farm_options *options;
  struct farm_job job;
  struct farm_plan *plan;
  struct farm_store *store;
  struct farm_progress *progress;
  struct farm_member *members;
  int64_t numbers; /* given to workers */
  int64_t bin_addr, bin_size;
  int32_t my_dmi_id;
  char *fatal;  /* the job cannot go on */
  bool stopped; /* Ctrl+C */
};

/* ---- master_member.c: workers ---- */
void farm_member_come(struct farm_master *master, const DMI_node_t *node);
/* It leaves, or the job is over: what it runs is given back, and its thread joined. */
void farm_member_end(struct farm_master *master, struct farm_member *member);
void farm_member_lost(struct farm_master *master, struct farm_member *member);
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
void farm_place_order(struct farm_member *member, int32_t number);

/* ---- master_end.c: how versions end ---- */
/* The version that a place runs has ended, all that it printed is here; the place becomes free. */
void farm_place_ended(struct farm_master *master, struct farm_member *member, int32_t number);
/* The end of a version without a result, as the log has it. */
void farm_place_log(struct farm_master *master, struct farm_member *member,
                    struct farm_place *place, const char *status);
/* Ends that are no success: "exit status 3"; new memory. */
char *farm_told_text(const struct farm_told *told);
/* The job cannot go on: takes over `why`. */
void farm_master_fail(struct farm_master *master, char *why);

#endif
