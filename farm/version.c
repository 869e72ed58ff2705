/*
 * version.c - the letters of a version.
 */
#include "version.h"

#include <string.h>

#include "alloc.h"

#define LETTERS 26u

char *farm_version_text(uint32_t version) {
  char text[16], *at = text + sizeof(text) - 1;
  uint64_t left = (uint64_t)version + 1;
  *at = '\0';
  for (; left; left = (left - 1) / LETTERS)
    *--at = (char)('a' + (left - 1) % LETTERS);
  return farm_strdup(at);
}

bool farm_version_split(const char *name, uint32_t *task_size, uint32_t *version) {
  const char *dot = strrchr(name, '.');
  uint64_t value = 0;
  if (!dot || dot == name || !dot[1]) return false;
  for (const char *at = dot + 1; *at; at++) {
    if (*at < 'a' || *at > 'z') return false;
    value = value * LETTERS + (uint64_t)(*at - 'a') + 1;
    if (value > UINT32_MAX) return false;
  }
  *task_size = (uint32_t)(dot - name);
  *version = (uint32_t)(value - 1);
  return true;
}
