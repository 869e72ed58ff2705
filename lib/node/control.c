/*
 * control.c - see control.h.
 *
 * A line is `dead PROGRAM UID`: PROGRAM is the program's id in 32 hexadecimal digits and UID the
 * member's number, both as the event "joined" has told them (docs/events.md).
 *
 * Such a word decides without a quorum (docs/crashes.md, "What a quorum is").  So whatever is not
 * exactly such a line ends the reading: who writes rubbish is not believed any more.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "msg/addr.h"

bool dmi_control_own(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
         fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Skips the word. */
static bool take_word(const char **at, const char *word) {
  size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_program(const char **at, uint8_t program[16]) {
  for (int i = 0; i < 16; i++, *at += 2) {
    int high = digit((*at)[0]), low = high < 0 ? -1 : digit((*at)[1]);
    if (low < 0) return false;
    program[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

/* A number without zeros before it. */
static bool take_uid(const char **at, dmi_uid_t *uid) {
  uint64_t value = 0;
  if (**at < '1' || **at > '9') return false;
  for (; **at >= '0' && **at <= '9'; ++*at) {
    value = 10 * value + (uint64_t)(**at - '0');
    if (value >= DMI_NET_TEMP) return false;
  }
  *uid = (dmi_uid_t)value;
  return true;
}

static bool obey(struct dmi_control *control, const char *at) {
  uint8_t program[16];
  dmi_uid_t uid;
  if (!take_word(&at, "dead ") || !take_program(&at, program) || !take_word(&at, " ") ||
      !take_uid(&at, &uid) || *at)
    return false;
  control->dead(control->arg, program, uid);
  return true;
}

static void refuse(struct dmi_control *control) {
  control->line[control->length] = '\0';
  dmi_log_printable(control->line);
  dmi_control_end(control);
  control->wrong(control->arg, control->line);
}

/* False: nothing more is read. */
static bool add(struct dmi_control *control, char c) {
  bool good = control->length + 1 < sizeof(control->line) && c;
  if (good && c != '\n') {
    control->line[control->length++] = c;
    return true;
  }
  control->line[control->length] = '\0';
  if (good && obey(control, control->line)) {
    control->length = 0;
    return true;
  }
  refuse(control);
  return false;
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events) {
  struct dmi_control *control = io->data;
  char bytes[512];
  ssize_t count = read(control->fd, bytes, sizeof bytes);
  (void)loop;
  (void)events;
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) dmi_control_end(control); /* the launcher is gone */
  for (ssize_t i = 0; i < count; i++) {
    if (!add(control, bytes[i])) return;
  }
}

void dmi_control_begin(struct dmi_control *control, struct ev_loop *loop, int fd) {
  control->fd = fd;
  control->loop = loop;
  control->length = 0;
  if (fd < 0) return;
  ev_io_init(&control->io, on_readable, fd, EV_READ);
  control->io.data = control;
  ev_io_start(loop, &control->io);
}

void dmi_control_end(struct dmi_control *control) {
  if (control->fd < 0) return;
  ev_io_stop(control->loop, &control->io);
  close(control->fd);
  control->fd = -1;
}
