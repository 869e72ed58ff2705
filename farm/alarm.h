/*
 * alarm.h - calls a function when a time has come.
 */
#ifndef FARM_ALARM_H
#define FARM_ALARM_H

#include "plan.h"

struct farm_alarm;

/* `ring` is called in a thread of the alarm.  NULL: `errno`. */
struct farm_alarm *farm_alarm_new(void (*ring)(void));
/* Once, at `due` of farm_now (FARM_NEVER: not at all); replaces what was set before. */
void farm_alarm_set(struct farm_alarm *alarm, farm_ms_t due);
void farm_alarm_free(struct farm_alarm *alarm);

#endif
