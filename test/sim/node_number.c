/*
 * node_number.c - small numbers for uids and addresses, by which arrays are indexed.
 *
 * A new coordinator leaves out those that the one before may have given (docs/crashes.md), so they
 * are far from dense after a loss.  Without losses they are, and are used as they are.
 */
#include <stdlib.h>

#include "core/heap.h"
#include "simulator.h"

#define BASE_ALIGN 4096u               /* mappings begin at multiples of it, and are smaller */
#define BASE_STEP (BASE_ALIGN + 65536) /* distance between mappings */
#define SLOTS 2048u                    /* a power of two, more than twice the numbers given */

struct sim_numbers {
  uint64_t key[SLOTS]; /* 0: free */
  uint32_t num[SLOTS];
  uint32_t next; /* the next number */
};

struct sim_numbers *sim_numbers_new(void) {
  struct sim_numbers *numbers = calloc(1, sizeof(*numbers));
  if (!numbers) abort();
  return numbers;
}

/* The number of this key, which gets one when it is first seen. */
static uint32_t number(struct sim_numbers *numbers, uint64_t key, uint32_t last) {
  uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 53);
  while (numbers->key[at] && numbers->key[at] != key)
    at = (at + 1) & (SLOTS - 1);
  if (numbers->key[at]) return numbers->num[at];
  if (numbers->next >= last) return last;
  numbers->key[at] = key;
  return numbers->num[at] = numbers->next++;
}

uint32_t sim_uid(const struct sim *sim, uint32_t id) {
  if (!id || id >= DMI_NET_TEMP) return 0;
  if (sim->opt.crashes) return 1 + number(sim->uid_numbers, id, SIM_NODES - 2);
  return id < SIM_NODES ? id : 0;
}

struct node *sim_by_uid(const struct sim *sim, uint32_t uid) {
  return sim->by_uid[sim_uid(sim, uid)];
}

uint32_t sim_map_num(const struct sim *sim, uint64_t addr) {
  uint64_t num = (addr - DMI_FIRST_BASE) / BASE_STEP;
  if (!addr) return SIM_MAPS - 1;
  if (sim->opt.crashes) return number(sim->map_numbers, addr - addr % BASE_ALIGN, SIM_MAPS - 1);
  return num < SIM_MAPS ? (uint32_t)num : SIM_MAPS - 1; /* the last one is never made */
}
