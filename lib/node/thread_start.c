/*
 * thread_start.c - makes a DMI thread: handles the request of a process, chooses the processor that
 * the thread is bound to, and contains the thread's body.
 *
 * A thread may end by pthread_exit, as if DMI_thread had returned that value.  Only pthread_join
 * tells the value, and may wait (for destructors of the thread), so a thread of its own collects
 * it. pthread_cancel has no effect, unless the thread allows it for code of its own: a call of DMI
 * must not be left in the middle.
 *
 * Failure modes: see thread.c.  No thread to collect a value: it is 0, and a line says so.  All but
 * thread_body and `collect` runs in the daemon thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/thread_int.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/access.h"
#include "core/member.h"
#include "node/exits.h"
#include "node/fatal.h"

struct create_reply {
  struct dmi_process *process;
  uint32_t to;
  struct dmi_msg msg;
};

/* Sets the name that `ps -L`, `top -H` and debuggers show: at most 15 characters. */
static void set_name(uint64_t number) {
  char name[16];
  snprintf(name, sizeof name, "%s%llu",
           number < DMI_THREAD_NUMBER_LONG ? DMI_THREAD_NAME : DMI_THREAD_NAME_SHORT,
           (unsigned long long)number);
  pthread_setname_np(pthread_self(), name);
}

typedef int64_t (*body_t)(int64_t arg);

/* What such a thread runs; NULL: this program has none. */
static body_t body_of(const struct dmi_process *process, uint32_t body) {
  if (body == DMI_BODY_USER) return process->program.thread;
  return body < DMI_BODIES ? process->program.inner[body] : NULL;
}

/* What a thread needs while it runs. */
struct running {
  struct dmi_thread *thread;
  void *stack; /* for handlers */
};

/* DMI_thread is over, in its thread. */
static void body_over(const struct running *running) {
  struct dmi_process *process = running->thread->process;
  if (process->remote) process->program.remote->ends(process->remote);
  dmi_doing_leave();
  dmi_fatal_stack_free(running->stack);
  atomic_store(&running->thread->wake, WAKE_OVER);
}

/* Its value is known. */
static void post_end(struct dmi_thread *thread) {
  thread->post.run = dmi_thread_ended;
  dmi_post(thread->process, &thread->post);
}

static void *collect(void *arg) {
  struct dmi_thread *thread = arg;
  void *value = NULL;
  pthread_join(thread->exited, &value);
  dmi_runtime_enter(thread->process);
  thread->value = (int64_t)(intptr_t)value;
  post_end(thread);
  return NULL;
}

/* DMI_thread does not return: it has called pthread_exit, or was cancelled.  What the library runs
 * in such a thread, and DMI_function, which has a page locked, have to return. */
static void exits(void *arg) {
  const struct running *running = arg;
  struct dmi_thread *thread = running->thread;
  struct dmi_process *process = thread->process;
  if (dmi_in_function) dmi_exits_thread(process, "DMI_function");
  if (thread->body == DMI_BODY_FARM) dmi_exits_thread(process, "a task of a farm");
  if (thread->body == DMI_BODY_SCALE) dmi_exits_thread(process, "DMI_scaleunit");
  body_over(running);
  thread->exited = pthread_self();
  if (pthread_create(&thread->pthread, NULL, collect, thread) == 0) return;
  thread->pthread = thread->exited;
  dmi_say(
      &process->stream, DMI_LOG_WARN, "thread",
      "the value of thread %llu, which has called pthread_exit, is lost (0 is given): the system "
      "allows no more threads (ulimit -u)",
      (unsigned long long)thread->number);
  post_end(thread);
}

DMI_EXITS_JUMP static void *thread_body(void *arg) {
  struct dmi_thread *thread = arg;
  struct dmi_process *process = thread->process;
  struct running running = {thread, dmi_fatal_stack()};
  sigset_t set;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  /* Signals go to the daemon thread, which has made this one: they do not interrupt user code. */
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  dmi_thread_set_self(thread);
  dmi_runtime_enter(process);
  set_name(thread->number);
  dmi_doing_enter(&process->access.doings, DMI_DOING_DMI, thread->number);
  pthread_cleanup_push(exits, &running);
  thread->value = body_of(process, thread->body)(thread->arg);
  pthread_cleanup_pop(0);
  body_over(&running);
  post_end(thread);
  return NULL;
}

/* The coordinator knows that this process is busy.  Only now may the creator learn that its thread
 * exists: it may end, and the program must not.  With an error the program has ended, and the
 * thread exists nevertheless. */
static void busy_known(void *arg, int32_t error) {
  struct create_reply *create = arg;
  (void)error;
  dmi_thread_reply(create->process, create->to, &create->msg);
  free(create);
}

/* Chooses the place with the fewest threads; of several such places, the first.  So the first
 * threads get cores of their own, and a new thread takes the place of one that has ended. */
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

/* Makes a thread that is bound to the processor from its first instruction. */
static bool create_bound(struct dmi_thread *thread, uint32_t processor) {
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

/* If the processor is not available any more, the thread is made without being bound. */
static bool create_pthread(struct dmi_process *process, struct dmi_thread *thread) {
  if (choose_place(process, &thread->place)) {
    thread->bound = true; /* before the thread runs, since it may end at once */
    if (create_bound(thread, process->machine.order[thread->place])) {
      process->threads->bound[thread->place]++;
      return true;
    }
    thread->bound = false;
  }
  return pthread_create(&thread->pthread, NULL, thread_body, thread) == 0;
}

/* The thread is in the table before it runs: the first thing it does may be to have another thread
 * wake it. */
static bool thread_start(struct dmi_process *process, struct dmi_thread *thread,
                         const struct dmi_msg_create *create) {
  struct dmi_threads *threads = process->threads;
  thread->number = threads->last_number + 1;
  thread->process = process;
  thread->arg = create->arg;
  thread->body = create->body;
  dmi_thread_letters_begin(thread);
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

bool dmi_thread_on_create(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_threads *threads = process->threads;
  struct dmi_thread *thread = NULL;
  struct create_reply *create;
  int32_t error = DMI_OK;
  if (!body_of(process, msg->create.body)) error = DMI_ENOFUNC;
  if (!threads->open || threads->stopped) {
    error = DMI_WHY(DMI_ELEAVING, threads->stopped ? DMI_WHY_DISMISSED : DMI_WHY_NOT_WELCOME);
  }
  if (!dmi_member_is_active(process->member)) error = DMI_EINACTIVE; /* the program has ended */
  if (!process->access.core.is_there(process->access.core.arg, from))
    error = DMI_EMEMBER; /* it is lost meanwhile */
  if (error == DMI_OK) {
    thread = calloc(1, sizeof(*thread));
    create = calloc(1, sizeof(*create));
    if (!thread || !create || !thread_start(process, thread, &msg->create)) {
      free(thread);
      free(create);
      error = DMI_ENOMEM;
    }
  }
  if (error != DMI_OK) {
    struct dmi_msg reply = {.type = DMI_SVC_CREATED};
    reply.created = (struct dmi_msg_created){.op = msg->create.op, .error = error};
    dmi_thread_reply(process, from, &reply);
    return true;
  }
  dmi_emit(&process->stream, thread_begun, .thread = thread->number, .creator = from);
  threads->running++;
  create->process = process;
  create->to = from;
  create->msg.type = DMI_SVC_CREATED;
  create->msg.created = (struct dmi_msg_created){.op = msg->create.op, .thread = thread->number};
  dmi_runtime_busy(process, busy_known, create);
  return true;
}
