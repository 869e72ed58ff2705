/*
 * scale_int.h - private to the files of DMI_rescale.
 *
 * A phase is one call of DMI_scaleunit by all threads of the team.  It has a mapping of its own, of
 * small pages, whose address is never used again, so that a note can tell of which phase it is.
 */
#ifndef DMI_ELASTIC_SCALE_INT_H
#define DMI_ELASTIC_SCALE_INT_H

#include <stdbool.h>

#include "dmi_ext.h"
#include "node/process.h"

/* ---- What DMI_rescale and the threads of a phase share, in global memory -------------------- */

/* Pages of a phase's mapping: the barrier of its threads, whether a change is wanted (int32_t), and
 * from there on an order for each rank. */
enum { DMI_SCALE_BARRIER, DMI_SCALE_CHANGE, DMI_SCALE_ORDERS };
#define DMI_SCALE_PAGE 64

/* In each process. */
#define DMI_SCALE_THREADS_MOST 65536

struct dmi_scale_order {
  int64_t phase;   /* address of the mapping */
  int64_t addr;    /* the argument of DMI_scaleunit */
  int32_t rank;    /* likewise */
  int32_t pnum;    /* likewise */
  int32_t lost;    /* DMI_scale_lost */
  uint32_t losses; /* dmi_core.losses where the phase was begun */
};

/* How a thread has ended: bits 32 and 33 of what it returns.  Below them: what DMI_scaleunit has
 * returned, or the error for FAILED. */
enum dmi_scale_end {
  DMI_SCALE_COMPLETE, /* all threads have returned from DMI_scaleunit */
  DMI_SCALE_BROKEN,   /* it has returned, but the threads did not all meet behind it */
  DMI_SCALE_SHUT,     /* DMI_scaleunit was not called: the threads did not all meet before it */
  DMI_SCALE_FAILED    /* likewise, for want of memory */
};
#define DMI_SCALE_NOTED \
  (INT64_C(1) << 34) /* it has made a note: `phase` if complete, else its addr */

/* ---- The processes, as DMI_rescale knows them ------------------------------------------------ */

enum dmi_scale_state {
  DMI_SCALE_ASKS,     /* asks to join; not welcomed */
  DMI_SCALE_IN,       /* welcomed: takes part in the next phase */
  DMI_SCALE_ASKS_OUT, /* the same, and asks to leave */
  DMI_SCALE_OUT,      /* takes no part any more; leaves when its threads have ended */
  DMI_SCALE_GOES      /* its goodbye was begun */
};

struct dmi_scale_node {
  DMI_node_t node; /* its last notice; of those that are welcomed the state is DMI_OPENED */
  enum dmi_scale_state state;
  int32_t threads;            /* in each phase */
  bool runs;                  /* has threads in the present phase */
  bool missing;               /* a call says that it is lost; the notice is still to come */
  DMI_local_status_t goodbye; /* GOES */
};

struct dmi_scale_phase {
  int64_t addr; /* of its mapping; 0: there is none */
  bool mapped;  /* it was not taken away yet */
  int32_t pnum;
  int32_t lost;                     /* dmi_scale.lost when it began */
  int32_t notes;                    /* that came */
  bool over;                        /* its threads end, or have ended */
  bool broken;                      /* what they return does not count */
  struct dmi_scale_thread *threads; /* pnum */
};

struct dmi_scale_thread {
  DMI_thread_t thread;
  int32_t dmi_id;
  bool created;
  int64_t value;
  DMI_local_status_t status;
};

/* One call of DMI_rescale.  Used by its thread only. */
struct dmi_scale {
  struct dmi_process *process;
  int64_t addr;
  int32_t init_node_num, thread_num;
  struct dmi_scale_node **nodes; /* in the order of their ranks */
  uint32_t num, capacity;
  int32_t self;     /* dmi_id of this process */
  bool self_leaves; /* it has asked to leave, which it does behind the last phase */
  bool asked;       /* something has happened since DMI_judge_rescale said no */
  bool granted;     /* who asks to join or leave does so before the next phase */
  int32_t lost;     /* processes, of which no phase has been told */
  bool broken;      /* the phase before was, so the next one is told of a loss in any case */
  struct dmi_scale_phase phase;
};

/* ---- scale_notice.c: who joins, leaves and is lost; all return DMI_OK or an error ------------ */

/* The processes that are there already. */
int32_t dmi_scale_list(struct dmi_scale *s);
/* Waits for a notice, and handles it. */
int32_t dmi_scale_wait(struct dmi_scale *s);
/* Handles all notices that are there. */
int32_t dmi_scale_look(struct dmi_scale *s);
/* Handles notices until there is none, or so many notes of the phase have come. */
int32_t dmi_scale_take_notes(struct dmi_scale *s, int32_t notes);
/* If somebody asks: is that granted, and then, let them in. */
void dmi_scale_consider(struct dmi_scale *s);
/* Those that wait to leave, and have no threads, leave; also those that had some of the program's
 * own when they were to leave. */
void dmi_scale_let_go(struct dmi_scale *s);
/* How many of the processes take part in the next phase; *threads, if not NULL, on them. */
int32_t dmi_scale_team(const struct dmi_scale *s, int64_t *threads);
struct dmi_scale_node *dmi_scale_find(const struct dmi_scale *s, int32_t dmi_id);
/* Waits for the goodbyes, this process's too if `leave`, and frees the list. */
void dmi_scale_forget(struct dmi_scale *s, bool leave);

/* ---- scale_phase.c --------------------------------------------------------------------------- */

/* Runs a phase to its end.  *again: another one is to follow; else *value is DMI_rescale's. */
int32_t dmi_scale_phase(struct dmi_scale *s, int32_t *value, bool *again);
/* Tells the threads that a change is wanted. */
bool dmi_scale_phase_change(struct dmi_scale *s);
/* Does the mapping of the phase contain this address? */
bool dmi_scale_phase_has(const struct dmi_scale_phase *phase, int64_t addr);

#endif
