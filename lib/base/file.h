/*
 * file.h - replacing a file while others read it.
 */
#ifndef DMI_BASE_FILE_H
#define DMI_BASE_FILE_H

#include <stdbool.h>

/* Replaces the file by one with this text, which everybody may read. A reader sees all of the
 * old text or all of the new one. False: errno says why, and the file is unchanged. */
bool dmi_file_replace(const char *path, const char *text);

#endif
