/*
 * runtime.c - the part of remote functions in the life of a process: made with it, told of views
 * and of its own leave, ended with it.
 *
 * Its threads and its pool are made when the process is welcomed, or opens a client: before,
 * nothing comes, and a program that uses no remote functions does not pay for it (but for two
 * threads that sleep).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdlib.h>

#include "node/actions.h"
#include "node/runtime.h"
#include "remote/call.h"

void dmi_remote_thread_begin(struct dmi_remote *remote, const char *name) {
  sigset_t set;
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_setname_np(pthread_self(), name);
  dmi_runtime_enter(remote->process);
}

static struct dmi_remote *make(struct dmi_process *process) {
  struct dmi_remote *remote = dmi_xalloc(1, sizeof(*remote));
  remote->process = process;
  dmi_mutex_init(&remote->lock, DMI_RANK_REMOTE);
  pthread_cond_init(&remote->changed, NULL);
  pthread_cond_init(&remote->kick, NULL);
  pthread_cond_init(&remote->work, NULL);
  remote->letters_end = &remote->letters;
  remote->readings_end = &remote->readings;
  remote->runs_end = &remote->runs;
  return remote;
}

/* Inputs and outputs of calls are local memory, beside the pool of pages: half as much. */
static uint64_t limit_of(const struct dmi_process *process) {
  return process->config.pool_bytes / 2;
}

void dmi_remote_make_pool(struct dmi_remote *remote) {
  struct dmi_remote_pool_config config;
  if (remote->pool) return;
  remote->self.cores = remote->process->machine.cores;
  remote->self.limit = limit_of(remote->process);
  config = (struct dmi_remote_pool_config){
      .self = remote->self.uid, .cores = remote->self.cores, .limit = remote->self.limit};
  remote->pool = dmi_remote_pool_new(&config);
}

bool dmi_remote_begin_locked(struct dmi_remote *remote) {
  dmi_remote_make_pool(remote);
  if (remote->threads) return true;
  dmi_remote_crash_begin();
  if (pthread_create(&remote->sender, NULL, dmi_remote_sender, remote) != 0) return false;
  if (pthread_create(&remote->fetcher, NULL, dmi_remote_fetcher, remote) != 0)
    dmi_xalloc_fail(0); /* one of two is of no use, and cannot be taken back here */
  remote->threads = true;
  return true;
}

static void end_threads(struct dmi_remote *remote) {
  dmi_remote_lock(remote);
  remote->ended = true;
  dmi_remote_wake_all(remote);
  dmi_mutex_unlock(&remote->lock);
  if (!remote->threads) return;
  dmi_remote_workers_join(remote);
  pthread_join(remote->sender, NULL);
  atomic_store(&remote->fetch_ends, 1);
  dmi_remote_fetch_news(remote);
  pthread_join(remote->fetcher, NULL);
  dmi_remote_readings_end(remote);
  dmi_remote_runs_end(remote);
  dmi_remote_readings_end(remote); /* of calls that have got the memory of these */
}

/* One that nobody has closed.  Its reads are not completed: the thread that gave the status may
 * have ended, and its status with it. */
static void user_free(struct dmi_remote_user *user) {
  if (user->polls) pthread_join(user->poller, NULL);
  while (user->readings) {
    struct dmi_remote_reading *reading = user->readings;
    user->readings = reading->next;
    free(reading);
  }
  dmi_remote_book_free(user->book);
  free(user->lent);
  free(user);
}

static void free_all(struct dmi_remote *remote) {
  struct dmi_remote_served *served, *next;
  end_threads(remote);
  HASH_ITER(hh, remote->servers, served, next) {
    HASH_DEL(remote->servers, served);
    free(served);
  }
  while (remote->users) {
    struct dmi_remote_user *user = remote->users;
    remote->users = user->next;
    user_free(user);
  }
  while (remote->goodbyes) {
    struct dmi_remote_goodbye *goodbye = remote->goodbyes;
    remote->goodbyes = goodbye->next;
    free(goodbye);
  }
  dmi_remote_lines_free(remote);
  dmi_remote_stores_free(remote);
  free(remote->places);
  if (remote->pool) dmi_remote_pool_free(remote->pool);
  pthread_cond_destroy(&remote->changed);
  pthread_cond_destroy(&remote->kick);
  pthread_cond_destroy(&remote->work);
  dmi_mutex_destroy(&remote->lock);
  free(remote);
}

static int32_t stop(struct dmi_remote *remote) {
  int32_t error = DMI_OK;
  dmi_remote_lock(remote);
  if (dmi_remote_has_client(remote)) {
    error = DMI_EBUSY;
  } else if (remote->pool) {
    if (!remote->leaving) dmi_remote_pool_leave(remote->pool);
    remote->leaving = true;
    dmi_remote_carry(remote);
    remote->awaits = !remote->empty;
    if (!remote->empty) error = DMI_EEND; /* it says when */
  }
  dmi_remote_unlock(remote);
  return error;
}

static bool runs(struct dmi_remote *remote) {
  bool any;
  dmi_remote_lock(remote);
  any = remote->running > 0;
  dmi_remote_unlock_later(remote);
  return any;
}

static void stopping(struct dmi_remote *remote) {
  dmi_remote_lock(remote);
  remote->stopping = true;
  dmi_remote_wake_all(remote);
  for (struct dmi_remote_user *user = remote->users; user; user = user->next)
    dmi_remote_readings_wake(remote, user, 0);
  dmi_remote_unlock(remote);
}

static void ends(struct dmi_remote *remote) {
  dmi_remote_close_left(remote, NULL);
}

void dmi_remote_use(struct dmi_program *program) {
  static const struct dmi_program_remote functions = {
      .make = make,
      .free = free_all,
      .message = dmi_remote_message,
      .opened = dmi_remote_opened,
      .view = dmi_remote_view,
      .last = dmi_remote_last,
      .stop = stop,
      .stays = dmi_remote_stays,
      .runs = runs,
      .stopping = stopping,
      .ends = ends,
      .polls = dmi_remote_polls,
      .dies = dmi_remote_dies,
      .fatal = dmi_remote_fatal,
  };
  program->remote = &functions;
}
