/*
 * birth.c - see birth.h.
 *
 * A pid alone says little, as it is used again.  So the descriptor of the process (pidfd) is opened
 * first, and then its start is compared: as long as that is right, the descriptor is of that
 * process.
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

/* When the process with this pid began.  False: there is none. */
static bool find_start(uint32_t pid, uint64_t *start) {
  char path[40], text[1024];
  const char *at;
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  if (!read_text(path, text, sizeof text)) return false;
  at = strrchr(text, ')'); /* its name, before that, may hold anything */
  for (int field = 2; at && field < 22; field++)
    at = strchr(at + 1, ' ');
  if (!at) return false;
  *start = strtoull(at + 1, NULL, 10);
  return true;
}

void dmi_birth_find(struct dmi_birth *birth) {
  *birth = (struct dmi_birth){.pid = (uint32_t)getpid()};
  if (!find_boot(birth->boot) || !find_space(&birth->space) ||
      !find_start(birth->pid, &birth->start)) {
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
  return fd >= 0 && poll(&one, 1, 0) == 1;
}

enum dmi_birth_look dmi_birth_look(const struct dmi_birth *birth, int *fd) {
  struct dmi_birth mine;
  uint64_t start;
  *fd = -1;
  dmi_birth_find(&mine);
  if (birth->pid == 0 || mine.pid == 0 || birth->space != mine.space ||
      memcmp(birth->boot, mine.boot, sizeof mine.boot) != 0) {
    return DMI_BIRTH_ELSEWHERE;
  }
  *fd = open_process(birth->pid);
  if (find_start(birth->pid, &start) && start == birth->start && !has_ended(*fd)) {
    return DMI_BIRTH_LIVES;
  }
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return DMI_BIRTH_GONE;
}
