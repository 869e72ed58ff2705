/*
 * report.h - with DMI_ON_ERROR=print, prints a line about each call of the API that fails, for
 * programs that do not check; with abort, ends the process after the line.
 */
#ifndef DMI_NODE_REPORT_H
#define DMI_NODE_REPORT_H

#include <stdint.h>

#include "dmi_api.h"

/* A call, with the argument that says most about it. */
struct dmi_report {
  const char *call;   /* name of the API's function */
  const void *caller; /* its return address */
  int64_t addr;
  int64_t size; /* bytes; or one of those below */
};

#define DMI_REPORT_NOTHING INT64_MIN     /* there is no address */
#define DMI_REPORT_PLACE (INT64_MIN + 1) /* there is an address, but no size */
#define DMI_REPORT_ID (INT64_MIN + 2)    /* addr is the id of a process */

/* The call has just failed, and DMI_errno() is set.  Prints the line; does not return if it must
 * abort. */
void dmi_report_failed(const struct dmi_report *report);

/* From now on reasons are kept, too, for dmi_report_kept: set before other threads are started. */
void dmi_report_keeps(void);
/* Why the last call of this thread that failed did so, for free(); NULL: not known, or it failed
 * with another error than this one, or was asked for before. */
char *dmi_report_kept(int32_t error);

/* Remembers which call the status is given to.  To be called before the call begins. */
void dmi_report_begins(DMI_local_status_t *status, const struct dmi_report *report);
/* DMI_wait or DMI_check, described by `report`, has found that the call of this status failed. */
void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status);

#endif
