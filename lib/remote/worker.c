/*
 * worker.c - threads that run calls: as many as the pool lets run at once, which are the cores of
 * the process and one for each that waits inside a function.  They are made when they are needed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/access.h"
#include "net/net.h"
#include "node/exits.h"
#include "node/fatal.h"
#include "remote/call.h"

/* ns: after a call that took as long this thread itself sends what has gathered, before it runs
 * another one.  The sender would not get the core before that is over; and what others wait for is
 * worth the time of a system call.  Short calls are faster if many share one. */
#define LONG 20000
#define LONG_CALL 1000000 /* ns: behind calls that take longer waking up costs nothing */

/* ns: so long a worker looks for another call before it sleeps. */
#define LOOKS 60000

static __thread DMI_remote_t *mine;

DMI_remote_t *dmi_remote_mine(void) {
  return mine;
}

void dmi_remote_waits(struct dmi_remote *remote) {
  if (!mine) return;
  remote->blocked++;
  dmi_remote_pool_waits(remote->pool, mine->run);
  dmi_remote_carry(remote);
}

void dmi_remote_resumes(struct dmi_remote *remote) {
  if (!mine) return;
  remote->blocked--;
  dmi_remote_pool_resumes(remote->pool, mine->run);
  dmi_remote_carry(remote);
}

uint64_t dmi_remote_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The lowest number that no other call has that runs now: for events. */
static uint32_t take_place(struct dmi_remote *remote) {
  uint32_t place = 0;
  while (place < remote->place_num && remote->places[place])
    place++;
  if (place == remote->place_num) {
    DMI_XALLOC_GROW(remote->places, remote->place_num, remote->place_room);
    remote->place_num++;
  }
  remote->places[place] = true;
  return place;
}

/* Why a call of a client that was closed meanwhile is not run. */
static struct dmi_remote_why *closed(void) {
  return dmi_remote_why_new(DMI_EREMOTE, "", "", "the client was closed");
}

static void emit_fired(const DMI_remote_t *call) {
  const struct dmi_remote_call *of = call->run->call;
  char client[DMI_REMOTE_CLIENT_TEXT];
  dmi_emit(&call->remote->process->stream, call_fired,
           .client = dmi_remote_client_text(of->client, client), .call = of->number,
           .worker = call->worker, .function = call->name);
}

static void emit_done(const DMI_remote_t *call, uint64_t took, bool failed) {
  const struct dmi_remote_call *of = call->run->call;
  char client[DMI_REMOTE_CLIENT_TEXT];
  dmi_emit(&call->remote->process->stream, call_done,
           .client = dmi_remote_client_text(of->client, client), .call = of->number,
           .worker = call->worker, .function = call->name, .us = took / 1000, .failed = failed);
}

/* The name is that of the function here, which stays. */
static void trace_call(const DMI_remote_t *call, uint64_t begin) {
  const DMI_remote_function_t function = dmi_remote_function_find(call->name, strlen(call->name));
  uint32_t number;
  const char *name = function ? dmi_remote_function_name(function, &number) : NULL;
  dmi_trace_step(&call->remote->process->access.trace, name ? name : "call", (int64_t)begin,
                 call->run->call->number);
}

/* Tells the client of arenas that were mapped for it: it unmaps them if this process leaves. */
static void tell_arenas(struct dmi_remote *remote, const DMI_remote_t *call,
                        dmi_remote_client_t client) {
  uint64_t base;
  if (client.process == remote->self.uid) return;
  while ((base = dmi_remote_store_new_arena(call->store))) {
    struct dmi_pack *body = dmi_remote_line(remote, client.process, DMI_RMT_ARENA);
    dmi_remote_pack_client(body, client);
    dmi_pack_u64(body, base);
  }
}

/* Releases the lock.  The client must hear of a call that may have cost a server (FIRED) before the
 * function runs: it could cost this one, too, before another thread has sent that. */
