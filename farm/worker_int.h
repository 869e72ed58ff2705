/*
 * worker_int.h - what the files of a worker share; no other file includes it.
 */
#ifndef FARM_WORKER_INT_H
#define FARM_WORKER_INT_H

#include <pthread.h>

#include "share.h"

struct farm_worker {
  struct farm_start start;
  char *base; /* its directory (runner.h) */
  struct farm_work *places;
  /* Guarded by the lock, which is taken before that of a place: */
  pthread_mutex_t lock;
  int32_t idle;                   /* so many more tasks may run */
  struct farm_work *first, *last; /* places that wait until they may, in this order */
};

/* A place.  Its order thread follows the orders of the master, its runner thread what the runner
 * tells.  As both sides take turns (share.h), only one of them has something to report. */
struct farm_work {
  struct farm_worker *worker;
  int32_t number;
  pthread_t order_thread, runner_thread;
  /* Of the order thread: */
  struct farm_order order; /* the last one */
  bool stopped;            /* the task of this turn is not to be run */
  struct farm_order task;  /* the START of the task that is fetched or runs */
  int file;                /* being fetched; -1: none */
  /* Written by the order thread while `asked` is not set: */
  uint32_t turn; /* of the last order that was not out of turn */
  /* Guarded by the worker's lock: */
  bool waits; /* until it may run its task */
  struct farm_work *next;
  /* Guarded by the lock: */
  pthread_mutex_t lock;
  struct farm_runner runner;
  bool unclean; /* a task's directory was made, and not used */
  bool asked;   /* the runner was asked to run the task of this turn, and has not told its end */
  bool over;    /* the runner is not needed any more */
  int error;    /* an errno: the place cannot go on, and all its reports say so */
};

/* ---- worker_place.c: orders ---- */
/* Returns when the master has ended the place, or is gone. */
void farm_follow_orders(struct farm_work *work);
/* A task does not run any more: another one may. */
void farm_run_next(struct farm_worker *worker);

/* ---- worker.c: reports, and the runner thread ---- */
/* Writes a report, and tells the master, also if there is no memory for it at first.  False: the
 * master does not hear it any more. */
bool farm_report(struct farm_work *work, struct farm_report *report);
bool farm_report_end(struct farm_work *work, enum farm_how how, int status);
/* The place cannot go on, because of this errno (0: unknown). */
void farm_report_broken(struct farm_work *work, int error);
/* The last call of DMI has failed.  True, after a while: for want of memory, which may be there by
 * now. */
bool farm_try_again(void);

#endif
