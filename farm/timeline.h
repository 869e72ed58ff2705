/*
 * timeline.h - the picture of who computed when (SVG): a row for each place that computed at a
 * time.
 */
#ifndef FARM_TIMELINE_H
#define FARM_TIMELINE_H

#include <stdint.h>

struct farm_timeline;

struct farm_timeline *farm_timeline_new(void);
void farm_timeline_free(struct farm_timeline *timeline);
/* A version ran at `host` from `begin` on, for `ms` (both in ms).  `status`: "done", "dup", or
 * else: it failed, or was stopped. */
void farm_timeline_add(struct farm_timeline *timeline, const char *host, const char *name,
                       int64_t begin, int64_t ms, const char *status);
/* The whole picture, in new memory. */
char *farm_timeline_svg(struct farm_timeline *timeline);

#endif
