/*
 * file.c - whole reads and writes of files.
 */
#include "file.h"

#include <errno.h>
#include <unistd.h>

bool farm_write(int file, const void *bytes, int64_t size) {
  const char *at = bytes;
  while (size > 0) {
    ssize_t done = write(file, at, (size_t)size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    at += done;
    size -= done;
  }
  return true;
}

bool farm_read(int file, void *bytes, int64_t size, int64_t offset) {
  char *at = bytes;
  while (size > 0) {
    ssize_t done = pread(file, at, (size_t)size, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;
    if (done <= 0) return false;
    at += done;
    size -= done;
    offset += done;
  }
  return true;
}
