/*
 * farm_plan.c - see farm_plan.h.
 *
 * A thread gets as many tasks as it wants, but no more than half of its share of what is left: so
 * pieces shrink towards the end, and all threads end at about the same time.  The thread says how
 * many tasks take a few milliseconds; so tasks of any length cost few steps.
 */
#include "elastic/farm_plan.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"

uint64_t dmi_farm_table_size(uint32_t capacity) {
  return sizeof(struct dmi_farm_table) + capacity * sizeof(struct dmi_farm_range);
}

void dmi_farm_table_init(struct dmi_farm_table *table, uint32_t capacity, int64_t tasks) {
  memset(table, 0, dmi_farm_table_size(capacity));
  table->made = DMI_FARM_MADE;
  table->tasks = tasks;
  table->capacity = capacity;
  table->every = tasks / 100 + 1;
  table->note = table->every;
}

void dmi_farm_table_grow(struct dmi_farm_table *table, uint32_t capacity) {
  memset(&table->ranges[table->capacity], 0,
         (capacity - table->capacity) * sizeof(struct dmi_farm_range));
  table->capacity = capacity;
}

/* ---- Ranges --------------------------------------------------------------------------------- */

static bool is_free(const struct dmi_farm_range *range) {
  return !range->owner && range->num > 0;
}

static struct dmi_farm_range *unused(struct dmi_farm_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (!table->ranges[i].owner && !table->ranges[i].num) return &table->ranges[i];
  }
  return NULL;
}

/* Slots of a process; 0: of all. */
static uint32_t threads_of(const struct dmi_farm_table *table, dmi_farm_name_t process) {
  uint32_t num = 0;
  for (uint32_t i = 0; i < table->capacity; i++) {
    const struct dmi_farm_range *range = &table->ranges[i];
    num += range->owner && (!process || range->owner == process);
  }
  return num;
}

static void wake_all(struct dmi_farm_table *table) {
  table->wake++;
}

/* The slot is no slot any more: what is left of its range is free. */
static void give_back(struct dmi_farm_table *table, struct dmi_farm_range *slot) {
  slot->owner = 0;
  slot->stop = 0;
  if (slot->num > 0) wake_all(table);
}

/* ---- What a thread gets --------------------------------------------------------------------- */

/* How many tasks of `most` a thread gets. */
static int64_t piece(const struct dmi_farm_table *table, int64_t want, int64_t most) {
  int64_t left = table->tasks - table->next, share;
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (is_free(&table->ranges[i])) left += table->ranges[i].num;
  }
  share = left / (2 * (int64_t)threads_of(table, 0));
  if (share < 1) share = 1;
  if (want > share) want = share;
  if (want < 1) want = 1;
  return want < most ? want : most;
}

static void take_free(struct dmi_farm_table *table, struct dmi_farm_range *slot,
                      struct dmi_farm_range *from, int64_t want) {
  slot->num = piece(table, want, from->num);
  slot->begin = from->begin;
  slot->last = from->last;
  slot->tries = from->tries;
  from->begin += slot->num;
  from->num -= slot->num;
  if (!from->num) memset(from, 0, sizeof(*from));
}

/* A free range, if possible one that has not failed in the slot's process.  NULL: none. */
static struct dmi_farm_range *free_range(struct dmi_farm_table *table,
                                         const struct dmi_farm_range *slot, bool any) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_farm_range *range = &table->ranges[i];
    if (is_free(range) && (any || range->last != slot->owner)) return range;
  }
  return NULL;
}

/* The slot's range is empty.  False: there is nothing to give out. */
static bool take(struct dmi_farm_table *table, struct dmi_farm_range *slot, int64_t want) {
  struct dmi_farm_range *from = free_range(table, slot, false);
  if (!from && table->next == table->tasks) from = free_range(table, slot, true);
  slot->last = 0;
  slot->tries = 0;
  if (from) {
    take_free(table, slot, from, want);
    return true;
  }
  if (table->next == table->tasks) return false;
  slot->num = piece(table, want, table->tasks - table->next);
  slot->begin = table->next;
  table->next += slot->num;
  return true;
}

/* The thread has come back early, as its tasks take long: others may have what it does not want. */
static void trim(struct dmi_farm_table *table, struct dmi_farm_range *slot, int64_t want) {
  struct dmi_farm_range *rest;
  if (want < 1) want = 1;
  if (slot->num <= want || !(rest = unused(table))) return;
  *rest = (struct dmi_farm_range){.begin = slot->begin + want, .num = slot->num - want};
  slot->num = want;
  wake_all(table);
}

/* ---- The steps ------------------------------------------------------------------------------ */

static void count_done(struct dmi_farm_table *table, struct dmi_farm_range *slot,
                       const struct dmi_farm_step *step, struct dmi_farm_answer *answer) {
  slot->begin += step->done;
  slot->num -= step->done;
  table->done += step->done;
  table->failed += step->failed;
  if (!step->done) return;
  if (table->done >= table->note) {
    answer->notify = 1;
    table->note = table->done + table->every;
  }
  if (table->done == table->tasks) {
    answer->notify = 1;
    wake_all(table);
  }
}

