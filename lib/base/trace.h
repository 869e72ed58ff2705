/*
 * trace.h - what the threads of a process do, in time (docs/trace.md): each puts records into a
 * ring of its own, from which one thread of the process takes them (node/tracer.c).
 *
 * Nobody waits: a ring that is full counts what is left out.  While nobody traces, a place that
 * could make a record pays one load and one branch.
 */
#ifndef DMI_BASE_TRACE_H
#define DMI_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/doing.h"

#define DMI_TRACE_LONG INT64_C(500000000) /* ns: longer waits are told before they end */

enum dmi_trace_kind {
  DMI_TRACE_CALL = 1, /* of the API, from `begin` to `end`; what, addr, size, id: of its wait */
  DMI_TRACE_SEND,     /* a message for `member`; addr: mapping; size: bytes; id: of its way */
  DMI_TRACE_RECEIVE,  /* a message of `member`, likewise */
  DMI_TRACE_STEP,     /* something else that takes time, with its name; id: a number of it */
  DMI_TRACE_MARK,     /* an event; member, id: whom it is about (0, -1: nobody) */
  DMI_TRACE_KINDS
};

struct dmi_trace_record {
  const char *name;   /* static */
  int64_t begin, end; /* ns, of dmi_clock_ns */
  uint64_t addr, size, id;
  union {
    const void *caller; /* CALL: return address of the call of the API */
    uint64_t page;      /* SEND, RECEIVE: its number in the mapping */
  };
  uint32_t member; /* uid; CALL: who was asked, 0: not known */
  uint8_t kind;    /* enum dmi_trace_kind */
  uint8_t what;    /* CALL: enum dmi_doing_what */
  uint16_t zero;
};

struct dmi_trace_ring;

/* The trace of one process.  All zero: nobody traces. */
struct dmi_trace {
  _Atomic uint32_t on;     /* bool */
  _Atomic uint32_t full;   /* bool: a ring is half full; who takes sets it to 0 */
  _Atomic uint32_t events; /* goes up then; to wait for (base/futex.h) */
  _Atomic uint32_t lock;   /* guards the list; rank EVENT, as events are emitted with any lock */
  struct dmi_trace_ring *first;
  struct dmi_trace_ring *next;      /* the reader's: where it goes on; NULL: at the first */
  _Atomic uint64_t unseen;          /* records of threads for which there was no memory */
  _Atomic int64_t began;            /* ns: when it was switched on */
  struct dmi_doing_watcher watcher; /* for waits of the process's threads */
};

static inline bool dmi_trace_on(const struct dmi_trace *trace) {
  return __builtin_expect(atomic_load_explicit(&trace->on, memory_order_relaxed) != 0, 0);
}

/* Before there are threads: it is told of their waits, while it is on. */
void dmi_trace_watch(struct dmi_trace *trace, struct dmi_doings *doings);

/* ---- For threads that are traced; only while it is on ---- */

void dmi_trace_put(struct dmi_trace *trace, const struct dmi_trace_record *record);

/* The calling thread begins, by its first message, a call that it will wait for; `key`: its own. */
void dmi_trace_begins(const void *key);
/* Its request for the page at `addr` goes to `member`; the first page of a call counts. */
void dmi_trace_asks(uint32_t member, uint64_t addr, uint64_t size);
/* When it began, once; 0: it has not.  *asked: who was asked for the page of `addr`, or 0. */
int64_t dmi_trace_began(const void *key, uint64_t addr, uint32_t *asked);

/* The next DMI_TRACE_CALL of this thread has begun then, not with its wait, and `asked` is its. */
void dmi_trace_since(int64_t began, uint32_t asked);

/* A step of this name, from `begin` until now. */
static inline void dmi_trace_step(struct dmi_trace *trace, const char *name, int64_t begin,
                                  uint64_t id) {
  dmi_trace_put(
      trace,
      &(const struct dmi_trace_record){
          .name = name, .begin = begin, .end = dmi_clock_ns(), .kind = DMI_TRACE_STEP, .id = id});
}

/* ---- For the one that takes them ---- */

void dmi_trace_begin(struct dmi_trace *trace);
/* No more records; what there is can be taken. */
void dmi_trace_stop(struct dmi_trace *trace);
/* Records that are not taken are dropped.  Threads may go on. */
void dmi_trace_end(struct dmi_trace *trace);

/* Who a record is of. */
struct dmi_trace_thread {
  int tid;          /* of the system */
  bool is_new;      /* nothing was taken of it before */
  const char *name; /* of the thread, when it began to be traced */
  uint64_t lost;    /* records that were left out since the last time */
};

/* Is given each thread that has something, and then its records, in the order in which they were
 * put in (those that contain others come after them).  False: no more now. */
struct dmi_trace_taker {
  void *arg;
  bool (*thread)(void *arg, const struct dmi_trace_thread *thread);
  bool (*record)(void *arg, const struct dmi_trace_record *record);
};
/* True: nothing is left of what was there. */
bool dmi_trace_take(struct dmi_trace *trace, const struct dmi_trace_taker *taker);

#endif
