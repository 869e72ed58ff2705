/*
 * safe.c - see safe.h.
 */
#include "base/safe.h"

#include <unistd.h>

void dmi_safe_add(struct dmi_safe *line, const char *text) {
  while (*text && line->len < sizeof(line->text) - 1) /* the last byte is for the line's end */
    line->text[line->len++] = *text++;
}

static void add_digits(struct dmi_safe *line, uint64_t number, uint64_t base) {
  char digits[21], *at = digits + sizeof(digits) - 1;
  *at = 0;
  do
    *--at = "0123456789abcdef"[number % base];
  while (number /= base);
  dmi_safe_add(line, at);
}

void dmi_safe_number(struct dmi_safe *line, uint64_t number) {
  add_digits(line, number, 10);
}

void dmi_safe_hex(struct dmi_safe *line, uint64_t number) {
  dmi_safe_add(line, "0x");
  add_digits(line, number, 16);
}

void dmi_safe_write(struct dmi_safe *line, int fd) {
  line->text[line->len++] = '\n';
  if (write(fd, line->text, line->len) < 0) { /* nobody is left to be told */
  }
  line->len = 0;
}
