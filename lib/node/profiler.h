/*
 * profiler.h - what a process has found out about where the program waits (access/profile.h), as
 * JSON: into the file of --profile when it ends, and for those who look before.
 */
#ifndef DMI_NODE_PROFILER_H
#define DMI_NODE_PROFILER_H

#include "base/json.h"
#include "node/process.h"

/* If --profile asks for it; before there are threads that call the API.  False: it cannot be made,
 * which was said. */
bool dmi_profiler_begin(struct dmi_process *process);
/* Appends all lines to the file.  At the end of the process; the second time nothing. */
void dmi_profiler_end(struct dmi_process *process);

/* The number of lines; false: there is no profile. */
bool dmi_profiler_put_head(struct dmi_process *process, struct dmi_json *to);
/* The line with this number, of dmi_profile_look; false: there are not so many. */
bool dmi_profiler_put_line(struct dmi_process *process, uint32_t number, struct dmi_json *to);

#endif
