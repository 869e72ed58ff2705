/*
 * pager.c - the thread that keeps the pool within its limit, and what others tell it.
 *
 * The happy path: the pool rises above its mark and wakes the thread; a sweep drops copies and
 * offers pages to members of which it is known that they have room; it sleeps until some of them
 * are gone.  A write that stalls gets the first room there is.
 *
 * Failure modes: nobody is known to have room: the members are asked, and the thread sleeps until
 * they answer.  None has any: pages are spilled, if there is a file for it, else the writes that
 * stall fail with DMI_ENOMEM; the thread sleeps until somebody says that there is room again.
 *
 * It never sleeps for a time: each reason to go on is an event, and every event is counted, so that
 * none is missed between looking and sleeping.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/pager.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "mem/spill.h"
#include "node/pager_int.h"
#include "node/runtime.h"

/* ---- The account, for the core -------------------------------------------------------------- */

/* `arg` is the process. */
static struct dmi_pool *pool_of(void *arg) {
  return ((struct dmi_process *)arg)->pager->pool;
}

static bool room_reserve(void *arg, uint64_t bytes, bool force) {
  return dmi_pool_reserve(pool_of(arg), bytes, force);
}

static void room_release(void *arg, uint64_t bytes) {
  dmi_pool_release(pool_of(arg), bytes);
}

static void room_attach(void *arg, struct dmi_frame *frame, bool reserved) {
  dmi_pool_attach(pool_of(arg), frame, reserved);
}

/* A frame counts until it is freed, whoever holds it. */
static void room_detach(void *arg, struct dmi_frame *frame) {
  dmi_pool_detach(pool_of(arg), frame);
}

static void room_copies(void *arg, int64_t more) {
  dmi_pool_copies(pool_of(arg), more);
}

static void room_unspilled(void *arg, struct dmi_page *page) {
  dmi_spill_drop(((struct dmi_process *)arg)->pager->file, page);
}

const struct dmi_room dmi_pager_room = {
    room_reserve, room_release, room_attach, room_detach, room_copies, room_unspilled,
};

/* ---- Marks ---------------------------------------------------------------------------------- */

static uint64_t mark(const struct dmi_pager *pager, unsigned share) {
  uint64_t bytes = dmi_pool_limit(pager->pool) / share, page = dmi_pool_refused(pager->pool);
  uint64_t most = dmi_pool_limit(pager->pool) / 2;
  if (page > bytes) bytes = page;
  return bytes > most ? most : bytes;
}

uint64_t dmi_pager_low(const struct dmi_pager *pager) {
  return mark(pager, 16);
}

