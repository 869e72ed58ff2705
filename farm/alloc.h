/*
 * alloc.h - memory of dmifarm: ends the process when there is none, as nothing could go on.
 */
#ifndef FARM_ALLOC_H
#define FARM_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed.  Freed by free. */
void *farm_alloc(size_t size);
char *farm_strdup(const char *text);
/* printf to new memory. */
char *farm_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Makes place for one more in an array of `num` items of `size` bytes, and returns where it is. */
void *farm_grow(void *array, size_t num, uint32_t *capacity, size_t size);
/* The same for one item that holds `need` bytes, as a buffer does. */
void *farm_room(void *buffer, size_t need, size_t *capacity);

#endif
