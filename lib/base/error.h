/*
 * error.h - why the last call of this thread failed.
 */
#ifndef DMI_BASE_ERROR_H
#define DMI_BASE_ERROR_H

#include <stdint.h>

/* The reason for an error that another process or thread has found. It is passed in the bits
 * above the error number; dmi_fail removes it and notes the reason (dmi_because). */
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

/* Stores the error for DMI_errno() and returns DMI_FALSE. */
int32_t dmi_fail(int32_t error);

/* What the API returns for an error: DMI_TRUE for DMI_OK, otherwise dmi_fail(error). */
int32_t dmi_result(int32_t error);

/* The opposite, called immediately after the call that returned `ret`: DMI_OK for DMI_TRUE,
 * otherwise the error. */
int32_t dmi_error_of(int32_t ret);

/* DMI_errno() of this thread; 0 if no call has failed. */
int32_t dmi_error_last(void);

/* What a failing call does in addition to returning DMI_FALSE: DMI_ON_ERROR. */
enum dmi_on_error { DMI_ON_ERROR_RETURN, DMI_ON_ERROR_PRINT, DMI_ON_ERROR_ABORT };
extern enum dmi_on_error dmi_on_error; /* set before other threads are started */

/* Notes the reason for an error in this thread: a phrase that stays valid. For calls that will
 * certainly fail with it, as in `return dmi_fail(dmi_because(DMI_EINVAL, "..."))`. Returns the
 * error. */
int32_t dmi_because(int32_t error, const char *reason);
/* The same with a phrase made of a format of printf, which is kept until the next one. */
__attribute__((format(printf, 2, 3))) int32_t dmi_because_so(int32_t error, const char *format,
                                                             ...);
/* "REASON: VALUE", of an argument that is wrong. */
int32_t dmi_because_of(int32_t error, const char *reason, int64_t value);
/* For an error that is told to another thread, by a status: the phrase, which is copied,
 * is kept once and for all.  Returns the error with its reason, for dmi_fail. */
int32_t dmi_because_kept(int32_t error, const char *phrase);
/* Returns and deletes the reason that was noted for this error. NULL: none. */
const char *dmi_error_reason(int32_t error);

/* The name, as "DMI_EADDR"; "DMI_E?" for an unknown number. */
const char *dmi_error_name(int32_t error);

/* A sentence that explains the error; never NULL. */
const char *dmi_error_text(int32_t error);

#endif
