/*
 * master_finish.c - runs `finish`, and hears notices meanwhile: workers leave, and Ctrl+C stops it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "alloc.h"
#include "clock.h"
#include "master_int.h"

struct finish {
  pid_t pid;
  int status; /* as waitpid says it */
};

/* A thread of its own. */
static void *wait_for_end(void *arg) {
  struct finish *finish = arg;
  while (waitpid(finish->pid, &finish->status, 0) < 0 && errno == EINTR)
    continue;
  (void)DMI_notify(FARM_NOTE_FINISH);
  return NULL;
}

/* Ctrl+C: asks it to end, and ends it after the grace. */
static void stop(struct farm_master *master, const struct finish *finish, farm_ms_t *due) {
  if (*due == FARM_NEVER) {
    *due = farm_now() + FARM_GRACE_MS;
    kill(-finish->pid, SIGTERM);
    kill(-finish->pid, SIGCONT);
    if (master->alarm) farm_alarm_set(master->alarm, *due);
  } else if (farm_now() >= *due) {
    kill(-finish->pid, SIGKILL);
  }
}

static void follow(struct farm_master *master, const struct finish *finish) {
  DMI_node_t node;
  farm_ms_t due = FARM_NEVER;
  while (!master->finished && DMI_poll(&node)) {
    farm_master_hear(master, &node);
    if (master->stopped && !master->finished) stop(master, finish, &due);
  }
  /* What it has left behind when it was stopped; or the program ends. */
  if (master->stopped || !master->finished) kill(-finish->pid, SIGKILL);
}

/* NULL, or what has failed. */
static char *run(struct farm_master *master) {
  struct finish finish = {0};
  pthread_t thread;
  char *why = farm_job_finish(&master->job, &finish.pid);
  if (why || !finish.pid) return why;
  if (pthread_create(&thread, NULL, wait_for_end, &finish) == 0) {
    follow(master, &finish);
    pthread_join(thread, NULL);
  } else {
    (void)wait_for_end(&finish);
  }
  return farm_job_finished(&master->job, finish.status);
}

int farm_master_finish(struct farm_master *master) {
  char *why = run(master);
  if (!why) return EXIT_SUCCESS;
  fprintf(stderr, "dmifarm: %s\n", why);
  free(why);
  return EXIT_FAILURE;
}
