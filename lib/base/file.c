/*
 * file.c - see file.h.
 *
 * The text is written to a temporary file, which is then renamed to replace the old one. Its name
 * is unique, on all machines, and cannot be guessed (mkostemp), so in a directory where others may
 * write none of their links is followed.
 *
 * Failure modes: no directory, no right to write, a full disk, a file as large as the user has
 * allowed (ulimit -f): errno says which.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 40 /* of one path, as for Linux itself (path_resolution(7)) */

__thread int dmi_file_is_own __attribute__((tls_model("initial-exec")));

/* ---- Failures -------------------------------------------------------------------------------- */

const char *dmi_file_why(int error) {
  struct rlimit limit;
  if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return "File too large (ulimit -f allows no more)";
  return strerror(error);
}

const char *dmi_file_why_not_made(char text[DMI_FILE_WHY], const char *path, int error) {
  const char *end = strrchr(path, '/');
  struct stat stat_of;
  const int length = end ? (int)(end - path) : 0;
  snprintf(text, DMI_FILE_WHY, "%.*s", length ? length : 1, length ? path : end ? "/" : ".");
  if (error != ENOENT || stat(text, &stat_of) == 0) return dmi_file_why(error);
  snprintf(text, DMI_FILE_WHY, "there is no directory %.*s", length < 4000 ? length : 4000, path);
  return text;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *text) {
  size_t size = strlen(text), done = 0;
  while (done < size) {
    ssize_t count = write(fd, text + done, size - done);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) done += (size_t)count;
  }
  return true;
}

/* A new file beside the one with this path.  -1: errno says why. */
static int make_beside(const char *path, char **temp) {
  int fd, error;
  if (asprintf(temp, "%s.XXXXXX", path) < 0) abort();
  fd = mkostemp(*temp, O_CLOEXEC);
  if (fd >= 0) return fd;
  error = errno;
  free(*temp);
  errno = error;
  return -1;
}

/* True if there is something that is neither a file nor a link, so that it must stay. */
static bool is_special(const char *path) {
  struct stat stat_of;
  return lstat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode) && !S_ISLNK(stat_of.st_mode);
}

/* Nobody waits here for the reader of a pipe. */
static bool write_special(const char *path, const char *text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  bool good;
  int error;
  if (fd < 0) return false;
  good = write_all(fd, text);
  error = errno;
  close(fd);
  errno = error;
  return good;
}

bool dmi_file_can_replace(const char *path) {
  char *temp;
  int fd;
  if (is_special(path)) return access(path, W_OK) == 0;
  fd = make_beside(path, &temp);
  if (fd < 0) return false;
  close(fd);
  unlink(temp);
  free(temp);
  return true;
}

/* The path that this link names, to free(). NULL: errno says why not. */
static char *target_of(const char *path) {
  char target[PATH_MAX], *whole;
  const ssize_t length = readlink(path, target, sizeof target);
  const char *slash = strrchr(path, '/');
  int dir = 0; /* bytes: of the directory, where the target is relative to it */
  if (length < 0) return NULL;
  if (length == sizeof target) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  if (slash && target[0] != '/') dir = (int)(slash - path) + 1;
  if (asprintf(&whole, "%.*s%.*s", dir, path, (int)length, target) < 0) abort();
  return whole;
}

/* `links`: how many may be followed yet.  Of those that point at each other the system tells
 * (ELOOP), but somebody may change them meanwhile. */
static bool can_write(const char *path, int links) {
  struct stat stat_of;
  char *target;
  bool good;
  int error;
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
    unlink(path);
    return true;
  }
  if (errno != EEXIST) return false;
  if (stat(path, &stat_of) == 0) {
    if (!S_ISDIR(stat_of.st_mode)) return access(path, W_OK) == 0;
    errno = EISDIR;
    return false;
  }
  if (errno != ENOENT) return false;
  /* A link to what is not there: what is written makes its target. */
  if (links == 0) {
    errno = ELOOP;
    return false;
  }
  target = target_of(path);
  if (!target) return false;
  good = can_write(target, links - 1);
  error = errno;
  free(target);
  errno = error;
  return good;
}

bool dmi_file_can_write(const char *path) {
  return can_write(path, MOST_LINKS);
}

static bool replace(const char *path, const char *text) {
  bool good;
  char *temp;
  int fd, error;
  if (is_special(path)) return write_special(path, text);
  fd = make_beside(path, &temp);
  if (fd < 0) return false;
  good = write_all(fd, text) && fchmod(fd, 0644) == 0;
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

bool dmi_file_replace(const char *path, const char *text) {
  bool good;
  dmi_file_begin();
  good = replace(path, text);
  dmi_file_end();
  return good;
}
