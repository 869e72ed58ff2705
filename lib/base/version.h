/* version.h - which libdmi this is. */
#ifndef DMI_BASE_VERSION_H
#define DMI_BASE_VERSION_H

/* "major.minor.patch" of the running library; always valid. */
const char *dmi_version(void);

#endif
