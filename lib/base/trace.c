/*
 * trace.c - see trace.h.
 *
 * A ring has one writer, its thread, and one reader: `head` is written by the one, `tail` by the
 * other.  The list of rings changes when threads make their first record and when rings of ended
 * threads are empty; the reader takes them out, so it can walk along the list without the lock, as
 * new ones come in at the front only.
 *
 * A thread may outlive the trace, and even the process (threads that the program makes): then its
 * ring is left to it, and freed at its end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/trace.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/lock.h"

#define RECORDS 2048 /* in a ring; a power of two */
/* Rings of threads that have ended, and were not emptied yet.  If there are more, as many threads
 * come and go and nobody takes their records, new threads get none. */
#define LEFT_MOST 64
#define AGAIN 1024 /* records that such a thread leaves out before it looks again */

_Static_assert(sizeof(struct dmi_trace_record) == 64, "a line of a cache");

/* Who frees a ring: who comes second of its thread and the reader. */
enum { IN_USE, OVER };

struct dmi_trace_ring {
  struct dmi_trace_ring *next; /* in `trace` */
  struct dmi_trace *trace;     /* only compared */
  int tid;
  char name[16];
  bool is_known;         /* the reader's: it has taken something of it */
  uint64_t told;         /* the reader's: of `lost` */
  _Atomic uint32_t end;  /* OVER: thread or trace has ended */
  _Atomic uint64_t head; /* records put in */
  _Atomic uint64_t tail; /* records taken out */
  _Atomic uint64_t lost;
  struct dmi_trace_record at[RECORDS];
};

/* Of a thread that is traced. */
static __thread struct {
  struct dmi_trace_ring *ring; /* NULL: none yet */
  const void *key;             /* of the call that it has begun */
  int64_t began, since;
  uint32_t asked, asked_since; /* by it; 0: nobody */
  uint64_t addr, size;         /* of the page for which `asked` was asked */
  uint64_t refused;            /* records since it got no ring; 0: it was not refused */
} mine;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Rings ----------------------------------------------------------------------------------- */

/* One of the two does not use it any more. */
static void release(struct dmi_trace_ring *ring) {
  if (atomic_exchange(&ring->end, OVER) == OVER) free(ring);
}

static void forget(void *ring) {
  mine.ring = NULL;
  release(ring);
}

static void make_key(void) {
  pthread_key_create(&key, forget);
}

static bool too_many(struct dmi_trace *trace) {
  uint32_t num = 0;
  dmi_lock(&trace->lock, DMI_RANK_EVENT);
  for (const struct dmi_trace_ring *at = trace->first; at; at = at->next)
    num += atomic_load(&at->end) == OVER;
  dmi_unlock(&trace->lock, DMI_RANK_EVENT);
  return num >= LEFT_MOST;
}

static void add_ring(struct dmi_trace *trace, struct dmi_trace_ring *ring) {
  ring->trace = trace;
  ring->tid = (int)syscall(SYS_gettid);
  prctl(PR_GET_NAME, ring->name);
  dmi_lock(&trace->lock, DMI_RANK_EVENT);
  ring->next = trace->first;
  trace->first = ring;
  dmi_unlock(&trace->lock, DMI_RANK_EVENT);
}

/* NULL: no memory, or none for it. */
static struct dmi_trace_ring *ring_new(struct dmi_trace *trace) {
  if (mine.ring) forget(mine.ring); /* of another process, for which it has worked */
  if (mine.refused && mine.refused++ % AGAIN) return NULL;
  mine.ring = too_many(trace) ? NULL : calloc(1, sizeof(*mine.ring));
  pthread_once(&once, make_key);
  pthread_setspecific(key, mine.ring);
  mine.refused = mine.ring == NULL;
  if (mine.ring) add_ring(trace, mine.ring);
  return mine.ring;
}

/* ---- Putting in ------------------------------------------------------------------------------ */

/* The ring of the calling thread for this trace. */
static struct dmi_trace_ring *ring_of(struct dmi_trace *trace) {
  struct dmi_trace_ring *ring = mine.ring;
  if (ring && ring->trace == trace &&
      atomic_load_explicit(&ring->end, memory_order_relaxed) == IN_USE)
    return ring;
  return ring_new(trace);
}

void dmi_trace_put(struct dmi_trace *trace, const struct dmi_trace_record *record) {
  struct dmi_trace_ring *ring = ring_of(trace);
  uint64_t head, used;
  if (!ring) {
    atomic_fetch_add(&trace->unseen, 1);
    return;
  }
  head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);
  if (used == RECORDS) {
    atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
    return;
  }
  ring->at[head % RECORDS] = *record;
  atomic_store_explicit(&ring->head, head + 1, memory_order_release);
  if (used + 1 != RECORDS / 2) return;
  atomic_store(&trace->full, 1);
  atomic_fetch_add(&trace->events, 1);
  dmi_futex_wake(&trace->events, 1);
}

void dmi_trace_begins(const void *call) {
  if (mine.key == call) return;
  mine.key = call;
  mine.began = dmi_clock_ns();
  mine.asked = 0;
}

