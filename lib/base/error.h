/*
 * error.h - why the last call of this thread failed.
 */
#ifndef DMI_BASE_ERROR_H
#define DMI_BASE_ERROR_H

#include <stdint.h>

/* Which reason it was, of an error that is decided in another process or thread than the one whose
 * call fails: travels above the number.  dmi_fail takes it off, and notes it (dmi_because). */
enum dmi_why {
  DMI_WHY_WELCOMED = 1,
  DMI_WHY_GOODBYE,
  DMI_WHY_NOT_ASKED,
  DMI_WHY_NOT_WELCOME,
  DMI_WHY_DISMISSED,
  DMI_WHY_NO_THREAD,
  DMI_WHY_DETACHED,
  DMI_WHY_JOINED,
  DMI_WHY_ENDED
};
#define DMI_WHY(error, why) ((error) | (int32_t)(why) << 16)
#define DMI_WITHOUT_WHY(error) ((error)&0xffff)

/* Remembers the error for DMI_errno() and returns DMI_FALSE. */
int32_t dmi_fail(int32_t error);

/* An error as the API returns it: DMI_TRUE for DMI_OK, else DMI_FALSE, remembered as above. */
int32_t dmi_result(int32_t error);

/* The other way round, at once after the call that returned `ret`: DMI_OK for DMI_TRUE. */
int32_t dmi_error_of(int32_t ret);

/* DMI_errno() of this thread, 0 if it never failed. */
int32_t dmi_error_last(void);

/* What a call that fails does beside returning DMI_FALSE: DMI_ON_ERROR. */
enum dmi_on_error { DMI_ON_ERROR_RETURN, DMI_ON_ERROR_PRINT, DMI_ON_ERROR_ABORT };
extern enum dmi_on_error dmi_on_error; /* set before there are threads */

/* Notes, in this thread, which reason for an error it is: a phrase that stays valid.  Where the
 * call is sure to fail with it, as in `return dmi_fail(dmi_because(DMI_EINVAL, "..."))`.  Returns
 * the error. */
int32_t dmi_because(int32_t error, const char *reason);
/* What was noted for this error, NULL: nothing.  Forgets it. */
const char *dmi_error_reason(int32_t error);

/* "DMI_EADDR"; "DMI_E?" for an unknown number. */
const char *dmi_error_name(int32_t error);

/* A sentence; never NULL. */
const char *dmi_error_text(int32_t error);

#endif
