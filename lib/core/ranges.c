/*
 * ranges.c - lists of ranges of a page, and parts of a caller's buffer.  See ranges.h.
 */
#include "core/ranges.h"

#include <string.h>

_Static_assert(sizeof(struct dmi_range) == 16, "a list travels as it lies in memory");

/* Lists arrive as bytes and need not be aligned. */
static struct dmi_range range_at(const unsigned char *list, uint64_t i) {
  struct dmi_range range;
  memcpy(&range, list + i * sizeof(range), sizeof(range));
  return range;
}

/* Most ranges are one number: without a call then. */
static inline void copy(unsigned char *to, const unsigned char *from, uint64_t len) {
  if (len == sizeof(uint64_t)) {
    memcpy(to, from, sizeof(uint64_t));
  } else {
    memcpy(to, from, len);
  }
}

bool dmi_ranges_valid(const struct dmi_slice *body, uint64_t num, uint64_t len, uint64_t bytes,
                      uint64_t page_size) {
  uint64_t next = 0, total = 0; /* where the next range may begin; bytes so far */
  if (!body->ptr || num < 2 || num > body->len / sizeof(struct dmi_range)) return false;
  if (body->len - num * sizeof(struct dmi_range) != bytes) return false;
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_range range = range_at(body->ptr, i);
    /* one branch for all of it: it is never taken */
    if ((range.len == 0) | (range.off < next) | (range.off >= page_size) |
        (range.len > page_size - range.off))
      return false;
    total += range.len;               /* ranges do not overlap, so this is at most page_size */
    next = range.off + range.len + 1; /* no overflow: page_size is below 2^62 */
  }
  return total == len;
}

void dmi_ranges_copy(const unsigned char *list, uint64_t num, const unsigned char *page,
                     unsigned char *to) {
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_range range = range_at(list, i);
    copy(to, page + range.off, range.len);
    to += range.len;
  }
}

bool dmi_ranges_gather(const unsigned char *list, uint64_t num, uint64_t len,
                       const unsigned char *page, struct dmi_slice *to) {
  struct dmi_frame *frame = dmi_frame_new(len);
  if (!frame) return false;
  dmi_ranges_copy(list, num, page, frame->bytes);
  *to = (struct dmi_slice){frame, frame->bytes, len};
  return true;
}

void dmi_ranges_write(const unsigned char *src, uint64_t num, uint64_t off, uint64_t len,
                      unsigned char *page) {
  const unsigned char *from = src + num * sizeof(struct dmi_range);
  if (!num) {
    memcpy(page + off, src, len);
    return;
  }
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_range range = range_at(src, i);
    copy(page + range.off, from, range.len);
    from += range.len;
  }
}

void dmi_parts_read(const struct dmi_part *part, uint64_t parts, const unsigned char *page,
                    unsigned char *buf) {
  for (uint64_t i = 0; i < parts; i++) {
    if (page) {
      copy(buf + part[i].to, page + part[i].off, part[i].len);
    } else {
      memset(buf + part[i].to, 0, part[i].len);
    }
  }
}

void dmi_parts_take(const struct dmi_part *part, uint64_t parts, const uint64_t *from,
                    const unsigned char *bytes, unsigned char *buf) {
  if (!bytes) {
    dmi_parts_read(part, parts, NULL, buf);
    return;
  }
  for (uint64_t i = 0; i < parts; i++) {
    uint64_t at = from ? part[i].off - *from : part[i].at;
    copy(buf + part[i].to, bytes + at, part[i].len);
  }
}
