/*
 * thread.c - DMI threads.
 *
 * Threads begin and end in the daemon thread, which alone changes the table of threads.  A thread
 * that ends says so by a post, as its last act; its pthread is joined when that can be done without
 * waiting, or at the end of the process.
 *
 * A wake is quick: the thread that calls sends it, or, in the same process, gives it, itself.  So
 * there is a lock: it guards the table of threads while it changes, and while others than the
 * daemon thread look into it, and all of the table of calls that have no answer.
 *
 * Failure modes: no such thread (answered DMI_ETHREAD), no memory or no more threads from the
 * system (DMI_ENOMEM), the process is leaving (DMI_ELEAVING).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "node/process.h"
#include "node/runtime.h"
#include "node/stall.h"

/* What is kept for a thread's next DMI_suspend; see docs/threads.md. */
enum { WAKE_NONE, WAKE_KEPT, WAKE_OVER };

/* A thread of this process, until it is joined, or ended and detached. */
struct thread {
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
struct pending {
  UT_hash_handle hh;
  uint64_t op; /* key */
  uint32_t to;
  uint8_t expect; /* the answer's type */
  dmi_thread_done *done;
  void *arg;
};

struct create_reply {
  struct dmi_process *process;
  uint32_t to;
  struct dmi_msg msg;
};

struct dmi_threads {
  _Atomic uint32_t lock; /* see above */
  struct thread *all;
  struct thread *gone; /* forgotten, pthread not joined yet; linked by hh of its own */
  struct pending *pending;
  uint64_t last_number, last_op;
  uint32_t running;
  uint32_t *bound; /* threads by place in dmi_machine.order; NULL until one is bound */
  bool main_runs;
  bool open;        /* welcomed */
  bool stopped;     /* a leave: no new threads */
  bool handed_over; /* ... and ended ones are the coordinator's matter */
};

static __thread struct thread *self;

struct dmi_threads *dmi_threads_new(void) {
  return calloc(1, sizeof(struct dmi_threads));
}

uint64_t dmi_thread_self(void) {
  return self ? self->number : 0;
}

uint32_t dmi_threads_running(const struct dmi_threads *threads) {
  return threads->running;
}

bool dmi_threads_main_runs(const struct dmi_threads *threads) {
  return threads->main_runs;
}

/* ---- Life of a thread ----------------------------------------------------------------------- */

/* Joins the pthreads of forgotten threads that are through. */
static void reap(struct dmi_threads *threads, bool wait) {
  struct thread *thread, *next;
  HASH_ITER(hh, threads->gone, thread, next) {
    if (!thread->reaped && !wait && pthread_tryjoin_np(thread->pthread, NULL) != 0) continue;
    if (!thread->reaped && wait) pthread_join(thread->pthread, NULL);
    HASH_DEL(threads->gone, thread);
    free(thread);
  }
}

static void forget(struct dmi_threads *threads, struct thread *thread) {
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_DEL(threads->all, thread);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  HASH_ADD(hh, threads->gone, number, sizeof(thread->number), thread);
  reap(threads, false);
}

void dmi_threads_free(struct dmi_threads *threads) {
  struct thread *thread, *next;
  struct pending *pending, *next_pending;
  if (!threads) return;
  HASH_ITER(hh, threads->all, thread, next) {
    HASH_DEL(threads->all, thread);
    HASH_ADD(hh, threads->gone, number, sizeof(thread->number), thread);
  }
  reap(threads, true);
  HASH_ITER(hh, threads->pending, pending, next_pending) {
    HASH_DEL(threads->pending, pending);
    free(pending);
  }
  free(threads->bound);
  free(threads);
}

static void reply(struct dmi_process *process, uint32_t to, struct dmi_msg *msg) {
  if (to == process->access.core.self) {
    (void)dmi_thread_message(process, to, msg);
  } else {
    dmi_runtime_send(process, to, msg);
  }
}

/* CREATED when it failed, DETACHED, WOKEN. */
static void reply_error(struct dmi_process *process, uint32_t to, uint8_t type, uint64_t op,
                        int32_t error) {
  struct dmi_msg msg = {.type = type};
  msg.answer = (struct dmi_msg_answer){.op = op, .error = (uint64_t)error};
  reply(process, to, &msg);
}

static void reply_joined(struct dmi_process *process, uint32_t to, uint64_t op, int32_t error,
                         int64_t value) {
  struct dmi_msg msg = {.type = DMI_SVC_JOINED};
  msg.joined = (struct dmi_msg_joined){.op = op, .error = (uint64_t)error, .value = value};
  reply(process, to, &msg);
}

static void thread_ended(struct dmi_process *process, struct dmi_post *post) {
  struct thread *thread = (struct thread *)(void *)((char *)post - offsetof(struct thread, post));
  struct dmi_threads *threads = process->threads;
  thread->ended = true;
  threads->running--;
  if (thread->bound) threads->bound[thread->place]--;
  dmi_emit(&process->stream, thread_ended, .thread = thread->number);
  if (thread->joiner) {
    reply_joined(process, thread->joiner, thread->joiner_op, DMI_OK, thread->value);
  }
  if (thread->joiner || thread->detached) forget(threads, thread);
  dmi_runtime_idle(process);
}

/* What `ps -L`, `top -H` and debuggers show: at most 15 characters. */
static void set_name(uint64_t number) {
  char name[16];
  snprintf(name, sizeof name, number < 10000 ? "dmi-thread %llu" : "dmi-t %llu",
           (unsigned long long)number);
  pthread_setname_np(pthread_self(), name);
}

static void *thread_body(void *arg) {
  struct thread *thread = arg;
  struct dmi_process *process = thread->process;
  sigset_t set;
  /* Signals are the daemon's, which has made this thread: user code is not interrupted by them. */
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  self = thread;
  dmi_runtime_enter(process);
  set_name(thread->number);
  thread->value = process->program.thread(thread->arg);
  atomic_store(&thread->wake, WAKE_OVER);
  thread->post.run = thread_ended;
  dmi_post(process, &thread->post);
  return NULL;
}

static void main_ended(struct dmi_process *process, struct dmi_post *post) {
  free(post);
  process->threads->main_runs = false;
  dmi_runtime_idle(process);
}

void dmi_threads_main_begins(struct dmi_process *process) {
  process->threads->main_runs = true;
}

void dmi_threads_main_ends(struct dmi_process *process) {
  struct dmi_post *post = dmi_xalloc(1, sizeof(*post));
  post->run = main_ended;
  dmi_post(process, post);
}

/* ---- Requests of others --------------------------------------------------------------------- */

/* The coordinator knows that we are busy: only now may the creator learn that its thread exists. */
static void busy_known(void *arg) {
  struct create_reply *create = arg;
  reply(create->process, create->to, &create->msg);
  free(create);
}

/* The place with the fewest threads, the first among equals: so the first ones go to cores of their
 * own, and one that comes after another has ended takes that one's place. */
static bool choose_place(struct dmi_process *process, uint32_t *place) {
  struct dmi_threads *threads = process->threads;
  uint32_t num = process->machine.order_num;
  if (!process->config.bind_threads || num == 0) return false;
  if (!threads->bound) threads->bound = calloc(num, sizeof(*threads->bound));
  if (!threads->bound) return false;
  *place = 0;
  for (uint32_t i = 1; i < num; i++) {
    if (threads->bound[i] < threads->bound[*place]) *place = i;
  }
  return true;
}

/* On one processor from its first instruction on. */
static bool create_bound(struct thread *thread, uint32_t processor) {
  pthread_attr_t attr;
  size_t size = CPU_ALLOC_SIZE(processor + 1);
  cpu_set_t *set = CPU_ALLOC(processor + 1);
  bool created = false;
  if (!set) return false;
  CPU_ZERO_S(size, set);
  CPU_SET_S(processor, size, set);
  if (pthread_attr_init(&attr) == 0) {
    created = pthread_attr_setaffinity_np(&attr, size, set) == 0 &&
              pthread_create(&thread->pthread, &attr, thread_body, thread) == 0;
    pthread_attr_destroy(&attr);
  }
  CPU_FREE(set);
  return created;
}

/* A processor that was taken away meanwhile is no reason to fail. */
static bool create_pthread(struct dmi_process *process, struct thread *thread) {
  if (choose_place(process, &thread->place)) {
    thread->bound = true; /* before it runs: it may end at once */
    if (create_bound(thread, process->machine.order[thread->place])) {
      process->threads->bound[thread->place]++;
      return true;
    }
    thread->bound = false;
  }
  return pthread_create(&thread->pthread, NULL, thread_body, thread) == 0;
}

/* It is in the table before it runs: the first thing it does may be to have itself woken. */
static bool thread_start(struct dmi_process *process, struct thread *thread, int64_t arg) {
  struct dmi_threads *threads = process->threads;
  thread->number = threads->last_number + 1;
  thread->process = process;
  thread->arg = arg;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_ADD(hh, threads->all, number, sizeof(thread->number), thread);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (create_pthread(process, thread)) {
    threads->last_number++;
    return true;
  }
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_DEL(threads->all, thread);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  return false;
}

static void create_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = NULL;
  struct create_reply *create;
  int32_t error = DMI_OK;
  if (!process->program.thread) error = DMI_ENOFUNC;
  if (!threads->open || threads->stopped) {
    error = DMI_WHY(DMI_ELEAVING, threads->stopped ? DMI_WHY_DISMISSED : DMI_WHY_NOT_WELCOME);
  }
  if (!dmi_member_is_active(process->member)) error = DMI_EINACTIVE; /* the program has ended */
  if (!process->access.core.is_there(process->access.core.arg, from))
    error = DMI_EMEMBER; /* lost meanwhile */
  if (error == DMI_OK) {
    thread = calloc(1, sizeof(*thread));
    create = calloc(1, sizeof(*create));
    if (!thread || !create || !thread_start(process, thread, msg->create.arg)) {
      free(thread);
      free(create);
      error = DMI_ENOMEM;
    }
  }
  if (error != DMI_OK) {
    reply_error(process, from, DMI_SVC_CREATED, msg->create.op, error);
    return;
  }
  dmi_emit(&process->stream, thread_begun, .thread = thread->number, .creator = from);
  threads->running++;
  create->process = process;
  create->to = from;
  create->msg.type = DMI_SVC_CREATED;
  create->msg.created = (struct dmi_msg_created){.op = msg->create.op, .thread = thread->number};
  dmi_runtime_busy(process, busy_known, create);
}

