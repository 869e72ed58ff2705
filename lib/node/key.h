/*
 * key.h - the program's key: whoever knows it may join.
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
 * Reads the key from the descriptor `fd`, if that is not -1: one line, and nothing beyond it; `fd`
 * is closed then, unless it is a standard stream.  Else reads it from `file`, or, if that is NULL,
 * from ~/.dmi/key, which is made if it does not exist.  Many processes may do so at once, on
 * machines that share the home directory: all get the same key.  False: event "error" says what to
 * change.
 */
bool dmi_key_read(uint8_t key[DMI_KEY_SIZE], const char *file, int fd, struct dmi_stream *stream);

#endif
