/*
 * key.c - reads the program's key, and makes it on first use.
 *
 * Happy path: ~/.dmi/key exists, belongs to this user, and nobody else can read it. If there is
 * none, a new key is written to a temporary file, which link() gives the name; that fails if
 * another process made the key meanwhile.  So a key that can be seen is complete and never changes,
 * also on a network file system.  Then it is read like any other.
 *
 * Failure modes: no home directory, a file or directory that others can read or have made, no key
 * in it: a line says so, and the process does not start.  Nothing is repaired silently: others may
 * have read the key already.
 *
 * Must not print a key, put it into the environment, or leave it in a buffer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS ((size_t)2 * DMI_KEY_SIZE)

static bool complain(struct dmi_stream *stream, const char *name, const char *what) {
  dmi_say(stream, DMI_LOG_ERROR, "start", "the key file %s %s", name, what);
  return false;
}

static bool complain_errno(struct dmi_stream *stream, const char *doing, const char *name) {
  dmi_say(stream, DMI_LOG_ERROR, "start", "cannot %s %s: %s (another key file: dmirun --key)",
          doing, name, strerror(errno));
  return false;
}

/* Reads byte by byte, up to the end of the line: on a standard stream, what follows is input of the
 * program. */
static bool read_line(int fd, char line[DIGITS + 1]) {
  size_t have = 0;
  while (have < DIGITS + 1) {
    ssize_t got = read(fd, line + have, DIGITS + 1 - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += (size_t)got;
  }
  return have == DIGITS + 1 && line[DIGITS] == '\n';
}

static bool take_key(int fd, uint8_t key[DMI_KEY_SIZE]) {
  char line[DIGITS + 1];
  size_t bytes = 0;
  bool good = read_line(fd, line) &&
              sodium_hex2bin(key, DMI_KEY_SIZE, line, DIGITS, NULL, &bytes, NULL) == 0 &&
              bytes == DMI_KEY_SIZE;
  sodium_memzero(line, sizeof line);
  return good;
}

/* True if only this user can have read or written the file. */
static bool is_private(struct dmi_stream *stream, int fd, const char *name) {
  struct stat info;
  if (fstat(fd, &info) != 0) return complain_errno(stream, "look at", name);
  if (!S_ISREG(info.st_mode)) return complain(stream, name, "is not a file");
  if (info.st_uid != geteuid()) return complain(stream, name, "belongs to another user");
  if ((info.st_mode & 077) != 0) {
    return complain(
        stream, name,
        "can be read by others, so it is not secret any more: put a new key "
        "there (~/.dmi/key is made anew when there is none), or, if nobody has read it: "
        "chmod 600");
  }
  return true;
}

/* `missing` not NULL: a file that does not exist is no error, and sets it. */
static bool read_file(struct dmi_stream *stream, uint8_t key[DMI_KEY_SIZE], const char *name,
                      bool *missing) {
  int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    if (missing != NULL && (*missing = errno == ENOENT)) return false;
    if (errno == ENOENT) {
      return complain(stream, name,
                      "is not there: make one with: (umask 077; openssl rand -hex 32 > FILE)");
    }
    return complain_errno(stream, "read", name);
  }
  bool good = is_private(stream, fd, name);
  if (good && !take_key(fd, key)) {
    good = complain(stream, name, "has no key in it: that is one line of 64 hexadecimal digits");
  }
  close(fd);
  return good;
}

/* ---- ~/.dmi/key ----------------------------------------------------------------------------- */

static bool find_home(struct dmi_stream *stream, char *out, size_t size, const char *rest) {
  const char *home = getenv("HOME");
  if (home == NULL || home[0] != '/') {
    const struct passwd *user = getpwuid(geteuid());
    home = user == NULL ? NULL : user->pw_dir;
  }
  if (home != NULL && home[0] == '/' && (size_t)snprintf(out, size, "%s/%s", home, rest) < size) {
    return true;
  }
  dmi_say(stream, DMI_LOG_ERROR, "start",
          "there is no home directory for the key: name a key file with dmirun --key");
  return false;
}

/* Makes ~/.dmi, in which others must not be able to add or remove files. */
static bool make_directory(struct dmi_stream *stream, const char *name) {
  struct stat info;
  if (mkdir(name, 0700) != 0 && errno != EEXIST)
    return complain_errno(stream, "make the directory", name);
  if (stat(name, &info) != 0) return complain_errno(stream, "look at", name);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    dmi_say(stream, DMI_LOG_ERROR, "start",
            "%s is not a directory that only you can change: chmod 700 it, or choose a "
            "key file with dmirun --key",
            name);
    return false;
  }
  return true;
}

static bool write_key(int fd) {
  uint8_t key[DMI_KEY_SIZE];
  char line[DIGITS + 2];
  randombytes_buf(key, sizeof key);
  sodium_bin2hex(line, sizeof line, key, sizeof key);
  line[DIGITS] = '\n';
  bool good = write(fd, line, DIGITS + 1) == (ssize_t)(DIGITS + 1) && fsync(fd) == 0;
  sodium_memzero(key, sizeof key);
  sodium_memzero(line, sizeof line);
  return good;
}

/* Makes `name`, unless another process does.  False: it does not exist, and a line says why. */
static bool make_key(struct dmi_stream *stream, const char *directory, const char *name) {
  char temp[PATH_MAX];
  if ((size_t)snprintf(temp, sizeof temp, "%s/new-XXXXXX", directory) >= sizeof temp) {
    errno = ENAMETOOLONG;
    return complain_errno(stream, "make", name);
  }
  int fd = mkostemp(temp, O_CLOEXEC); /* mode 0600 */
  if (fd < 0) return complain_errno(stream, "make a file in", directory);
  bool good = write_key(fd);
  if (close(fd) != 0) good = false;
  if (good && link(temp, name) != 0 && access(name, F_OK) != 0) good = false;
  int error = errno;
  unlink(temp);
  errno = error;
  return good || complain_errno(stream, "make", name);
}

static bool read_own(struct dmi_stream *stream, uint8_t key[DMI_KEY_SIZE]) {
  char directory[PATH_MAX], name[PATH_MAX];
  bool missing = false;
  if (!find_home(stream, directory, sizeof directory, ".dmi") ||
      !find_home(stream, name, sizeof name, ".dmi/key")) {
    return false;
  }
  if (!make_directory(stream, directory)) return false;
  if (read_file(stream, key, name, &missing)) return true;
  return missing && make_key(stream, directory, name) && read_file(stream, key, name, NULL);
}

bool dmi_key_read(uint8_t key[DMI_KEY_SIZE], const char *file, int fd, struct dmi_stream *stream) {
  if (fd < 0) return file != NULL ? read_file(stream, key, file, NULL) : read_own(stream, key);
  bool good = take_key(fd, key);
  if (!good)
    dmi_say(stream, DMI_LOG_ERROR, "start",
            "no key can be read from descriptor %d (dmirun --key-fd)", fd);
  if (fd > 2) close(fd);
  return good;
}