static struct thread *thread_find(struct dmi_threads *threads, uint64_t number) {
  struct thread *thread;
  HASH_FIND(hh, threads->all, &number, sizeof(number), thread);
  return thread;
}

/* Why it can be neither joined nor detached. */
static int32_t taken(const struct dmi_threads *threads, const struct thread *thread) {
  if (threads->handed_over) return DMI_E_HANDED_OVER;
  return DMI_WHY(DMI_ETHREAD, !thread            ? DMI_WHY_NO_THREAD
                              : thread->detached ? DMI_WHY_DETACHED
                                                 : DMI_WHY_JOINED);
}

static void join_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = thread_find(threads, msg->thread.thread);
  if (!thread || thread->detached || thread->joiner) {
    reply_joined(process, from, msg->thread.op, taken(threads, thread), 0);
  } else if (thread->ended) {
    reply_joined(process, from, msg->thread.op, DMI_OK, thread->value);
    forget(threads, thread);
  } else {
    thread->joiner = from;
    thread->joiner_op = msg->thread.op;
  }
}

static void detach_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = thread_find(threads, msg->thread.thread);
  int32_t error = DMI_OK;
  if (!thread || thread->detached || thread->joiner) {
    error = taken(threads, thread);
  } else {
    thread->detached = true;
    if (thread->ended) forget(threads, thread);
  }
  reply_error(process, from, DMI_SVC_DETACHED, msg->thread.op, error);
}

