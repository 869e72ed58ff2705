/*
 * control.h - the descriptor on which a launcher tells this process what only the launcher knows
 * (DMI_CONTROL_FD): that another process which it had started has ended.
 */
#ifndef DMI_NODE_CONTROL_H
#define DMI_NODE_CONTROL_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

#define DMI_CONTROL_LINE 128 /* longer lines are wrong */

struct dmi_control {
  struct ev_loop *loop;
  struct ev_io io;
  int fd; /* -1: none, or no more */
  /* `uid` of this program is dead for certain.  Called in the loop. */
  void (*dead)(void *arg, const uint8_t program[16], dmi_uid_t uid);
  void (*wrong)(void *arg, const char *line); /* nothing more is read */
  void *arg;
  uint32_t length; /* of `line`, so far */
  char line[DMI_CONTROL_LINE];
};

/* The descriptor belongs to this process alone from now on: what it starts does not inherit it.
 * False: it is not open. */
bool dmi_control_own(int fd);

/* Reads from `fd` in this loop; the functions and `arg` are set before. */
void dmi_control_begin(struct dmi_control *control, struct ev_loop *loop, int fd);
/* Closes the descriptor. */
void dmi_control_end(struct dmi_control *control);

#endif
