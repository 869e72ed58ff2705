/*
 * openxm.c - see openxm.h.
 *
 * Threads: those of libdmiox, which call `begins` and `ends` around each function, and a keeper,
 * which waits for the end of the server.  What they have for the process they post to the daemon
 * thread; the lists are its own.
 *
 * Failure modes: a program without libdmiox, a wrong address or a port in use end the process with
 * a line.  Functions that are asked for when the program ends are not called.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/openxm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/xalloc.h"
#include "node/actions.h"
#include "node/exits.h"
#include "node/runtime.h"

struct dmi_openxm {
  DMI_ox_server_t *server;
  pthread_t keeper;
  struct dmi_status begun;    /* there is a server for the keeper, or an error */
  struct dmi_post ended_post; /* of the keeper, once */
  struct dmi_mutex telling;   /* the server is being told to end: the keeper must not free it */
  bool stopped; /* under `telling`: it was told, or has ended; the keeper may have freed it */
  /* ---- the daemon's ---- */
  bool joined, leaving, ended;
  uint32_t calls;     /* functions that run */
  struct gate *gates; /* calls that wait until the coordinator knows of them */
};

/* A call that is about to begin: the program must not end meanwhile. */
struct gate {
  struct dmi_post post; /* first */
  struct gate *next;
  struct dmi_process *process;
  struct dmi_status *caller; /* NULL: it was answered */
};

/* ---- The daemon thread ----------------------------------------------------------------------- */

static void known(void *arg, int32_t error) {
  struct gate *gate = arg;
  struct dmi_openxm *own = gate->process->openxm;
  if (gate->caller) { /* else the process has ended */
    struct gate **at = &own->gates;
    while (*at != gate)
      at = &(*at)->next;
    *at = gate->next;
    if (error == DMI_OK) own->calls++;
    dmi_status_done(gate->caller, error);
  }
  free(gate);
}

static void asked(struct dmi_process *process, struct dmi_post *post) {
  struct gate *gate = (struct gate *)(void *)post;
  struct dmi_openxm *own = process->openxm;
  gate->next = own->gates;
  own->gates = gate;
  if (own->joined) dmi_runtime_busy(process, known, gate);
}

/* The daemon has ended. */
static void refused(struct dmi_post *post) {
  struct gate *gate = (struct gate *)(void *)post;
  dmi_status_done(gate->caller, DMI_EEND);
  free(gate);
}

static void returned(struct dmi_process *process, struct dmi_post *post) {
  free(post);
  process->openxm->calls--;
  dmi_runtime_idle(process);
}

static void forget(struct dmi_post *post) {
  free(post);
}

void dmi_openxm_joined(struct dmi_process *process) {
  struct dmi_openxm *own = process->openxm;
  if (!own) return;
  own->joined = true;
  for (struct gate *gate = own->gates, *next; gate; gate = next) {
    next = gate->next;
    dmi_runtime_busy(process, known, gate);
  }
}

static void stop(struct dmi_process *process) {
  struct dmi_openxm *own = process->openxm;
  dmi_mutex_lock(&own->telling);
  if (!own->stopped) process->program.ox->stop(own->server);
  own->stopped = true;
  dmi_mutex_unlock(&own->telling);
}

void dmi_openxm_stopping(struct dmi_process *process) {
  if (process->openxm) stop(process);
}

bool dmi_openxm_leave(struct dmi_process *process) {
  struct dmi_openxm *own = process->openxm;
  if (!own || own->ended) return true;
  own->leaving = true;
  stop(process);
  return false;
}

static void has_ended(struct dmi_process *process, struct dmi_post *post) {
  struct dmi_openxm *own = process->openxm;
  (void)post;
  own->ended = true;
  if (own->leaving) dmi_actions_stop_threads(process);
}

bool dmi_openxm_runs(const struct dmi_process *process) {
  return process->openxm && process->openxm->calls > 0;
}

/* ---- Threads of the server ------------------------------------------------------------------- */

static int32_t begins(void *arg) {
  struct gate *gate = dmi_xalloc(1, sizeof(*gate));
  struct dmi_status status = {0};
  dmi_runtime_enter(arg);
  dmi_status_begin(&status);
  *gate = (struct gate){.post = {.run = asked, .drop = refused}, .process = arg, .caller = &status};
  dmi_post(arg, &gate->post);
  return dmi_status_wait(&status) == DMI_OK;
}

