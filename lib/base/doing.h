/*
 * doing.h - what the threads of a process are doing, for those who look at a running program
 * (docs/seeing.md): the call of the API in which a thread is, and for what it waits there.
 *
 * Hits note nothing.  Another call that does not wait pays two stores to variables of its thread. A
 * wait is noted in the record of its thread, without a lock; who looks reads it while the thread
 * goes on.
 */
#ifndef DMI_BASE_DOING_H
#define DMI_BASE_DOING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Calls ---- */

/* The call of the API that a thread made last, but for hits. */
struct dmi_doing_call {
  const char *_Atomic name;   /* static; NULL: none yet */
  const void *_Atomic caller; /* its return address */
};

struct dmi_doing;

/* What a thread has of its own.  In one variable, so that its address is computed once. */
struct dmi_doing_mine {
  struct dmi_doing_call call;
  const void *place; /* from where its calls come, if not from where they return to; else NULL */
  struct dmi_doing *record; /* NULL: it has none */
  uint64_t number;          /* of the record; 0: it has none */
  /* Clocks that a wait and the look in it share, as each costs as much as all else that is noted.
   * 0: read it.  When the wait began, for the look; when the look found what was waited for. */
  int64_t began, found;
};
extern __thread struct dmi_doing_mine dmi_doing_mine __attribute__((tls_model("initial-exec")));

/* From where a call of this thread comes that returns to `caller`: that; or, in a program of an
 * interpreter, a place of dmi_where_place. */
static inline const void *dmi_doing_caller(const void *caller) {
  const void *place = dmi_doing_mine.place;
  return __builtin_expect(place != NULL, 0) ? place : caller;
}

/* An entry point of the API begins a call that is no hit. */
static inline void dmi_doing_calls(const char *name, const void *caller) {
  atomic_store_explicit(&dmi_doing_mine.call.name, name, memory_order_relaxed);
  atomic_store_explicit(&dmi_doing_mine.call.caller, dmi_doing_caller(caller),
                        memory_order_relaxed);
}

/* ---- Waits ---- */

/* What a thread waits for, and what `addr`, `size` and `op` of its wait are then. */
enum dmi_doing_what {
  DMI_DOING_NOTHING,
  DMI_DOING_PAGE,    /* for a page's owner: the range; 0: of several pages */
  DMI_DOING_LOCK,    /* for a mutex or spin lock at addr; the operation */
  DMI_DOING_COND,    /* for a signal of the condition at addr; the operation */
  DMI_DOING_BARRIER, /* for others at the barrier at addr; size: threads of a round */
  DMI_DOING_WATCH,   /* until the bytes of the range differ; the operation */
  DMI_DOING_STATUS,  /* for a call that was begun with a status */
  DMI_DOING_COORD,   /* for an answer of the coordinator */
  DMI_DOING_POLL,    /* for a notice */
  DMI_DOING_THREAD,  /* for the end of a thread: addr: uid of its process, size: its number there */
  DMI_DOING_PROCESS, /* for an answer of the process that has a thread */
  DMI_DOING_SUSPEND, /* until another thread wakes it */
  DMI_DOING_MESSAGE, /* for a message of a rank of its team: addr: uid of its process, 0: not */
                     /* known; size: the rank and 1, 0: any rank */
  DMI_DOING_TAKEN,   /* until a rank has taken a message; addr, size: as before */
  DMI_DOING_RANKS,   /* for other ranks, to begin or leave an epoch; size: the own one and 1 */
  DMI_DOING_VALUE,   /* for a value of a remote function; op: its number, 0: for room for calls */
  DMI_DOING_SERVERS, /* for processes that run remote functions: addr are there, of size */
  DMI_DOING_TASKS,   /* for tasks of a farm: addr are done, of size */
  DMI_DOING_SCALE,   /* for threads of DMI_rescale, or notices; size: threads of the phase */
  DMI_DOING_KINDS
};

/* Waits are counted by their length: shorter than 2^10 ns, 2^12, ... 2^34; and all others. */
#define DMI_DOING_LENGTHS 14
struct dmi_doing_times {
  uint64_t ns; /* all together */
  uint64_t num[DMI_DOING_LENGTHS];
};
/* The class of a wait of so many ns, from 0. */
uint32_t dmi_doing_length(int64_t ns);

/* True if such a wait is for something at the global address `addr`, if that is not 0. */
static inline bool dmi_doing_has_addr(enum dmi_doing_what what) {
  return what >= DMI_DOING_PAGE && what <= DMI_DOING_WATCH;
}

