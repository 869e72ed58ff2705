/*
 * outlet.h - the subscriber for programs: events as lines of JSON on a descriptor that a launcher
 * gave (DMI_EVENT_FD, docs/events.md).
 *
 *   {"time":1763717412.123456,"pid":4711,"event":"joined","process":2,"member":3,"id":2}
 *
 * It never waits for the reader: what does not fit into the pipe is left out, and event "lost"
 * tells how many were, before the next one that fits.  Each line is at most DMI_OUTLET_LINE bytes.
 */
#ifndef DMI_BASE_OUTLET_H
#define DMI_BASE_OUTLET_H

#include "base/event.h"
#include "base/lock.h"

#define DMI_OUTLET_LINE 4096 /* bytes, with its end: what a pipe takes whole or not at all */

struct dmi_outlet {
  struct dmi_subscriber subscriber;
  struct dmi_mutex lock;      /* guards the rest */
  int fd;                     /* -1: closed, nobody reads any more */
  uint64_t lost;              /* events since the last one that was written */
  char line[DMI_OUTLET_LINE]; /* perhaps two, the first being "lost" */
  size_t at, length; /* what is not written of it yet: other descriptors than pipes take pieces */
};

/* Subscribes for events up to this level; the descriptor is its own from now on, does not block,
 * and is closed by dmi_outlet_close and by exec.  False: it is not one, errno says why.  While
 * there is one thread only. */
bool dmi_outlet_open(struct dmi_outlet *outlet, struct dmi_stream *stream, int fd,
                     enum dmi_log_level level);
void dmi_outlet_close(struct dmi_outlet *outlet, struct dmi_stream *stream);

/* The event as a line of JSON, ended by \n and 0.  Returns its length without the 0. */
size_t dmi_outlet_encode(char line[DMI_OUTLET_LINE], const struct dmi_stream *stream,
                         const struct dmi_event *event);

#endif
