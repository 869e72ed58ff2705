/*
 * farm_table.c - the table of a farm in global memory: made by the process that runs the farm,
 * which goes on owning it, as all others only have steps done there.
 *
 * A table that is too small for two slots of one more thread is replaced by one of twice the size.
 * The old one is closed by a step, which answers its bytes; who comes later is told where the new
 * one is, and waits until it has its bytes.
 */
#include "elastic/farm_int.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/save.h"
#include "access/status.h"
#include "base/error.h"
#include "node/calls.h"
#include "sync/sync.h"

#define FIRST_CAPACITY 16u
#define OVERWRITTEN "the bytes of a farm were overwritten"
#define TAG DMI_STEP_FARM

/* ---- At the owner --------------------------------------------------------------------------- */

/* The bytes of a table that is closed come behind the answer. */
void dmi_farm_table_rmw(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                        int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  struct dmi_farm_step step;
  struct dmi_farm_answer answer;
  (void)out2;
  (void)out2_size;
  if (tag != TAG || out1_size != sizeof(step) || in_size < (int64_t)sizeof(answer)) return;
  memcpy(&step, out1, sizeof(step));
  if (step.op == DMI_FARM_MOVE) {
    if (in_size != (int64_t)sizeof(answer) + size) return;
    memcpy((char *)in + sizeof(answer), page, (size_t)size);
  }
  dmi_farm_table_step(page, (uint64_t)size, &step, &answer);
  memcpy(in, &answer, sizeof(answer));
}

/* ---- Who asks ------------------------------------------------------------------------------- */

bool dmi_farm_pause(struct dmi_process *process) {
  const struct timespec pause = {.tv_nsec = 10000000};
  if (dmi_error_last() != DMI_ENOMEM || atomic_load(&process->access.core.stopping)) return false;
  nanosleep(&pause, NULL);
  return true;
}

int32_t dmi_farm_table_open(struct dmi_farm_at *at) {
  struct dmi_farm_table head;
  const uint64_t zero = 0;
  uint64_t made;
  for (;;) {
    if (!dmi_access_read(&at->process->access, at->addr, sizeof(head), &head, DMI_GET_READ, NULL)) {
      if (dmi_farm_pause(at->process)) continue;
      return DMI_FALSE;
    }
    if (head.made == DMI_FARM_MADE) break;
    if (!dmi_sync_watch(at->process->sync, at->addr, sizeof(made), &zero, &made, NULL))
      return DMI_FALSE;
  }
  at->size = dmi_farm_table_size(head.capacity);
  return DMI_TRUE;
}

static int32_t ask_once(const struct dmi_farm_at *at, const struct dmi_farm_step *step, void *in,
                        uint64_t in_size, DMI_local_status_t *status) {
  struct dmi_rmw_call call = {.rmw = DMI_RMW_USER,
                              .addr = at->addr,
                              .size = (int64_t)at->size,
                              .out1 = step,
                              .in = in,
                              .sizes = {sizeof(*step), 0, in_size},
                              .tag = TAG,
                              .mode = DMI_PUT_ATOMIC};
  return dmi_access_rmw(&at->process->access, &call, status);
}

void dmi_farm_table_begin(const struct dmi_farm_at *at, const struct dmi_farm_step *step,
                          struct dmi_farm_answer *answer, DMI_local_status_t *status) {
  (void)ask_once(at, step, answer, sizeof(*answer), status); /* the status tells if it fails */
}

int32_t dmi_farm_table_end(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                           struct dmi_farm_answer *answer, DMI_local_status_t *status) {
  const int32_t error = dmi_access_wait_for(
      &at->process->access, dmi_status_of(status),
      &(struct dmi_access_for){
          .what = DMI_DOING_PAGE, .addr = (uint64_t)at->addr, .size = at->size});
  if (error == DMI_OK && answer->what != 0 && answer->what != DMI_FARM_WRONG &&
      answer->what != DMI_FARM_MOVED)
    return DMI_TRUE;
  if (error != DMI_OK && error != DMI_ENOMEM) return dmi_fail(error);
  return dmi_farm_table_ask(at, step, answer); /* nothing was done */
}

int32_t dmi_farm_table_ask(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                           struct dmi_farm_answer *answer) {
  for (;;) {
    if (!ask_once(at, step, answer, sizeof(*answer), NULL)) {
      if (dmi_farm_pause(at->process)) continue;
      return DMI_FALSE;
    }
    if (answer->what == 0 || answer->what == DMI_FARM_WRONG)
      return dmi_fail(dmi_because(DMI_EINVAL, OVERWRITTEN));
    if (answer->what != DMI_FARM_MOVED) return DMI_TRUE;
    at->addr = answer->addr;
    if (!dmi_farm_table_open(at)) return DMI_FALSE;
  }
}

