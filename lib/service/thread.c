/*
 * thread.c - DMI threads.
 *
 * Everything but the threads themselves happens in the daemon thread, so the tables need no lock. A
 * thread that ends says so by a post, as its last act; its pthread is joined when that can be done
 * without waiting, or at the end of the process.
 *
 * Failure modes: no such thread (answered DMI_ETHREAD), no memory or no more threads from the
 * system (DMI_ENOMEM), the process is leaving (DMI_ELEAVING).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "service/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include <uthash.h>

#include "service/process.h"
#include "service/runtime.h"
#include "service/service_msg.h"

/* A thread of this process, until it is joined, or ended and detached. */
struct thread {
  UT_hash_handle hh;
  uint64_t number; /* key, from 1 */
  struct dmi_process *process;
  pthread_t pthread;
  int64_t arg, value;
  bool ended, detached;
  bool reaped;     /* its pthread has been joined */
  uint32_t joiner; /* uid of the process that waits for it, 0: none */
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
  struct thread *all;
  struct thread *gone; /* forgotten, pthread not joined yet; linked by hh of its own */
  struct pending *pending;
  uint64_t last_number, last_op;
  uint32_t running;
  bool main_runs;
  bool open;        /* welcomed */
  bool handed_over; /* a leave: no new threads; ended ones are the coordinator's matter */
};

static __thread uint64_t self_number;

struct dmi_threads *dmi_threads_new(void) {
  return calloc(1, sizeof(struct dmi_threads));
}

uint64_t dmi_thread_self(void) {
  return self_number;
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
  HASH_DEL(threads->all, thread);
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
  free(threads);
}

static void reply(struct dmi_process *process, uint32_t to, struct dmi_msg *msg) {
  if (to == process->core.self) {
    (void)dmi_thread_message(process, to, msg);
  } else {
    dmi_runtime_send(process, to, msg);
  }
}

static void reply_simple(struct dmi_process *process, uint32_t to, uint8_t type, uint64_t op,
                         int32_t error, int64_t value) {
  struct dmi_msg msg = {0};
  msg.type = type;
  msg.op = op;
  msg.error = (uint32_t)error;
  msg.off = (uint64_t)value;
  reply(process, to, &msg);
}

static void thread_ended(struct dmi_process *process, struct dmi_post *post) {
  struct thread *thread = (struct thread *)(void *)((char *)post - offsetof(struct thread, post));
  struct dmi_threads *threads = process->threads;
  thread->ended = true;
  threads->running--;
  if (thread->joiner) {
    reply_simple(process, thread->joiner, DMI_SVC_JOINED, thread->joiner_op, DMI_OK, thread->value);
  }
  if (thread->joiner || thread->detached) forget(threads, thread);
  dmi_runtime_idle(process);
}

static void *thread_body(void *arg) {
  struct thread *thread = arg;
  struct dmi_process *process = thread->process;
  sigset_t set;
  /* Signals are the daemon's, which has made this thread: user code is not interrupted by them. */
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  self_number = thread->number;
  thread->value = process->program.thread(thread->arg);
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
  struct dmi_post *post = calloc(1, sizeof(*post));
  if (!post) abort();
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

static void create_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = NULL;
  struct create_reply *create;
  int32_t error = DMI_OK;
  if (!process->program.thread) error = DMI_ENOFUNC;
  if (!threads->open || threads->handed_over) error = DMI_ELEAVING;
  if (error == DMI_OK) {
    thread = calloc(1, sizeof(*thread));
    create = calloc(1, sizeof(*create));
    if (thread && create) {
      thread->number = threads->last_number + 1;
      thread->process = process;
      thread->arg = (int64_t)msg->off;
    }
    if (!thread || !create || pthread_create(&thread->pthread, NULL, thread_body, thread) != 0) {
      free(thread);
      free(create);
      error = DMI_ENOMEM;
    }
  }
  if (error != DMI_OK) {
    reply_simple(process, from, DMI_SVC_CREATED, msg->op, error, 0);
    return;
  }
  threads->last_number++;
  HASH_ADD(hh, threads->all, number, sizeof(thread->number), thread);
  threads->running++;
  create->process = process;
  create->to = from;
  create->msg.type = DMI_SVC_CREATED;
  create->msg.op = msg->op;
  create->msg.version = thread->number;
  dmi_runtime_busy(process, busy_known, create);
}

