/*
 * access_int.h - what the files of access share; nobody else includes it.
 */
#ifndef DMI_ACCESS_ACCESS_INT_H
#define DMI_ACCESS_ACCESS_INT_H

#include "access/access.h"
#include "base/epoch.h"
#include "core/heap.h"

/* A read, write or read-modify-write of the API, while it goes on. */
struct caller {
  struct dmi_access *access;
  struct dmi_mapping *mapping;
  uint8_t type, kind; /* of the operations */
  bool write;
  DMI_local_status_t *status;
  struct dmi_status own; /* the synchronous caller's */
  struct dmi_op op;      /* a synchronous access to one page needs no more */
  bool single;           /* `op` is used */
  struct dmi_call call;
};

/* ---- Finding the mapping: inline, as a hit does it ---- */

/* The mapping of a range, be it the allocator's; inside the epoch afterwards, or with a reference
 * (*held) if it had to be fetched.  NULL: *error. */
static inline struct dmi_mapping *dmi_access_find_any(struct dmi_access *access, int64_t addr,
                                                      int64_t size, bool *held, int32_t *error) {
  struct dmi_mapping *mapping;
  *held = false;
  *error = dmi_access_usable(access);
  if (*error != DMI_OK) return NULL;
  dmi_epoch_enter();
  mapping = dmi_space_find(&access->space, (uint64_t)addr);
  if (!mapping) {
    dmi_epoch_leave();
    mapping = access->above->lookup(access->above_arg, (uint64_t)addr, error);
    if (!mapping) return NULL;
    *held = true;
    dmi_epoch_enter();
  }
  if ((uint64_t)size > mapping->end - (uint64_t)addr) {
    dmi_epoch_leave();
    if (*held) dmi_mapping_unref(&access->core, mapping);
    *error = DMI_ERANGE;
    return NULL;
  }
  return mapping;
}

/* The same for what programs may touch. */
static inline struct dmi_mapping *dmi_access_find(struct dmi_access *access, int64_t addr,
                                                  int64_t size, bool *held, int32_t *error) {
  if (addr < (int64_t)DMI_SYSTEM_BASE) return dmi_access_find_any(access, addr, size, held, error);
  *held = false;
  *error = dmi_in_function ? DMI_EINFUNC : DMI_EADDR;
  return NULL;
}

/* Ends what these begin, outside the epoch. */
static inline void dmi_access_release(struct dmi_access *access, struct dmi_mapping *mapping,
                                      bool held) {
  if (held) dmi_mapping_unref(&access->core, mapping);
}

/* ---- access.c ---- */
/* As dmi_access_call_begin, but the status is as it was. */
void dmi_access_call_init(struct dmi_call *call, struct dmi_status *status, bool heap);
/* DMI_ACT_COMPLETE, with no page locked.  May free the operation, and its call. */
void dmi_access_op_complete(struct dmi_access *access, struct dmi_op *op);

/* ---- access_carry.c ---- */
/* The actions of a step in two parts: with the page locked, and after it is unlocked.  Messages are
 * written at once or, with `later`, when the caller flushes that. */
void dmi_access_carry_locked(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out);
void dmi_access_carry_out(struct dmi_access *access, struct dmi_out *out, struct dmi_flush *later);
/* Debug builds: what must hold between any two steps does.  With the page locked. */
static inline void dmi_access_check_step(const struct dmi_access *access,
                                         const struct dmi_page *page) {
#ifdef DMI_DEBUG
  dmi_page_check(&access->core, page);
#else
  (void)access;
  (void)page;
#endif
}

#endif
