/*
 * contact.h - a file that says where a running program can be joined (dmirun --contact).
 *
 * Its one line is "HOST PORT" of the coordinator.  There is one coordinator at any time, so the
 * file has one writer: the process that takes the role over writes the file anew, the last one
 * removes it.  Each reader sees a whole line, an old one or the new one (rename).
 */
#ifndef DMI_NODE_CONTACT_H
#define DMI_NODE_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"

#define DMI_CONTACT_HOST 256 /* bytes of a host name with its end */

struct dmi_contact;

/* For a process that others reach as host:port: the file is written when the stream tells that this
 * process is the coordinator (event "coordinating").  `file` NULL: there is none.  While there is
 * one thread only. */
struct dmi_contact *dmi_contact_new(const char *file, const char *host, uint16_t port,
                                    struct dmi_stream *stream);

/* Waits until the file is written.  `over`: the program has ended; removes the file if it still
 * says what this process wrote. */
void dmi_contact_end(struct dmi_contact *contact, bool over);
/* After that, while there is one thread only. */
void dmi_contact_free(struct dmi_contact *contact);

#define DMI_CONTACT_WHY (4096 + 200) /* bytes of a sentence with a file name */

/* Reads the file.  False: `why` is a sentence, empty if it is as in host and port already. */
bool dmi_contact_read(const char *file, char host[DMI_CONTACT_HOST], uint16_t *port,
                      char why[DMI_CONTACT_WHY]);

#endif
