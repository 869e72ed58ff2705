/*
 * json.h - writes JSON into a buffer: events for launchers, and what others see of this process.
 */
#ifndef DMI_BASE_JSON_H
#define DMI_BASE_JSON_H

#include <stddef.h>

#define DMI_JSON_TEXT 1000 /* most bytes of a text; longer ones are cut */

struct dmi_json {
  char *text;
  size_t at, most; /* bytes so far; at `most` something did not fit, and the text is cut */
};

void dmi_json_put(struct dmi_json *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A string in quotes; NULL is as "".  Bytes that are not UTF-8 become U+FFFD. */
void dmi_json_text(struct dmi_json *to, const char *text);

#endif
