/*
 * json.h - writes JSON into a buffer: events for launchers, and what others see of this process.
 */
#ifndef DMI_BASE_JSON_H
#define DMI_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>

#define DMI_JSON_TEXT 1000 /* most bytes of a text; longer ones are cut */

struct dmi_json {
  char *text;
  size_t at, most; /* bytes so far; at `most` something did not fit, and the text is cut */
};

void dmi_json_put(struct dmi_json *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes as they are, and numbers: the same as dmi_json_put, several times as fast. */
void dmi_json_raw(struct dmi_json *to, const char *bytes, size_t length);
void dmi_json_number(struct dmi_json *to, uint64_t number);
void dmi_json_hex(struct dmi_json *to, uint64_t number);
/* A literal. */
#define DMI_JSON_RAW(to, literal) dmi_json_raw((to), "" literal, sizeof(literal) - 1)

/* A string in quotes; NULL is as "".  Bytes that are not UTF-8 become U+FFFD. */
void dmi_json_text(struct dmi_json *to, const char *text);

#endif
