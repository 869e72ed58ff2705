/*
 * pack.h - bodies of control messages: little-endian fields, written in order, read with checks.
 *
 * A reader never reads outside its bytes: past the end every get gives 0 and the reader stays bad.
 * The caller reads everything it expects, then asks dmi_unpack_done once.
 */
#ifndef DMI_MSG_PACK_H
#define DMI_MSG_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"

/* A writer.  Aborts when there is no memory. */
struct dmi_pack {
  uint8_t *bytes;
  size_t len;
  size_t capacity;
};

void dmi_pack_init(struct dmi_pack *pack);
void dmi_pack_u8(struct dmi_pack *pack, uint8_t value);
void dmi_pack_u16(struct dmi_pack *pack, uint16_t value);
void dmi_pack_u32(struct dmi_pack *pack, uint32_t value);
void dmi_pack_u64(struct dmi_pack *pack, uint64_t value);
void dmi_pack_raw(struct dmi_pack *pack, const void *bytes, size_t len);
/* u32 length, then the bytes. */
void dmi_pack_bytes(struct dmi_pack *pack, const void *bytes, size_t len);
/* u8 length, then the bytes: at most 255. */
void dmi_pack_string(struct dmi_pack *pack, const char *string);
/* A sentence: u16 length, then the bytes, fewer than DMI_TEXT_SIZE. */
#define DMI_TEXT_SIZE 1024
void dmi_pack_text(struct dmi_pack *pack, const char *text);
/* What was written, in a frame of its own; the writer is empty again. */
struct dmi_slice dmi_pack_slice(struct dmi_pack *pack);
void dmi_pack_free(struct dmi_pack *pack);

/* A reader of borrowed bytes. */
struct dmi_unpack {
  const uint8_t *ptr;
  size_t left;
  bool bad;
};

void dmi_unpack_init(struct dmi_unpack *unpack, const struct dmi_slice *body);
uint8_t dmi_unpack_u8(struct dmi_unpack *unpack);
uint16_t dmi_unpack_u16(struct dmi_unpack *unpack);
uint32_t dmi_unpack_u32(struct dmi_unpack *unpack);
uint64_t dmi_unpack_u64(struct dmi_unpack *unpack);
void dmi_unpack_raw(struct dmi_unpack *unpack, void *bytes, size_t len);
/* As dmi_pack_bytes wrote: points into the body; NULL and *len = 0 when bad. */
const uint8_t *dmi_unpack_bytes(struct dmi_unpack *unpack, size_t *len);
/* As dmi_pack_string wrote: string has room for 256 bytes.  A zero inside is bad. */
void dmi_unpack_string(struct dmi_unpack *unpack, char *string);
/* As dmi_pack_text wrote.  A zero inside, or too long a text, is bad. */
void dmi_unpack_text(struct dmi_unpack *unpack, char text[DMI_TEXT_SIZE]);
/* u32 number of elements of at least `size` bytes each, so that no number from outside makes us
 * allocate more than it sent: bad, and 0, when they do not fit in what is left. */
uint32_t dmi_unpack_count(struct dmi_unpack *unpack, size_t size);
/* True if nothing was missing and nothing is left. */
bool dmi_unpack_done(const struct dmi_unpack *unpack);

#endif
