/*
 * feed.h - what dmi-web is told on its stdin, cut into pieces.  Pure: bytes in, pieces out.
 *
 *   KIND NAME LENGTH LF, then LENGTH bytes
 */
#ifndef WEB_FEED_H
#define WEB_FEED_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_FEED_WORD 32 /* bytes of KIND and of NAME, with the NUL */

struct web_piece {
  char kind[WEB_FEED_WORD]; /* page, token, event, metrics, absent (docs/web.md) */
  char name[WEB_FEED_WORD]; /* lower-case letters; "-": none */
  size_t length;
  char *bytes; /* with a NUL behind them; to be freed by who gets the piece */
};

enum web_fed {
  WEB_FED_MORE,  /* all bytes are used, and no piece is whole */
  WEB_FED_PIECE, /* *piece is whole; to be called again with the rest */
  WEB_FED_WRONG, /* these are no pieces, or there is no memory for one */
};

struct web_feed;

struct web_feed *web_feed_new(void); /* NULL: no memory */
void web_feed_free(struct web_feed *feed);

/* Uses *length of these bytes, and says in *length how many. */
enum web_fed web_feed_take(struct web_feed *feed, const char *bytes, size_t *length,
                           struct web_piece *piece);

#endif