static struct thread *thread_find(struct dmi_threads *threads, uint64_t number) {
  struct thread *thread;
  HASH_FIND(hh, threads->all, &number, sizeof(number), thread);
  return thread;
}

static void join_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = thread_find(threads, msg->version);
  if (!thread || thread->detached || thread->joiner) {
    reply_simple(process, from, DMI_SVC_JOINED, msg->op,
                 threads->handed_over ? DMI_E_HANDED_OVER : DMI_ETHREAD, 0);
  } else if (thread->ended) {
    reply_simple(process, from, DMI_SVC_JOINED, msg->op, DMI_OK, thread->value);
    forget(threads, thread);
  } else {
    thread->joiner = from;
    thread->joiner_op = msg->op;
  }
}

static void detach_here(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread = thread_find(threads, msg->version);
  int32_t error = DMI_OK;
  if (!thread || thread->detached || thread->joiner) {
    error = threads->handed_over ? DMI_E_HANDED_OVER : DMI_ETHREAD;
  } else {
    thread->detached = true;
    if (thread->ended) forget(threads, thread);
  }
  reply_simple(process, from, DMI_SVC_DETACHED, msg->op, error, 0);
}

void dmi_threads_open(struct dmi_threads *threads) {
  threads->open = true;
}

bool dmi_threads_stop(struct dmi_threads *threads) {
  if (threads->running) return false;
  threads->handed_over = true;
  return true;
}

void dmi_threads_hand_over(struct dmi_process *process,
                           void (*each)(void *arg, uint64_t number, int64_t value), void *arg) {
  struct dmi_threads *threads = process->threads;
  struct thread *thread, *next;
  dmi_threads_stop(process->threads);
  HASH_ITER(hh, threads->all, thread, next) {
    each(arg, thread->number, thread->value);
    forget(threads, thread);
  }
}

/* ---- The caller's side ---------------------------------------------------------------------- */

static void answer(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct pending *pending;
  int64_t value;
  HASH_FIND(hh, threads->pending, &msg->op, sizeof(msg->op), pending);
  if (!pending || pending->to != from || pending->expect != msg->type) return;
  HASH_DEL(threads->pending, pending);
  value = msg->type == DMI_SVC_CREATED ? (int64_t)msg->version : (int64_t)msg->off;
  pending->done(pending->arg, (int32_t)msg->error, value);
  free(pending);
  if (msg->type == DMI_SVC_CREATED) dmi_runtime_idle(process);
}

static void ask(struct dmi_process *process, uint32_t uid, struct dmi_msg *msg, uint8_t expect,
                dmi_thread_done *done, void *arg) {
  struct dmi_threads *threads = process->threads;
  struct pending *pending = calloc(1, sizeof(*pending));
  if (!pending) abort();
  pending->op = ++threads->last_op;
  pending->to = uid;
  pending->expect = expect;
  pending->done = done;
  pending->arg = arg;
  HASH_ADD(hh, threads->pending, op, sizeof(pending->op), pending);
  msg->op = pending->op;
  reply(process, uid, msg);
}

void dmi_thread_create(struct dmi_process *process, uint32_t uid, int64_t addr,
                       dmi_thread_done *done, void *arg) {
  struct dmi_msg msg = {0};
  msg.type = DMI_SVC_CREATE;
  msg.off = (uint64_t)addr;
  /* Busy until it is answered, so that the program does not end with the thread on its way. */
  dmi_runtime_busy(process, NULL, NULL);
  ask(process, uid, &msg, DMI_SVC_CREATED, done, arg);
}

void dmi_thread_join(struct dmi_process *process, uint32_t uid, uint64_t number,
                     dmi_thread_done *done, void *arg) {
  struct dmi_msg msg = {0};
  msg.type = DMI_SVC_JOIN;
  msg.version = number;
  ask(process, uid, &msg, DMI_SVC_JOINED, done, arg);
}

void dmi_thread_detach(struct dmi_process *process, uint32_t uid, uint64_t number,
                       dmi_thread_done *done, void *arg) {
  struct dmi_msg msg = {0};
  msg.type = DMI_SVC_DETACH;
  msg.version = number;
  ask(process, uid, &msg, DMI_SVC_DETACHED, done, arg);
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
    case DMI_SVC_CREATED:
    case DMI_SVC_JOINED:
    case DMI_SVC_DETACHED:
      answer(process, from, msg);
      return true;
    default:
      return false;
  }
}
