/*
 * file.h - files that others read while they are written anew.
 */
#ifndef DMI_BASE_FILE_H
#define DMI_BASE_FILE_H

#include <stdbool.h>

/* The file has this text now, and everybody may read it.  Whoever reads it sees all of the old text
 * or of the new one.  False: errno says why, and it is as before. */
bool dmi_file_replace(const char *path, const char *text);

#endif
