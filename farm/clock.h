/*
 * clock.h - times in milliseconds.
 */
#ifndef FARM_CLOCK_H
#define FARM_CLOCK_H

#include <pthread.h>

#include "plan.h"

/* Of a clock that nobody sets. */
farm_ms_t farm_now(void);
/* A condition for farm_clock_wait. */
void farm_clock_condition(pthread_cond_t *condition);
/* As pthread_cond_wait, but until `due` of farm_now at the latest. */
void farm_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, farm_ms_t due);
/* Of one that goes on while the machine sleeps, too. */
farm_ms_t farm_uptime(void);
/* Since 1970. */
farm_ms_t farm_date(void);

#endif
