/*
 * pager.c - the thread that keeps the pool within its limit: it carries out, one after the other,
 * what core/pressure.h decides, and sleeps when there is nothing to do.
 *
 * The happy path: the use of the pool rises above its mark and wakes the thread.  A sweep drops
 * copies and offers pages to members that are known to have free memory, and the thread sleeps
 * until some of these pages have left.  Stalled writes get freed memory first.
 *
 * Failure modes: if no member is known to have free memory, the members are asked, and the thread
 * sleeps until they answer.  If none has any, pages are spilled, if there is a file for it; else
 * stalled writes fail with DMI_ENOMEM.  Then the thread sleeps until a member reports free memory.
 *
 * It never sleeps for a given time.  Each reason to go on is an event, and events are counted, so
 * that none is missed between the last look and the sleep.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/pager.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "base/xalloc.h"
#include "core/node.h"
#include "mem/spill.h"
#include "node/pager_int.h"
#include "node/runtime.h"

#define AHEAD ((uint64_t)16 << 20) /* bytes of memory that are touched ahead of pages that come */

/* ---- The pool's account, for the core ------------------------------------------------------- */

/* `arg` is the process. */
static struct dmi_pool *pool_of(void *arg) {
  return ((struct dmi_process *)arg)->pager->pool;
}

static bool capacity_reserve(void *arg, uint64_t bytes, bool force) {
  return dmi_pool_reserve(pool_of(arg), bytes, force);
}

static void capacity_release(void *arg, uint64_t bytes) {
  dmi_pool_release(pool_of(arg), bytes);
}

static void capacity_attach(void *arg, struct dmi_frame *frame, bool reserved) {
  dmi_pool_attach(pool_of(arg), frame, reserved);
}

/* A frame is counted until it is freed, whoever holds it. */
static void capacity_detach(void *arg, struct dmi_frame *frame) {
  dmi_pool_detach(pool_of(arg), frame);
}

static void capacity_copies(void *arg, int64_t more) {
  dmi_pool_copies(pool_of(arg), more);
}

static void capacity_unspilled(void *arg, struct dmi_page *page) {
  dmi_spill_drop(((struct dmi_process *)arg)->pager->file, page);
}

const struct dmi_account dmi_pager_account = {
    capacity_reserve, capacity_release, capacity_attach,
    capacity_detach,  capacity_copies,  capacity_unspilled,
};

/* ---- The thread ----------------------------------------------------------------------------- */

static void let_go(void *arg, struct dmi_page *page) {
  struct dmi_pager *pager = arg;
  dmi_mapping_unref(&pager->process->access.core, (struct dmi_mapping *)page->map);
}

/* While pages of a leaver arrive: touches memory for the next ones, which costs the daemon more
 * than receiving them.  False: there is nothing to do. */
static bool touch_ahead(struct dmi_pager *pager) {
  const uint64_t size = atomic_load(&pager->coming);
  uint64_t bytes;
  if (size == 0) return false;
  bytes = dmi_pressure_promised(pager->pressure);
  return dmi_large_ahead(size, bytes < AHEAD ? bytes : AHEAD);
}

/* With `sleep`, waits for an event.  Later events are noticed by the next sleep. */
static void rest(struct dmi_pager *pager, const struct dmi_pressure_action *action) {
  struct dmi_process *process = pager->process;
  if (action->sleep) {
    if (!action->expects) atomic_store(&process->access.pager_expects, 0);
    while (atomic_load(&pager->events) == pager->seen && touch_ahead(pager))
      continue;
    atomic_store(&pager->sleeping, 1);
    while (atomic_load(&pager->events) == pager->seen)
      dmi_futex_wait(&pager->events, pager->seen);
    atomic_store(&pager->sleeping, 0);
  }
  pager->seen = atomic_load(&pager->events);
  atomic_store(&process->access.pager_expects, 1);
}

