/*
 * viewer.h - the process that looks at a running program (dmirun --status and the like): it takes
 * questions from stdin, asks one process of the program, and writes the answers to stdout.
 */
#ifndef DMI_NODE_VIEWER_H
#define DMI_NODE_VIEWER_H

#include "node/config.h"

struct dmi_stream;

/* Runs until the end of stdin.  False: a line on stderr says why it ended before. */
bool dmi_viewer(const struct dmi_config *config, const char *argv0, struct dmi_stream *stream);

#endif
