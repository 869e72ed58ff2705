/*
 * contact.h - a file that says where a running program can be joined (dmirun --contact).
 *
 * Its one line is "HOST PORT" of the coordinator.  There is one coordinator at any time, so the
 * file has one writer: the process that takes over the role writes the file anew, and the last one
 * removes it.  It is replaced by rename(), so that a reader sees either the old line or the new
 * one.
 */
#ifndef DMI_NODE_CONTACT_H
#define DMI_NODE_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"

#define DMI_CONTACT_HOST 256 /* bytes of a host name with its final zero */

struct dmi_contact;

/* For a process that others reach as host:port: the file is written at each event "coordinating",
 * when this process becomes the coordinator.  `file` NULL: there is none.  To be called while there
 * is only one thread. */
struct dmi_contact *dmi_contact_new(const char *file, const char *host, uint16_t port,
                                    struct dmi_stream *stream);

/* Waits until the file is written.  `over`: the program has ended, and the file is removed, unless
 * another process has written to it since. */
void dmi_contact_end(struct dmi_contact *contact, bool over);
/* To be called after that, while there is only one thread. */
void dmi_contact_free(struct dmi_contact *contact);

#define DMI_CONTACT_WHY (4096 + 200) /* bytes of an error message with a file name */

/* Reads the file.  False: `why` is an error message; it is empty if the file only says again what
 * host and port say. */
bool dmi_contact_read(const char *file, char host[DMI_CONTACT_HOST], uint16_t *port,
                      char why[DMI_CONTACT_WHY]);

#endif
