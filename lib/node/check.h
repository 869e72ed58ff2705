/*
 * check.h - dmirun --check: what this process would use, and whether it works.  Starts nothing, and
 * changes nothing for the program that it would join.
 */
#ifndef DMI_NODE_CHECK_H
#define DMI_NODE_CHECK_H

#include <stdbool.h>

#include "node/config.h"
#include "node/program.h"

/* Prints a line on stdout for each thing: "ok", "note" (works, but look at it) or "FAILED".  False:
 * one of them failed. */
bool dmi_check(const struct dmi_config *config, const char *argv0,
               const struct dmi_program_identity *identity, struct dmi_stream *stream);

#endif
