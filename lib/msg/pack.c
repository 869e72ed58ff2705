/*
 * pack.c - bodies of control messages: writing, and reading with checks.
 */
#include "msg/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void dmi_pack_init(struct dmi_pack *pack) {
  memset(pack, 0, sizeof(*pack));
}

void dmi_pack_raw(struct dmi_pack *pack, const void *bytes, size_t len) {
  if (len == 0) return;
  if (pack->capacity - pack->len < len) {
    size_t capacity = 2 * pack->capacity + len + 64;
    pack->bytes = dmi_xalloc_again(pack->bytes, capacity, 1);
    pack->capacity = capacity;
  }
  memcpy(pack->bytes + pack->len, bytes, len);
  pack->len += len;
}

static void put(struct dmi_pack *pack, uint64_t value, size_t size) {
  uint8_t bytes[8];
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)(value >> (8 * i));
  dmi_pack_raw(pack, bytes, size);
}

void dmi_pack_u8(struct dmi_pack *pack, uint8_t value) {
  put(pack, value, 1);
}

void dmi_pack_u16(struct dmi_pack *pack, uint16_t value) {
  put(pack, value, 2);
}

void dmi_pack_u32(struct dmi_pack *pack, uint32_t value) {
  put(pack, value, 4);
}

void dmi_pack_u64(struct dmi_pack *pack, uint64_t value) {
  put(pack, value, 8);
}

void dmi_pack_bytes(struct dmi_pack *pack, const void *bytes, size_t len) {
  if (len > UINT32_MAX) abort();
  dmi_pack_u32(pack, (uint32_t)len);
  dmi_pack_raw(pack, bytes, len);
}

void dmi_pack_string(struct dmi_pack *pack, const char *string) {
  size_t len = strlen(string);
  if (len > 255) len = 255;
  dmi_pack_u8(pack, (uint8_t)len);
  dmi_pack_raw(pack, string, len);
}

void dmi_pack_text(struct dmi_pack *pack, const char *text) {
  size_t len = strnlen(text, DMI_TEXT_SIZE - 1);
  dmi_pack_u16(pack, (uint16_t)len);
  dmi_pack_raw(pack, text, len);
}

struct dmi_slice dmi_pack_slice(struct dmi_pack *pack) {
  struct dmi_slice slice = {0};
  if (pack->len > 0) slice = dmi_slice_xcopy(pack->bytes, pack->len);
  dmi_pack_free(pack);
  return slice;
}

void dmi_pack_free(struct dmi_pack *pack) {
  free(pack->bytes);
  dmi_pack_init(pack);
}

void dmi_unpack_init(struct dmi_unpack *unpack, const struct dmi_slice *body) {
  unpack->ptr = body->ptr;
  unpack->left = body->ptr ? body->len : 0;
  unpack->bad = !body->ptr && body->len > 0;
}

/* The next `len` bytes, or NULL if there are not so many. */
static const uint8_t *next(struct dmi_unpack *unpack, size_t len) {
  const uint8_t *ptr = unpack->ptr;
  if (unpack->bad || unpack->left < len) {
    unpack->bad = true;
    return NULL;
  }
  if (len > 0) unpack->ptr += len;
  unpack->left -= len;
  return ptr;
}

static uint64_t get(struct dmi_unpack *unpack, size_t size) {
  const uint8_t *ptr = next(unpack, size);
  uint64_t value = 0;
  if (!ptr) return 0;
  for (size_t i = 0; i < size; i++)
    value |= (uint64_t)ptr[i] << (8 * i);
  return value;
}

uint8_t dmi_unpack_u8(struct dmi_unpack *unpack) {
  return (uint8_t)get(unpack, 1);
}

uint16_t dmi_unpack_u16(struct dmi_unpack *unpack) {
  return (uint16_t)get(unpack, 2);
}

uint32_t dmi_unpack_u32(struct dmi_unpack *unpack) {
  return (uint32_t)get(unpack, 4);
}

uint64_t dmi_unpack_u64(struct dmi_unpack *unpack) {
  return get(unpack, 8);
}

void dmi_unpack_raw(struct dmi_unpack *unpack, void *bytes, size_t len) {
  const uint8_t *ptr = next(unpack, len);
  if (ptr) {
    memcpy(bytes, ptr, len);
  } else {
    memset(bytes, 0, len);
  }
}

const uint8_t *dmi_unpack_bytes(struct dmi_unpack *unpack, size_t *len) {
  size_t size = dmi_unpack_u32(unpack);
  const uint8_t *ptr = next(unpack, size);
  *len = ptr ? size : 0;
  return ptr;
}

/* Copies `len` bytes and adds a final zero. */
static void get_text(struct dmi_unpack *unpack, char *string, size_t len) {
  const uint8_t *ptr = next(unpack, len);
  string[0] = 0;
  if (!ptr || len == 0) return;
  if (memchr(ptr, 0, len)) {
    unpack->bad = true;
    return;
  }
  memcpy(string, ptr, len);
  string[len] = 0;
}

void dmi_unpack_string(struct dmi_unpack *unpack, char *string) {
  get_text(unpack, string, dmi_unpack_u8(unpack));
}

void dmi_unpack_text(struct dmi_unpack *unpack, char text[DMI_TEXT_SIZE]) {
  size_t len = dmi_unpack_u16(unpack);
  if (len >= DMI_TEXT_SIZE) unpack->bad = true;
  get_text(unpack, text, len);
}

uint32_t dmi_unpack_count(struct dmi_unpack *unpack, size_t size) {
  uint32_t count = dmi_unpack_u32(unpack);
  if (unpack->bad || count > unpack->left / size) {
    unpack->bad = true;
    return 0;
  }
  return count;
}

bool dmi_unpack_done(const struct dmi_unpack *unpack) {
  return !unpack->bad && unpack->left == 0;
}
