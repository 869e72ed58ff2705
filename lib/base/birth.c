/*
 * birth.c - see birth.h.
 *
 * A pid alone says little, as it is used again.  So the descriptor of the process (pidfd) is opened
 * first, and then its start is compared: as long as that is right, the descriptor is of that
 * process.
 *
 * GONE decides without a quorum, so it needs an answer of the system that says so.  What cannot be
 * looked at (no descriptor left, a /proc that hides the processes of others) is unknown.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/birth.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first bytes of a file, as text.  False: it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "re");
  size_t got;
  if (!file) return false;
  got = fread(text, 1, size - 1, file);
  text[got] = '\0';
  fclose(file);
  return got > 0;
}

static bool find_boot(uint8_t boot[16]) {
  char text[64];
  uint32_t digits = 0;
  if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof text)) return false;
  memset(boot, 0, 16);
  for (const char *c = text; *c && digits < 32; c++) {
    char one[2] = {*c, '\0'}, *end;
    unsigned long value = strtoul(one, &end, 16);
    if (*end) continue; /* a dash */
    boot[digits / 2] = (uint8_t)((unsigned long)boot[digits / 2] << 4 | value);
    digits++;
  }
  return digits == 32;
}

static bool find_space(uint64_t *space) {
  struct stat of;
  if (stat("/proc/self/ns/pid", &of) != 0) return false;
  *space = (uint64_t)of.st_ino;
  return true;
}

/* Older systems have no time namespaces: one time for all, called 0. */
static bool find_time(uint64_t *time) {
  struct stat of;
  *time = 0;
  if (stat("/proc/self/ns/time", &of) != 0) return errno == ENOENT;
  *time = (uint64_t)of.st_ino;
  return true;
}

/* When that process began.  False: that cannot be read, or it is another pid's. */
static bool read_start(const char *path, uint32_t pid, uint64_t *start) {
  char text[1024];
  const char *at;
  if (!read_text(path, text, sizeof text) || strtoul(text, NULL, 10) != pid) return false;
  at = strrchr(text, ')'); /* its name, before that, may hold anything */
  for (int field = 2; at && field < 22; field++)
    at = strchr(at + 1, ' ');
  if (!at) return false;
  *start = strtoull(at + 1, NULL, 10);
  return true;
}

void dmi_birth_find(struct dmi_birth *birth) {
  *birth = (struct dmi_birth){.pid = (uint32_t)getpid()};
  /* by "self", so that a /proc of another pid namespace, with other pids, is noticed */
  if (!find_boot(birth->boot) || !find_space(&birth->space) || !find_time(&birth->time) ||
      !read_start("/proc/self/stat", birth->pid, &birth->start)) {
    memset(birth, 0, sizeof *birth);
  }
}

static int open_process(uint32_t pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
#else
  (void)pid;
  errno = ENOSYS;
  return -1;
#endif
}

/* It may have ended, and nobody have waited for it yet. */
static bool has_ended(int fd) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return fd >= 0 && poll(&one, 1, 0) == 1 && (one.revents & POLLIN);
}

/* With its descriptor, or the error of opening that. */
static enum dmi_birth_look look_at(const struct dmi_birth *birth, int fd, int error) {
  char path[40];
  uint64_t start;
  if (fd < 0 && error == ESRCH) return DMI_BIRTH_GONE;
  if (has_ended(fd)) return DMI_BIRTH_GONE; /* that one, or one that has got its pid since */
  snprintf(path, sizeof path, "/proc/%u/stat", birth->pid);
  if (!read_start(path, birth->pid, &start)) /* it may have ended since */
    return has_ended(fd) ? DMI_BIRTH_GONE : DMI_BIRTH_ELSEWHERE;
  if (start != birth->start) return DMI_BIRTH_GONE;
  return has_ended(fd) ? DMI_BIRTH_GONE : DMI_BIRTH_LIVES;
}

enum dmi_birth_look dmi_birth_look(const struct dmi_birth *birth, const struct dmi_birth *mine,
                                   int *fd) {
  enum dmi_birth_look look;
  *fd = -1;
  if (birth->pid == 0 || mine->pid == 0 || birth->space != mine->space ||
      birth->time != mine->time || memcmp(birth->boot, mine->boot, sizeof mine->boot) != 0) {
    return DMI_BIRTH_ELSEWHERE;
  }
  *fd = open_process(birth->pid);
  look = look_at(birth, *fd, errno);
  if (look == DMI_BIRTH_LIVES) return look;
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return look;
}