int32_t dmi_farm_table_insert(struct dmi_farm_at *at, const struct dmi_farm_step *step,
                              struct dmi_farm_answer *answer) {
  do {
    if (!dmi_farm_table_ask(at, step, answer)) return DMI_FALSE;
    if (answer->what == DMI_FARM_FULL && !dmi_farm_table_more(at)) return DMI_FALSE;
  } while (answer->what == DMI_FARM_FULL);
  return DMI_TRUE;
}

/* ---- Who runs the farm ---------------------------------------------------------------------- */

static int32_t map_table(struct dmi_farm_at *at, uint32_t capacity) {
  at->size = dmi_farm_table_size(capacity);
  if (!dmi_call_mmap(at->process, &at->addr, (int64_t)at->size, 1, NULL)) return DMI_FALSE;
  (void)dmi_save(&at->process->access, at->addr, (int64_t)at->size, true);
  return DMI_TRUE;
}

static int32_t write_table(const struct dmi_farm_at *at, const struct dmi_farm_table *table) {
  return dmi_access_write(&at->process->access, at->addr, (int64_t)at->size, table,
                          DMI_EXCLUSIVE_WRITE, NULL);
}

/* It cannot be used.  Keeps the error of the call before; DMI_FALSE. */
static int32_t unmap_table(const struct dmi_farm_at *at) {
  int32_t error = dmi_error_last();
  (void)dmi_call_munmap(at->process, at->addr, NULL);
  return dmi_fail(error);
}

int32_t dmi_farm_table_new(struct dmi_farm_at *at, int64_t tasks) {
  struct dmi_farm_table *table = malloc(dmi_farm_table_size(FIRST_CAPACITY));
  int32_t good;
  if (!table) return dmi_fail(DMI_ENOMEM);
  dmi_farm_table_init(table, FIRST_CAPACITY, tasks);
  good = map_table(at, FIRST_CAPACITY);
  if (good && !write_table(at, table)) good = unmap_table(at);
  free(table);
  return good;
}

void dmi_farm_table_free(struct dmi_process *process, int64_t addr) {
  while (addr) {
    struct dmi_farm_table head;
    if (!dmi_access_read(&process->access, addr, sizeof(head), &head, DMI_GET_READ, NULL))
      head.moved = 0;
    (void)dmi_call_munmap(process, addr, NULL);
    addr = head.moved;
  }
}

/* The step MOVE: `before` gets the answer, and the bytes of the table. */
static int32_t close_table(const struct dmi_farm_at *at, const struct dmi_farm_step *step,
                           char *before, uint32_t capacity) {
  struct dmi_farm_answer answer;
  struct dmi_farm_table head;
  if (!ask_once(at, step, before, sizeof(answer) + at->size, NULL)) return DMI_FALSE;
  memcpy(&answer, before, sizeof(answer));
  memcpy(&head, before + sizeof(answer), sizeof(head));
  if (answer.what == DMI_FARM_DONE && head.capacity == capacity) return DMI_TRUE;
  return dmi_fail(dmi_because(DMI_EINVAL, OVERWRITTEN));
}

static uint32_t capacity_of(const struct dmi_farm_at *at) {
  return (uint32_t)((at->size - sizeof(struct dmi_farm_table)) / sizeof(struct dmi_farm_range));
}

int32_t dmi_farm_table_more(struct dmi_farm_at *at) {
  struct dmi_farm_at more = *at;
  struct dmi_farm_step step = {.op = DMI_FARM_MOVE};
  const uint64_t answer_size = sizeof(struct dmi_farm_answer);
  const uint32_t capacity = capacity_of(at);
  char *before = malloc(answer_size + at->size);
  struct dmi_farm_table *table = calloc(1, dmi_farm_table_size(2 * capacity));
  int32_t good = before && table ? DMI_TRUE : dmi_fail(DMI_ENOMEM);
  /* Zeros first: when the old one is closed the new one must not lack memory. */
  if (good) good = map_table(&more, 2 * capacity);
  step.addr = more.addr;
  if (good && !(write_table(&more, table) && close_table(at, &step, before, capacity)))
    good = unmap_table(&more);
  if (good) {
    memcpy(table, before + answer_size, at->size);
    dmi_farm_table_grow(table, 2 * capacity);
    good = write_table(&more, table);
    *at = more;
  }
  free(before);
  free(table);
  return good;
}

void dmi_farm_table_reserve(struct dmi_farm_at *at, uint32_t num) {
  while (capacity_of(at) < num && dmi_farm_table_more(at))
    ;
}
