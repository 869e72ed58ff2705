/*
 * contact.c - writes, reads and removes the file of dmirun --contact.
 *
 * Failure modes: if the file cannot be written, a line on stderr says so, and the program goes on
 * (but the first process does not start if it sees that at once).
 * After a crash of the whole program the file stays; a joiner then fails because nobody listens
 * there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/contact.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

struct dmi_contact {
  struct dmi_subscriber subscriber; /* to "coordinating" */
  struct dmi_stream *stream;
  const char *file;
  char line[DMI_CONTACT_HOST + 8]; /* what this process writes */
  bool told;
  bool threaded; /* `writer` must be joined */
  pthread_t writer;
};

static void *writer_body(void *arg) {
  struct dmi_contact *contact = arg;
  char why[DMI_FILE_WHY];
  if (!dmi_file_replace(contact->file, contact->line)) {
    dmi_say(contact->stream, DMI_LOG_WARN, "start", "cannot write %s (--contact): %s",
            contact->file, dmi_file_why_not_made(why, contact->file, errno));
  }
  return NULL;
}

/* This process is the coordinator now.  A thread of its own writes the file, since that may take
 * long on a network file system. */
static void coordinating(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
                         const struct dmi_event *event) {
  struct dmi_contact *contact = (struct dmi_contact *)(void *)subscriber;
  sigset_t all, before;
  (void)stream;
  (void)event;
  contact->told = true;
  sigfillset(&all); /* signals go to the daemon thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  contact->threaded = pthread_create(&contact->writer, NULL, writer_body, contact) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!contact->threaded) writer_body(contact);
}

struct dmi_contact *dmi_contact_new(const char *file, const char *host, uint16_t port,
                                    struct dmi_stream *stream) {
  struct dmi_contact *contact = dmi_xalloc(1, sizeof(*contact));
  contact->stream = stream;
  contact->file = file;
  snprintf(contact->line, sizeof(contact->line), "%.255s %u\n", host, port);
  contact->subscriber.take = coordinating;
  contact->subscriber.wants = file ? DMI_EVENT_BIT(DMI_EVENT_coordinating) : 0;
  dmi_stream_subscribe(stream, &contact->subscriber);
  return contact;
}

static bool read_line(const char *file, char *line, int size) {
  FILE *in = fopen(file, "r");
  bool good;
  if (!in) return false;
  errno = 0;
  good = fgets(line, size, in) != NULL;
  if (!good && errno == 0) line[0] = '\0';
  good = good || errno == 0;
  fclose(in);
  return good;
}

static bool is_file(const char *path) {
  struct stat stat_of;
  return stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode);
}

void dmi_contact_end(struct dmi_contact *contact, bool over) {
  char line[sizeof(contact->line)];
  if (contact->threaded) pthread_join(contact->writer, NULL);
  if (over && contact->told && is_file(contact->file) &&
      read_line(contact->file, line, sizeof(line)) && strcmp(line, contact->line) == 0) {
    unlink(contact->file);
  }
  contact->threaded = contact->told = false;
}

void dmi_contact_free(struct dmi_contact *contact) {
  dmi_stream_unsubscribe(contact->stream, &contact->subscriber);
  free(contact);
}

bool dmi_contact_read(const char *file, char host[DMI_CONTACT_HOST], uint16_t *port,
                      char why[DMI_CONTACT_WHY]) {
  char line[DMI_CONTACT_HOST + 8], name[DMI_CONTACT_HOST];
  unsigned number;
  if (!read_line(file, line, sizeof(line))) {
    snprintf(why, DMI_CONTACT_WHY, "cannot read %.4000s (dmirun -i): %s%s", file, strerror(errno),
             errno == ENOENT ? "; the program has ended, or has not begun" : "");
    return false;
  }
  if (sscanf(line, "%255s %5u", name, &number) != 2 || number == 0 || number > 65535) {
    snprintf(why, DMI_CONTACT_WHY, "%.4000s does not say where a program runs (dmirun -i)", file);
    return false;
  }
  why[0] = '\0';
  if (*port == number && strcmp(name, host) == 0) return false;
  memcpy(host, name, sizeof(name));
  *port = (uint16_t)number;
  return true;
}