void dmi_trace_asks(uint32_t member, uint64_t addr, uint64_t size) {
  if (!mine.key || mine.asked) return; /* what it sends while it waits is about other calls */
  mine.asked = member;
  mine.addr = addr;
  mine.size = size;
}

int64_t dmi_trace_began(const void *call, uint64_t addr, uint32_t *asked) {
  *asked = 0;
  if (mine.key != call) return 0;
  mine.key = NULL;
  if (mine.asked && addr - mine.addr < mine.size) *asked = mine.asked;
  return mine.began;
}

void dmi_trace_since(int64_t began, uint32_t asked) {
  mine.since = began;
  mine.asked_since = asked;
}

/* A wait is over: a slice of the trace. */
static void waited(struct dmi_doing_watcher *watcher, const struct dmi_doing_wait *wait) {
  struct dmi_trace *trace =
      (struct dmi_trace *)(void *)((char *)watcher - offsetof(struct dmi_trace, watcher));
  const int64_t since = mine.since;
  const uint32_t asked = since ? mine.asked_since : 0;
  mine.since = 0;
  if (!dmi_trace_on(trace)) return;
  /* A long one was told, although it had begun before the trace. */
  if (wait->since < atomic_load(&trace->began) && wait->until - wait->since < DMI_TRACE_LONG)
    return;
  dmi_trace_put(trace, &(const struct dmi_trace_record){.kind = DMI_TRACE_CALL,
                                                        .what = (uint8_t)wait->what,
                                                        .name = wait->name ? wait->name : "wait",
                                                        .caller = wait->caller,
                                                        .begin = since ? since : wait->since,
                                                        .end = wait->until,
                                                        .addr = wait->addr,
                                                        .size = wait->size,
                                                        .id = wait->op,
                                                        .member = asked});
}

void dmi_trace_watch(struct dmi_trace *trace, struct dmi_doings *doings) {
  trace->watcher = (struct dmi_doing_watcher){.next = doings->watchers, .waited = waited};
  doings->watchers = &trace->watcher;
}

/* ---- Taking out ------------------------------------------------------------------------------ */

void dmi_trace_begin(struct dmi_trace *trace) {
  atomic_store(&trace->began, dmi_clock_ns());
  atomic_store(&trace->on, 1);
}

void dmi_trace_stop(struct dmi_trace *trace) {
  atomic_store(&trace->on, 0);
}

void dmi_trace_end(struct dmi_trace *trace) {
  struct dmi_trace_ring *ring, *next;
  dmi_trace_stop(trace);
  dmi_lock(&trace->lock, DMI_RANK_EVENT);
  ring = trace->first;
  trace->first = trace->next = NULL;
  dmi_unlock(&trace->lock, DMI_RANK_EVENT);
  for (; ring; ring = next) {
    next = ring->next;
    release(ring);
  }
}

/* False: the taker wants no more. */
static bool take_ring(struct dmi_trace_ring *ring, const struct dmi_trace_taker *taker) {
  uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
  uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
  const struct dmi_trace_thread thread = {ring->tid, !ring->is_known, ring->name,
                                          lost - ring->told};
  if (head == tail && lost == ring->told) return true;
  if (!taker->thread(taker->arg, &thread)) return false;
  ring->is_known = true;
  ring->told = lost;
  while (tail < head && taker->record(taker->arg, &ring->at[tail % RECORDS]))
    tail++;
  atomic_store_explicit(&ring->tail, tail, memory_order_release);
  return tail == head;
}

/* Nothing is in it, nor was anything left out that is to be told. */
static bool is_done(const struct dmi_trace_ring *ring) {
  return atomic_load(&ring->head) == atomic_load(&ring->tail) &&
         atomic_load(&ring->lost) == ring->told;
}

/* Takes rings of threads that have ended out of the list, if all of them was taken. */
static void clear(struct dmi_trace *trace) {
  struct dmi_trace_ring **at;
  dmi_lock(&trace->lock, DMI_RANK_EVENT);
  at = &trace->first;
  while (*at) {
    struct dmi_trace_ring *ring = *at;
    /* `end` first: the thread has put in nothing behind it. */
    bool over = atomic_load(&ring->end) == OVER;
    if (over && is_done(ring)) {
      *at = ring->next;
      if (trace->next == ring) trace->next = NULL;
      free(ring);
    } else {
      at = &ring->next;
    }
  }
  dmi_unlock(&trace->lock, DMI_RANK_EVENT);
}

/* Rings that were made later are at the front: the walk goes on where the last one had to stop, so
 * that a busy thread does not keep others from being taken. */
bool dmi_trace_take(struct dmi_trace *trace, const struct dmi_trace_taker *taker) {
  struct dmi_trace_ring *first, *begin, *ring;
  dmi_lock(&trace->lock, DMI_RANK_EVENT);
  first = trace->first;
  dmi_unlock(&trace->lock, DMI_RANK_EVENT);
  ring = begin = trace->next ? trace->next : first;
  while (ring && take_ring(ring, taker)) {
    ring = ring->next ? ring->next : first;
    if (ring == begin) ring = NULL;
  }
  trace->next = ring;
  clear(trace);
  return !ring;
}
