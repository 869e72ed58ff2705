/*
 * safe.h - lines that a handler of a signal makes and writes: nothing is allocated, no lock taken.
 */
#ifndef DMI_BASE_SAFE_H
#define DMI_BASE_SAFE_H

#include <stddef.h>
#include <stdint.h>

/* All zero: empty.  What is too long for it is cut off. */
struct dmi_safe {
  char text[512];
  size_t len;
};

void dmi_safe_add(struct dmi_safe *line, const char *text);
void dmi_safe_number(struct dmi_safe *line, uint64_t number);
void dmi_safe_hex(struct dmi_safe *line, uint64_t number); /* with 0x */

/* Writes the line and its end to the descriptor, and empties it. */
void dmi_safe_write(struct dmi_safe *line, int fd);

#endif
