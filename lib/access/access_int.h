/*
 * access_int.h - what the files of access share; nobody else includes it.
 */
#ifndef DMI_ACCESS_ACCESS_INT_H
#define DMI_ACCESS_ACCESS_INT_H

#include "access/access.h"
#include "base/epoch.h"
#include "core/heap.h"

/* A read or write of the API. */
struct transfer {
  struct dmi_access *access;
  uint64_t addr, size;
  unsigned char *buf; /* a write only reads it */
  uint8_t type, kind; /* of its operations */
  bool write;
  DMI_local_status_t *status; /* NULL: the caller waits */
};

/* ---- Finding the mapping: inline, as a hit does it ---- */

/* The mapping of a range, for what programs may touch or, with `system`, the allocator; inside the
 * epoch afterwards, or with a reference (*held) if it had to be fetched.  NULL: *error. */
static inline struct dmi_mapping *dmi_access_find(struct dmi_access *access, int64_t addr,
                                                  int64_t size, bool system, bool *held,
                                                  int32_t *error) {
  struct dmi_mapping *mapping;
  *held = false;
  *error = dmi_access_usable(access);
  if (*error == DMI_OK && !system && addr >= (int64_t)DMI_SYSTEM_BASE) *error = DMI_EADDR;
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

/* Ends what these begin, outside the epoch. */
static inline void dmi_access_release(struct dmi_access *access, struct dmi_mapping *mapping,
                                      bool held) {
  if (held) dmi_mapping_unref(&access->core, mapping);
}

/* ---- access_bytes.c ---- */
/* Here and now, in one page; locks it.  True: done, and it is unlocked; false: it is locked. */
bool dmi_access_hit(const struct transfer *transfer, struct dmi_page *page, uint64_t off,
                    uint64_t size, unsigned char *buf);
/* A zeroed request becomes that of one page's part; a write's bytes stay where they are. */
void dmi_access_request(const struct transfer *transfer, struct dmi_req *req, uint64_t off,
                        uint64_t size, unsigned char *buf);

/* ---- access_parts.c ---- */
/* A range of several pages, or without waiting.  Takes over a reference to the mapping. */
int32_t dmi_access_parts(const struct transfer *transfer, struct dmi_mapping *mapping);

/* ---- access.c ---- */
/* As dmi_access_op_begin, with the page locked; unlocks it. */
void dmi_access_op_locked(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later);
/* DMI_ACT_COMPLETE, with no page locked.  May free the operation, and its call. */
void dmi_access_op_complete(struct dmi_access *access, struct dmi_op *op);

/* ---- access_carry.c ---- */
/* The actions of a step in two parts: with the page locked, and after it is unlocked.  Messages are
 * written at once or, with `later`, when the caller flushes that.  Returns who was asked for an
 * answer that a thread may receive itself; 0: nobody. */
uint32_t dmi_access_carry_locked(struct dmi_access *access, struct dmi_page *page,
                                 struct dmi_out *out);
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
