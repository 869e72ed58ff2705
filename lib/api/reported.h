/*
 * reported.h - how an entry point of the API returns: if it fails, that is remembered, and printed
 * if DMI_ON_ERROR asks for it (node/report.h).  A call that succeeds pays one comparison, and two
 * stores by which others see in which call the thread is (base/doing.h); a hit returns before, and
 * pays neither.
 */
#ifndef DMI_API_REPORTED_H
#define DMI_API_REPORTED_H

#include "base/doing.h"
#include "base/error.h"
#include "node/report.h"

/* The argument that says most about a call: its range, its address, its process, or none. */
#define DMI_RANGE(addr, size) (addr), (size)
#define DMI_PLACE(addr) (addr), DMI_REPORT_PLACE
#define DMI_ID(dmi_id) (dmi_id), DMI_REPORT_ID
#define DMI_NOTHING 0, DMI_REPORT_NOTHING

/* In an entry point: the description of this call, with one of those. */
#define DMI_THIS(...) \
  (&(const struct dmi_report){__func__, dmi_doing_caller(__builtin_return_address(0)), __VA_ARGS__})

/* In an entry point: notes that the thread is in this call. */
#define DMI_CALLS() dmi_doing_calls(__func__, __builtin_return_address(0))

/* What an entry point returns: `result`, reported if it is a failure. */
#define DMI_REPORTED(result, ...)                                                            \
  __extension__({                                                                            \
    DMI_CALLS();                                                                             \
    int32_t result_ = (result);                                                              \
    if (__builtin_expect(result_ == DMI_FALSE, 0)) dmi_report_failed(DMI_THIS(__VA_ARGS__)); \
    result_;                                                                                 \
  })

/* Notes that this call is given the status, unless that is NULL. */
#define DMI_BEGINS(status, ...)                                    \
  do {                                                             \
    if ((status) != NULL && dmi_on_error != DMI_ON_ERROR_RETURN) { \
      dmi_report_begins((status), DMI_THIS(__VA_ARGS__));          \
    }                                                              \
  } while (0)

/* The same for a call that may have a status. */
#define DMI_REPORTED_ASYNC(result, status, ...) \
  __extension__({                               \
    DMI_BEGINS(status, __VA_ARGS__);            \
    DMI_REPORTED(result, __VA_ARGS__);          \
  })

#endif
