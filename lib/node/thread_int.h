/*
 * thread_int.h - private to the files about threads.
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

/* State of a thread's wake; see docs/threads.md. */
enum { WAKE_NONE, WAKE_KEPT, WAKE_OVER, WAKE_END };

/* Bytes that a DMI_wake_with has brought. */
struct dmi_letter {
  struct dmi_letter *next;
  struct dmi_slice bytes;
};

/* A thread of this process; it exists until it was joined, or has ended and was detached. */
struct dmi_thread {
  UT_hash_handle hh;
  uint64_t number; /* key, from 1 */
  struct dmi_process *process;
  pthread_t pthread; /* of what ends last: the thread itself, or who collects its value */
  pthread_t exited;  /* a thread that has called pthread_exit: `pthread` joins it */
  int64_t arg, value;
  uint32_t body; /* enum dmi_body */
  bool ended, detached;
  bool reaped; /* `pthread` has been joined */
  bool bound;  /* to processor `place` of dmi_machine.order */
  uint32_t place;
  _Atomic uint32_t wake;            /* WAKE_*: any thread */
  struct dmi_letter *first, **last; /* not taken yet, in order; guarded by the lock */
  _Atomic uint32_t letters;         /* count: goes up when one comes, or the program is ending */
  dmi_uid_t joiner;                 /* uid of the process that joins it; 0: none */
  uint64_t joiner_op;
  struct dmi_post post; /* to the daemon, when it ends */
};

/* A request to a process, perhaps this one, that has no answer yet. */
struct dmi_thread_call {
  UT_hash_handle hh;
  uint64_t op; /* key */
  dmi_uid_t to;
  uint8_t expect; /* type of the answer */
  dmi_thread_done *done;
  void *arg;
};

struct dmi_threads {
  _Atomic uint32_t lock; /* see thread.c */
  struct dmi_thread *all;
  struct dmi_thread *gone; /* forgotten, but the pthread is not joined yet; a table of its own */
  struct dmi_thread_call *pending;
  uint64_t last_number, last_op;
  uint32_t running;
  /* number of threads at each place in dmi_machine.order; NULL until one is bound */
  uint32_t *bound;
  bool main_runs;
  bool open;        /* welcomed */
  bool stopped;     /* this process leaves: no new threads */
  bool handed_over; /* this process leaves: the coordinator has the results of ended threads */
};

/* The handlers of class THREAD.  False: not from a correct peer. */
#define DMI_THREAD_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg *msg);
DMI_MSGS_THREAD(DMI_THREAD_HANDLER)

/* ---- thread.c: the table ---- */
/* Takes a thread out of the table: it has ended, and was joined or detached. */
void dmi_thread_forget(struct dmi_threads *threads, struct dmi_thread *thread);
/* Finds a thread by its number; NULL: none.  With the lock, or in the daemon thread. */
struct dmi_thread *dmi_thread_find(struct dmi_threads *threads, uint64_t number);
/* The daemon: this process, which waited for threads to end, is lost: others may. */
void dmi_thread_unjoin(struct dmi_threads *threads, dmi_uid_t uid);
/* Posted to the daemon thread by a thread that ends. */
void dmi_thread_ended(struct dmi_process *process, struct dmi_post *post);
/* Sends a message of class THREAD, to this process as well. */
void dmi_thread_reply(struct dmi_process *process, dmi_uid_t to, struct dmi_msg *msg);

/* ---- thread_wake.c ---- */
/* Makes the calling thread this DMI thread. */
void dmi_thread_set_self(struct dmi_thread *thread);
/* Wakes a thread of this process.  Any thread.  DMI_OK, or DMI_ETHREAD with its reason. */
int32_t dmi_thread_wake_here(struct dmi_threads *threads, uint64_t number);

/* The calling DMI thread; NULL: it is none. */
struct dmi_thread *dmi_thread_mine(void);

/* ---- thread_letter.c ---- */
/* No letter has come yet. */
void dmi_thread_letters_begin(struct dmi_thread *thread);
void dmi_thread_letters_free(struct dmi_thread *thread);
/* Wakes the thread if it waits for one: it looks again, for a letter and for the program's end. */
void dmi_thread_letters_changed(struct dmi_thread *thread);

/* ---- thread_call.c: calls of this process ---- */
/* Notes a request.  Returns its number, which the answer repeats.  Any thread. */
uint64_t dmi_thread_call_note(struct dmi_threads *threads, dmi_uid_t uid, uint8_t expect,
                              dmi_thread_done *done, void *arg);
/* Forgets a request that could not be sent.  False: the call has been completed already. */
bool dmi_thread_call_undo(struct dmi_threads *threads, uint64_t op);
struct dmi_msg dmi_thread_msg(uint8_t type, uint64_t op, uint64_t number);
/* Answers with DETACHED or WOKEN. */
void dmi_thread_answer(struct dmi_process *process, dmi_uid_t to, uint8_t type, uint64_t op,
                       int32_t error);

#endif
