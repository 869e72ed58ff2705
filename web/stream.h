/*
 * stream.h - pages that are open: each gets the latest event of each name, as fast as it reads.
 *
 * Nothing is kept while no page is open, and nothing is queued: a page that has read an event gets
 * the newest one next, and none of those between.  So a page that reads slowly or never costs one
 * event at most, beside its connection.
 */
#ifndef WEB_STREAM_H
#define WEB_STREAM_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

struct web_streams;

struct web_streams *web_streams_new(void); /* NULL: no memory */
/* When no connection is left. */
void web_streams_free(struct web_streams *streams);

/* The newest event of this name.  False: no memory. */
bool web_streams_tell(struct web_streams *streams, const char *name, const char *bytes,
                      size_t length);
/* The response of a page that begins to listen; NULL: no memory. */
struct MHD_Response *web_streams_open(struct web_streams *streams,
                                      struct MHD_Connection *connection);
size_t web_streams_count(const struct web_streams *streams);
/* Each page gets what is new, and then the end. */
void web_streams_end(struct web_streams *streams);

#endif
