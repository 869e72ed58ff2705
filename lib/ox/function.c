/*
 * function.c - see function.h.
 */
#include "ox/function.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ox/memory.h"

/* Calls that run at once, those among them that nobody waits for any more: a session waits for one
 * at a time, so only functions that do not ask DMI_ox_interrupted come to this. */
#define MOST_OF_DESK 64
#define MOST_OF_ALL 4096

/* ---- Names ----------------------------------------------------------------------------------- */

struct registered {
  char *name;
  DMI_ox_function_t function;
};

/* Of the program's text, so of the OS process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;   /* running is 0 */
static struct registered *functions;
static size_t num, room;
static uint64_t running; /* calls */

static DMI_ox_function_t find(const char *name) {
  DMI_ox_function_t function = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < num; i++)
    if (strcmp(functions[i].name, name) == 0) function = functions[i].function;
  pthread_mutex_unlock(&lock);
  return function;
}

bool dmi_ox_function_known(const char *name) {
  return find(name) != NULL;
}

int32_t DMI_ox_function(const char *name, DMI_ox_function_t function) {
  if (name == NULL || function == NULL || !dmi_ox_value_is_name(name) ||
      strncmp(name, "ox_", 3) == 0)
    return DMI_FALSE;
  pthread_mutex_lock(&lock);
  size_t at = 0;
  while (at < num && strcmp(functions[at].name, name) != 0)
    at++;
  if (at == num) {
    size_t len = strlen(name) + 1;
    functions = dmi_ox_grow(functions, num, &room, sizeof functions[0]);
    functions[at].name = dmi_ox_alloc(len);
    memcpy(functions[at].name, name, len);
    num++;
  }
  functions[at].function = function;
  pthread_mutex_unlock(&lock);
  return DMI_TRUE;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct call {
  struct call *next;
  struct dmi_ox_desk *desk;
  uint32_t id;
  atomic_bool cancelled;
  DMI_ox_function_t function;
  struct dmi_ox_value *args, *result;
};

struct dmi_ox_desk {
  pthread_mutex_t lock; /* guards what follows */
  void (*wake)(void *arg);
  void *arg;
  bool closed;
  size_t uses;       /* by its owner, and by calls that run */
  struct call *runs; /* calls that run */
  struct call *done; /* calls whose result nobody has taken */
};

/* The call that this thread runs. */
static __thread struct call *own;

int32_t DMI_ox_interrupted(void) {
  return own != NULL && atomic_load(&own->cancelled) ? DMI_TRUE : DMI_FALSE;
}

struct dmi_ox_desk *dmi_ox_desk_new(void (*wake)(void *arg), void *arg) {
  struct dmi_ox_desk *desk = dmi_ox_alloc(sizeof *desk);
  pthread_mutex_init(&desk->lock, NULL);
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

static void *run(void *arg) {
  struct call *call = own = arg;
  struct dmi_ox_desk *desk = call->desk;
  call->result = call->function(call->args->list.at, call->args->list.num);
  own = NULL;
  pthread_mutex_lock(&desk->lock);
  struct call **at = &desk->runs;
  while (*at != call)
    at = &(*at)->next;
  *at = call->next;
  if (desk->closed || atomic_load(&call->cancelled)) {
    free_call(call);
  } else {
    call->next = desk->done;
    desk->done = call;
    desk->wake(desk->arg);
  }
  leave(desk);
  pthread_mutex_lock(&lock);
  if (--running == 0) pthread_cond_broadcast(&idle);
  pthread_mutex_unlock(&lock);
  return NULL;
}

bool dmi_ox_desk_call(struct dmi_ox_desk *desk, uint32_t id, struct dmi_ox_value *name,
                      struct dmi_ox_value *args) {
  DMI_ox_function_t function = find(name->bytes.at);
  struct call *call = dmi_ox_alloc(sizeof *call);
  pthread_t thread;
  DMI_ox_drop(name);
  *call = (struct call){.desk = desk, .id = id, .function = function, .args = args};
  pthread_mutex_lock(&lock);
  bool room_for_it = ++running <= MOST_OF_ALL;
  pthread_mutex_unlock(&lock);
  pthread_mutex_lock(&desk->lock);
  call->next = desk->runs;
  desk->runs = call;
  room_for_it = desk->uses++ <= MOST_OF_DESK && room_for_it;
  bool good = function != NULL && room_for_it && pthread_create(&thread, NULL, run, call) == 0;
  if (good) {
    pthread_detach(thread);
  } else {
    desk->runs = call->next;
    desk->uses--;
    free_call(call);
  }
  pthread_mutex_unlock(&desk->lock);
  if (!good) {
    pthread_mutex_lock(&lock);
    if (--running == 0) pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&lock);
  }
  return good;
}

void dmi_ox_desk_cancel(struct dmi_ox_desk *desk, uint32_t id) {
  pthread_mutex_lock(&desk->lock);
  for (struct call *call = desk->runs; call != NULL; call = call->next)
    if (call->id == id) atomic_store(&call->cancelled, true);
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
  desk->closed = true;
  for (struct call *call = desk->runs; call != NULL; call = call->next)
    atomic_store(&call->cancelled, true);
  while (desk->done != NULL) {
    struct call *call = desk->done;
    desk->done = call->next;
    free_call(call);
  }
  leave(desk);
}

void dmi_ox_desk_wait_all(void) {
  pthread_mutex_lock(&lock);
  while (running > 0)
    pthread_cond_wait(&idle, &lock);
  pthread_mutex_unlock(&lock);
}
