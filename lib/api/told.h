/*
 * told.h - how an entry point of the API returns: with a line about it when it fails and
 * DMI_ON_ERROR asks for one (node/report.h).  A call that succeeds pays one comparison.
 */
#ifndef DMI_API_TOLD_H
#define DMI_API_TOLD_H

#include "base/error.h"
#include "node/report.h"

/* What tells most about a call: its range, its address, its process, or nothing. */
#define DMI_RANGE(addr, size) (addr), (size)
#define DMI_PLACE(addr) (addr), DMI_REPORT_PLACE
#define DMI_ID(dmi_id) (dmi_id), DMI_REPORT_ID
#define DMI_NOTHING 0, DMI_REPORT_NOTHING

/* In an entry point: this call, with one of those. */
#define DMI_THIS(...) \
  (&(const struct dmi_report){__func__, __builtin_return_address(0), __VA_ARGS__})

/* The result of the call, as the entry point is about to return it. */
#define DMI_TOLD(result, ...)                                                             \
  __extension__({                                                                         \
    int32_t told_ = (result);                                                             \
    if (__builtin_expect(told_ == DMI_FALSE, 0) && dmi_on_error != DMI_ON_ERROR_RETURN) { \
      dmi_report_failed(DMI_THIS(__VA_ARGS__));                                           \
    }                                                                                     \
    told_;                                                                                \
  })

/* The call begins with this status, if it is not NULL. */
#define DMI_BEGINS(status, ...)                                    \
  do {                                                             \
    if ((status) != NULL && dmi_on_error != DMI_ON_ERROR_RETURN) { \
      dmi_report_begins((status), DMI_THIS(__VA_ARGS__));          \
    }                                                              \
  } while (0)

/* A call that may have a status. */
#define DMI_TOLD_LATER(result, status, ...) \
  __extension__({                           \
    DMI_BEGINS(status, __VA_ARGS__);        \
    DMI_TOLD(result, __VA_ARGS__);          \
  })

#endif
