/*
 * doing.c - see doing.h.
 *
 * The record of a thread is written by that thread only.  Its `serial` is odd while the thread
 * waits; who reads the same odd number before and after the other fields has read one wait.  The
 * list of records changes when threads come and go: one lock for all processes guards it, and who
 * looks holds it while records are read, as a record ends with its thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/doing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

struct dmi_doing {
  struct dmi_doing *next, *prev; /* in `all` */
  struct dmi_doings *all;        /* NULL: its process has ended */
  const struct dmi_doings *made; /* those that it was made for */
  uint64_t number, thread;
  enum dmi_doing_who who;
  int tid;
  const struct dmi_doing_call *call;
  struct dmi_doing_watcher *watchers; /* of the wait; its thread's */
  _Atomic uint64_t serial;
  _Atomic uint64_t what, addr, size, op;
  _Atomic int64_t since;
  struct { /* struct dmi_doing_times; written by its thread only */
    _Atomic uint64_t ns;
    _Atomic uint64_t num[DMI_DOING_LENGTHS];
  } times[DMI_DOING_KINDS];
};

__thread struct dmi_doing_mine dmi_doing_mine __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards lists of all processes */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Threads come and go --------------------------------------------------------------------- */

/* Adds the times of a thread.  With the lock held. */
static void add_times(const struct dmi_doing *doing, struct dmi_doing_times *to) {
  for (uint32_t kind = 0; kind < DMI_DOING_KINDS; kind++) {
    to[kind].ns += atomic_load_explicit(&doing->times[kind].ns, memory_order_relaxed);
    for (uint32_t i = 0; i < DMI_DOING_LENGTHS; i++)
      to[kind].num[i] += atomic_load_explicit(&doing->times[kind].num[i], memory_order_relaxed);
  }
}

/* With the lock held. */
static void unlink_record(struct dmi_doing *doing) {
  struct dmi_doings *all = doing->all;
  if (!all) return;
  add_times(doing, all->gone);
  *(doing->prev ? &doing->prev->next : &all->first) = doing->next;
  *(doing->next ? &doing->next->prev : &all->last) = doing->prev;
  doing->all = NULL;
}

static void set_mine(struct dmi_doing *record) {
  dmi_doing_mine.record = record;
  dmi_doing_mine.number = record ? record->number : 0;
}

static void forget(void *record) {
  pthread_mutex_lock(&lock);
  unlink_record(record);
  pthread_mutex_unlock(&lock);
  free(record);
  set_mine(NULL);
}

static void make_key(void) {
  pthread_key_create(&key, forget);
}

void dmi_doing_leave(void) {
  if (!dmi_doing_mine.record) return;
  pthread_setspecific(key, NULL);
  forget(dmi_doing_mine.record);
}

void dmi_doing_enter(struct dmi_doings *all, enum dmi_doing_who who, uint64_t thread) {
  struct dmi_doing *doing;
  dmi_doing_leave();
  pthread_once(&once, make_key);
  doing = calloc(1, sizeof(*doing));
  if (!doing) return; /* it is not seen, and runs all the same */
  doing->made = doing->all = all;
  doing->who = who;
  doing->thread = thread;
  doing->tid = (int)syscall(SYS_gettid);
  doing->call = &dmi_doing_mine.call;
  pthread_mutex_lock(&lock);
  doing->number = ++all->number;
  doing->prev = all->last;
  *(all->last ? &all->last->next : &all->first) = doing;
  all->last = doing;
  pthread_mutex_unlock(&lock);
  set_mine(doing);
  pthread_setspecific(key, doing);
}

uint64_t dmi_doing_number_new(struct dmi_doings *all) {
  dmi_doing_enter(all, DMI_DOING_OTHER, 0);
  return dmi_doing_mine.number;
}

bool dmi_doing_is_dmi(const struct dmi_doings *all) {
  const struct dmi_doing *mine = dmi_doing_mine.record;
  return mine && mine->made == all && mine->who == DMI_DOING_DMI;
}