static void unlock_before(struct dmi_remote *remote, const struct dmi_remote_call *call) {
  const dmi_uid_t client = call->client.process;
  const bool is_other = client != remote->self.uid;
  if (!(call->flags & DMI_REMOTE_SUSPECT)) {
    dmi_remote_unlock_later(remote);
    return;
  }
  dmi_remote_unlock(remote);
  /* Another thread may have taken it from its line, and not have sent it yet. */
  if (is_other) dmi_net_flush(remote->process->access.net, client);
}

/* Runs a call.  With the lock, which is released meanwhile.  How many ns the function took. */
static uint64_t run(struct dmi_remote *remote, const struct dmi_remote_queued *queued) {
  struct dmi_remote_run *run = queued->run;
  const dmi_remote_client_t client = run->call->client;
  const uint32_t outputs = run->call->output_num;
  struct dmi_remote_result few[4] = {{0}}, *made = few;
  DMI_remote_t call;
  struct dmi_remote_why *why = NULL;
  uint64_t begin, took;
  memset(&call, 0, offsetof(DMI_remote_t, end));
  call.failed = call.unread = false;
  call.error = DMI_OK;
  call.remote = remote;
  call.run = run;
  (void)dmi_remote_name_text(run->call, call.name);
  call.worker = take_place(remote);
  call.store = dmi_remote_store_take(remote, client);
  if (queued->held) dmi_remote_store_give(remote, client);
  remote->running++;
  unlock_before(remote, run->call);
  if (outputs > 4) made = dmi_xalloc(outputs, sizeof(*made));
  emit_fired(&call);
  begin = dmi_remote_clock();
  mine = &call;
  why = call.store ? dmi_remote_run(&call, made) : closed();
  mine = NULL;
  took = dmi_remote_clock() - begin;
  emit_done(&call, took, why != NULL);
  if (dmi_trace_on(&remote->process->access.trace)) trace_call(&call, begin);
  dmi_remote_lock(remote);
  remote->running--;
  remote->places[call.worker] = false;
  remote->soon++;
  if (call.unread) {
    dmi_remote_pool_unread(remote->pool, run, call.unread_at);
  } else if (why) {
    dmi_remote_pool_failed(remote->pool, run, why);
  } else {
    dmi_remote_pool_done(remote->pool, run, made, took);
  }
  dmi_remote_why_release(why);
  dmi_remote_carry(remote);
  remote->soon--;
  if (call.store) {
    tell_arenas(remote, &call, client);
    dmi_remote_store_give(remote, client);
  }
  dmi_remote_run_end(&call);
  if (made != few) free(made);
  return took;
}

static struct dmi_remote_queued take(struct dmi_remote *remote) {
  struct dmi_remote_queued *first = remote->runs, queued = *first;
  remote->runs = first->next;
  if (!remote->runs) remote->runs_end = &remote->runs;
  remote->queued--;
  free(first);
  return queued;
}

/* The first of those that are queued fails, without having run. */
static void fail_first(struct dmi_remote *remote, struct dmi_remote_why *why) {
  const struct dmi_remote_queued queued = take(remote);
  const dmi_remote_client_t client = queued.run->call->client;
  dmi_remote_pool_failed(remote->pool, queued.run, why);
  dmi_remote_why_release(why);
  if (queued.held) dmi_remote_store_give(remote, client);
}

/* With the lock, which is released meanwhile: waits for a while without sleeping, as a call that
 * needs what was made just now may come back soon, and waking up from an idle core takes longer
 * than a short call.  It gives the core to whoever can use it; and the more often it was in vain,
 * the more seldom it is tried.  `took`: ns of the last call. */
static void look(struct dmi_remote *remote, uint64_t took) {
  const uint64_t until = dmi_remote_clock() + LOOKS;
  if (took > LONG_CALL) return;
  if (remote->skips) {
    remote->skips--;
    return;
  }
  remote->soon++;
  dmi_mutex_unlock(&remote->lock);
  while (!atomic_load_explicit(&remote->queued, memory_order_relaxed) && dmi_remote_clock() < until)
    sched_yield();
  dmi_remote_lock(remote);
  remote->soon--;
  if (remote->runs) {
    remote->vain = 0;
  } else {
    if (remote->vain < 10) remote->vain++;
    remote->skips = (1u << remote->vain) - 1;
  }
}

