/*
 * error.h - why the last call of this thread failed.
 */
#ifndef DMI_BASE_ERROR_H
#define DMI_BASE_ERROR_H

#include <stdint.h>

/* Remembers the error for DMI_errno() and returns DMI_FALSE. */
int32_t dmi_fail(int32_t error);

/* An error as the API returns it: DMI_TRUE for DMI_OK, else DMI_FALSE, remembered as above. */
int32_t dmi_result(int32_t error);

/* The other way round, at once after the call that returned `ret`: DMI_OK for DMI_TRUE. */
int32_t dmi_error_of(int32_t ret);

/* DMI_errno() of this thread, 0 if it never failed. */
int32_t dmi_error_last(void);

/* A sentence; never NULL. */
const char *dmi_error_text(int32_t error);

#endif
