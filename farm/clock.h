/*
 * clock.h - times in milliseconds.
 */
#ifndef FARM_CLOCK_H
#define FARM_CLOCK_H

#include "plan.h"

/* Of a clock that nobody sets. */
farm_ms_t farm_now(void);
/* Of one that goes on while the machine sleeps, too. */
farm_ms_t farm_uptime(void);
/* Since 1970. */
farm_ms_t farm_date(void);

#endif
