/*
 * file.c - see file.h.
 *
 * The text is written to a temporary file, which is then renamed to replace the old one. Its name
 * is unique, on all machines, and cannot be guessed (mkostemp), so in a directory where others may
 * write none of their links is followed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *text) {
  size_t size = strlen(text), done = 0;
  while (done < size) {
    ssize_t count = write(fd, text + done, size - done);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) done += (size_t)count;
  }
  return fchmod(fd, 0644) == 0;
}

bool dmi_file_replace(const char *path, const char *text) {
  bool good;
  char *temp;
  int fd, error;
  if (asprintf(&temp, "%s.XXXXXX", path) < 0) abort();
  fd = mkostemp(temp, O_CLOEXEC);
  if (fd < 0) {
    error = errno;
    free(temp);
    errno = error;
    return false;
  }
  good = write_all(fd, text);
  error = errno;
  if (close(fd) != 0 &&
      good) { /* a network file system may report only now that the disk is full */
    good = false;
    error = errno;
  }
  if (good && rename(temp, path) != 0) {
    good = false;
    error = errno;
  }
  if (!good) unlink(temp);
  free(temp);
  errno = error;
  return good;
}
