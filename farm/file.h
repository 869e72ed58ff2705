/*
 * file.h - whole reads and writes of files.
 */
#ifndef FARM_FILE_H
#define FARM_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes all of it, at the file's position.  False: `errno`. */
bool farm_write(int file, const void *bytes, int64_t size);
/* Reads so many bytes from `offset` on.  False: `errno`, EIO when the file is shorter. */
bool farm_read(int file, void *bytes, int64_t size, int64_t offset);

#endif
