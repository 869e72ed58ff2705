/*
 * file.h - files that options name: replacing one while others read it; why one cannot be written.
 */
#ifndef DMI_BASE_FILE_H
#define DMI_BASE_FILE_H

#include <stdbool.h>

/* Replaces the file by one with this text, which everybody may read. A reader sees all of the
 * old text or all of the new one. False: errno says why, and the file is unchanged. What is no
 * file (a device, a pipe) is not replaced, but written. */
bool dmi_file_replace(const char *path, const char *text);

/* True if dmi_file_replace could make its file now.  False: errno says why not. */
bool dmi_file_can_replace(const char *path);
/* The same of writing to it, or making it; nothing is left of one that was not there. */
bool dmi_file_can_write(const char *path);

/* ---- Failures -------------------------------------------------------------------------------- */

#define DMI_FILE_WHY 4200 /* bytes of a text */

/* Why a write has failed, for a message: what the system says, and what to change where that does
 * not tell. */
const char *dmi_file_why(int error);
/* The same for a file that could not be made: it names the directory that is missing. */
const char *dmi_file_why_not_made(char text[DMI_FILE_WHY], const char *path, int error);

/* More than 0: what this thread writes is a file of DMI's own, and whoever writes it says so if it
 * fails.  Read by the handler of SIGXFSZ (node/main.c). */
extern __thread int dmi_file_is_own __attribute__((tls_model("initial-exec")));

static inline void dmi_file_begin(void) {
  dmi_file_is_own++;
}

static inline void dmi_file_end(void) {
  dmi_file_is_own--;
}

#endif
