/*
 * announce.h - the subscriber that says where this process listens, to whoever started it, in forms
 * that a shell script can read: a file (DMI_PORT_FILE) and a descriptor (dmirun --ready-fd).
 */
#ifndef DMI_NODE_ANNOUNCE_H
#define DMI_NODE_ANNOUNCE_H

#include "base/event.h"

struct dmi_announce {
  struct dmi_subscriber subscriber; /* to "listening" */
  struct dmi_stream *stream;
  const char *file; /* gets the port as a line; NULL: none */
  int fd;           /* likewise, and is closed then; -1: none */
};

/* While there is one thread only. */
void dmi_announce_open(struct dmi_announce *announce, struct dmi_stream *stream, const char *file,
                       int fd);

#endif
