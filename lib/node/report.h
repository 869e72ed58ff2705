/*
 * report.h - a line about each call of the API that fails, for programs that do not ask:
 * DMI_ON_ERROR=print, or abort, which ends the process behind the line.
 */
#ifndef DMI_NODE_REPORT_H
#define DMI_NODE_REPORT_H

#include <stdint.h>

#include "dmi_api.h"

/* A call, and what tells most about it. */
struct dmi_report {
  const char *call;   /* name of the API's function */
  const void *caller; /* to where it returns */
  int64_t addr;
  int64_t size; /* bytes; or one of these */
};

#define DMI_REPORT_NOTHING INT64_MIN     /* addr says nothing either */
#define DMI_REPORT_PLACE (INT64_MIN + 1) /* addr alone */
#define DMI_REPORT_ID (INT64_MIN + 2)    /* addr is the id of a process */

/* The call has just failed, with DMI_errno().  Prints; may not return. */
void dmi_report_failed(const struct dmi_report *report);

/* Remembers which call the status is given to.  Before it begins. */
void dmi_report_begins(DMI_local_status_t *status, const struct dmi_report *report);
/* DMI_wait or DMI_check has found that this call failed. */
void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status);

#endif