/* The first task of the slot's range is free, to be tried again.  False: there is no place. */
static bool put_again(struct dmi_farm_table *table, struct dmi_farm_range *slot, int32_t tries) {
  struct dmi_farm_range *range = unused(table);
  if (!range) return false;
  *range = (struct dmi_farm_range){
      .begin = slot->begin, .num = 1, .last = slot->owner, .tries = tries + 1};
  slot->begin++;
  slot->num--;
  wake_all(table);
  return true;
}

static bool is_work(const struct dmi_farm_table *table, const struct dmi_farm_step *step) {
  const struct dmi_farm_range *slot;
  if (step->slot >= table->capacity) return false;
  slot = &table->ranges[step->slot];
  return slot->owner && slot->owner == step->process && step->done >= 0 && step->failed >= 0 &&
         step->failed <= step->done && step->done <= slot->num - (step->again != 0);
}

static enum dmi_farm_what work(struct dmi_farm_table *table, const struct dmi_farm_step *step,
                               struct dmi_farm_answer *answer) {
  struct dmi_farm_range *slot = &table->ranges[step->slot];
  bool here;
  if (!is_work(table, step)) return DMI_FARM_WRONG;
  count_done(table, slot, step, answer);
  here = step->again && !put_again(table, slot, step->tries);
  if (slot->stop || table->stop || step->ends || table->done == table->tasks) {
    give_back(table, slot);
    if (!threads_of(table, step->process)) answer->notify = 1;
    return DMI_FARM_END;
  }
  if (!slot->num && !take(table, slot, step->want)) return DMI_FARM_WAIT;
  if (!here) trim(table, slot, step->want);
  answer->begin = slot->begin;
  answer->num = slot->num;
  answer->tries = slot->tries;
  return here ? DMI_FARM_HERE : DMI_FARM_DO;
}

static enum dmi_farm_what new_slot(struct dmi_farm_table *table, const struct dmi_farm_step *step,
                                   struct dmi_farm_answer *answer) {
  struct dmi_farm_range *slot = unused(table);
  if (step->process <= 0) return DMI_FARM_WRONG;
  if (!slot) return DMI_FARM_FULL;
  slot->owner = step->process;
  answer->slot = (uint32_t)(slot - table->ranges);
  return DMI_FARM_DONE;
}

static enum dmi_farm_what stop(struct dmi_farm_table *table, const struct dmi_farm_step *step) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_farm_range *range = &table->ranges[i];
    if (range->owner && range->owner == step->process) range->stop = 1;
  }
  if (!step->process) table->stop = 1;
  wake_all(table);
  return DMI_FARM_DONE;
}

static enum dmi_farm_what lost(struct dmi_farm_table *table, const struct dmi_farm_step *step) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_farm_range *range = &table->ranges[i];
    if (range->owner && range->owner == step->process) give_back(table, range);
    if (range->last == step->process) range->last = 0;
  }
  return DMI_FARM_DONE;
}

static enum dmi_farm_what again(struct dmi_farm_table *table, const struct dmi_farm_step *step) {
  struct dmi_farm_range *range = unused(table);
  if (step->begin < 0 || step->num < 1 || step->num > table->done ||
      step->begin > table->tasks - step->num)
    return DMI_FARM_WRONG;
  if (!range) return DMI_FARM_FULL;
  *range = (struct dmi_farm_range){.begin = step->begin, .num = step->num};
  table->done -= step->num;
  table->note = table->done + table->every;
  wake_all(table);
  return DMI_FARM_DONE;
}

static enum dmi_farm_what run(struct dmi_farm_table *table, const struct dmi_farm_step *step,
                              struct dmi_farm_answer *answer) {
  switch ((enum dmi_farm_op)step->op) {
    case DMI_FARM_WORK:
      return work(table, step, answer);
    case DMI_FARM_SLOT:
      return new_slot(table, step, answer);
    case DMI_FARM_STOP:
      return stop(table, step);
    case DMI_FARM_LOST:
      return lost(table, step);
    case DMI_FARM_AGAIN:
      return again(table, step);
    case DMI_FARM_FAILED:
      if (step->failed < 0 || step->failed > table->done) return DMI_FARM_WRONG;
      table->failed = step->failed;
      return DMI_FARM_DONE;
    case DMI_FARM_ERROR:
      if (!table->error) table->error = step->error;
      table->stop = 1;
      wake_all(table);
      return DMI_FARM_DONE;
    case DMI_FARM_MOVE:
      table->moved = step->addr;
      wake_all(table);
      return DMI_FARM_DONE;
    case DMI_FARM_LOOK:
      return DMI_FARM_DONE;
  }
  return DMI_FARM_WRONG;
}

void dmi_farm_table_step(struct dmi_farm_table *table, uint64_t size,
                         const struct dmi_farm_step *step, struct dmi_farm_answer *answer) {
  memset(answer, 0, sizeof(*answer));
  answer->what = DMI_FARM_WRONG;
  if (size < sizeof(*table) || table->made != DMI_FARM_MADE || !table->capacity ||
      size != dmi_farm_table_size(table->capacity))
    return;
  answer->addr = table->moved;
  answer->what = table->moved ? DMI_FARM_MOVED : run(table, step, answer);
  answer->wake = table->wake;
  answer->done = table->done;
  answer->failed = table->failed;
  answer->error = table->error;
  answer->threads = threads_of(table, step->op == DMI_FARM_WORK ? 0 : step->process);
}
