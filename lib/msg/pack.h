/*
 * pack.h - bodies of control messages: little-endian fields, written in order and read with checks.
 *
 * A reader never reads outside its bytes: after the end every get returns 0 and marks the reader as
 * bad. The caller reads all fields that it expects, then calls dmi_unpack_done once.
 */
#ifndef DMI_MSG_PACK_H
#define DMI_MSG_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"

/* A writer. Its functions abort if there is no memory. */
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
/* Writes the length as u32, then the bytes. */
void dmi_pack_bytes(struct dmi_pack *pack, const void *bytes, size_t len);
/* Writes the length as u8, then the bytes, at most 255. */
void dmi_pack_string(struct dmi_pack *pack, const char *string);
/* Writes a sentence: the length as u16, then the bytes, fewer than DMI_TEXT_SIZE. */
#define DMI_TEXT_SIZE 1024
void dmi_pack_text(struct dmi_pack *pack, const char *text);
/* Returns what was written, in a new frame; the writer is empty afterwards. */
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
/* Reads what dmi_pack_bytes wrote; points into the body. NULL and *len = 0 if bad. */
const uint8_t *dmi_unpack_bytes(struct dmi_unpack *unpack, size_t *len);
/* Reads what dmi_pack_string wrote; `string` has space for 256 bytes. Bad if it has a zero byte. */
void dmi_unpack_string(struct dmi_unpack *unpack, char *string);
/* Reads what dmi_pack_text wrote. Bad if it has a zero byte or is too long. */
void dmi_unpack_text(struct dmi_unpack *unpack, char text[DMI_TEXT_SIZE]);
/* Reads a u32, the number of elements that follow, each of at least `size` bytes. If so many do
 * not fit into the rest: bad, and 0, so that a sender cannot make us allocate more than it has
 * sent. */
uint32_t dmi_unpack_count(struct dmi_unpack *unpack, size_t size);
/* True if no bytes were missing and none are left. */
bool dmi_unpack_done(const struct dmi_unpack *unpack);

#endif
