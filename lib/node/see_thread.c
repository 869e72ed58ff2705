/*
 * see_thread.c - the thread that looks: it answers questions one after the other, so that the
 * daemon does not wait for what takes long.  It is made for the first question.
 *
 * Failure modes: the system allows no more threads, or there is no memory, or there are more
 * questions than MOST: the answer is that there is none (DMI_SEEN_SILENT).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/futex.h"
#include "base/lock.h"
#include "node/runtime.h"
#include "node/see_int.h"

#define MOST 1024 /* questions that wait; each viewer of each member has at most a few */

struct question {
  struct question *next;
  struct dmi_see_job job;
};

struct dmi_see_thread {
  struct dmi_process *process;
  pthread_t pthread;
  bool runs;               /* the daemon's */
  _Atomic uint32_t events; /* count: goes up when there is something to do */
  struct dmi_mutex lock;   /* guards those below */
  struct question *first, **last;
  uint32_t num;
  bool ends;
};

struct dmi_see_thread *dmi_see_thread_new(struct dmi_process *process) {
  struct dmi_see_thread *thread = calloc(1, sizeof(*thread));
  if (!thread) return NULL;
  thread->process = process;
  thread->last = &thread->first;
  dmi_mutex_init(&thread->lock, DMI_RANK_LEAF);
  return thread;
}

static void answer(struct dmi_process *process, const struct dmi_see_job *job) {
  char text[DMI_WIRE_SEEN];
  struct dmi_json json = {text, 0, sizeof(text)};
  uint64_t next = dmi_see_look(process, &job->ask, &json);
  dmi_see_send(process, job->to, job->ask.number, DMI_SEEN_GOOD, next,
               dmi_slice_copy(text, json.at));
  dmi_net_flush(process->access.net, job->to);
}

static void do_job(struct dmi_process *process, const struct dmi_see_job *job) {
  if (job->type == DMI_SEE_JOB_ANSWER) {
    answer(process, job);
  } else if (job->type == DMI_SEE_JOB_SAY) {
    dmi_see_say_waits(process, job->to, job->name);
  } else {
    dmi_see_write_dump(process, job->to, job->names);
  }
}

static void question_free(struct question *question) {
  if (question) free(question->job.names);
  free(question);
}

/* The next question; NULL: there is none.  *ends: nor will there be any. */
static struct question *take(struct dmi_see_thread *thread, bool *ends) {
  struct question *question;
  dmi_mutex_lock(&thread->lock);
  question = thread->first;
  if (question && !(thread->first = question->next)) thread->last = &thread->first;
  if (question) thread->num--;
  *ends = thread->ends;
  dmi_mutex_unlock(&thread->lock);
  return question;
}

static void *body(void *arg) {
  struct dmi_see_thread *thread = arg;
  bool ends = false;
  pthread_setname_np(pthread_self(), "dmi-see");
  dmi_runtime_enter(thread->process);
  while (!ends) {
    uint32_t seen = atomic_load(&thread->events);
    struct question *question = take(thread, &ends);
    if (question && !ends) do_job(thread->process, &question->job);
    if (!question && !ends) dmi_futex_wait(&thread->events, seen);
    question_free(question);
  }
  return NULL;
}

/* Signals go to the daemon, which has made the thread. */
static bool start(struct dmi_see_thread *thread) {
  sigset_t set, old;
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  thread->runs = pthread_create(&thread->pthread, NULL, body, thread) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return thread->runs;
}

bool dmi_see_thread_ask(struct dmi_see_thread *thread, const struct dmi_see_job *job) {
  struct question *question = thread->runs || start(thread) ? malloc(sizeof(*question)) : NULL;
  if (!question) {
    free(job->names);
    return false;
  }
  question->next = NULL;
  question->job = *job;
  dmi_mutex_lock(&thread->lock);
  if (thread->num < MOST) {
    *thread->last = question;
    thread->last = &question->next;
    thread->num++;
    question = NULL;
  }
  dmi_mutex_unlock(&thread->lock);
  if (question) { /* too many */
    question_free(question);
    return false;
  }
  atomic_fetch_add(&thread->events, 1);
  dmi_futex_wake(&thread->events, 1);
  return true;
}

uint32_t dmi_see_thread_has(struct dmi_see_thread *thread, uint32_t to) {
  uint32_t num = 0;
  dmi_mutex_lock(&thread->lock);
  for (const struct question *at = thread->first; at; at = at->next)
    num += at->job.type == DMI_SEE_JOB_ANSWER && at->job.to == to;
  dmi_mutex_unlock(&thread->lock);
  return num;
}

void dmi_see_thread_end(struct dmi_see_thread *thread) {
  bool ends;
  struct question *question;
  dmi_mutex_lock(&thread->lock);
  thread->ends = true;
  dmi_mutex_unlock(&thread->lock);
  atomic_fetch_add(&thread->events, 1);
  dmi_futex_wake(&thread->events, 1);
  if (thread->runs) pthread_join(thread->pthread, NULL);
  while ((question = take(thread, &ends)))
    question_free(question);
  dmi_mutex_destroy(&thread->lock);
  free(thread);
}
