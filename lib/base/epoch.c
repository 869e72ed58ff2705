/*
 * epoch.c - see epoch.h.
 *
 * dmi_epoch_now goes up at each retirement. What was retired at epoch e can be freed when every
 * slot is outside, or entered at an epoch > e.
 */
#include "base/epoch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct retired {
  struct retired *next;
  void *ptr;
  void (*free_it)(void *ptr);
  uint64_t epoch;
};

_Atomic uint64_t dmi_epoch_now = 1;
__thread struct dmi_epoch_slot *dmi_epoch_mine __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static uint32_t users;
static struct dmi_epoch_slot *slots;
static struct retired *waiting;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *slot) {
  dmi_epoch_mine = NULL;
  atomic_store(&((struct dmi_epoch_slot *)slot)->used, 0);
}

static void make_key(void) {
  pthread_key_create(&key, thread_ends);
}

void dmi_epoch_register(void) {
  struct dmi_epoch_slot *slot;
  pthread_once(&once, make_key);
  pthread_mutex_lock(&lock);
  for (slot = slots; slot; slot = slot->next) {
    if (!atomic_load(&slot->used)) break;
  }
  if (!slot) {
    slot = aligned_alloc(64, sizeof(*slot));
    if (!slot) {
      fprintf(stderr,
              "dmi: no memory left for a thread's bookkeeping (a smaller dmirun -s leaves more); "
              "ending\n");
      abort();
    }
    atomic_init(&slot->inside, 0);
    slot->next = slots;
    slots = slot;
  }
  atomic_store(&slot->used, 1);
  pthread_mutex_unlock(&lock);
  dmi_epoch_mine = slot;
  pthread_setspecific(key, slot);
}

/* With the lock held: removes from the list what can be freed now. */
static struct retired *take_free(void) {
  uint64_t oldest = UINT64_MAX;
  struct retired *free_list = NULL;
  struct retired **at = &waiting;
  for (struct dmi_epoch_slot *slot = slots; slot; slot = slot->next) {
    uint64_t inside = atomic_load_explicit(&slot->inside, memory_order_seq_cst);
    if (inside && inside < oldest) oldest = inside;
  }
  while (*at) {
    struct retired *item = *at;
    if (item->epoch < oldest) {
      *at = item->next;
      item->next = free_list;
      free_list = item;
    } else {
      at = &item->next;
    }
  }
  return free_list;
}

static void free_all(struct retired *list) {
  while (list) {
    struct retired *item = list;
    list = item->next;
    item->free_it(item->ptr);
    free(item);
  }
}

void dmi_epoch_retire(void *ptr, void (*free_it)(void *ptr)) {
  struct retired *item = malloc(sizeof(*item));
  struct retired *ready;
  if (!item) return; /* better a leak than freeing it too early */
  item->ptr = ptr;
  item->free_it = free_it;
  pthread_mutex_lock(&lock);
  item->epoch = atomic_fetch_add(&dmi_epoch_now, 1);
  item->next = waiting;
  waiting = item;
  ready = take_free();
  pthread_mutex_unlock(&lock);
  free_all(ready);
}

void dmi_epoch_begin(void) {
  pthread_mutex_lock(&lock);
  users++;
  pthread_mutex_unlock(&lock);
}

static void free_slots(void) {
  pthread_mutex_lock(&lock);
  /* Slots in use stay: threads that the program itself made still have them, and give them back
   * when they end. */
  for (struct dmi_epoch_slot **at = &slots; *at;) {
    struct dmi_epoch_slot *slot = *at;
    if (slot != dmi_epoch_mine && atomic_load(&slot->used)) {
      at = &slot->next;
      continue;
    }
    *at = slot->next;
    free(slot);
  }
  pthread_mutex_unlock(&lock);
  pthread_once(&once, make_key);
  pthread_setspecific(key, NULL);
  dmi_epoch_mine = NULL;
}

void dmi_epoch_end(void) {
  struct retired *list;
  bool last;
  pthread_mutex_lock(&lock);
  last = users == 0 || --users == 0;
  list = last ? waiting : take_free();
  if (last) waiting = NULL;
  pthread_mutex_unlock(&lock);
  free_all(list);
  if (last) free_slots();
}