/* Tells what became of an offered page. */
static enum dmi_pressure_fate settle(struct dmi_pager *pager, struct dmi_page *page) {
  enum dmi_pressure_fate fate;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  fate = dmi_pressure_offered(page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (fate == DMI_PRESSURE_SENT) atomic_fetch_add_explicit(&pager->sent, 1, memory_order_relaxed);
  return fate;
}

static enum dmi_pressure_fate check(struct dmi_page *page) {
  enum dmi_pressure_fate fate;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  fate = dmi_pressure_stalls(page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return fate;
}

/* Lets a stalled page go on with the memory that is reserved for it, or fail. */
static void admit(struct dmi_pager *pager, struct dmi_page *page, int error) {
  struct dmi_out out;
  bool spilled;
  dmi_access_step_begin(page, &out);
  spilled = dmi_pressure_admit(pager->pressure, page, error, &out);
  dmi_access_step_end(&pager->process->access, page, &out);
  if (spilled) dmi_pager_unspill(pager, page);
}

static void carry_out(struct dmi_pager *pager, const struct dmi_pressure_action *action,
                      struct dmi_pressure_result *result) {
  switch (action->type) {
    case DMI_PRESSURE_REST:
      rest(pager, action);
      break;
    case DMI_PRESSURE_SETTLE:
      result->fate = settle(pager, action->page);
      break;
    case DMI_PRESSURE_CHECK:
      result->fate = check(action->page);
      break;
    case DMI_PRESSURE_ADMIT:
      admit(pager, action->page, action->error);
      break;
    case DMI_PRESSURE_SWEEP:
      result->bytes = dmi_pager_sweep(pager);
      break;
    case DMI_PRESSURE_OFFER:
      result->offer = dmi_pager_offer(pager, action->page);
      break;
    default: /* ARM */
      result->yes = !atomic_exchange(&pager->process->access.pager_watches_steps, 1);
  }
}

/* What the members are asked, or told. */
static void say(struct dmi_process *process, struct dmi_capacity_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    struct dmi_msg msg = out->send[i].msg;
    msg.origin = process->access.core.self;
    dmi_runtime_send(process, out->send[i].to, &msg);
  }
  dmi_capacity_out_free(out);
}

static void *body(void *arg) {
  struct dmi_pager *pager = arg;
  struct dmi_pressure_action action = {.type = DMI_PRESSURE_REST};
  dmi_runtime_enter(pager->process);
  while (action.type != DMI_PRESSURE_REST || !atomic_load(&pager->stop)) {
    struct dmi_pressure_result result = {0};
    struct dmi_capacity_out out;
    carry_out(pager, &action, &result);
    dmi_capacity_out_init(&out);
    dmi_pressure_next(pager->pressure, &result, &action, &out);
    say(pager->process, &out);
    if (action.release) let_go(pager, action.release);
  }
  return NULL;
}

/* ---- Events --------------------------------------------------------------------------------- */

void dmi_pager_wake(struct dmi_pager *pager) {
  atomic_fetch_add(&pager->events, 1);
  if (atomic_load(&pager->sleeping)) dmi_futex_wake(&pager->events, 1);
}

static void pool_wakes(void *pager) {
  dmi_pager_wake(pager);
}

void dmi_pager_stalled(struct dmi_pager *pager, struct dmi_page *page) {
  if (!dmi_mapping_ref((struct dmi_mapping *)page->map)) return;
  if (dmi_pressure_stalled(pager->pressure, page)) {
    dmi_pager_wake(pager);
  } else {
    let_go(pager, page); /* the process ends: nobody waits for this */
  }
}

void dmi_pager_taken(struct dmi_pager *pager, uint64_t bytes) {
  atomic_fetch_add_explicit(&pager->taken, 1, memory_order_relaxed);
  if (bytes == 0) return;
  atomic_store(&pager->coming, bytes);
  dmi_pager_wake(pager);
}

/* ---- For core/node.h ------------------------------------------------------------------------ */

struct dmi_pressure *dmi_pager_pressure(const struct dmi_pager *pager) {
  return pager->pressure;
}

/* ---- Start and end -------------------------------------------------------------------------- */

struct dmi_pager *dmi_pager_new(struct dmi_process *process) {
  struct dmi_pager *pager = calloc(1, sizeof(*pager));
  const char *dir = process->config.spill_dir;
  if (!pager) abort();
  if (dir && !(pager->file = dmi_spill_open(dir))) {
    dmi_say(&process->stream, DMI_LOG_ERROR, "memory",
            "cannot make a file in %s (dmirun --spill): %s", dir, strerror(errno));
    process->exit_code = DMI_EXIT_OPTION;
    free(pager);
    return NULL;
  }
  pager->process = process;
  pager->pool = dmi_pool_new(process->config.pool_bytes, pool_wakes, pager);
  if (!pager->pool) abort();
  pager->pressure = dmi_pressure_new(&process->access.core, pager->pool, pager->file != NULL);
  return pager;
}

bool dmi_pager_start(struct dmi_pager *pager) {
  pager->started = pthread_create(&pager->thread, NULL, body, pager) == 0;
  if (pager->started) pthread_setname_np(pager->thread, "dmi-pager");
  return pager->started;
}

void dmi_pager_stop(struct dmi_pager *pager) {
  if (!pager) return;
  if (pager->started) {
    atomic_store(&pager->stop, 1);
    dmi_pager_wake(pager);
    pthread_join(pager->thread, NULL);
    pager->started = false;
  }
  dmi_pressure_close(pager->pressure, let_go, pager); /* threads may still be in a step */
}

void dmi_pager_free(struct dmi_pager *pager) {
  if (!pager) return;
  dmi_pressure_free(pager->pressure, let_go, pager);
  dmi_pool_free(pager->pool);
  dmi_spill_close(pager->file);
  free(pager->map);
  free(pager);
}

void dmi_pager_counts(const struct dmi_pager *pager, struct dmi_pager_counts *counts) {
  counts->sent = atomic_load(&pager->sent);
  counts->taken = atomic_load(&pager->taken);
  counts->dropped = atomic_load(&pager->dropped);
  counts->spilled = pager->file ? dmi_spill_bytes(pager->file) : 0;
  counts->limit = dmi_pool_limit(pager->pool);
  counts->used = dmi_pool_used(pager->pool);
  counts->peak = dmi_pool_peak(pager->pool);
  counts->copies = dmi_pool_copy_bytes(pager->pool);
}