/* Also when the function has called pthread_exit. */
static void ends(void *arg) {
  struct dmi_post *post;
  if (dmi_in_function) dmi_exits_thread(arg, "DMI_function");
  post = dmi_xalloc(1, sizeof(*post));
  post->run = returned;
  post->drop = forget;
  dmi_post(arg, post);
  dmi_runtime_enter(NULL);
}

static void listens(const char *control, const char *data, void *arg) {
  struct dmi_process *process = arg;
  dmi_emit(&process->stream, serves, .address = control, .data = data);
}

static void *keep(void *arg) {
  struct dmi_process *process = arg;
  struct dmi_openxm *own = process->openxm;
  pthread_setname_np(pthread_self(), "dmi-openxm");
  if (dmi_status_wait(&own->begun) != DMI_OK) return NULL;
  process->program.ox->wait(own->server);
  dmi_mutex_lock(&own->telling);
  own->stopped = true; /* who would tell it now finds it freed */
  dmi_mutex_unlock(&own->telling);
  process->program.ox->free(own->server); /* waits for functions */
  own->ended_post.run = has_ended;
  dmi_post(process, &own->ended_post);
  return NULL;
}

/* ---- Its life -------------------------------------------------------------------------------- */

static bool refuse(struct dmi_process *process, const char *why) {
  if (process->openxm) dmi_mutex_destroy(&process->openxm->telling);
  free(process->openxm);
  process->openxm = NULL;
  dmi_say(&process->stream, DMI_LOG_ERROR, "start", "--ox %s", why);
  return false;
}

/* Of [ADDR:]PORT,[ADDR:]PORT what is for control, and what for data; both for free().  Without an
 * address of its own data has that of control. */
static void split(const char *place, char **control, char **data) {
  const char *second = strchr(place, ',') + 1;
  *control = dmi_xalloc_text(place);
  (*control)[second - 1 - place] = '\0';
  const char *colon = strchr(second, ':') ? NULL : strrchr(*control, ':');
  size_t addr = colon ? (size_t)(colon + 1 - *control) : 0;
  *data = dmi_xalloc(addr + strlen(second) + 1, 1);
  memcpy(*data, *control, addr);
  memcpy(*data + addr, second, strlen(second));
}

static bool start(struct dmi_process *process, const char *control, const char *data) {
  const DMI_ox_options_t options = {.control = control,
                                    .data = data,
                                    .listens = listens,
                                    .begins = begins,
                                    .ends = ends,
                                    .arg = process};
  struct dmi_openxm *own = process->openxm = dmi_xalloc(1, sizeof(*own));
  char why[400];
  dmi_mutex_init(&own->telling, DMI_RANK_LEAF);
  /* The keeper is first: a server with clients could not be ended from here, as their functions
   * wait for this thread. */
  dmi_status_begin(&own->begun);
  if (pthread_create(&own->keeper, NULL, keep, process) != 0)
    return refuse(process, "needs a thread, and the system allows no more (ulimit -u)");
  bool good = process->program.ox->start(&own->server, &options, why, sizeof why);
  dmi_status_done(&own->begun, good ? DMI_OK : DMI_EINVAL);
  if (good) return true;
  pthread_join(own->keeper, NULL);
  return refuse(process, why);
}

bool dmi_openxm_begin(struct dmi_process *process) {
  const char *place = process->config.ox;
  char *control, *data;
  bool good;
  if (!place) return true;
  if (!process->program.ox)
    return refuse(process,
                  "is for programs with functions for OpenXM clients (DMI_ox_function), "
                  "linked with -ldmiox");
  if (!strchr(place, ',')) return start(process, place, NULL);
  split(place, &control, &data);
  good = start(process, control, data);
  free(control);
  free(data);
  return good;
}

void dmi_openxm_end(struct dmi_process *process) {
  struct dmi_openxm *own = process->openxm;
  if (!own) return;
  for (struct gate *gate = own->gates, *next; gate; gate = next) {
    next = gate->next;
    dmi_status_done(gate->caller, DMI_EEND);
    gate->caller = NULL;
    if (!own->joined) free(gate); /* else when it is known, which is soon */
  }
  stop(process);
  pthread_join(own->keeper, NULL);
  dmi_mutex_destroy(&own->telling);
  free(own);
  process->openxm = NULL;
}
