/*
 * memory.c - see memory.h.
 */
#include "ox/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *there(void *at) {
  if (at == NULL) {
    fprintf(stderr, "libdmiox: no memory\n");
    abort();
  }
  return at;
}

void *dmi_ox_alloc(size_t size) {
  return there(calloc(1, size > 0 ? size : 1));
}

void *dmi_ox_realloc(void *at, size_t size) {
  return there(realloc(at, size > 0 ? size : 1));
}

void *dmi_ox_grow(void *at, size_t num, size_t *room, size_t size) {
  if (num < *room) return at;
  *room = *room > 0 ? *room * 2 : 4;
  return dmi_ox_realloc(at, *room * size);
}

unsigned char *dmi_ox_bytes_add(struct dmi_ox_bytes *bytes, size_t len) {
  if (bytes->room - bytes->len < len) {
    size_t room = bytes->room > 0 ? bytes->room * 2 : 64;
    if (room - bytes->len < len) room = bytes->len + len;
    bytes->at = dmi_ox_realloc(bytes->at, room);
    bytes->room = room;
  }
  bytes->len += len;
  return bytes->at + bytes->len - len;
}

void dmi_ox_bytes_put(struct dmi_ox_bytes *bytes, const void *from, size_t len) {
  if (len > 0) memcpy(dmi_ox_bytes_add(bytes, len), from, len);
}

void dmi_ox_bytes_cut(struct dmi_ox_bytes *bytes, size_t len) {
  bytes->len -= len;
  if (bytes->len > 0) memmove(bytes->at, bytes->at + len, bytes->len);
}

void dmi_ox_bytes_free(struct dmi_ox_bytes *bytes) {
  free(bytes->at);
  *bytes = (struct dmi_ox_bytes){0};
}
