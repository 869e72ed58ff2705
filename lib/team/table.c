/*
 * table.c - see table.h.
 */
#include "team/table.h"

#include <string.h>

#include "dmi_api.h"

static bool is_valid(const struct dmi_team_table *table, uint64_t bytes) {
  if (bytes < sizeof(*table) || table->made != DMI_TEAM_MADE) return false;
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

/* Each rank that has no thread is awaited. */
static void await_all(struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++)
    table->slots[i].awaited = is_rank(table, i) && !stays(table, i);
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

void dmi_team_table_grow(struct dmi_team_table *table, uint32_t capacity) {
  memset(&table->slots[table->capacity], 0, (capacity - table->capacity) * sizeof(table->slots[0]));
  table->capacity = capacity;
  table->moved = 0;
}

/* T6, T7.  Nothing begins while nobody would be in it, unless the last one leaves. */
static bool can_begin(const struct dmi_team_table *table, const struct dmi_team_step *step) {
  bool any = false;
  for (uint32_t i = 0; i < table->capacity; i++) {
    const struct dmi_team_slot *slot = &table->slots[i];
    bool joins = slot->next && slot->ready && is_rank(table, i);
    if (slot->member && !slot->arrived) {
#ifdef DMI_MUTATIONS
      if (step->zero == DMI_TEAM_STEP_HASTY) continue;
#endif
      return false;
    }
    if (slot->awaited && !joins) any = true;
  }
  (void)step;
  if (!any) return true;
  /* Some rank is awaited; but if all members leave nobody waits for it. */
  for (uint32_t i = 0; i < table->capacity; i++) {
    if (stays(table, i)) return false;
    if (table->slots[i].next && table->slots[i].ready) return false;
  }
  return table->size > 0;
}

static bool any_change(const struct dmi_team_table *table) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    const struct dmi_team_slot *slot = &table->slots[i];
    if (slot->member || (slot->next && slot->ready)) return true;
  }
  return table->size > 0;
}

static bool begin(struct dmi_team_table *table, const struct dmi_team_step *step) {
  bool any = false;
  if (!any_change(table) || !can_begin(table, step)) return false;
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_team_slot *slot = &table->slots[i];
    slot->was = slot->member;
    if (!stays(table, i)) {
      bool joins = slot->next && slot->ready && is_rank(table, i);
      slot->member = joins ? slot->next : 0;
      if (joins) slot->next = 0;
      if (joins) slot->ready = 0;
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
  if (table->slots[step->rank].next == step->process) table->slots[step->rank].next = 0;
  return DMI_OK;
}

static void gone(struct dmi_team_table *table, uint32_t process) {
  for (uint32_t i = 0; i < table->capacity; i++) {
    struct dmi_team_slot *slot = &table->slots[i];
    if (slot->member == process) slot->member = 0;
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
      if ((uint32_t)step->size != table->capacity) return DMI_EBUSY;
      table->moved = step->addr;
      return DMI_OK;
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

void dmi_team_table_step(struct dmi_team_table *table, uint64_t bytes,
                         const struct dmi_team_step *step, void *in, uint64_t in_size) {
  struct dmi_team_answer answer = {.error = DMI_EINVAL, .rank = -1};
  uint64_t slots = 0;
  if (in_size < sizeof(answer)) return;
  if (is_valid(table, bytes)) {
    answer.error = table->moved ? DMI_TEAM_HAS_MOVED : change(table, step, &answer.rank);
    if (answer.error == DMI_OK && may_begin(step)) answer.begins = begin(table, step);
    answer.team = table->team;
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
