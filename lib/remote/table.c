/*
 * table.c - linear probing, at most half full; what is removed is filled by what was pushed behind
 * it, so that there are no marks of removed slots.
 */
#include "remote/table.h"

#include <stdlib.h>

#include "base/xalloc.h"

#define SMALLEST 16

/* Numbers are consecutive; multiplication spreads them. */
static size_t start(const struct dmi_remote_table *table, uint64_t client, uint64_t number) {
  uint64_t hash = (number + client * UINT64_C(0xbf58476d1ce4e5b9)) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 20) & (table->size - 1);
}

/* The slot of the name, or the free one where it belongs. */
static size_t look(const struct dmi_remote_table *table, uint64_t client, uint64_t number) {
  size_t at = start(table, client, number);
  while (table->slots[at].at &&
         (table->slots[at].number != number || table->slots[at].client != client))
    at = (at + 1) & (table->size - 1);
  return at;
}

void *dmi_remote_table_find(const struct dmi_remote_table *table, dmi_remote_client_t client,
                            uint64_t number) {
  return table->num ? table->slots[look(table, dmi_remote_packed(client), number)].at : NULL;
}

static void resize(struct dmi_remote_table *table, size_t size) {
  struct dmi_remote_table old = *table;
  table->size = size;
  table->slots = dmi_xalloc(size, sizeof(*table->slots));
  for (size_t i = 0; i < old.size; i++) {
    const struct dmi_remote_slot *slot = &old.slots[i];
    if (slot->at) table->slots[look(table, slot->client, slot->number)] = *slot;
  }
  free(old.slots);
}

void dmi_remote_table_put(struct dmi_remote_table *table, dmi_remote_client_t client,
                          uint64_t number, void *at) {
  if (2 * (table->num + 1) > table->size) resize(table, table->size ? 2 * table->size : SMALLEST);
  table->slots[look(table, dmi_remote_packed(client), number)] =
      (struct dmi_remote_slot){.client = dmi_remote_packed(client), .number = number, .at = at};
  table->num++;
}

void dmi_remote_table_remove(struct dmi_remote_table *table, dmi_remote_client_t client,
                             uint64_t number) {
  size_t mask = table->size - 1, hole = look(table, dmi_remote_packed(client), number);
  for (size_t i = (hole + 1) & mask; table->slots[i].at; i = (i + 1) & mask) {
    size_t from = start(table, table->slots[i].client, table->slots[i].number);
    /* It may fill the hole if it began to look at the hole or before it. */
    if (((i - from) & mask) < ((i - hole) & mask)) continue;
    table->slots[hole] = table->slots[i];
    hole = i;
  }
  table->slots[hole] = (struct dmi_remote_slot){0};
  table->num--;
  if (table->size > SMALLEST && 8 * table->num < table->size) resize(table, table->size / 2);
}

void dmi_remote_table_free(struct dmi_remote_table *table) {
  free(table->slots);
  *table = (struct dmi_remote_table){0};
}
