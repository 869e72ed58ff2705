/*
 * access_int.h - private to the files of access.
 */
#ifndef DMI_ACCESS_ACCESS_INT_H
#define DMI_ACCESS_ACCESS_INT_H

#include "access/access.h"
#include "base/epoch.h"
#include "core/heap.h"

/* A read or write of the API while it runs. */
struct transfer {
  struct dmi_access *access;
  uint64_t addr, size;
  unsigned char *buf; /* a write only reads it */
  uint8_t type, kind; /* of its operations */
  bool write;
  DMI_local_status_t *status; /* NULL: the caller waits */
  struct dmi_access_end *end; /* with a status: is told instead of it; may be NULL */
};

/* ---- Finding the mapping; inline, since every hit does it ---- */

/* Finds the mapping of a range: one that programs may access or, with `system`, also one of the
 * allocator.  Afterwards the thread is inside an epoch or, if the mapping had to be fetched, has a
 * reference (*held).  NULL: *error says why. */
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

/* Leaves the epoch, or gives back the reference, of dmi_access_find. */
static inline void dmi_access_release(struct dmi_access *access, struct dmi_mapping *mapping,
                                      bool held) {
  if (held) dmi_mapping_unref(&access->core, mapping);
}

/* ---- access_hit.c ---- */
/* Tries a hit in one page.  True: the transfer is done, and the page is unlocked.  False: the page
 * is locked. */
bool dmi_access_hit(const struct transfer *transfer, struct dmi_page *page, uint64_t off,
                    uint64_t size, unsigned char *buf);

/* ---- access_bytes.c ---- */
/* Makes a zeroed request the one for a part in one page; the bytes of a write are not copied. */
void dmi_access_request(const struct transfer *transfer, struct dmi_req *req, uint64_t off,
                        uint64_t size, unsigned char *buf);

/* ---- access_parts.c ---- */
/* A transfer of several pages, or whose caller does not wait.  Takes over a reference to the
 * mapping. */
int32_t dmi_access_parts(const struct transfer *transfer, struct dmi_mapping *mapping);

/* ---- access.c ---- */
/* Action DMI_ACT_COMPLETE.  No page may be locked.  May free the operation and its call. */
void dmi_access_op_complete(struct dmi_access *access, struct dmi_op *op);

/* ---- access_carry.c ---- */
/* As dmi_access_op_begin, but the page is locked; unlocks it. */
void dmi_access_op_locked(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later);
/* Carry out the actions of a step in two parts: with the page locked, and after it was unlocked.
 * Messages are written at once or, with `later`, when the caller flushes that.  Returns the member
 * that was asked for an answer that a thread may receive itself; 0: none. */
uint32_t dmi_access_carry_locked(struct dmi_access *access, struct dmi_page *page,
                                 struct dmi_out *out, struct dmi_flush *later);
void dmi_access_carry_out(struct dmi_access *access, struct dmi_out *out, struct dmi_flush *later);
/* A step of a page is over: pages that could not leave before may now be able to, and so may this
 * process. */
static inline void dmi_access_stepped(struct dmi_access *access) {
  if (__builtin_expect(atomic_load_explicit(&access->pager_watches_steps, memory_order_relaxed),
                       0)) {
    atomic_store(&access->pager_watches_steps, 0);
    access->above->wake_pager(access->above_arg);
  }
  if (__builtin_expect(atomic_load_explicit(&access->drain, memory_order_relaxed), 0))
    dmi_net_post(access->net);
}

/* ---- access_trace.c ---- */
/* Makes a record that begins now: a message about a page between these two. */
void dmi_access_trace_message(struct dmi_trace_record *record, dmi_uid_t from, dmi_uid_t to,
                              const struct dmi_msg *msg);

/* In debug builds: checks what must hold between two steps.  The page is locked. */
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
