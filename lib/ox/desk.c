/*
 * desk.c - see desk.h.
 */
#include "ox/desk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "ox/function.h"
#include "ox/memory.h"

struct dmi_ox_calls {
  pthread_mutex_t lock; /* guards `running` and `given_up` */
  pthread_cond_t idle;  /* running is 0 */
  int32_t running;      /* with those that nobody waits for any more */
  uint64_t given_up;    /* bytes of arguments of these */
  int32_t most;
  uint64_t room;
  struct dmi_ox_around around;
};

struct call {
  struct call *next;
  struct dmi_ox_desk *desk;
  struct dmi_ox_calls *calls; /* it may live longer than the desk */
  uint32_t id;
  atomic_bool cancelled;
  DMI_ox_function_t function;
  struct dmi_ox_value *args, *result;
};

struct dmi_ox_desk {
  struct dmi_ox_calls *calls;
  pthread_mutex_t lock; /* guards what follows */
  void (*wake)(void *arg);
  void *arg;
  size_t uses;       /* by its owner, and by calls that run */
  struct call *runs; /* calls that run */
  struct call *done; /* calls whose result nobody has taken */
};

/* The call that this thread runs. */
static __thread struct call *own;

int32_t DMI_ox_interrupted(void) {
  return own != NULL && atomic_load(&own->cancelled) ? DMI_TRUE : DMI_FALSE;
}

int64_t DMI_ox_room(void) {
  return own == NULL || own->calls->room > INT64_MAX ? INT64_MAX : (int64_t)own->calls->room;
}

/* ---- The account ----------------------------------------------------------------------------- */

struct dmi_ox_calls *dmi_ox_calls_new(int32_t most, uint64_t room,
                                      const struct dmi_ox_around *around) {
  struct dmi_ox_calls *calls = dmi_ox_alloc(sizeof *calls);
  pthread_mutex_init(&calls->lock, NULL);
  pthread_cond_init(&calls->idle, NULL);
  calls->most = most;
  calls->room = room;
  calls->around = *around;
  return calls;
}

void dmi_ox_calls_free(struct dmi_ox_calls *calls) {
  pthread_mutex_lock(&calls->lock);
  while (calls->running > 0)
    pthread_cond_wait(&calls->idle, &calls->lock);
  pthread_mutex_unlock(&calls->lock);
  pthread_cond_destroy(&calls->idle);
  pthread_mutex_destroy(&calls->lock);
  free(calls);
}

/* False: why not. */
static bool count(struct dmi_ox_calls *calls, char *why) {
  pthread_mutex_lock(&calls->lock);
  bool good = false;
  if (calls->running >= calls->most)
    snprintf(why, 200, "%d calls of functions run already (max_calls)", calls->most);
  else if (calls->given_up > calls->room)
    snprintf(why, 200, "calls that were given up still run, with large arguments (max_stack)");
  else
    good = true;
  if (good) calls->running++;
  pthread_mutex_unlock(&calls->lock);
  return good;
}

/* The last use of `calls` by this thread. */
static void uncount(struct dmi_ox_calls *calls, uint64_t given_up) {
  pthread_mutex_lock(&calls->lock);
  calls->given_up -= given_up;
  if (--calls->running == 0) pthread_cond_broadcast(&calls->idle);
  pthread_mutex_unlock(&calls->lock);
}

/* Nobody waits for it any more.  The lock of its desk is held. */
static void give_up(struct call *call) {
  if (atomic_exchange(&call->cancelled, true)) return;
  pthread_mutex_lock(&call->calls->lock);
  call->calls->given_up += call->args->size;
  pthread_mutex_unlock(&call->calls->lock);
}

/* ---- Desks ----------------------------------------------------------------------------------- */

struct dmi_ox_desk *dmi_ox_desk_new(struct dmi_ox_calls *calls, void (*wake)(void *arg),
                                    void *arg) {
  struct dmi_ox_desk *desk = dmi_ox_alloc(sizeof *desk);
  pthread_mutex_init(&desk->lock, NULL);
  desk->calls = calls;
  desk->wake = wake;
  desk->arg = arg;
  desk->uses = 1;
  return desk;
}

static void free_call(struct call *call) {
  DMI_ox_drop(call->args);
  DMI_ox_drop(call->result);
  free(call);
}