/* ---- Suspend and wake ----------------------------------------------------------------------- */

int32_t dmi_thread_suspend(void) {
  struct thread *thread = self;
  uint32_t kept = WAKE_KEPT;
  if (!thread) return DMI_ETHREAD;
  while (!atomic_compare_exchange_strong(&thread->wake, &kept, WAKE_NONE)) {
    dmi_futex_wait(&thread->wake, WAKE_NONE);
    kept = WAKE_KEPT;
  }
  return DMI_OK;
}

/* Any thread. */
static int32_t wake_here(struct dmi_threads *threads, uint64_t number) {
  struct thread *thread;
  uint32_t was = WAKE_OVER;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  thread = thread_find(threads, number);
  if (thread) {
    was = WAKE_NONE;
    atomic_compare_exchange_strong(&thread->wake, &was, WAKE_KEPT);
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (was == WAKE_OVER) {
    return DMI_WHY(DMI_ETHREAD, thread ? DMI_WHY_ENDED : DMI_WHY_NO_THREAD);
  }
  /* The thread may have gone on, and ended, since: only its address is used. */
  if (was == WAKE_NONE) dmi_futex_wake(&thread->wake, 1);
  return DMI_OK;
}

void dmi_threads_open(struct dmi_threads *threads) {
  threads->open = true;
}

bool dmi_threads_stop(struct dmi_threads *threads) {
  if (threads->running) return false;
  threads->stopped = true;
  return true;
}

void dmi_threads_go_on(struct dmi_threads *threads) {
  threads->stopped = false;
}

void dmi_threads_hand_over(struct dmi_process *process,
                           void (*each)(void *arg, uint64_t number, int64_t value), void *arg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread, *next;
  threads->stopped = threads->handed_over = true;
  HASH_ITER(hh, threads->all, thread, next) {
    each(arg, thread->number, thread->value);
    forget(threads, thread);
  }
}

/* ---- The caller's side ---------------------------------------------------------------------- */

/* The call of `op` to `from` is answered by a message of this type. */
static void answer(struct dmi_process *process, uint32_t from, uint8_t type, uint64_t op,
                   uint64_t error, int64_t value) {
  struct dmi_threads *threads = process->threads;
  struct pending *pending;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, threads->pending, &op, sizeof(op), pending);
  if (pending && (pending->to != from || pending->expect != type)) pending = NULL;
  if (pending) HASH_DEL(threads->pending, pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  if (!pending) return;
  pending->done(pending->arg, (int32_t)error, value);
  free(pending);
  if (type == DMI_SVC_CREATED) dmi_runtime_idle(process);
}

/* Any thread.  Returns the number that the question must have, as its answer will. */
static uint64_t ask_note(struct dmi_threads *threads, uint32_t uid, uint8_t expect,
                         dmi_thread_done *done, void *arg) {
  struct pending *pending = dmi_xalloc(1, sizeof(*pending));
  uint64_t op;
  pending->to = uid;
  pending->expect = expect;
  pending->done = done;
  pending->arg = arg;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  op = pending->op = ++threads->last_op;
  HASH_ADD(hh, threads->pending, op, sizeof(pending->op), pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  return op;
}

static struct dmi_msg about_thread(uint8_t type, uint64_t op, uint64_t number) {
  struct dmi_msg msg = {.type = type};
  msg.thread = (struct dmi_msg_thread){.op = op, .thread = number};
  return msg;
}

/* THREAD_JOIN or DETACH */
static void ask(struct dmi_process *process, uint32_t uid, uint8_t type, uint64_t number,
                uint8_t expect, dmi_thread_done *done, void *arg) {
  uint64_t op = ask_note(process->threads, uid, expect, done, arg);
  struct dmi_msg msg = about_thread(type, op, number);
  reply(process, uid, &msg);
  dmi_access_watch_stall(&process->access);
}

void dmi_thread_create(struct dmi_process *process, uint32_t uid, int64_t addr,
                       dmi_thread_done *done, void *arg) {
  struct dmi_msg msg = {.type = DMI_SVC_CREATE};
  /* Busy until it is answered, so that the program does not end with the thread on its way. */
  dmi_runtime_busy(process, NULL, NULL);
  msg.create.op = ask_note(process->threads, uid, DMI_SVC_CREATED, done, arg);
  msg.create.arg = addr;
  reply(process, uid, &msg);
  dmi_access_watch_stall(&process->access);
}

void dmi_thread_join(struct dmi_process *process, uint32_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg) {
  ask(process, uid, DMI_SVC_JOIN, number, DMI_SVC_JOINED, done, arg);
}

void dmi_thread_detach(struct dmi_process *process, uint32_t uid, uint64_t number,
                       dmi_thread_done *done, void *arg) {
  ask(process, uid, DMI_SVC_DETACH, number, DMI_SVC_DETACHED, done, arg);
}

void dmi_threads_awaits(struct dmi_threads *threads,
                        void (*visit)(void *arg, uint32_t uid, const char *what), void *arg) {
  struct pending *pending, *next;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_ITER(hh, threads->pending, pending, next) {
    if (pending->expect != DMI_SVC_JOINED) visit(arg, pending->to, "a call of DMI waits for it");
  }
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
}

/* The message could not be sent: nobody will answer. */
static void ask_undo(struct dmi_threads *threads, uint64_t op) {
  struct pending *pending;
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_FIND(hh, threads->pending, &op, sizeof(op), pending);
  if (pending) HASH_DEL(threads->pending, pending);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  free(pending);
}

void dmi_thread_wake(struct dmi_process *process, uint32_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg) {
  if (uid == process->access.core.self) {
    done(arg, wake_here(process->threads, number), 0);
    return;
  }
  if (process->access.core.is_member(process->access.core.arg, uid)) {
    uint64_t op = ask_note(process->threads, uid, DMI_SVC_WOKEN, done, arg);
    struct dmi_msg msg = about_thread(DMI_SVC_WAKE, op, number);
    if (dmi_net_send(process->access.net, uid, &msg)) {
      dmi_net_flush(process->access.net, uid);
      return;
    }
    ask_undo(process->threads, op);
  }
  /* A process that has left had no thread any more. */
  done(arg, DMI_ETHREAD, 0);
}

bool dmi_thread_message(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  switch (msg->type) {
    case DMI_SVC_CREATE:
      create_here(process, from, msg);
      return true;
    case DMI_SVC_JOIN:
      join_here(process, from, msg);
      return true;
    case DMI_SVC_DETACH:
      detach_here(process, from, msg);
      return true;
    case DMI_SVC_WAKE:
      reply_error(process, from, DMI_SVC_WOKEN, msg->thread.op,
                  wake_here(process->threads, msg->thread.thread));
      return true;
    case DMI_SVC_CREATED:
      answer(process, from, msg->type, msg->created.op, msg->created.error,
             (int64_t)msg->created.thread);
      return true;
    case DMI_SVC_JOINED:
      answer(process, from, msg->type, msg->joined.op, msg->joined.error, msg->joined.value);
      return true;
    case DMI_SVC_DETACHED:
    case DMI_SVC_WOKEN:
      answer(process, from, msg->type, msg->answer.op, msg->answer.error, 0);
      return true;
    default:
      return false;
  }
}
