/*
 * announce.h - the subscriber that says where this process listens, in forms that a shell script
 * can read: a file (DMI_PORT_FILE) and a descriptor (dmirun --ready-fd).
 */
#ifndef DMI_NODE_ANNOUNCE_H
#define DMI_NODE_ANNOUNCE_H

#include "base/event.h"

struct dmi_announce {
  struct dmi_subscriber subscriber; /* to "listening" */
  struct dmi_stream *stream;
  const char *file; /* the port is written there as a line; NULL: none */
  int fd;           /* likewise, and then closed; -1: none */
};

/* To be called while there is only one thread. */
void dmi_announce_open(struct dmi_announce *announce, struct dmi_stream *stream, const char *file,
                       int fd);

#endif