uint64_t dmi_pager_high(const struct dmi_pager *pager) {
  return mark(pager, 8);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

void dmi_held_add(struct dmi_held_pages *list, struct dmi_page *page, uint32_t to) {
  DMI_XALLOC_GROW(list->at, list->num, list->room);
  list->at[list->num++] = (struct dmi_held_page){page, to};
}

/* Takes out the first `num`; their references are the caller's. */
static void take_first(struct dmi_held_pages *list, uint64_t num) {
  if (!num) return;
  list->num -= num;
  memmove(list->at, list->at + num, list->num * sizeof(*list->at));
}

static void forget(struct dmi_pager *pager, struct dmi_held_pages *list) {
  for (uint64_t i = 0; i < list->num; i++)
    dmi_mapping_unref(&pager->process->access.core, (struct dmi_mapping *)list->at[i].page->map);
  free(list->at);
  memset(list, 0, sizeof(*list));
}

/* ---- Pages that stall ----------------------------------------------------------------------- */

bool dmi_pager_put_back(struct dmi_pager *pager, struct dmi_page *page, struct dmi_frame *frame) {
  struct dmi_process *process = pager->process;
  struct dmi_out out;
  bool back;
  dmi_access_step_begin(page, &out);
  back = dmi_page_unspill(&process->access.core, page, frame, &out);
  dmi_access_step_end(&process->access, page, &out);
  if (back) return true;
  dmi_pool_release(pager->pool, frame->size); /* overwritten meanwhile */
  dmi_frame_unref(frame);
  return false;
}

/* Its bytes come back from the file, into room that is reserved. */
static void unspill(struct dmi_pager *pager, struct dmi_page *page) {
  uint64_t size = page->map->page_size;
  struct dmi_frame *frame = dmi_frame_new(size);
  if (!frame) abort();
  if (!dmi_spill_get(pager->file, page, frame->bytes, size)) {
    bool lost;
    dmi_lock(&page->lock, DMI_RANK_PAGE);
    lost = (page->flags & DMI_PAGE_SPILLED) && !(page->flags & DMI_PAGE_DEAD);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    if (lost) { /* nobody else has these bytes */
      dmi_say(DMI_LOG_ERROR, "memory",
              "cannot read the file for spilled pages (dmirun --spill %s): %s",
              pager->process->config.spill_dir, strerror(errno));
      _exit(1);
    }
  }
  if (dmi_pager_put_back(pager, page, frame)) dmi_spill_drop(pager->file, page);
}

/* With room reserved for it: the page goes on. */
static void go_on(struct dmi_pager *pager, struct dmi_page *page, int error) {
  struct dmi_process *process = pager->process;
  struct dmi_out out;
  bool took, spilled;
  dmi_access_step_begin(page, &out);
  took = dmi_page_room(&process->access.core, page, error, &out);
  spilled = (page->flags & (DMI_PAGE_STALLED | DMI_PAGE_SPILLED)) ==
            (DMI_PAGE_STALLED | DMI_PAGE_SPILLED);
  dmi_access_step_end(&process->access, page, &out);
  if (took || error != DMI_OK) return;
  if (spilled) {
    unspill(pager, page);
  } else {
    dmi_pool_release(pager->pool, page->map->page_size);
  }
}

static bool stalls(struct dmi_page *page) {
  bool yes;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  yes = (page->flags & DMI_PAGE_STALLED) && !(page->flags & DMI_PAGE_DEAD);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return yes;
}

/* Room for those that wait, in their order, as far as it goes.  Returns the size of the first for
 * which there is none; 0: nobody waits. */
static uint64_t serve_stalled(struct dmi_pager *pager) {
  uint64_t done, without = 0;
  dmi_mutex_lock(&pager->lock);
  for (uint64_t i = 0; i < pager->stalled.num; i++)
    dmi_held_add(&pager->waiting, pager->stalled.at[i].page, 0);
  pager->stalled.num = 0;
  dmi_mutex_unlock(&pager->lock);
  for (done = 0; done < pager->waiting.num; done++) {
    struct dmi_page *page = pager->waiting.at[done].page;
    bool leaver = atomic_load(&pager->process->access.core.heir) != 0;
    uint64_t size = page->map->page_size;
    if (stalls(page)) {
      if (!dmi_pool_reserve_first(pager->pool, size) &&
          !(leaver && dmi_pool_reserve(pager->pool, size, true))) {
        without = size;
        break;
      }
      pager->patience = 0;
      go_on(pager, page, DMI_OK);
    }
    dmi_mapping_unref(&pager->process->access.core, (struct dmi_mapping *)page->map);
  }
  take_first(&pager->waiting, done);
  if (without) return without;
  dmi_mutex_lock(&pager->lock);
  dmi_pool_close(pager->pool, pager->stalled.num != 0); /* some may have stalled again */
  dmi_mutex_unlock(&pager->lock);
  return 0;
}

/* There is no room for the first of those that wait, nowhere. */
static void fail_first(struct dmi_pager *pager) {
  struct dmi_page *page = pager->waiting.at[0].page;
  bool spilled;
  take_first(&pager->waiting, 1);
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  spilled = (page->flags & DMI_PAGE_SPILLED) != 0;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (spilled) { /* what is on the disk is not lost: it comes back, whatever the limit says */
    dmi_pool_reserve(pager->pool, page->map->page_size, true);
    go_on(pager, page, DMI_OK);
  } else {
    go_on(pager, page, DMI_ENOMEM);
  }
  dmi_mapping_unref(&pager->process->access.core, (struct dmi_mapping *)page->map);
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* How many bytes are to leave; `stalled`: the size of a page that waits for room. */
static uint64_t to_leave(const struct dmi_pager *pager, uint64_t stalled) {
  uint64_t used = dmi_pool_used(pager->pool), limit = dmi_pool_limit(pager->pool), need = 0;
  if (used > limit - dmi_pager_low(pager)) need = used - (limit - dmi_pager_high(pager));
  if (stalled && stalled <= limit && used + stalled - limit > need && used + stalled > limit)
    need = used + stalled - limit;
  return need > pager->offered_bytes ? need - pager->offered_bytes : 0;
}

/* Asks the members, for pages of `unit` bytes. */
static enum dmi_room_have ask_members(struct dmi_pager *pager, uint64_t bytes, uint64_t unit,
                                      enum dmi_room_kind kind) {
  enum dmi_room_have have;
  struct dmi_room_out out;
  dmi_pager_rooms_begin(pager, &out);
  have = dmi_room_need(pager->rooms, bytes, unit, kind, &out);
  dmi_pager_rooms_end(pager, &out);
  return have;
}

/* May there be room without that anybody gives up any?  Not for ever: what is passing at first
 * ends, and more of it may come and go behind that.  Who has a file does not wait: others may wait
 * for what is in it. */
static bool room_comes(struct dmi_pager *pager, uint64_t stalled) {
  uint64_t passing, turned, promised;
  if (pager->file) return false;
  dmi_mutex_lock(&pager->lock);
  promised = dmi_room_promised(pager->rooms);
  dmi_mutex_unlock(&pager->lock);
  passing = dmi_pool_passing(pager->pool);
  turned = dmi_pool_turned(pager->pool);
  if (!pager->patience) pager->patience = turned + passing + stalled;
  return turned < pager->patience && (passing > promised || turned != pager->turned);
}

/* Nothing can leave as things are.  True: something has changed. */
static bool find_room(struct dmi_pager *pager, uint64_t need, uint64_t stalled) {
  enum dmi_room_kind kind = stalled ? DMI_ROOM_URGENT : DMI_ROOM_AHEAD;
  bool itself = stalled && (!pager->nowhere || stalled < pager->nowhere), busy = pager->busy_seen;
  uint64_t unit = itself ? stalled : pager->nowhere;
  if (!unit) return false;
  switch (ask_members(pager, need, unit, kind)) {
    case DMI_ROOM_ASKED:
      return false;
    case DMI_ROOM_SOME: /* since the sweep; or for the page that waits, but for no other */
      if (!itself || dmi_pager_offer_stalled(pager, pager->waiting.at[0].page)) return true;
      break;
    default:
      break;
  }
  if (pager->file && dmi_pager_sweep(pager, need, DMI_CLASS_SOLE, kind, true)) return true;
  if (!stalled) return false;
  if (busy ||
      pager->busy_seen) /* a page that could leave is only busy: look again when it is not */
    return !atomic_exchange(&pager->process->access.pager_curious, 1);
  if (room_comes(pager, stalled)) return dmi_pool_turned(pager->pool) != pager->turned;
  pager->patience = 0;
  fail_first(pager);
  return true;
}

/* One look at everything.  True: there may be more to do at once. */
static bool look_round(struct dmi_pager *pager) {
  uint64_t stalled, need, made;
  pager->curious = false;
  dmi_pager_settle(pager);
  stalled = serve_stalled(pager);
  dmi_pager_answer(pager);
  if (pager->curious && !atomic_exchange(&pager->process->access.pager_curious, 1)) return true;
  if (atomic_load(&pager->process->access.core.heir)) return false;
  need = to_leave(pager, stalled);
  if (!need && !stalled) return false;
  made = need ? dmi_pager_sweep(pager, need, DMI_CLASS_SOLE,
                                stalled ? DMI_ROOM_URGENT : DMI_ROOM_AHEAD, false)
              : 0;
  if (need && made >= need)
    return stalled && dmi_pool_used(pager->pool) + stalled <= dmi_pool_limit(pager->pool);
  if (made) return true;
  if (pager->offered.num) return false; /* until some are gone */
  return find_room(pager, need ? need : stalled, stalled);
}

/* When the pool is to call: if it rises above the mark, or falls so far that somebody can go on.
 * False: it is there already. */
static bool watch(struct dmi_pager *pager) {
  uint64_t limit = dmi_pool_limit(pager->pool), high = limit - dmi_pager_high(pager);
  uint64_t rise = limit - dmi_pager_low(pager), fall = 0, used = dmi_pool_used(pager->pool), ahead,
           urgent;
  dmi_mutex_lock(&pager->lock);
  ahead = dmi_pager_can_give(pager) ? dmi_room_owed(pager->rooms, DMI_ROOM_AHEAD) : 0;
  urgent = dmi_pager_can_give(pager) ? dmi_room_owed(pager->rooms, DMI_ROOM_URGENT) : 0;
  dmi_mutex_unlock(&pager->lock);
  if (ahead && ahead <= high) fall = high - ahead + 1;
  if (urgent && urgent <= limit && limit - urgent + 1 > fall) fall = limit - urgent + 1;
  if (used > rise) { /* and nothing can be done now */
    if (rise > fall) fall = rise;
    rise = UINT64_MAX;
  }
  if (pager->waiting.num || pager->offered.num) {
    fall = used;
    if (dmi_pool_turned(pager->pool) != pager->turned) return false; /* since it looked */
  }
  dmi_pool_watch(pager->pool, rise, fall);
  used = dmi_pool_used(pager->pool);
  return used <= rise && used >= fall;
}

static void *body(void *arg) {
  struct dmi_pager *pager = arg;
  pthread_setname_np(pthread_self(), "dmi-pager");
  while (!atomic_load(&pager->stop)) {
    uint32_t seen = atomic_load(&pager->events);
    atomic_store(&pager->process->access.pager_expects, 1);
    pager->turned = dmi_pool_turned(pager->pool);
    if (look_round(pager) || !watch(pager)) continue;
    if (!pager->waiting.num && !pager->offered.num)
      atomic_store(&pager->process->access.pager_expects, 0);
    atomic_store(&pager->sleeping, 1);
    while (atomic_load(&pager->events) == seen)
      dmi_futex_wait(&pager->events, seen);
    atomic_store(&pager->sleeping, 0);
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
  dmi_mutex_lock(&pager->lock);
  dmi_held_add(&pager->stalled, page, 0);
  dmi_pool_close(pager->pool, true);
  dmi_mutex_unlock(&pager->lock);
  dmi_pager_wake(pager);
}

void dmi_pager_kept(struct dmi_pager *pager, uint32_t from) {
  dmi_mutex_lock(&pager->lock);
  dmi_room_kept(pager->rooms, from);
  dmi_mutex_unlock(&pager->lock);
  dmi_pager_wake(pager);
}

void dmi_pager_open(struct dmi_pager *pager) {
  dmi_mutex_lock(&pager->lock);
  pager->open = true;
  dmi_mutex_unlock(&pager->lock);
  dmi_pager_wake(pager);
}

/* ---- Start and end -------------------------------------------------------------------------- */

struct dmi_pager *dmi_pager_new(struct dmi_process *process) {
  struct dmi_pager *pager = calloc(1, sizeof(*pager));
  const char *dir = process->config.spill_dir;
  if (!pager) abort();
  if (dir && !(pager->file = dmi_spill_open(dir))) {
    dmi_say(DMI_LOG_ERROR, "memory", "cannot make a file in %s (dmirun --spill): %s", dir,
            strerror(errno));
    free(pager);
    return NULL;
  }
  pager->process = process;
  pager->rooms = dmi_rooms_new();
  if (pager->file) dmi_rooms_spill(pager->rooms);
  dmi_mutex_init(&pager->lock, DMI_RANK_PAGER);
  pager->pool = dmi_pool_new(process->config.pool_bytes, pool_wakes, pager);
  if (!pager->pool) abort();
  return pager;
}

bool dmi_pager_start(struct dmi_pager *pager) {
  pager->started = pthread_create(&pager->thread, NULL, body, pager) == 0;
  return pager->started;
}

void dmi_pager_stop(struct dmi_pager *pager) {
  if (!pager || !pager->started) return;
  atomic_store(&pager->stop, 1);
  dmi_pager_wake(pager);
  pthread_join(pager->thread, NULL);
  pager->started = false;
  forget(pager, &pager->waiting);
  forget(pager, &pager->stalled);
  forget(pager, &pager->offered);
}

void dmi_pager_free(struct dmi_pager *pager) {
  if (!pager) return;
  dmi_pool_free(pager->pool);
  dmi_spill_close(pager->file);
  dmi_rooms_free(pager->rooms);
  free(pager->map);
  dmi_mutex_destroy(&pager->lock);
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
