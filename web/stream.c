/*
 * stream.c - see stream.h.
 *
 * A page's connection is suspended while there is nothing new for it, and resumed by the next
 * event. One thread: that of the daemon's loop.
 */
#include "stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "text.h"

#define BLOCK 16384 /* bytes that are handed over at a time */

/* The newest event of one name. */
struct slot {
  struct slot *next;
  char *name;
  uint64_t number; /* of the event, among all of all names */
  struct web_text *text;
};

struct stream {
  struct stream *prev, *next;
  struct web_streams *streams;
  struct MHD_Connection *connection;
  bool suspended;
  uint64_t given;        /* the last event that it got, or gets now */
  struct web_text *text; /* what it gets now; NULL: nothing */
  size_t at;             /* how much of that it has */
};

struct web_streams {
  struct slot *slots;
  struct stream *streams;
  size_t count;
  uint64_t number; /* of the last event */
  bool ending;
};

struct web_streams *web_streams_new(void) {
  return calloc(1, sizeof(struct web_streams));
}

static void forget(struct web_streams *streams) {
  struct slot *slot, *next;
  LL_FOREACH_SAFE(streams->slots, slot, next) {
    web_text_drop(slot->text);
    free(slot->name);
    free(slot);
  }
  streams->slots = NULL;
}

void web_streams_free(struct web_streams *streams) {
  if (streams) forget(streams);
  free(streams);
}

size_t web_streams_count(const struct web_streams *streams) {
  return streams->count;
}

static void wake(struct stream *stream) {
  if (!stream->suspended) return;
  stream->suspended = false;
  MHD_resume_connection(stream->connection);
}

static struct slot *slot_of(struct web_streams *streams, const char *name) {
  struct slot *slot;
  LL_FOREACH(streams->slots, slot) {
    if (strcmp(slot->name, name) == 0) return slot;
  }
  slot = calloc(1, sizeof(*slot));
  if (!slot) return NULL;
  slot->name = strdup(name);
  if (!slot->name) {
    free(slot);
    return NULL;
  }
  LL_APPEND(streams->slots, slot);
  return slot;
}

bool web_streams_tell(struct web_streams *streams, const char *name, const char *bytes,
                      size_t length) {
  struct slot *slot;
  struct web_text *text;
  struct stream *stream;
  if (!streams->count) return true;
  slot = slot_of(streams, name);
  text = slot ? web_text_event(name, bytes, length) : NULL;
  if (!text) return false;
  web_text_drop(slot->text);
  slot->text = text;
  slot->number = ++streams->number;
  DL_FOREACH(streams->streams, stream) {
    wake(stream);
  }
  return true;
}

/* The event that this page has to get next: the oldest of the newest ones; NULL: it has all. */
static struct slot *next_for(const struct stream *stream) {
  struct slot *slot, *found = NULL;
  LL_FOREACH(stream->streams->slots, slot) {
    if (slot->number > stream->given && (!found || slot->number < found->number)) found = slot;
  }
  return found;
}

static ssize_t read_more(void *arg, uint64_t position, char *to, size_t most) {
  struct stream *stream = arg;
  size_t count;
  (void)position;
  if (!stream->text) {
    struct slot *slot = next_for(stream);
    if (!slot && stream->streams->ending) return MHD_CONTENT_READER_END_OF_STREAM;
    if (!slot) {
      stream->suspended = true;
      MHD_suspend_connection(stream->connection);
      return 0;
    }
    stream->given = slot->number;
    stream->text = web_text_use(slot->text);
    stream->at = 0;
  }
  count = stream->text->length - stream->at;
  if (count > most) count = most;
  memcpy(to, stream->text->bytes + stream->at, count);
  stream->at += count;
  if (stream->at == stream->text->length) {
    web_text_drop(stream->text);
    stream->text = NULL;
  }
  return (ssize_t)count;
}

static void closed(void *arg) {
  struct stream *stream = arg;
  DL_DELETE(stream->streams->streams, stream);
  if (--stream->streams->count == 0) forget(stream->streams);
  web_text_drop(stream->text);
  free(stream);
}

struct MHD_Response *web_streams_open(struct web_streams *streams,
                                      struct MHD_Connection *connection) {
  struct stream *stream = calloc(1, sizeof(*stream));
  struct MHD_Response *response;
  if (!stream) return NULL;
  stream->streams = streams;
  stream->connection = connection;
  response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_more, stream, closed);
  if (!response) {
    free(stream);
    return NULL;
  }
  DL_APPEND(streams->streams, stream);
  streams->count++;
  return response;
}

void web_streams_end(struct web_streams *streams) {
  struct stream *stream;
  streams->ending = true;
  DL_FOREACH(streams->streams, stream) {
    wake(stream);
  }
}
