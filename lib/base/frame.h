/*
 * frame.h - reference-counted byte buffers: page bytes, and payloads of messages.
 *
 * A frame whose count is above 1 is shared (an answer is still being sent, a reader is still
 * copying) and must not be changed: dmi_page_own_frame makes a private copy first.
 */
#ifndef DMI_BASE_FRAME_H
#define DMI_BASE_FRAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dmi_pool;

struct dmi_frame {
  _Atomic uint32_t refs; /* number of references; the last one to go frees it */
  uint32_t large;        /* bool: from base/large.h, else from malloc */
  uint64_t size;         /* bytes */
  /* the account that counts it until it is freed; NULL: none. Set by a holder */
  struct dmi_pool *pool;
  unsigned char bytes[];
};

/* A range of bytes: inside `frame` (with a reference), or borrowed if frame is NULL. */
struct dmi_slice {
  struct dmi_frame *frame;
  const unsigned char *ptr;
  uint64_t len;
};

/* A new frame with one reference; bytes undefined (_zero: all zero). NULL: no memory. */
struct dmi_frame *dmi_frame_new(uint64_t size);
struct dmi_frame *dmi_frame_new_zero(uint64_t size);

struct dmi_frame *dmi_frame_ref(struct dmi_frame *frame);

/* Drops a reference; NULL does nothing. */
void dmi_frame_unref(struct dmi_frame *frame);

/* True if the caller has the only reference. */
bool dmi_frame_is_private(struct dmi_frame *frame);

/* A slice of a frame, with its own reference. */
struct dmi_slice dmi_slice_of(struct dmi_frame *frame, uint64_t off, uint64_t len);

/* A slice of a new frame with a copy of the bytes. .ptr is NULL if there is no memory. */
struct dmi_slice dmi_slice_copy(const void *bytes, uint64_t len);

/* The same for bookkeeping: ends the process if there is no memory (base/xalloc.h). */
struct dmi_slice dmi_slice_xcopy(const void *bytes, uint64_t len);

/* Drops the slice's reference, if any, and empties the slice. */
void dmi_slice_drop(struct dmi_slice *slice);

/* Bytes of all frames in this OS process, of pages and of messages. */
uint64_t dmi_frame_total(void);

#endif
