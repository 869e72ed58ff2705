/*
 * text.c - see text.h.
 */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct web_text *web_text_event(const char *name, const char *bytes, size_t length) {
  size_t head = strlen("event: \ndata: ") + strlen(name);
  struct web_text *text = malloc(sizeof(*text) + head + length + 3);
  if (!text) return NULL;
  text->users = 1;
  text->length = head + length + 2;
  snprintf(text->bytes, head + 1, "event: %s\ndata: ", name);
  memcpy(text->bytes + head, bytes, length);
  memcpy(text->bytes + head + length, "\n\n", 3);
  return text;
}

struct web_text *web_text_use(struct web_text *text) {
  text->users++;
  return text;
}

void web_text_drop(struct web_text *text) {
  if (text && --text->users == 0) free(text);
}
