/*
 * master_end.c - how versions of tasks end, for the plan and for the job's directory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "clock.h"
#include "master_int.h"

void farm_master_fail(struct farm_master *master, char *why) {
  if (master->fatal) {
    free(why);
  } else {
    master->fatal = why;
  }
}

char *farm_told_text(const struct farm_told *told) {
  switch (told->how) {
    case FARM_EXITED:
      return told->status ? farm_format("exit status %d", told->status) : farm_strdup("done");
    case FARM_SIGNALLED:
      return farm_format("signal %d (%s)", told->status, strsignal(told->status));
    case FARM_TIMED_OUT:
      return farm_strdup("time limit");
    case FARM_STOPPED:
      return farm_strdup("stopped");
    case FARM_NOT_RUN:
      return farm_format("not started: %s%s", strerror(told->status),
                         told->status == ENOENT ? " (the program of its #! line?)" : "");
    case FARM_NOT_STORED:
      return farm_format("its worker's disk: %s", strerror(told->status));
    case FARM_NO_RUNNER:
      return farm_strdup("lost with its runner");
  }
  return farm_strdup("?");
}

/* What a place has run, as the job's directory is to have it. */
static struct farm_job_end end_of(const struct farm_member *member,
                                  const struct farm_place *place) {
  return (struct farm_job_end){.task = place->run.task,
                               .version = place->run.version,
                               .type = FARM_JOB_NOTHING,
                               .host = farm_strdup(member->host),
                               .begin = place->begin_date,
                               .ms = farm_now() - place->begin};
}

void farm_place_log(struct farm_master *master, struct farm_member *member,
                    struct farm_place *place, const char *status) {
  struct farm_job_end end = end_of(member, place);
  end.status = farm_strdup(status);
  farm_store_add(master->store, &end);
}

static void say_failed(struct farm_master *master, const struct farm_member *member,
                       const struct farm_place *place, const char *status, bool given_up) {
  char *name = farm_job_version(&master->job, place->run.task, place->run.version);
  farm_progress_say(master->progress, "%s failed at %s: %s%s", name, member->host, status,
                    given_up ? "; it is given up" : "");
  free(name);
}

/* For the list at the end. */
static void keep_reason(struct farm_master *master, const struct farm_place *place,
                        const char *status) {
  struct farm_job_task *task = &master->job.tasks[place->run.task];
  free(task->why);
  task->why = farm_strdup(status);
  task->why_version = place->run.version;
}

/* A version that was lost, and with it the last hope: `failed` is to tell of it, too. */
void farm_place_give_up(struct farm_master *master, struct farm_member *member,
                        struct farm_place *place) {
  struct farm_job_end end = end_of(member, place);
  end.type = FARM_JOB_FAILED;
  end.status = farm_format("lost, with %" PRIu32 " workers by now", FARM_LOST_MOST);
  say_failed(master, member, place, end.status, true);
  keep_reason(master, place, end.status);
  master->job.tasks[place->run.task].failed = true;
  farm_store_add(master->store, &end);
}

static char *copy(const char *bytes, uint64_t size) {
  char *to = farm_alloc(size ? size : 1);
  memcpy(to, bytes, size);
  return to;
}

static void add_output(struct farm_job_end *end, const struct farm_told *told) {
  end->out_size = told->out_size;
  end->err_size = told->err_size;
  if (told->out_size <= FARM_INLINE) end->out = copy(told->out, told->out_size);
  if (told->err_size <= FARM_INLINE) end->err = copy(told->err, told->err_size);
}

void farm_place_ended(struct farm_master *master, struct farm_member *member, int32_t number) {
  struct farm_place *place = &member->places[number];
  const struct farm_told *told = &place->told;
  const bool success = !place->bad && told->how == FARM_EXITED && told->status == 0;
  const bool stopped = !place->bad && told->how == FARM_STOPPED;
  const bool lost = !place->bad && told->how == FARM_NO_RUNNER;
  const bool late = farm_plan_state(master->plan, place->run.task) == FARM_TASK_FINISHED;
  const bool small = told->out_size <= FARM_INLINE && told->err_size <= FARM_INLINE;
  const enum farm_end how = success   ? FARM_END_DONE
                            : stopped ? FARM_END_RETURNED
                            : lost    ? FARM_END_LOST
                                      : FARM_END_FAILED;
  struct farm_job_end end = end_of(member, place);
  struct farm_verdict verdict;
  farm_plan_end(master->plan, place->run.task, place->run.version, how, farm_now(), &verdict);
  end.status = place->bad ? farm_strdup(place->bad) : farm_told_text(told);
  if (success && verdict.counts) {
    end.type = FARM_JOB_COUNTS;
    master->job.tasks[place->run.task].finished = true;
    master->job.tasks[place->run.task].version = place->run.version;
    farm_stop_versions(master, &verdict);
  } else if (success) {
    end.type = small ? FARM_JOB_DUP : FARM_JOB_NOTHING;
    memcpy(end.status, "dup", sizeof("dup"));
  } else if (lost && !verdict.given_up) {
    farm_progress_say(master->progress, "the runner of a task at %s was killed; it is run again",
                      member->host);
  } else if (!stopped && !late) {
    end.type = FARM_JOB_FAILED;
    say_failed(master, member, place, end.status, verdict.given_up);
    keep_reason(master, place, end.status);
    if (verdict.given_up) master->job.tasks[place->run.task].failed = true;
  }
  if (end.type != FARM_JOB_NOTHING) add_output(&end, told);
  farm_store_add(master->store, &end);
  free(verdict.stop);
  free(place->bad);
  place->bad = NULL;
  place->state = FARM_PLACE_FREE;
}
