/*
 * rwset_int.h - the data of a read-write-set; private to rwset*.c.
 *
 *   DMI_rwset_t      `table`, one page            `where`, a cell an element     values, one page
 *   +-----------+    +-----------------------+    +--------------------------+   of each domain
 *   | sizes     |    | decomposed, conflicts |    | 0: in no write set, else |   +-----------+
 *   | table   ------>| domain 0: its values ------+ where its value is      ---->|           |
 *   | where   ---    | domain 1 ...          |    |                          |   +-----------+
 *   +-----------+    +-----------------------+    +--------------------------+
 */
#ifndef DMI_ACCESS_RWSET_INT_H
#define DMI_ACCESS_RWSET_INT_H

#include "access/rwset.h"

#define CELLS 2048 /* in a page of `where` */
#define CELL ((int64_t)sizeof(uint64_t))

/* The bytes at the address that the user chose.  Programs can overwrite them, as anything in global
 * memory, so they are used only after dmi_rwset_load has checked that they fit to the mappings that
 * they name. */
struct set {
  int64_t magic;
  int64_t element_num, element_size, rwset_num;
  int64_t table, where; /* mappings */
  int64_t sum;          /* checksum of the fields above (sum_of) */
  int64_t zero;
};
_Static_assert(sizeof(struct set) == sizeof(DMI_rwset_t), "the public size");

struct domain {
  int64_t state; /* 1: has decomposed, or is about to */
  int64_t addr;  /* its values, a mapping; 0: none */
  int64_t num;   /* elements it writes */
};

struct table {
  int64_t decomposed; /* domains */
  int64_t conflicts;  /* domains that claimed another's element */
  struct domain domain[];
};

static inline int64_t dmi_rwset_domain(const struct set *set, int64_t my_id) {
  return set->table + (int64_t)sizeof(struct table) + my_id * (int64_t)sizeof(struct domain);
}

/* ---- rwset.c: global memory, with errors in place of DMI_FALSE ---- */
int32_t dmi_rwset_put(struct dmi_access *access, int64_t addr, const void *from, int64_t size);
int32_t dmi_rwset_map(struct dmi_access *access, int64_t page_size, int64_t page_num,
                      int64_t *addr);
/* The errors of an element or a domain that the set has not, and of so many elements that cannot be
 * in a buffer. */
int32_t dmi_rwset_no_element(const struct set *set, int64_t element);
int32_t dmi_rwset_no_domain(const struct set *set, int32_t my_id);
int32_t dmi_rwset_too_large(const struct set *set, int32_t num);
/* Reads and checks the set at an address. */
int32_t dmi_rwset_load(struct dmi_access *access, int64_t addr, struct set *set);

#endif
