/*
 * alarm.c - calls a function when a time has come.
 */
#include "alarm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "alloc.h"
#include "clock.h"

struct farm_alarm {
  void (*ring)(void);
  pthread_t thread;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  farm_ms_t due;
  bool over;
};

static void *body(void *arg) {
  struct farm_alarm *alarm = arg;
  pthread_mutex_lock(&alarm->lock);
  while (!alarm->over) {
    const farm_ms_t due = alarm->due;
    if (due == FARM_NEVER) {
      pthread_cond_wait(&alarm->changed, &alarm->lock);
    } else if (farm_now() < due) {
      farm_clock_wait(&alarm->changed, &alarm->lock, due);
    } else {
      alarm->due = FARM_NEVER;
      pthread_mutex_unlock(&alarm->lock);
      alarm->ring();
      pthread_mutex_lock(&alarm->lock);
    }
  }
  pthread_mutex_unlock(&alarm->lock);
  return NULL;
}

struct farm_alarm *farm_alarm_new(void (*ring)(void)) {
  struct farm_alarm *alarm = farm_alloc(sizeof(*alarm));
  alarm->ring = ring;
  alarm->due = FARM_NEVER;
  pthread_mutex_init(&alarm->lock, NULL);
  farm_clock_condition(&alarm->changed);
  if ((errno = pthread_create(&alarm->thread, NULL, body, alarm)) == 0) return alarm;
  free(alarm);
  return NULL;
}

void farm_alarm_set(struct farm_alarm *alarm, farm_ms_t due) {
  pthread_mutex_lock(&alarm->lock);
  if (alarm->due != due) {
    alarm->due = due;
    pthread_cond_signal(&alarm->changed);
  }
  pthread_mutex_unlock(&alarm->lock);
}

void farm_alarm_free(struct farm_alarm *alarm) {
  pthread_mutex_lock(&alarm->lock);
  alarm->over = true;
  pthread_cond_signal(&alarm->changed);
  pthread_mutex_unlock(&alarm->lock);
  pthread_join(alarm->thread, NULL);
  pthread_mutex_destroy(&alarm->lock);
  pthread_cond_destroy(&alarm->changed);
  free(alarm);
}
