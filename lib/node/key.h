/*
 * key.h - the program's key: who knows it may take part.
 *
 * It is 32 random bytes, kept as one line of 64 hexadecimal digits in a file that nobody but its
 * owner can read.
 */
#ifndef DMI_NODE_KEY_H
#define DMI_NODE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"

#define DMI_KEY_SIZE 32

/*
 * Reads the key from the descriptor `fd`, if that is not -1: one line, and nothing beyond it; it is
 * closed then, unless it is a standard stream.  Else from `file`; else (NULL) from ~/.dmi/key,
 * which is made if it is not there.  Many processes may do so at once, on machines that share the
 * home: all get the same one.  False: event "error" says what to change.
 */
bool dmi_key_read(uint8_t key[DMI_KEY_SIZE], const char *file, int fd, struct dmi_stream *stream);

#endif
