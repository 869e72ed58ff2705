/*
 * rwset.c - read-write-sets: makes, opens and frees them (rwset_int.h has a drawing). Domains
 * decompose in rwset_decompose.c.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "access/rwset_int.h"
#include "base/error.h"
#include "core/heap.h"

#define MAGIC INT64_C(0x74657377724d4944) /* "DIMrwset" */

/* ---- Global memory, with errors in place of DMI_FALSE --------------------------------------- */

static int32_t get(struct dmi_access *access, int64_t addr, void *to, int64_t size) {
  return dmi_error_of(dmi_access_read(access, addr, size, to, DMI_GET_READ, NULL));
}

int32_t dmi_rwset_put(struct dmi_access *access, int64_t addr, const void *from, int64_t size) {
  return dmi_error_of(dmi_access_write(access, addr, size, from, DMI_PUT_WRITE, NULL));
}

int32_t dmi_rwset_map(struct dmi_access *access, int64_t page_size, int64_t page_num,
                      int64_t *addr) {
  return access->above->map(access->above_arg, (uint64_t)page_size, (uint64_t)page_num,
                            DMI_TAG_USER, addr);
}

static int32_t map_end(struct dmi_access *access, int64_t addr) {
  return access->above->unmap(access->above_arg, (uint64_t)addr, DMI_TAG_USER);
}

static int64_t sum_of(const struct set *set) {
  const int64_t part[] = {set->magic,     set->element_num, set->element_size,
                          set->rwset_num, set->table,       set->where};
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
    sum = (sum ^ (uint64_t)part[i]) * UINT64_C(0x9e3779b97f4a7c15);
    sum ^= sum >> 29;
  }
  return (int64_t)sum;
}

/* DMI_EINVAL unless there is a mapping of these sizes at this address. */
static int32_t expect(struct dmi_access *access, int64_t base, int64_t page_size,
                      int64_t page_num) {
  int32_t error = DMI_OK;
  struct dmi_mapping *mapping = dmi_access_mapping(access, base, 1, &error);
  if (!mapping) return error == DMI_EADDR ? DMI_EINVAL : error;
  if (mapping->map.base != (uint64_t)base || mapping->map.page_size != (uint64_t)page_size ||
      mapping->map.page_num != (uint64_t)page_num || mapping->map.tag != DMI_TAG_USER) {
    error = DMI_EINVAL;
  }
  dmi_mapping_unref(&access->core, mapping);
  return error;
}

static int64_t table_size(int64_t rwset_num) {
  return (int64_t)sizeof(struct table) + rwset_num * (int64_t)sizeof(struct domain);
}

static int64_t where_pages(int64_t element_num) {
  return (element_num - 1) / CELLS + 1;
}

int32_t dmi_rwset_load(struct dmi_access *access, int64_t addr, struct set *set) {
  int32_t error = get(access, addr, set, sizeof(*set));
  if (error != DMI_OK) return error;
  if (set->magic != MAGIC)
    return dmi_because(DMI_EINVAL, "there is no read-write-set (DMI_rwset_init)");
  if (set->sum != sum_of(set) || set->element_num <= 0 || set->element_size <= 0 ||
      set->rwset_num <= 0 || set->rwset_num > INT32_MAX) {
    return dmi_because(DMI_EINVAL, "the read-write-set there is damaged");
  }
  error = expect(access, set->table, table_size(set->rwset_num), 1);
  if (error != DMI_OK) return error;
  return expect(access, set->where, CELLS * CELL, where_pages(set->element_num));
}

/* The same for a domain's entry in the table. */
static int32_t check_domain(struct dmi_access *access, const struct set *set,
                            const struct domain *domain) {
  if (!domain->num && !domain->addr) return DMI_OK;
  if (domain->num <= 0 || domain->num > set->element_num) return DMI_EINVAL;
  if (set->element_size > INT64_MAX / domain->num) return DMI_EINVAL;
  return expect(access, domain->addr, domain->num * set->element_size, 1);
}

/* ---- Making and freeing --------------------------------------------------------------------- */

int32_t dmi_rwset_no_element(const struct set *set, int64_t element) {
  return dmi_because_so(DMI_ERANGE,
                        "an element does not exist: %" PRId64 " of %" PRId64 " (DMI_rwset_init)",
                        element, set->element_num);
}

int32_t dmi_rwset_no_domain(const struct set *set, int32_t my_id) {
  return dmi_because_so(DMI_EINVAL, "my_id is no domain of this set: %d of %" PRId64, my_id,
                        set->rwset_num);
}

int32_t dmi_rwset_too_large(const struct set *set, int32_t num) {
  return dmi_because_so(DMI_ESIZE, "%d elements of %" PRId64 " bytes are too large", num,
                        set->element_size);
}

int32_t dmi_rwset_init(struct dmi_access *access, int64_t addr, int64_t element_num,
                       int64_t element_size, int32_t rwset_num) {
  struct set set = {.magic = MAGIC,
                    .element_num = element_num,
                    .element_size = element_size,
                    .rwset_num = rwset_num};
  struct set old;
  int32_t error;
  if (element_num <= 0 || element_size <= 0 || rwset_num <= 0)
    return dmi_because_so(DMI_EINVAL,
                          "all three numbers must be positive: %" PRId64 ", %" PRId64 ", %d",
                          element_num, element_size, rwset_num);
  error = get(access, addr, &old, sizeof(old)); /* fails if it would leave the mapping */
  if (error != DMI_OK) return error;
  error = dmi_rwset_map(access, table_size(rwset_num), 1, &set.table);
  if (error != DMI_OK) return error;
  error = dmi_rwset_map(access, CELLS * CELL, where_pages(element_num), &set.where);
  if (error == DMI_OK) {
    set.sum = sum_of(&set);
    error = dmi_rwset_put(access, addr, &set, sizeof(set));
    if (error == DMI_OK) return DMI_OK;
    (void)map_end(access, set.where);
  }
  (void)map_end(access, set.table);
  return error;
}

