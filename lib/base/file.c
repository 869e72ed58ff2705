/*
 * file.c - see file.h.
 *
 * The text goes to a file of another name first, which then takes the place of the old one.  That
 * name is new, on all machines, and nobody can know it before (mkostemp): in a directory where
 * others may write, no link of theirs is followed.
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
