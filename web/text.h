/*
 * text.h - bytes that several readers are sent, each at its own pace: freed when the last one has
 * them.
 */
#ifndef WEB_TEXT_H
#define WEB_TEXT_H

#include <stddef.h>

struct web_text {
  size_t users;
  size_t length;
  char bytes[];
};

/* "event: NAME", "data: " and these bytes, as server-sent events are; NULL: no memory.  A line of
 * data ends at the first line feed, so there must be none in them. */
struct web_text *web_text_event(const char *name, const char *bytes, size_t length);
struct web_text *web_text_use(struct web_text *text);
void web_text_drop(struct web_text *text); /* may be NULL */

#endif