int32_t dmi_rwset_destroy(struct dmi_access *access, int64_t addr) {
  static const struct set none;
  struct set set;
  struct domain *domain = NULL;
  int32_t error = dmi_rwset_load(access, addr, &set);
  if (error != DMI_OK) return error;
  domain = malloc((size_t)set.rwset_num * sizeof(*domain));
  if (!domain) return DMI_ENOMEM;
  error = get(access, dmi_rwset_domain(&set, 0), domain, set.rwset_num * (int64_t)sizeof(*domain));
  for (int64_t i = 0; i < set.rwset_num && error == DMI_OK; i++)
    error = check_domain(access, &set, &domain[i]);
  if (error == DMI_OK) error = dmi_rwset_put(access, addr, &none, sizeof(none));
  for (int64_t i = 0; i < set.rwset_num && error == DMI_OK; i++) {
    if (domain[i].addr) error = map_end(access, domain[i].addr);
  }
  if (error == DMI_OK) error = map_end(access, set.where);
  if (error == DMI_OK) error = map_end(access, set.table);
  free(domain);
  return error;
}

/* ---- Reading and writing -------------------------------------------------------------------- */

/* Finds the addresses of these elements' values, by one scattered read. */
static int32_t find_values(struct dmi_access *access, const struct set *set, const int64_t *element,
                           int32_t num, int64_t *where) {
  struct dmi_group_item *item = malloc(((size_t)num + 1) * sizeof(*item));
  struct dmi_group *group = NULL;
  int32_t error = item ? DMI_OK : DMI_ENOMEM;
  for (int32_t i = 0; i < num && error == DMI_OK; i++) {
    if (element[i] < 0 || element[i] >= set->element_num)
      error = dmi_rwset_no_element(set, element[i]);
    item[i] = (struct dmi_group_item){set->where + element[i] * CELL, CELL, i * CELL};
  }
  if (error == DMI_OK) error = dmi_group_new(access, item, (uint64_t)num, &group);
  if (error == DMI_OK) error = dmi_error_of(dmi_group_read(group, where, NULL));
  for (int32_t i = 0; i < num && error == DMI_OK; i++) {
    if (!where[i]) error = dmi_because(DMI_ERWSET, "an element to be read is in no write set");
  }
  dmi_group_unref(group);
  free(item);
  return error;
}

static int32_t make_reads(struct dmi_access *access, const struct set *set, const int64_t *element,
                          int32_t num, struct dmi_group **group) {
  int64_t *where = malloc(((size_t)num + 1) * sizeof(*where));
  struct dmi_group_item *item = malloc(((size_t)num + 1) * sizeof(*item));
  int32_t error = where && item ? DMI_OK : DMI_ENOMEM;
  /* the size of the user's buffer */
  if (num && set->element_size > INT64_MAX / num) error = dmi_rwset_too_large(set, num);
  if (error == DMI_OK) error = find_values(access, set, element, num, where);
  for (int32_t i = 0; i < num && error == DMI_OK; i++)
    item[i] = (struct dmi_group_item){where[i], set->element_size, i * set->element_size};
  if (error == DMI_OK) error = dmi_group_new(access, item, (uint64_t)num, group);
  free(item);
  free(where);
  return error;
}

int32_t dmi_rwset_open(struct dmi_access *access, int64_t addr, int32_t my_id,
                       const int64_t *element, int32_t num, struct dmi_rwset **result) {
  struct set set;
  struct table head;
  struct domain domain;
  struct dmi_rwset *rwset;
  int32_t error = dmi_rwset_load(access, addr, &set);
  if (error != DMI_OK) return error;
  if (my_id < 0 || my_id >= set.rwset_num) return dmi_rwset_no_domain(&set, my_id);
  error = get(access, set.table, &head, sizeof(head));
  if (error == DMI_OK) error = get(access, dmi_rwset_domain(&set, my_id), &domain, sizeof(domain));
  if (error == DMI_OK) error = check_domain(access, &set, &domain);
  if (error == DMI_OK && head.conflicts) {
    error = dmi_because(DMI_ERWSET, "an element is in two write sets");
  } else if (error == DMI_OK && head.decomposed != set.rwset_num) {
    error = dmi_because(DMI_ERWSET, "not all domains have decomposed yet");
  }
  if (error != DMI_OK) return error;
  rwset = calloc(1, sizeof(*rwset));
  if (!rwset) return DMI_ENOMEM;
  rwset->access = access;
  rwset->addr = domain.addr;
  rwset->bytes = domain.num * set.element_size;
  error = make_reads(access, &set, element, num, &rwset->group);
  if (error == DMI_OK) {
    *result = rwset;
  } else {
    free(rwset);
  }
  return error;
}

void dmi_rwset_close(struct dmi_rwset *rwset) {
  dmi_group_unref(rwset->group);
  free(rwset);
}