/* The function that this thread runs does not return, so its call never ends. */
static void exits(void *arg) {
  const struct dmi_remote_worker *worker = arg;
  if (!dmi_in_function) dmi_remote_dies("it has called pthread_exit");
  dmi_exits_thread(worker->remote->process, dmi_in_function ? "DMI_function" : "a remote function");
}

DMI_EXITS_JUMP static void *body(void *arg) {
  struct dmi_remote_worker *worker = arg;
  struct dmi_remote *remote = worker->remote;
  void *stack = dmi_fatal_stack();
  char name[16];
  snprintf(name, sizeof(name), "dmi-call %u", worker->number % 1000000);
  dmi_remote_thread_begin(remote, name);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_push(exits, worker);
  dmi_remote_lock(remote);
  while (!remote->ended) {
    if (remote->runs) {
      const struct dmi_remote_queued queued = take(remote);
      const uint64_t took = run(remote, &queued);
      if (remote->lines_used && (!remote->runs || took >= LONG)) {
        dmi_remote_unlock(remote); /* before it sleeps, or is busy for long */
        dmi_remote_lock(remote);
      }
      if (!remote->runs && !remote->ended) look(remote, took);
      continue;
    }
    remote->idle++;
    pthread_cond_wait(&remote->work, &remote->lock.mutex);
    remote->idle--;
  }
  dmi_remote_unlock(remote);
  pthread_cleanup_pop(0);
  dmi_fatal_stack_free(stack);
  return NULL;
}

/* False: the system allows no more threads. */
static bool add_worker(struct dmi_remote *remote) {
  struct dmi_remote_worker *worker = dmi_xalloc(1, sizeof(*worker));
  worker->remote = remote;
  worker->number = remote->worker_num;
  if (pthread_create(&worker->pthread, NULL, body, worker) != 0) {
    free(worker);
    if (!remote->no_thread)
      dmi_say(&remote->process->stream, DMI_LOG_WARN, "remote",
              "no further thread can be made for remote functions: there are %u",
              remote->worker_num);
    remote->no_thread = true;
    return false;
  }
  remote->worker_num++;
  worker->next = remote->workers;
  remote->workers = worker;
  return true;
}

void dmi_remote_run_queue(struct dmi_remote *remote, struct dmi_remote_run *run) {
  struct dmi_remote_queued *queued = dmi_xalloc(1, sizeof(*queued));
  queued->run = run;
  /* From now on it is known here when the client closes. */
  queued->held = dmi_remote_store_take(remote, run->call->client) != NULL;
  *remote->runs_end = queued;
  remote->runs_end = &queued->next;
  remote->queued++;
  if (remote->soon >= remote->queued || remote->ended) return;
  if (remote->idle >= remote->queued - remote->soon) {
    if (remote->defers) {
      remote->wakes++;
    } else {
      pthread_cond_signal(&remote->work);
    }
    return;
  }
  (void)add_worker(remote); /* else another one takes it when it is free */
}

bool dmi_remote_runs_fail(struct dmi_remote *remote) {
  if (!remote->runs || remote->worker_num > remote->blocked || remote->ended) return false;
  if (add_worker(remote)) return false;
  fail_first(remote, dmi_remote_why_new(DMI_ENOMEM, NULL, remote->host,
                                        "its server can make no thread for the call"));
  return true;
}

void dmi_remote_workers_join(struct dmi_remote *remote) {
  while (remote->workers) {
    struct dmi_remote_worker *worker = remote->workers;
    remote->workers = worker->next;
    pthread_join(worker->pthread, NULL);
    free(worker);
  }
}

void dmi_remote_runs_end(struct dmi_remote *remote) {
  while (remote->runs) {
    fail_first(remote, dmi_remote_why_new(DMI_EREMOTE, "", "", "the process ends"));
    dmi_remote_carry(remote);
  }
}