/* A wait that is over, as its thread tells of it. */
struct dmi_doing_wait {
  const char *name;   /* of the call; NULL: none */
  const void *caller; /* its return address */
  enum dmi_doing_what what;
  uint64_t addr, size, op;
  int64_t since, until; /* ns, of dmi_clock_ns */
};
/* Is told of each wait, by the thread that has waited; it must not wait itself. */
struct dmi_doing_watcher {
  struct dmi_doing_watcher *next;
  void (*waited)(struct dmi_doing_watcher *watcher, const struct dmi_doing_wait *wait);
};

/* The threads of one process.  All zero: there are none yet. */
struct dmi_doings {
  struct dmi_doing_watcher *watchers; /* set before there are threads */
  struct dmi_doing *first, *last;     /* in the order of their numbers */
  uint64_t number;                    /* the last one given out */
  /* of threads that have ended */
  struct dmi_doing_times gone[DMI_DOING_KINDS];
};

/* Who a thread is. */
enum dmi_doing_who {
  DMI_DOING_OTHER, /* made by the program itself, or by the library */
  DMI_DOING_MAIN,  /* runs DMI_main or DMI_recover */
  DMI_DOING_DMI    /* made by DMI_create */
};

/* The calling thread belongs to this process from now on; `thread`: number of a DMI thread, else 0.
 * Other threads come in by their first wait. */
void dmi_doing_enter(struct dmi_doings *all, enum dmi_doing_who who, uint64_t thread);
/* True if the calling thread was made by DMI_create in this process: it cannot leave before its
 * function returns. */
bool dmi_doing_is_dmi(const struct dmi_doings *all);
/* It does not any more; it happens by itself at the end of a thread. */
void dmi_doing_leave(void);
/* The number of the calling thread among those of the process, from 1; never used again.  0: no
 * memory for a record. */
uint64_t dmi_doing_number_new(struct dmi_doings *all);
static inline uint64_t dmi_doing_number(struct dmi_doings *all) {
  const uint64_t number = dmi_doing_mine.number;
  return __builtin_expect(number != 0, 1) ? number : dmi_doing_number_new(all);
}
/* At the end of a process: threads that the program made may still live. */
void dmi_doing_end_all(struct dmi_doings *all);

/* The calling thread waits from here to dmi_doing_waited, which gets the result.  Within another
 * wait nothing changes. */
bool dmi_doing_waits(struct dmi_doings *all, enum dmi_doing_what what, uint64_t addr, uint64_t size,
                     uint64_t op);
void dmi_doing_waited(bool noted);

/* The same around one wait that may look before it sleeps, which takes the clock of its begin
 * (dmi_doing_began), and says when it has found that the wait is over (dmi_doing_found). */
bool dmi_doing_waits_looking(struct dmi_doings *all, enum dmi_doing_what what, uint64_t addr,
                             uint64_t size, uint64_t op);
void dmi_doing_waited_looking(bool noted);
/* 0: it is not known. */
static inline int64_t dmi_doing_began(void) {
  const int64_t began = dmi_doing_mine.began;
  dmi_doing_mine.began = 0;
  return began;
}
/* Nothing that waits comes between this and the end of the wait. */
static inline void dmi_doing_found(int64_t now) {
  dmi_doing_mine.found = now;
}

/* ---- Looking: any thread ---- */

/* All waits of the threads of this process so far that are over, by kind. */
void dmi_doing_look_times(const struct dmi_doings *all,
                          struct dmi_doing_times times[DMI_DOING_KINDS]);

/* The call that a thread had made last at some moment. */
struct dmi_doing_called {
  const char *name;   /* static; NULL: none */
  const void *caller; /* its return address */
};
static inline struct dmi_doing_called dmi_doing_called(const struct dmi_doing_call *call) {
  return (struct dmi_doing_called){atomic_load_explicit(&call->name, memory_order_relaxed),
                                   atomic_load_explicit(&call->caller, memory_order_relaxed)};
}

struct dmi_doing_state {
  uint64_t number;
  enum dmi_doing_who who;
  uint64_t thread;              /* number of the DMI thread, or 0 */
  int tid;                      /* of the system */
  struct dmi_doing_called call; /* in which it is, or that it made last */
  enum dmi_doing_what what;     /* NOTHING: it does not wait; the next ones are 0 */
  uint64_t addr, size, op;
  int64_t since; /* ns, of dmi_clock_ns */
};

/* The last threads with numbers below this one, at most `most`, downwards: so who goes on below the
 * last one comes to an end, however many threads are made meanwhile.  Returns how many. */
uint32_t dmi_doing_look(const struct dmi_doings *all, uint64_t below, struct dmi_doing_state *state,
                        uint32_t most);

#endif
