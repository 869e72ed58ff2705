/*
 * rwset_decompose.c - a domain says which elements it writes.
 *
 * A domain that decomposes makes a page for its values and claims the cells of its elements, one
 * read-modify-write for each page of `where`: the second domain that claims a cell notices it, and
 * counts it in `conflicts` before it counts itself in `decomposed`.  So a process that finds all
 * domains in `decomposed` also finds every conflict there is.
 */
#include <stddef.h>
#include <stdlib.h>

#include "access/rwset_int.h"
#include "base/error.h"

#define AT_ONCE 256 /* pages of `where` that are claimed at the same time */

static int32_t add_one(struct dmi_access *access, int64_t addr) {
  return dmi_error_of(dmi_access_fad(access, addr, 1, NULL, DMI_PUT_ATOMIC, NULL));
}

/* An element of a write set, and its index there. */
struct member {
  int64_t element, place;
};

static int by_element(const void *left, const void *right) {
  const struct member *a = left, *b = right;
  return a->element < b->element ? -1 : a->element > b->element;
}

/* Sorts the write set.  Each element must exist, and must be named once. */
static int32_t sort_members(const struct set *set, const int64_t *element, int32_t num,
                            struct member *member) {
  for (int32_t i = 0; i < num; i++) {
    if (element[i] < 0 || element[i] >= set->element_num)
      return dmi_rwset_no_element(set, element[i]);
    member[i] = (struct member){element[i], i};
  }
  if (num) qsort(member, (size_t)num, sizeof(*member), by_element);
  for (int32_t i = 1; i < num; i++) {
    if (member[i].element == member[i - 1].element)
      return dmi_because(DMI_EINVAL, "an element is named twice");
  }
  return DMI_OK;
}

/* The claims of one page of `where`, while they are in flight. */
struct batch {
  DMI_local_status_t status;
  uint64_t taken;
};

static int32_t claim_page(struct dmi_access *access, const struct set *set, int64_t page,
                          const struct dmi_claim *claim, int64_t num, struct batch *batch) {
  const struct dmi_rmw_call call = {
      .rmw = DMI_RMW_CLAIM,
      .addr = set->where + page * CELLS * CELL,
      .size = CELLS * CELL,
      .out1 = claim,
      .in = &batch->taken,
      .sizes = {(uint64_t)num * sizeof(*claim), 0, sizeof(batch->taken)},
      .mode = DMI_PUT_ATOMIC};
  return dmi_error_of(dmi_access_rmw(access, &call, &batch->status));
}

/* Claims all cells; *taken: how many of them another domain had claimed before. */
static int32_t claim_all(struct dmi_access *access, const struct set *set,
                         const struct member *member, int64_t num, int64_t values,
                         uint64_t *taken) {
  struct batch *batch = malloc(AT_ONCE * sizeof(*batch));
  struct dmi_claim *claim = malloc(CELLS * sizeof(*claim));
  int32_t error = batch && claim ? DMI_OK : DMI_ENOMEM;
  int64_t next = 0;
  while (next < num && error == DMI_OK) {
    int begun = 0;
    while (next < num && begun < AT_ONCE && error == DMI_OK) {
      int64_t page = member[next].element / CELLS, claims = 0;
      for (; next < num && member[next].element / CELLS == page; next++) {
        int64_t value = values + member[next].place * set->element_size;
        claim[claims++] =
            (struct dmi_claim){(uint64_t)(member[next].element % CELLS), (uint64_t)value};
      }
      error = claim_page(access, set, page, claim, claims, &batch[begun]);
      if (error == DMI_OK) begun++;
    }
    for (int i = 0; i < begun; i++) {
      int32_t one = dmi_status_wait(dmi_status_of(&batch[i].status));
      if (one != DMI_OK) error = one;
      *taken += batch[i].taken;
    }
  }
  free(claim);
  free(batch);
  return error;
}

/* Marks the domain as decomposed; fails if it is marked already. */
static int32_t take_domain(struct dmi_access *access, const struct set *set, int32_t my_id) {
  const int64_t no = 0, yes = 1;
  int8_t done = DMI_FALSE;
  const struct dmi_rmw_call call = {.rmw = DMI_RMW_CAS,
                                    .addr = dmi_rwset_domain(set, my_id),
                                    .size = sizeof(no),
                                    .out1 = &no,
                                    .out2 = &yes,
                                    .in = &done,
                                    .sizes = {sizeof(no), sizeof(yes), 1},
                                    .mode = DMI_PUT_ATOMIC};
  int32_t error = dmi_error_of(dmi_access_rmw(access, &call, NULL));
  return error == DMI_OK && done != DMI_TRUE
             ? dmi_because(DMI_ERWSET, "this domain has decomposed before")
             : error;
}

/* Makes the values of the marked domain and claims its cells.  If memory runs out before a cell is
 * claimed, the mark is removed. */
static int32_t make_domain(struct dmi_access *access, const struct set *set, int32_t my_id,
                           const struct member *member, int32_t num) {
  struct domain domain = {1, 0, num};
  int64_t table = set->table;
  uint64_t taken = 0;
  int32_t error = DMI_OK;
  if (num) {
    if (set->element_size > INT64_MAX / num) {
      error = dmi_rwset_too_large(set, num);
    } else {
      error = dmi_rwset_map(access, num * set->element_size, 1, &domain.addr);
    }
  }
  if (error != DMI_OK) {
    domain = (struct domain){0, 0, 0};
    (void)dmi_rwset_put(access, dmi_rwset_domain(set, my_id), &domain, sizeof(domain));
    return error;
  }
  error = dmi_rwset_put(access, dmi_rwset_domain(set, my_id), &domain, sizeof(domain));
  if (error == DMI_OK) error = claim_all(access, set, member, num, domain.addr, &taken);
  if (error == DMI_OK && taken)
    error = add_one(access, table + (int64_t)offsetof(struct table, conflicts));
  if (error == DMI_OK) error = add_one(access, table + (int64_t)offsetof(struct table, decomposed));
  return error;
}

int32_t dmi_rwset_decompose(struct dmi_access *access, int64_t addr, int32_t my_id,
                            const int64_t *element, int32_t num) {
  struct set set;
  struct member *member;
  int32_t error = dmi_rwset_load(access, addr, &set);
  if (error != DMI_OK) return error;
  if (my_id < 0 || my_id >= set.rwset_num) return dmi_rwset_no_domain(&set, my_id);
  member = malloc(((size_t)num + 1) * sizeof(*member));
  if (!member) return DMI_ENOMEM;
  error = sort_members(&set, element, num, member);
  if (error == DMI_OK) error = take_domain(access, &set, my_id);
  if (error == DMI_OK) error = make_domain(access, &set, my_id, member, num);
  free(member);
  return error;
}
