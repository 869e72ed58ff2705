/*
 * table.c - see table.h.
 */
#include "team/table.h"

#include <string.h>

#include "dmi_api.h"

static bool is_valid(const struct dmi_team_table *table, uint64_t bytes) {
  if (bytes < sizeof(*table) || table->made != DMI_TEAM_MADE) return false;
  if (table->capacity > DMI_TEAM_RANKS_MOST) return false;
  if (dmi_team_table_size(table->capacity) != bytes) return false;
  return table->size >= 0 && table->wanted > 0 && (uint32_t)table->size <= table->capacity &&
         (uint32_t)table->wanted <= table->capacity;
}

static bool is_rank(const struct dmi_team_table *table, uint32_t i) {
  return i < (uint32_t)table->wanted;
}

static bool stays(const struct dmi_team_table *table, uint32_t i) {
  const struct dmi_team_slot *slot = &table->slots[i];
  return slot->member && slot->arrived != DMI_TEAM_LEAVES && is_rank(table, i);
}

/* The next epoch needs a thread for each rank, also for one that leaves before. */
static void await_all(struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++)
    table->slots[i].awaited = is_rank(table, i);
}

void dmi_team_table_init(struct dmi_team_table *table, uint64_t team, int32_t size,
                         uint32_t capacity) {
  memset(table, 0, dmi_team_table_size(capacity));
  table->made = DMI_TEAM_MADE;
  table->team = team;
  table->wanted = size;
  table->capacity = capacity;
  await_all(table);
}

void dmi_team_table_grow(struct dmi_team_table *table, const struct dmi_team_answer *answer,
                         const struct dmi_team_slot *slots, uint32_t capacity) {
  dmi_team_table_init(table, answer->team, answer->wanted, capacity);
  table->epoch = answer->epoch;
  table->steps = answer->steps;
  table->size = answer->size;
  memcpy(table->slots, slots, answer->capacity * sizeof(slots[0]));
}

/* Who waits for the next epoch with this rank. */
static bool joins(const struct dmi_team_table *table, uint32_t i) {
  return table->slots[i].next && table->slots[i].ready && is_rank(table, i);
}

bool dmi_team_all_arrived(const struct dmi_team_slot *slots, uint32_t capacity) {
  for (uint32_t i = 0; i < capacity; i++) {
    if (slots[i].member && !slots[i].arrived) return false;
  }
  return true;
}

static bool is_member(const struct dmi_team_answer *answer, const struct dmi_team_slot *slots,
                      uint32_t process, int32_t rank) {
  return rank < answer->size && slots[rank].member == process;
}

/* Also an epoch that has begun before the rank could be given back is its own: the others count on
 * it. */
int32_t dmi_team_joins_as(const struct dmi_team_answer *answer, const struct dmi_team_slot *slots,
                          uint32_t process, int32_t rank, uint64_t before) {
  if (slots[rank].next == process) return rank < answer->wanted ? DMI_EBUSY : DMI_EINVAL;
  if (answer->epoch > before && is_member(answer, slots, process, rank)) return DMI_OK;
  return DMI_ELOST;
}

/* An epoch behind the next one is not its own: it was cut off from the next, and another thread of
 * this process has the rank since. */
int32_t dmi_team_goes_on_as(const struct dmi_team_answer *answer, const struct dmi_team_slot *slots,
                            uint32_t process, int32_t rank, uint64_t epoch) {
  if (answer->epoch == epoch) return DMI_EBUSY;
  if (answer->epoch == epoch + 1 && is_member(answer, slots, process, rank)) return DMI_OK;
  return DMI_EINVAL;
}

static bool all_arrived(const struct dmi_team_table *table, const struct dmi_team_step *step) {
#ifdef DMI_MUTATIONS
  if (step->zero == DMI_TEAM_STEP_HASTY) return true;
#endif
  (void)step;
  return dmi_team_all_arrived(table->slots, table->capacity);
}

/* T7: each rank that is awaited has a thread. */
static bool is_complete(const struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (table->slots[i].awaited && !stays(table, i) && !joins(table, i)) return false;
  }
  return true;
}

static bool any_stays(const struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (stays(table, i)) return true;
  }
  return false;
}

static bool any_change(const struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    const struct dmi_team_slot *slot = &table->slots[i];
    if (slot->member || (slot->next && slot->ready)) return true;
  }
  return table->size > 0;
}

/* While some rank is awaited nothing begins; but when all members leave they need not wait for it:
 * then the team is as it was at first, and who joins goes on waiting. */
static bool begin(struct dmi_team_table *table, const struct dmi_team_step *step) {
  const bool complete = is_complete(table);
  bool any = false;
  if (!any_change(table) || !all_arrived(table, step)) return false;
  if (!complete && (table->size == 0 || any_stays(table))) return false;
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_team_slot *slot = &table->slots[i];
    slot->was = slot->member;
    if (!stays(table, i)) {
      bool comes = complete && joins(table, i);
      slot->member = comes ? slot->next : 0;
      if (comes) slot->next = slot->ready = 0;
    }
    slot->arrived = DMI_TEAM_NOT_ARRIVED;
    slot->awaited = 0;
    if (slot->member) any = true;
  }
  table->size = any ? table->wanted : 0;
  if (!any) await_all(table);
  table->epoch++;
  return true;
}

/* May a thread join with this rank? */
static bool is_free(const struct dmi_team_table *table, uint32_t i) {
  return !stays(table, i) && !table->slots[i].next;
}

