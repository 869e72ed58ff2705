/*
 * outlet.h - the subscriber for programs: writes events as lines of JSON to the descriptor of a
 * launcher (DMI_EVENT_FD, docs/events.md).
 *
 *   {"time":1763717412.123456,"pid":4711,"event":"joined","process":2,"member":3,"id":2}
 *
 * It never waits for the reader: events that do not fit into the pipe are left out, and before the
 * next one that fits the event "lost" says how many were. A line has at most DMI_OUTLET_LINE bytes.
 *
 * It may also be a file (--events): if that cannot be written a line says so, once.
 */
#ifndef DMI_BASE_OUTLET_H
#define DMI_BASE_OUTLET_H

#include "base/event.h"
#include "base/lock.h"

#define DMI_OUTLET_LINE 4096 /* bytes, with "\n"; a pipe takes this much whole or not at all */

struct dmi_outlet {
  struct dmi_subscriber subscriber;
  struct dmi_stream *stream;
  const char *path;           /* of a file; NULL: a pipe, which its reader may close */
  struct dmi_mutex lock;      /* guards the rest */
  int fd;                     /* -1: closed */
  uint64_t lost;              /* events left out since the last one that was written */
  char line[DMI_OUTLET_LINE]; /* one line, or "lost" and another */
  int error;                  /* with which the last write failed, until that was said; 0: none */
  size_t at, length;          /* its unwritten part: other descriptors than pipes may take a part */
};

/* Subscribes to events up to this level. `path`: of the file; NULL: it is none. Takes the
 * descriptor over: makes it non-blocking and close-on-exec; dmi_outlet_close closes it. False: not
 * a descriptor, errno says why. To be called while there is only one thread. */
bool dmi_outlet_open(struct dmi_outlet *outlet, struct dmi_stream *stream, int fd,
                     enum dmi_log_level level, const char *path);
void dmi_outlet_close(struct dmi_outlet *outlet, struct dmi_stream *stream);

/* Writes the event as a line of JSON, with \n and 0 at the end. Returns its length without the
 * 0. */
size_t dmi_outlet_encode(char line[DMI_OUTLET_LINE], const struct dmi_stream *stream,
                         const struct dmi_event *event);

#endif
