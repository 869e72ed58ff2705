/*
 * progress.h - what a user sees while a job runs: a line that is written again and again on a
 * terminal, else a line every now and then.
 */
#ifndef FARM_PROGRESS_H
#define FARM_PROGRESS_H

#include <stdint.h>

#include "plan.h"

struct farm_progress;

/* `before`: so many tasks were finished in earlier runs. */
struct farm_progress *farm_progress_new(uint32_t before);
void farm_progress_free(struct farm_progress *progress);
/* Shows the line, if it is time to; returns when it is next. */
farm_ms_t farm_progress_show(struct farm_progress *progress, const struct farm_counts *counts,
                             uint32_t workers, uint32_t places);
/* A line of its own, on stderr. */
void farm_progress_say(struct farm_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The last line. */
void farm_progress_end(struct farm_progress *progress, const struct farm_counts *counts);

#endif
