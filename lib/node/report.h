/*
 * report.h - why a call of the API has failed: for a program that asks; and with DMI_ON_ERROR=print
 * a line about each such call, for programs that do not check.  With abort, the process ends after
 * the line.
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

/* The call has just failed, and DMI_errno() is set.  Remembers it, and prints the line if that was
 * asked for; does not return if it must abort. */
void dmi_report_failed(const struct dmi_report *report);

/* Why the last call of this thread that failed did so; the sentence for its error if no more is
 * known.  Valid until the next call of DMI by this thread. */
const char *dmi_report_reason(void);

/* Remembers which call the status is given to.  To be called before the call begins. */
void dmi_report_begins(DMI_local_status_t *status, const struct dmi_report *report);
/* DMI_wait or DMI_check, described by `report`, has found that the call of this status failed. */
void dmi_report_completed(const struct dmi_report *report, DMI_local_status_t *status);

#endif
