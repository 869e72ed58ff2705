/*
 * frame.h - reference-counted byte buffers: page bytes, and payloads of messages.
 *
 * A frame whose count is above 1 is shared (an answer still being sent, a reader still copying) and
 * must not be changed in place: dmi_page_own_frame gives a private one first.
 */
#ifndef DMI_BASE_FRAME_H
#define DMI_BASE_FRAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dmi_pool;

struct dmi_frame {
  _Atomic uint32_t refs; /* holders; the last one frees it */
  uint32_t large;        /* bool: from base/large.h, else from malloc */
  uint64_t size;         /* bytes */
  struct dmi_pool *pool; /* the account it is in until it is freed; NULL: in none.  A holder's */
  unsigned char bytes[];
};

/* Bytes somewhere: inside `frame` (then a reference is held), or borrowed when frame is NULL. */
struct dmi_slice {
  struct dmi_frame *frame;
  const unsigned char *ptr;
  uint64_t len;
};

/* A new frame with one reference, bytes undefined (zeroed: _zero).  NULL when there is no memory.
 */
struct dmi_frame *dmi_frame_new(uint64_t size);
struct dmi_frame *dmi_frame_new_zero(uint64_t size);

struct dmi_frame *dmi_frame_ref(struct dmi_frame *frame);

/* Gives one reference back; NULL is allowed. */
void dmi_frame_unref(struct dmi_frame *frame);

/* True when the caller's reference is the only one. */
bool dmi_frame_is_private(struct dmi_frame *frame);

/* A slice of a frame that takes a reference of its own. */
struct dmi_slice dmi_slice_of(struct dmi_frame *frame, uint64_t off, uint64_t len);

/* A slice in a new frame that holds a copy of the bytes; .ptr is NULL when there is no memory. */
struct dmi_slice dmi_slice_copy(const void *bytes, uint64_t len);

/* The same for bookkeeping: without memory the process ends (base/xalloc.h). */
struct dmi_slice dmi_slice_xcopy(const void *bytes, uint64_t len);

/* Gives the slice's reference back, if any, and empties it. */
void dmi_slice_drop(struct dmi_slice *slice);

/* Total bytes in live frames of this process, of pages and of messages. */
uint64_t dmi_frame_total(void);

#endif
