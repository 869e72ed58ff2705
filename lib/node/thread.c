/*
 * thread.c - DMI threads: their table, their end, requests of other processes about them, and
 * leaving. thread_start.c makes threads, thread_wake.c lets them sleep, thread_call.c asks other
 * processes.
 *
 * Only the daemon thread changes the table of threads.  The last act of a thread is to post its end
 * to the daemon thread.  Its pthread is joined as soon as that does not have to wait, or at the end
 * of the process.
 *
 * DMI_wake must be quick, so the calling thread itself sends the message or, in the same process,
 * wakes the thread.  That is why there is a lock: it guards the table of threads while it changes
 * or other threads read it, and the table of calls without an answer.
 *
 * Failure modes: no such thread (answered DMI_ETHREAD), no memory or no more threads from the
 * system (DMI_ENOMEM), the process is leaving (DMI_ELEAVING).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/thread_int.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/xalloc.h"

struct dmi_threads *dmi_threads_new(void) {
  return calloc(1, sizeof(struct dmi_threads));
}

uint32_t dmi_threads_running(const struct dmi_threads *threads) {
  return threads->running;
}

bool dmi_threads_main_runs(const struct dmi_threads *threads) {
  return threads->main_runs;
}

/* ---- Life of a thread ----------------------------------------------------------------------- */

/* Joins the pthreads of forgotten threads that have ended; `wait`: of the others, too. */
static void reap(struct dmi_threads *threads, bool wait) {
  struct dmi_thread *thread, *next;
  HASH_ITER(hh, threads->gone, thread, next) {
    if (!thread->reaped && !wait && pthread_tryjoin_np(thread->pthread, NULL) != 0) continue;
    if (!thread->reaped && wait) pthread_join(thread->pthread, NULL);
    HASH_DEL(threads->gone, thread);
    dmi_thread_letters_free(thread);
    free(thread);
  }
}

void dmi_thread_forget(struct dmi_threads *threads, struct dmi_thread *thread) {
  dmi_lock(&threads->lock, DMI_RANK_LEAF);
  HASH_DEL(threads->all, thread);
  dmi_unlock(&threads->lock, DMI_RANK_LEAF);
  HASH_ADD(hh, threads->gone, number, sizeof(thread->number), thread);
  reap(threads, false);
}

void dmi_threads_free(struct dmi_threads *threads) {
  struct dmi_thread *thread, *next;
  struct dmi_thread_call *pending, *next_pending;
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

void dmi_thread_reply(struct dmi_process *process, uint32_t to, struct dmi_msg *msg) {
  if (to == process->access.core.self) {
    (void)dmi_thread_message(process, to, msg);
  } else {
    dmi_runtime_send(process, to, msg);
  }
}

void dmi_thread_answer(struct dmi_process *process, uint32_t to, uint8_t type, uint64_t op,
                       int32_t error) {
  struct dmi_msg msg = {.type = type};
  msg.answer = (struct dmi_msg_answer){.op = op, .error = error};
  dmi_thread_reply(process, to, &msg);
}

static void reply_joined(struct dmi_process *process, uint32_t to, uint64_t op, int32_t error,
                         int64_t value) {
  struct dmi_msg msg = {.type = DMI_SVC_JOINED};
  msg.joined = (struct dmi_msg_joined){.op = op, .error = error, .value = value};
  dmi_thread_reply(process, to, &msg);
}

void dmi_thread_ended(struct dmi_process *process, struct dmi_post *post) {
  struct dmi_thread *thread =
      (struct dmi_thread *)(void *)((char *)post - offsetof(struct dmi_thread, post));
  struct dmi_threads *threads = process->threads;
  thread->ended = true;
  threads->running--;
  if (thread->bound) threads->bound[thread->place]--;
  dmi_emit(&process->stream, thread_ended, .thread = thread->number);
  if (thread->joiner) {
    reply_joined(process, thread->joiner, thread->joiner_op, DMI_OK, thread->value);
  }
  if (thread->joiner || thread->detached) dmi_thread_forget(threads, thread);
  dmi_runtime_idle(process);
}

struct main_post {
  struct dmi_post post; /* first */
  bool good;
};

static void main_ended(struct dmi_process *process, struct dmi_post *post) {
  struct dmi_input in = {.type = DMI_IN_MAIN_ENDED,
                         .yes = ((struct main_post *)(void *)post)->good};
  free(post);
  process->threads->main_runs = false;
  (void)dmi_actions_input(process, &in);
  dmi_runtime_idle(process);
}

static void forget_main(struct dmi_post *post) {
  free(post);
}

void dmi_threads_main_begins(struct dmi_process *process) {
  process->threads->main_runs = true;
}

void dmi_threads_main_ends(struct dmi_process *process, bool good) {
  struct main_post *post = dmi_xalloc(1, sizeof(*post));
  post->post.run = main_ended;
  post->post.drop = forget_main;
  post->good = good;
  dmi_post(process, &post->post);
}

/* ---- Requests of other processes ------------------------------------------------------------ */

struct dmi_thread *dmi_thread_find(struct dmi_threads *threads, uint64_t number) {
  struct dmi_thread *thread;
  HASH_FIND(hh, threads->all, &number, sizeof(number), thread);
  return thread;
}

/* Why this thread can be neither joined nor detached. */
static int32_t taken(const struct dmi_threads *threads, const struct dmi_thread *thread) {
  if (threads->handed_over) return DMI_E_HANDED_OVER;
  return DMI_WHY(DMI_ETHREAD, !thread            ? DMI_WHY_NO_THREAD
                              : thread->detached ? DMI_WHY_DETACHED
                                                 : DMI_WHY_JOINED);
}

bool dmi_thread_on_join(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct dmi_thread *thread = dmi_thread_find(threads, msg->thread.thread);
  if (!thread || thread->detached || thread->joiner) {
    reply_joined(process, from, msg->thread.op, taken(threads, thread), 0);
  } else if (thread->ended) {
    reply_joined(process, from, msg->thread.op, DMI_OK, thread->value);
    dmi_thread_forget(threads, thread);
  } else {
    thread->joiner = from;
    thread->joiner_op = msg->thread.op;
  }
  return true;
}

void dmi_thread_unjoin(struct dmi_threads *threads, uint32_t uid) {
  struct dmi_thread *thread, *next;
  HASH_ITER(hh, threads->all, thread, next) {
    if (thread->joiner == uid) thread->joiner = 0;
  }
}

bool dmi_thread_on_detach(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct dmi_thread *thread = dmi_thread_find(threads, msg->thread.thread);
  int32_t error = DMI_OK;
  if (!thread || thread->detached || thread->joiner) {
    error = taken(threads, thread);
  } else {
    thread->detached = true;
    if (thread->ended) dmi_thread_forget(threads, thread);
  }
  dmi_thread_answer(process, from, DMI_SVC_DETACHED, msg->thread.op, error);
  return true;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

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
  struct dmi_thread *thread, *next;
  threads->stopped = threads->handed_over = true;
  HASH_ITER(hh, threads->all, thread, next) {
    each(arg, thread->number, thread->value);
    dmi_thread_forget(threads, thread);
  }
}

/* ---- Messages ------------------------------------------------------------------------------- */

bool dmi_thread_message(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(process, from, msg);
    DMI_MSGS_THREAD(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}