void dmi_doing_end_all(struct dmi_doings *all) {
  pthread_mutex_lock(&lock);
  while (all->first)
    unlink_record(all->first);
  pthread_mutex_unlock(&lock);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static void set(_Atomic uint64_t *field, uint64_t value) {
  /* Release: after the even number before it. */
  atomic_store_explicit(field, value, memory_order_release);
}

/* When it began; 0: it is not noted. */
static int64_t begin(struct dmi_doings *all, enum dmi_doing_what what, uint64_t addr, uint64_t size,
                     uint64_t op) {
  struct dmi_doing *mine;
  uint64_t serial;
  int64_t now;
  if (!dmi_doing_mine.record) dmi_doing_enter(all, DMI_DOING_OTHER, 0);
  mine = dmi_doing_mine.record;
  if (!mine) return 0;
  serial = atomic_load_explicit(&mine->serial, memory_order_relaxed);
  if (serial % 2) return 0;
  now = dmi_clock_ns();
  mine->watchers = all->watchers;
  set(&mine->what, what);
  set(&mine->addr, addr);
  set(&mine->size, size);
  set(&mine->op, op);
  atomic_store_explicit(&mine->since, now, memory_order_release);
  set(&mine->serial, serial + 1);
  return now;
}

bool dmi_doing_waits(struct dmi_doings *all, enum dmi_doing_what what, uint64_t addr, uint64_t size,
                     uint64_t op) {
  return begin(all, what, addr, size, op) != 0;
}

bool dmi_doing_waits_looking(struct dmi_doings *all, enum dmi_doing_what what, uint64_t addr,
                             uint64_t size, uint64_t op) {
  const int64_t now = begin(all, what, addr, size, op);
  dmi_doing_mine.began = now;
  dmi_doing_mine.found = 0;
  return now != 0;
}

uint32_t dmi_doing_length(int64_t ns) {
  const uint32_t bits = ns > 0 ? 64 - (uint32_t)__builtin_clzll((unsigned long long)ns) : 0;
  const uint32_t length = bits <= 10 ? 0 : (bits - 9) / 2;
  return length < DMI_DOING_LENGTHS ? length : DMI_DOING_LENGTHS - 1;
}

/* Only its thread writes it. */
static void add(_Atomic uint64_t *sum, uint64_t more) {
  atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                        memory_order_relaxed);
}

static void tell(const struct dmi_doing *mine, int64_t now) {
  const struct dmi_doing_called call = dmi_doing_called(mine->call);
  const struct dmi_doing_wait wait = {
      call.name,
      call.caller,
      (enum dmi_doing_what)atomic_load_explicit(&mine->what, memory_order_relaxed),
      atomic_load_explicit(&mine->addr, memory_order_relaxed),
      atomic_load_explicit(&mine->size, memory_order_relaxed),
      atomic_load_explicit(&mine->op, memory_order_relaxed),
      atomic_load_explicit(&mine->since, memory_order_relaxed),
      now};
  for (struct dmi_doing_watcher *at = mine->watchers; at; at = at->next)
    at->waited(at, &wait);
}

static void end(int64_t now) {
  struct dmi_doing *mine = dmi_doing_mine.record;
  int64_t ns;
  uint64_t what;
  what = atomic_load_explicit(&mine->what, memory_order_relaxed);
  ns = now - atomic_load_explicit(&mine->since, memory_order_relaxed);
  add(&mine->times[what].ns, (uint64_t)ns);
  add(&mine->times[what].num[dmi_doing_length(ns)], 1);
  set(&mine->serial, atomic_load_explicit(&mine->serial, memory_order_relaxed) + 1);
  /* Behind that: who has looked and seen the wait has done so before it is told. */
  if (mine->watchers) tell(mine, now);
}

void dmi_doing_waited(bool noted) {
  if (noted) end(dmi_clock_ns());
}

void dmi_doing_waited_looking(bool noted) {
  const int64_t found = dmi_doing_mine.found;
  dmi_doing_mine.began = dmi_doing_mine.found = 0;
  if (noted) end(found ? found : dmi_clock_ns());
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* False: it went on meanwhile. */
static bool read_wait(const struct dmi_doing *doing, struct dmi_doing_state *state) {
  uint64_t serial = atomic_load_explicit(&doing->serial, memory_order_acquire);
  state->what = DMI_DOING_NOTHING;
  state->addr = state->size = state->op = 0;
  state->since = 0;
  if (serial % 2 == 0) return true;
  state->what = (enum dmi_doing_what)atomic_load_explicit(&doing->what, memory_order_acquire);
  state->addr = atomic_load_explicit(&doing->addr, memory_order_acquire);
  state->size = atomic_load_explicit(&doing->size, memory_order_acquire);
  state->op = atomic_load_explicit(&doing->op, memory_order_acquire);
  state->since = atomic_load_explicit(&doing->since, memory_order_acquire);
  return atomic_load_explicit(&doing->serial, memory_order_relaxed) == serial;
}

uint32_t dmi_doing_look(const struct dmi_doings *all, uint64_t below, struct dmi_doing_state *state,
                        uint32_t most) {
  uint32_t num = 0;
  pthread_mutex_lock(&lock);
  for (const struct dmi_doing *at = all->last; at && num < most; at = at->prev) {
    struct dmi_doing_state *to = &state[num];
    if (at->number >= below) continue;
    to->number = at->number;
    to->who = at->who;
    to->thread = at->thread;
    to->tid = at->tid;
    while (!read_wait(at, to)) {
    }
    to->call = dmi_doing_called(at->call);
    num++;
  }
  pthread_mutex_unlock(&lock);
  return num;
}

void dmi_doing_look_times(const struct dmi_doings *all,
                          struct dmi_doing_times times[DMI_DOING_KINDS]) {
  pthread_mutex_lock(&lock);
  memcpy(times, all->gone, sizeof(all->gone));
  for (const struct dmi_doing *at = all->first; at; at = at->next)
    add_times(at, times);
  pthread_mutex_unlock(&lock);
}
