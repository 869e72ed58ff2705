/*
 * store.c - the thread that brings results to the disk.
 *
 * While it stores some, others come: these are the next ones, all at once.  Each time costs as much
 * for one result as for many, of which the tasks on this machine have less time: so it begins
 * FARM_STORE_EVERY after the last time at the earliest, but for the last results of all.
 */
#include "store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "alloc.h"
#include "clock.h"

#define FARM_STORE_EVERY 100 /* ms */

struct farm_store {
  struct farm_job *job;
  void (*stored)(void);
  pthread_t thread;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  struct farm_job_end *ends;
  uint32_t num, capacity;
  farm_ms_t due; /* of the next time */
  bool busy, hurry, over;
  char *why;
};

static void free_ends(struct farm_job_end *ends, uint32_t num) {
  for (uint32_t i = 0; i < num; i++)
    farm_job_end_free(&ends[i]);
  free(ends);
}

/* With the lock, which is given up meanwhile. */
static void store_all(struct farm_store *store) {
  struct farm_job_end *ends = store->ends;
  const uint32_t num = store->num;
  char *why = store->why;
  store->ends = NULL;
  store->num = store->capacity = 0;
  store->due = farm_now() + FARM_STORE_EVERY;
  store->busy = true;
  pthread_mutex_unlock(&store->lock);
  if (!why) why = farm_job_store(store->job, ends, num);
  free_ends(ends, num);
  pthread_mutex_lock(&store->lock);
  store->busy = false;
  store->why = why;
}

/* With the lock, which is given up meanwhile. */
static void wait_for_more(struct farm_store *store) {
  if (store->num) {
    farm_clock_wait(&store->changed, &store->lock, store->due);
  } else {
    pthread_cond_wait(&store->changed, &store->lock);
  }
}

static bool is_due(const struct farm_store *store) {
  return store->num && (store->hurry || store->over || store->why || farm_now() >= store->due);
}

static void *body(void *arg) {
  struct farm_store *store = arg;
  pthread_mutex_lock(&store->lock);
  while (!store->over || store->num) {
    if (is_due(store)) {
      store_all(store);
      pthread_mutex_unlock(&store->lock);
      store->stored();
      pthread_mutex_lock(&store->lock);
    } else {
      wait_for_more(store);
    }
  }
  pthread_mutex_unlock(&store->lock);
  return NULL;
}

struct farm_store *farm_store_new(struct farm_job *job, void (*stored)(void)) {
  struct farm_store *store = farm_alloc(sizeof(*store));
  store->job = job;
  store->stored = stored;
  pthread_mutex_init(&store->lock, NULL);
  farm_clock_condition(&store->changed);
  if ((errno = pthread_create(&store->thread, NULL, body, store)) == 0) return store;
  free(store);
  return NULL;
}

void farm_store_add(struct farm_store *store, const struct farm_job_end *end) {
  pthread_mutex_lock(&store->lock);
  store->ends = farm_grow(store->ends, store->num, &store->capacity, sizeof(*store->ends));
  store->ends[store->num++] = *end;
  pthread_cond_signal(&store->changed);
  pthread_mutex_unlock(&store->lock);
}

void farm_store_hurry(struct farm_store *store) {
  pthread_mutex_lock(&store->lock);
  store->hurry = true;
  pthread_cond_signal(&store->changed);
  pthread_mutex_unlock(&store->lock);
}

bool farm_store_idle(struct farm_store *store, const char **why) {
  bool idle;
  pthread_mutex_lock(&store->lock);
  *why = store->why;
  idle = store->why || (!store->num && !store->busy);
  pthread_mutex_unlock(&store->lock);
  return idle;
}

void farm_store_stop(struct farm_store *store) {
  pthread_mutex_lock(&store->lock);
  store->over = true;
  pthread_cond_signal(&store->changed);
  pthread_mutex_unlock(&store->lock);
  pthread_join(store->thread, NULL);
}

void farm_store_free(struct farm_store *store) {
  free_ends(store->ends, store->num);
  pthread_mutex_destroy(&store->lock);
  pthread_cond_destroy(&store->changed);
  free(store->why);
  free(store);
}
