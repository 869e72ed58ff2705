/*
 * report_int.h - private to node/report*.c: the parts of a line about a call that has failed.
 */
#ifndef DMI_NODE_REPORT_INT_H
#define DMI_NODE_REPORT_INT_H

#include "node/report.h"

#define DMI_REPORT_TEXT 600 /* bytes of a reason, or of a call with its place */

/* Why the call has failed: `text` has DMI_REPORT_TEXT bytes.  `noted`: the reason that was noted
 * where the error was found; NULL: it is derived. */
void dmi_report_why(char *text, const struct dmi_report *report, int32_t error, const char *noted);

/* " [page 2 of the mapping at 0x100000000 (3 pages of 100 bytes)]", unless the reason names it; "":
 * there is none that this process knows. */
void dmi_report_where(char *text, const struct dmi_report *report, const char *reason);

#endif
