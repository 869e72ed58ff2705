/*
 * feed.c - see feed.h.  Lengths are believed, as whoever started this process says them; but not
 * beyond LARGEST, so that a mistake is noticed.
 */
#include "feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((size_t)1 << 32)
#define HEAD 128 /* bytes of the line before a piece */

struct web_feed {
  char head[HEAD];
  size_t head_length;
  struct web_piece piece; /* bytes: NULL while its line is read */
  size_t has;             /* bytes of the piece that are here */
};

struct web_feed *web_feed_new(void) {
  return calloc(1, sizeof(struct web_feed));
}

void web_feed_free(struct web_feed *feed) {
  if (feed) free(feed->piece.bytes);
  free(feed);
}

/* The line is whole: makes room for the bytes of the piece. */
static bool begin(struct web_feed *feed) {
  struct web_piece *piece = &feed->piece;
  int end = -1;
  feed->head[feed->head_length] = '\0';
  feed->head_length = 0;
  if (sscanf(feed->head, "%31[a-z] %31[a-z-] %zu%n", piece->kind, piece->name, &piece->length,
             &end) != 3 ||
      feed->head[end] || piece->length > LARGEST)
    return false;
  feed->has = 0;
  piece->bytes = malloc(piece->length + 1);
  return piece->bytes != NULL;
}

/* Reads the line before a piece.  Returns how many bytes of it were here; 0: it is no such line. */
static size_t take_head(struct web_feed *feed, const char *bytes, size_t length) {
  const char *end = memchr(bytes, '\n', length);
  size_t count = end ? (size_t)(end - bytes) : length;
  if (count >= sizeof(feed->head) - feed->head_length) return 0;
  memcpy(feed->head + feed->head_length, bytes, count);
  feed->head_length += count;
  if (!end) return count;
  return begin(feed) ? count + 1 : 0;
}

enum web_fed web_feed_take(struct web_feed *feed, const char *bytes, size_t *length,
                           struct web_piece *piece) {
  size_t used = 0, all = *length;
  if (!feed->piece.bytes && all) {
    used = take_head(feed, bytes, all);
    if (!used) return WEB_FED_WRONG;
  }
  *length = used;
  if (feed->piece.bytes) {
    size_t wanted = feed->piece.length - feed->has;
    size_t count = wanted < all - used ? wanted : all - used;
    memcpy(feed->piece.bytes + feed->has, bytes + used, count);
    feed->has += count;
    *length = used + count;
    if (feed->has < feed->piece.length) return WEB_FED_MORE;
    feed->piece.bytes[feed->has] = '\0';
    *piece = feed->piece;
    feed->piece.bytes = NULL;
    return WEB_FED_PIECE;
  }
  return WEB_FED_MORE;
}
