/*
 * alloc.c - memory of dmifarm.
 */
#include "alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "dmifarm: this machine has no memory left\n");
  exit(EXIT_FAILURE);
}

void *farm_alloc(size_t size) {
  return checked(calloc(1, size ? size : 1));
}

char *farm_strdup(const char *text) {
  return checked(strdup(text));
}

char *farm_format(const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  return checked(text);
}

void *farm_grow(void *array, size_t num, uint32_t *capacity, size_t size) {
  if (num < *capacity) return array;
  *capacity = *capacity ? 2 * *capacity : 8;
  return checked(reallocarray(array, *capacity, size));
}

void *farm_room(void *buffer, size_t need, size_t *capacity) {
  if (need <= *capacity) return buffer;
  *capacity = need < 2 * *capacity ? 2 * *capacity : need;
  return checked(realloc(buffer, *capacity));
}
