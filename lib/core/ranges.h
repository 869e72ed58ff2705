/*
 * ranges.h - lists of ranges of a page (docs/protocol.md, "Lists"), and parts of a caller's buffer.
 *
 * Works on bytes of the caller, not on page records. A list need not be aligned.
 */
#ifndef DMI_CORE_RANGES_H
#define DMI_CORE_RANGES_H

#include "core/page.h"

/* True if `body` is a list of `num` ranges of a page, of `len` bytes together, followed by
 * `bytes` bytes. */
bool dmi_ranges_valid(const struct dmi_slice *body, uint64_t num, uint64_t len, uint64_t bytes,
                      uint64_t page_size);

/* Copies the bytes of a valid list, one range after another, to `to`. */
void dmi_ranges_copy(const unsigned char *list, uint64_t num, const unsigned char *page,
                     unsigned char *to);

/* The same, into a new frame. False: no memory. */
bool dmi_ranges_gather(const unsigned char *list, uint64_t num, uint64_t len,
                       const unsigned char *page, struct dmi_slice *to);

/* Writes into the page: with `num` the bytes behind a valid list, into its ranges; otherwise
 * bytes for [off, off + len). */
void dmi_ranges_write(const unsigned char *src, uint64_t num, uint64_t off, uint64_t len,
                      unsigned char *page);

/* Copies the bytes of the parts from a page (NULL: zeros) to the buffer. */
void dmi_parts_read(const struct dmi_part *part, uint64_t parts, const unsigned char *page,
                    unsigned char *buf);

/* Copies the bytes of the parts from an answer (NULL: zeros) that has the bytes of all ranges
 * or, with `from`, those of the page from that offset on. */
void dmi_parts_take(const struct dmi_part *part, uint64_t parts, const uint64_t *from,
                    const unsigned char *bytes, unsigned char *buf);

#endif