/* A rank that nobody has or leaves; of these first one that is awaited. */
static int32_t find_free(const struct dmi_team_table *table) {
  int32_t hole = -1;
  for (uint32_t i = 0; is_rank(table, i); i++) {
    if (!is_free(table, i)) continue;
    if (table->slots[i].awaited) return (int32_t)i;
    if (hole < 0) hole = (int32_t)i;
  }
  return hole;
}

static int32_t join(struct dmi_team_table *table, const struct dmi_team_step *step, int32_t *rank) {
  *rank = step->rank;
  if (*rank >= table->wanted || *rank < -1) return DMI_EINVAL;
  if (*rank < 0) *rank = find_free(table);
  if (*rank < 0 || !is_free(table, (uint32_t)*rank)) return DMI_EBUSY;
  table->slots[*rank].next = step->process;
  table->slots[*rank].ready = 0;
  return DMI_OK;
}

static int32_t arrive(struct dmi_team_table *table, const struct dmi_team_step *step) {
  struct dmi_team_slot *slot;
  if (step->rank < 0 || (uint32_t)step->rank >= table->capacity) return DMI_EINVAL;
  slot = &table->slots[step->rank];
  if (step->arrived == DMI_TEAM_NOT_ARRIVED) {
    if (slot->next != step->process) return DMI_ELOST;
    slot->ready = 1;
    return DMI_OK;
  }
  if (step->epoch != table->epoch) return DMI_OK; /* it is over already */
  if (slot->member != step->process) return DMI_ELOST;
  slot->arrived = (uint8_t)step->arrived;
  return DMI_OK;
}

static int32_t unjoin(struct dmi_team_table *table, const struct dmi_team_step *step) {
  if (step->rank < 0 || (uint32_t)step->rank >= table->capacity) return DMI_EINVAL;
  if (table->slots[step->rank].next == step->process)
    table->slots[step->rank].next = table->slots[step->rank].ready = 0;
  return DMI_OK;
}

static void gone(struct dmi_team_table *table, uint32_t process) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_team_slot *slot = &table->slots[i];
    if (slot->member == process) { /* a hole; who has left first is waited for as if it lived */
      if (slot->arrived != DMI_TEAM_LEAVES) slot->awaited = 0;
      slot->member = 0;
    }
    if (slot->next == process) slot->next = slot->ready = 0;
  }
}

static int32_t resize(struct dmi_team_table *table, int32_t size) {
  if (size <= 0) return DMI_EINVAL;
  if ((uint32_t)size > table->capacity) return DMI_ESIZE;
  table->wanted = size;
  await_all(table);
  return DMI_OK;
}

/* What the new table has must still be so. */
static int32_t move(struct dmi_team_table *table, const struct dmi_team_step *step) {
  bool same = step->steps == table->steps;
#ifdef DMI_MUTATIONS
  if (step->zero == DMI_TEAM_STEP_BLIND) same = true;
#endif
  if (!same || (uint32_t)step->size != table->capacity) return DMI_EBUSY;
  table->moved = step->addr;
  return DMI_OK;
}

static int32_t end(struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (table->slots[i].member || table->slots[i].next) return DMI_EBUSY;
  }
  table->made = 0;
  return DMI_OK;
}

static int32_t change(struct dmi_team_table *table, const struct dmi_team_step *step,
                      int32_t *rank) {
  switch (step->what) {
    case DMI_TEAM_LOOK:
      return DMI_OK;
    case DMI_TEAM_JOIN:
      return join(table, step, rank);
    case DMI_TEAM_ARRIVE:
      return arrive(table, step);
    case DMI_TEAM_UNJOIN:
      return unjoin(table, step);
    case DMI_TEAM_GONE:
      gone(table, step->process);
      return DMI_OK;
    case DMI_TEAM_RESIZE:
      return resize(table, step->size);
    case DMI_TEAM_MOVE:
      return move(table, step);
    case DMI_TEAM_END:
      return end(table);
    default:
      return DMI_EINVAL;
  }
}

/* Steps after which an epoch may begin. */
static bool may_begin(const struct dmi_team_step *step) {
  return step->what == DMI_TEAM_ARRIVE || step->what == DMI_TEAM_GONE ||
         step->what == DMI_TEAM_RESIZE;
}

/* Steps after which those that leave may go: not when somebody joins, of which there are many. */
static bool may_free(const struct dmi_team_step *step) {
  return step->what == DMI_TEAM_GONE || step->arrived != DMI_TEAM_NOT_ARRIVED;
}

void dmi_team_table_step(struct dmi_team_table *table, uint64_t bytes,
                         const struct dmi_team_step *step, void *in, uint64_t in_size) {
  struct dmi_team_answer answer = {.error = DMI_EINVAL, .rank = -1};
  uint64_t slots = 0;
  if (in_size < sizeof(answer)) return;
  if (is_valid(table, bytes)) {
    answer.error = table->moved ? DMI_TEAM_HAS_MOVED : change(table, step, &answer.rank);
    if (answer.error == DMI_OK && step->what != DMI_TEAM_LOOK) table->steps++;
    if (answer.error == DMI_OK && may_begin(step)) {
      const bool all = all_arrived(table, step);
      answer.begins = begin(table, step);
      answer.news = answer.begins || step->what == DMI_TEAM_RESIZE || (all && may_free(step));
    }
    answer.team = table->team;
    answer.steps = table->steps;
    answer.epoch = table->epoch;
    answer.moved = table->moved;
    answer.size = table->size;
    answer.wanted = table->wanted;
    answer.capacity = table->capacity;
    answer.made = DMI_TEAM_MADE;
    slots = bytes - sizeof(*table);
  }
  if (slots > in_size - sizeof(answer)) slots = in_size - sizeof(answer);
  memcpy(in, &answer, sizeof(answer));
  memcpy((char *)in + sizeof(answer), table->slots, slots);
}
