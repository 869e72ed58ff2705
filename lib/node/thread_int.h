/*
 * thread_int.h - what the files about threads share; nobody else includes it.
 */
#ifndef DMI_NODE_THREAD_INT_H
#define DMI_NODE_THREAD_INT_H

#include <pthread.h>

#include <uthash.h>

#include "base/error.h"
#include "base/lock.h"
#include "node/process.h"
#include "node/runtime.h"
#include "node/thread.h"

/* What is kept for a thread's next DMI_suspend; see docs/threads.md. */
enum { WAKE_NONE, WAKE_KEPT, WAKE_OVER };

/* A thread of this process, until it is joined, or ended and detached. */
struct dmi_thread {
  UT_hash_handle hh;
  uint64_t number; /* key, from 1 */
  struct dmi_process *process;
  pthread_t pthread;
  int64_t arg, value;
  bool ended, detached;
  bool reaped; /* its pthread has been joined */
  bool bound;  /* to processor `place` of dmi_machine.order */
  uint32_t place;
  _Atomic uint32_t wake; /* WAKE_*: any thread */
  uint32_t joiner;       /* uid of the process that waits for it, 0: none */
  uint64_t joiner_op;
  struct dmi_post post; /* says that it ended */
};

/* A call to another process (or this one) that has no answer yet. */
struct dmi_thread_call {
  UT_hash_handle hh;
  uint64_t op; /* key */
  uint32_t to;
  uint8_t expect; /* the answer's type */
  dmi_thread_done *done;
  void *arg;
};

struct dmi_threads {
  _Atomic uint32_t lock; /* see thread.c */
  struct dmi_thread *all;
  struct dmi_thread *gone; /* forgotten, pthread not joined yet; linked by hh of its own */
  struct dmi_thread_call *pending;
  uint64_t last_number, last_op;
  uint32_t running;
  uint32_t *bound; /* threads by place in dmi_machine.order; NULL until one is bound */
  bool main_runs;
  bool open;        /* welcomed */
  bool stopped;     /* a leave: no new threads */
  bool handed_over; /* ... and ended ones are the coordinator's matter */
};

/* ---- thread.c: the table ---- */
/* Ended and joined, or detached: takes it out of the table. */
void dmi_thread_forget(struct dmi_threads *threads, struct dmi_thread *thread);
/* By its number, with the lock or in the daemon thread; NULL: none. */
struct dmi_thread *dmi_thread_find(struct dmi_threads *threads, uint64_t number);
/* The daemon: this process, which waited for threads to end, is lost: others may. */
void dmi_thread_unjoin(struct dmi_threads *threads, uint32_t uid);
/* The daemon: a thread has ended. */
void dmi_thread_ended(struct dmi_process *process, struct dmi_post *post);
/* Sends a message of class THREAD, to this process as well. */
void dmi_thread_reply(struct dmi_process *process, uint32_t to, struct dmi_msg *msg);

/* ---- thread_start.c ---- */
void dmi_thread_create_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg);

/* ---- thread_wake.c ---- */
/* The calling thread is this DMI thread from now on. */
void dmi_thread_set_self(struct dmi_thread *thread);
/* Any thread.  DMI_OK or DMI_ETHREAD with its reason. */
int32_t dmi_thread_wake_here(struct dmi_threads *threads, uint64_t number);

/* ---- thread_call.c: calls of this process ---- */
/* Any thread.  Returns the number that the question must have, as its answer will. */
uint64_t dmi_thread_call_note(struct dmi_threads *threads, uint32_t uid, uint8_t expect,
                              dmi_thread_done *done, void *arg);
/* The message could not be sent: nobody will answer.  False: the call has been completed already.
 */
bool dmi_thread_call_undo(struct dmi_threads *threads, uint64_t op);
/* The call of `op` to `from` is answered by a message of this type.  False: no correct peer says
 * that. */
bool dmi_thread_answer(struct dmi_process *process, uint32_t from, uint8_t type, uint64_t op,
                       uint64_t error, int64_t value);
struct dmi_msg dmi_thread_msg(uint8_t type, uint64_t op, uint64_t number);
/* CREATED when it failed, DETACHED, WOKEN. */
void dmi_thread_reply_error(struct dmi_process *process, uint32_t to, uint8_t type, uint64_t op,
                            int32_t error);

#endif