/* Unlocks the desk, and frees it with the last use. */
static void leave(struct dmi_ox_desk *desk) {
  size_t uses = --desk->uses;
  pthread_mutex_unlock(&desk->lock);
  if (uses > 0) return;
  pthread_mutex_destroy(&desk->lock);
  free(desk);
}

static void make_call(struct call *call) {
  const struct dmi_ox_around *around = &call->calls->around;
  own = call;
  if (around->begins != NULL && !around->begins(around->arg)) {
    call->result = DMI_ox_error("the program is ending");
  } else {
    call->result = call->function(call->args->list.at, call->args->list.num);
    if (around->ends != NULL) around->ends(around->arg);
  }
  own = NULL;
}

/* The call has a result. */
static void finish(struct call *call) {
  struct dmi_ox_desk *desk = call->desk;
  struct dmi_ox_calls *calls = call->calls;
  pthread_mutex_lock(&desk->lock);
  struct call **at = &desk->runs;
  while (*at != call)
    at = &(*at)->next;
  *at = call->next;
  uint64_t given_up = atomic_load(&call->cancelled) ? call->args->size : 0;
  if (atomic_load(&call->cancelled)) {
    free_call(call);
  } else {
    call->next = desk->done;
    desk->done = call;
    desk->wake(desk->arg);
  }
  leave(desk);
  uncount(calls, given_up);
}

/* The function has called pthread_exit.  Its thread has nothing else to do, so only this call
 * fails. */
static void exits(void *arg) {
  struct call *call = arg;
  const struct dmi_ox_around *around = &call->calls->around;
  call->result = DMI_ox_error("the function was left by pthread_exit; it has to return");
  if (around->ends != NULL) around->ends(around->arg);
  own = NULL;
  finish(call);
}

/* Without the address sanitizer: it does not see the jump by which the C library comes back here.
 */
__attribute__((no_sanitize_address)) static void *run(void *arg) {
  struct call *call = arg;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_push(exits, call);
  make_call(call);
  pthread_cleanup_pop(0);
  finish(call);
  return NULL;
}

/* In the list before it runs. */
static bool start(struct dmi_ox_desk *desk, struct call *call) {
  pthread_t thread;
  pthread_mutex_lock(&desk->lock);
  call->next = desk->runs;
  desk->runs = call;
  desk->uses++;
  bool good = pthread_create(&thread, NULL, run, call) == 0;
  if (good) {
    pthread_detach(thread);
  } else {
    desk->runs = call->next;
    desk->uses--;
  }
  pthread_mutex_unlock(&desk->lock);
  return good;
}

bool dmi_ox_desk_call(struct dmi_ox_desk *desk, uint32_t id, struct dmi_ox_value *name,
                      struct dmi_ox_value *args, char *why) {
  struct dmi_ox_calls *calls = desk->calls;
  struct call *call = dmi_ox_alloc(sizeof *call);
  *call = (struct call){.desk = desk, .calls = calls, .id = id, .args = args};
  call->function = dmi_ox_function_find(name->bytes.at);
  DMI_ox_drop(name);
  if (call->function == NULL) {
    snprintf(why, 200, "no function has this name");
  } else if (count(calls, why)) {
    if (start(desk, call)) return true;
    snprintf(why, 200, "the system allows no more threads");
    uncount(calls, 0);
  }
  free_call(call);
  return false;
}

void dmi_ox_desk_cancel(struct dmi_ox_desk *desk, uint32_t id) {
  pthread_mutex_lock(&desk->lock);
  for (struct call *call = desk->runs; call != NULL; call = call->next)
    if (call->id == id) give_up(call);
  pthread_mutex_unlock(&desk->lock);
}

bool dmi_ox_desk_take(struct dmi_ox_desk *desk, uint32_t *id, struct dmi_ox_value **value) {
  pthread_mutex_lock(&desk->lock);
  struct call *call = desk->done;
  if (call != NULL) desk->done = call->next;
  pthread_mutex_unlock(&desk->lock);
  if (call == NULL) return false;
  *id = call->id;
  *value = call->result;
  call->result = NULL;
  free_call(call);
  return true;
}

void dmi_ox_desk_close(struct dmi_ox_desk *desk) {
  pthread_mutex_lock(&desk->lock);
  for (struct call *call = desk->runs; call != NULL; call = call->next)
    give_up(call);
  while (desk->done != NULL) {
    struct call *call = desk->done;
    desk->done = call->next;
    free_call(call);
  }
  leave(desk);
}
