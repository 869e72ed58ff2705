/*
 * announce.c - see announce.h.
 */
#include "node/announce.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static void to_file(const struct dmi_announce *announce, const char *line) {
  if (announce->file == NULL || dmi_file_replace(announce->file, line)) return;
  dmi_say(announce->stream, DMI_LOG_WARN, "start",
          "cannot write the file %s that DMI_PORT_FILE names: %s", announce->file,
          dmi_file_why(errno));
}

static void to_fd(const struct dmi_announce *announce, const char *line) {
  if (announce->fd < 0) return;
  if (write(announce->fd, line, strlen(line)) < 0) {
    dmi_say(announce->stream, DMI_LOG_WARN, "start",
            "cannot write to descriptor %d (dmirun --ready-fd): %s", announce->fd, strerror(errno));
  }
  close(announce->fd);
}

static void listening(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
                      const struct dmi_event *event) {
  const struct dmi_announce *announce = (const struct dmi_announce *)(const void *)subscriber;
  char line[16];
  (void)stream;
  snprintf(line, sizeof line, "%u\n", (unsigned)event->listening.port);
  to_file(announce, line);
  to_fd(announce, line);
}

void dmi_announce_open(struct dmi_announce *announce, struct dmi_stream *stream, const char *file,
                       int fd) {
  announce->subscriber.take = listening;
  announce->subscriber.wants = file || fd >= 0 ? DMI_EVENT_BIT(DMI_EVENT_listening) : 0;
  announce->stream = stream;
  announce->file = file;
  announce->fd = fd;
  dmi_stream_subscribe(stream, &announce->subscriber);
}
