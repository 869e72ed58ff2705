/*
 * lease.c - the thread that pauses all pages, and ends the pause.
 *
 * It is a thread of its own, because the daemon may be busy for a long time (with DMI_function, or
 * copying), and the pulse thread must not wait until a page is unlocked.  Pages that are locked are
 * paused last; while one is locked nobody reads it.
 *
 * The pages of a mapping stay while the thread has a reference to it.  A page record that is made
 * meanwhile is paused from its beginning (dmi_core.paused).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/lease.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/epoch.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/page_crash.h"
#include "node/runtime.h"

#define PAUSED 1u
#define ENDS 2u

struct dmi_lease {
  struct dmi_process *process;
  pthread_t thread;
  _Atomic uint32_t wanted; /* PAUSED, ENDS */
};

/* The next mapping behind *base, with a reference; NULL: there is none. */
static struct dmi_mapping *next_mapping(struct dmi_lease *lease, uint64_t *base) {
  struct dmi_mapping *mapping;
  bool held = false;
  dmi_epoch_enter();
  while (!held && (mapping = dmi_space_next(&lease->process->access.space, *base))) {
    *base = mapping->map.base;
    held = dmi_mapping_ref(mapping);
  }
  dmi_epoch_leave();
  if (!held) return NULL;
  dmi_mutex_lock(&mapping->lock); /* waits for records that are just being made */
  dmi_mutex_unlock(&mapping->lock);
  return mapping;
}

/* A page that was locked, and its mapping, with a reference. */
struct locked {
  struct dmi_mapping *mapping;
  struct dmi_page *page;
};

struct locked_list {
  struct locked *at;
  uint32_t num, capacity;
};

static void pause_mapping(struct dmi_mapping *mapping, struct locked_list *later) {
  struct dmi_page *page;
  for (uint64_t from = 0; (page = dmi_mapping_next(mapping, from)); from = page->index + 1) {
    if (dmi_lock_try(&page->lock, DMI_RANK_PAGE)) {
      dmi_page_pause(page);
      dmi_unlock(&page->lock, DMI_RANK_PAGE);
    } else {
      DMI_XALLOC_GROW(later->at, later->num, later->capacity);
      (void)dmi_mapping_ref(mapping); /* this thread has one */
      later->at[later->num++] = (struct locked){mapping, page};
    }
  }
}

static void pause_all(struct dmi_lease *lease) {
  struct dmi_core *core = &lease->process->access.core;
  struct locked_list later = {NULL, 0, 0};
  struct dmi_mapping *mapping;
  uint64_t base = 0;
  atomic_store(&core->paused, true);
  while ((mapping = next_mapping(lease, &base))) {
    pause_mapping(mapping, &later);
    dmi_mapping_unref(core, mapping);
  }
  for (uint32_t i = 0; i < later.num; i++) {
    dmi_lock(&later.at[i].page->lock, DMI_RANK_PAGE);
    dmi_page_pause(later.at[i].page);
    dmi_unlock(&later.at[i].page->lock, DMI_RANK_PAGE);
    dmi_mapping_unref(core, later.at[i].mapping);
  }
  free(later.at);
}

static void unpause_all(struct dmi_lease *lease) {
  struct dmi_access *access = &lease->process->access;
  struct dmi_mapping *mapping;
  uint64_t base = 0;
  atomic_store(&access->core.paused, false);
  while ((mapping = next_mapping(lease, &base))) {
    struct dmi_page *page;
    for (uint64_t from = 0; (page = dmi_mapping_next(mapping, from)); from = page->index + 1) {
      struct dmi_out out;
      dmi_access_step_begin(page, &out);
      dmi_page_unpause(&access->core, page, &out);
      dmi_access_step_end(access, page, &out);
    }
    dmi_mapping_unref(&access->core, mapping);
  }
}

static void *body(void *arg) {
  struct dmi_lease *lease = arg;
  uint32_t is = 0, wanted;
  pthread_setname_np(pthread_self(), "dmi-lease");
  dmi_runtime_enter(lease->process);
  while (!((wanted = atomic_load(&lease->wanted)) & ENDS)) {
    if (wanted == is) {
      dmi_futex_wait(&lease->wanted, wanted);
      continue;
    }
    is = wanted;
    if (wanted & PAUSED) {
      pause_all(lease);
    } else {
      unpause_all(lease);
    }
  }
  return NULL;
}

struct dmi_lease *dmi_lease_new(struct dmi_process *process) {
  struct dmi_lease *lease = dmi_xalloc(1, sizeof(*lease));
  sigset_t all, before;
  bool started;
  lease->process = process;
  sigfillset(&all); /* signals are the daemon's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  started = pthread_create(&lease->thread, NULL, body, lease) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) return lease;
  free(lease);
  return NULL;
}

void dmi_lease_set(struct dmi_lease *lease, bool paused) {
  if (paused) {
    atomic_fetch_or(&lease->wanted, PAUSED);
  } else {
    atomic_fetch_and(&lease->wanted, ~PAUSED);
  }
  dmi_futex_wake(&lease->wanted, 1);
}

void dmi_lease_free(struct dmi_lease *lease) {
  if (!lease) return;
  atomic_fetch_or(&lease->wanted, ENDS);
  dmi_futex_wake(&lease->wanted, 1);
  pthread_join(lease->thread, NULL);
  free(lease);
}
