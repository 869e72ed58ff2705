/*
 * master.c - the master of dmifarm: one loop over the notices of the program.
 *
 * Everything that the master waits for comes through DMI_poll: processes that join, leave or are
 * lost, and as notices of DMI_notify the reports of places (share.h), results that are on the disk,
 * and times that have come.
 */
#include "master.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "master_int.h"
#include "nodes.h"
#include "pack.h"

static void on_time(void) {
  (void)DMI_notify(FARM_NOTE_TIME);
}

static void on_stored(void) {
  (void)DMI_notify(FARM_NOTE_STORED);
}

/* ---- Notices --------------------------------------------------------------------------------- */

static void note(struct farm_master *master, int64_t value) {
  const int64_t place = value % FARM_NOTE(1, 0);
  struct farm_member *member;
  if (value == FARM_NOTE_FINISH) master->finished = true;
  if (value < 0) return; /* the loop looks at time and disk anyway */
  member = farm_member_of(master, value / FARM_NOTE(1, 0));
  if (member && place == FARM_CHORE) {
    farm_member_done(master, member);
  } else if (member) {
    farm_place_hear(master, member, (int32_t)place);
  }
}

void farm_master_hear(struct farm_master *master, const DMI_node_t *node) {
  struct farm_member *member;
  switch (node->state) {
    case DMI_OPEN:
      if (!master->over) farm_member_come(master, node);
      break;
    case DMI_CLOSE:
      if (node->dmi_id == master->my_dmi_id) {
        master->stopped = true;
      } else {
        farm_member_leave(master, node);
      }
      break;
    case DMI_LOST:
      member = farm_member_find(master, node->dmi_id);
      if (member) farm_member_lost(master, member);
      break;
    case DMI_NOTE:
      note(master, node->value);
      break;
    default:
      break;
  }
}

/* ---- The job --------------------------------------------------------------------------------- */

static struct farm_plan *make_plan(const struct farm_master *master) {
  const struct farm_plan_config config = {.copies = master->options->copies,
                                          .retries = master->options->retries};
  struct farm_plan *plan = farm_plan_new(&config);
  for (uint32_t i = 0; i < master->job.num; i++)
    farm_plan_add(plan, master->job.tasks[i].next_version, master->job.tasks[i].finished);
  return plan;
}

/* Every worker takes a copy from here. */
static char *share_bin(struct farm_master *master) {
  char *bytes, *why = farm_pack(master->options->job, &bytes, &master->bin_size);
  if (!why && master->bin_size &&
      (!DMI_mmap(&master->bin_addr, FARM_PART, (master->bin_size + FARM_PART - 1) / FARM_PART,
                 NULL) ||
       !DMI_write(master->bin_addr, master->bin_size, bytes, DMI_EXCLUSIVE_WRITE, NULL)))
    why = farm_format("%s/bin: %s", master->options->job, DMI_strerror(DMI_errno()));
  free(bytes);
  return why;
}

void farm_master_count(const struct farm_master *master, uint32_t *workers, uint32_t *places) {
  *workers = *places = 0;
  for (const struct farm_member *member = master->members; member; member = member->next) {
    if (member->state != FARM_MEMBER_HERE) continue;
    ++*workers;
    *places += (uint32_t)member->start.at_once;
  }
}

static bool all_done(struct farm_master *master) {
  const struct farm_counts counts = farm_plan_counts(master->plan);
  const bool last = counts.finished + counts.failed == counts.tasks;
  const char *why;
  const bool idle = farm_store_idle(master->store, &why);
  if (why) farm_master_fail(master, farm_strdup(why));
  if (last) farm_store_hurry(master->store);
  return master->fatal || master->stopped || (last && idle);
}

static void run(struct farm_master *master) {
  DMI_node_t node;
  while (!all_done(master) && DMI_poll(&node)) {
    uint32_t workers, places;
    farm_ms_t next, line;
    struct farm_counts counts;
    farm_master_hear(master, &node);
    next = farm_place_assign(master);
    counts = farm_plan_counts(master->plan);
    farm_master_count(master, &workers, &places);
    line = farm_progress_show(master->progress, &counts, workers, places);
    farm_alarm_set(master->alarm, next == FARM_NEVER || line < next ? line : next);
  }
}

/* ---- The end --------------------------------------------------------------------------------- */

/* "bad: exit status 3 (JOB/failed/bad.c)", for each. */
static void list_failed(const struct farm_master *master) {
  bool any = false;
  for (uint32_t i = 0; i < master->job.num; i++) {
    const struct farm_job_task *task = &master->job.tasks[i];
    char *dir;
    if (!task->failed || task->finished) continue;
    dir = farm_job_version(&master->job, i, task->why_version);
    fprintf(stderr, "  %s: %s (%s/failed/%s)\n", task->name, task->why ? task->why : "failed",
            master->options->job, dir);
    free(dir);
    any = true;
  }
  if (any && !master->stopped)
    fprintf(stderr,
            "dmifarm: when they are mended, call dmifarm run %s again: it tries those that failed "
            "anew; `finish` is not run before all tasks are done\n",
            master->options->job);
}

/* All results are on the disk, or the job cannot go on. */
static int end(struct farm_master *master) {
  const struct farm_counts counts = farm_plan_counts(master->plan);
  const bool complete = counts.finished == counts.tasks && !master->fatal;
  char *why = master->fatal ? farm_strdup(master->fatal) : farm_job_tidy(&master->job, complete);
  farm_progress_end(master->progress, &counts);
  if (why) {
    fprintf(stderr,
            "dmifarm: %s\ndmifarm: what is done stays; dmifarm run %s goes on with the rest\n", why,
            master->options->job);
    free(why);
    return EXIT_FAILURE;
  }
  if (complete && !master->stopped) return farm_master_finish(master);
  list_failed(master);
  if (master->stopped)
    fprintf(stderr, "dmifarm: stopped; dmifarm run %s goes on\n", master->options->job);
  return EXIT_FAILURE;
}

/* All workers go, also one that does not hurry: what is done meanwhile does not wait for them. */
static void end_members(struct farm_master *master) {
  master->over = true;
  for (struct farm_member *member = master->members; member; member = member->next)
    farm_member_end(master, member);
}

static void wait_for_members(struct farm_master *master) {
  DMI_node_t node;
  while (master->members && DMI_poll(&node))
    farm_master_hear(master, &node);
  farm_member_wait(master);
}

static int run_job(struct farm_master *master) {
  int status = EXIT_FAILURE;
  master->plan = make_plan(master);
  master->store = farm_store_new(&master->job, on_stored);
  master->progress = farm_progress_new(farm_plan_counts(master->plan).finished);
  if (!master->alarm || !master->store)
    farm_master_fail(master, farm_strdup("no thread can be started"));
  if (!master->fatal && master->options->nodefile)
    master->fatal = farm_nodes_start(master->options);
  if (!master->fatal) run(master);
  end_members(master);
  if (master->store) farm_store_stop(master->store);
  if (master->store) (void)all_done(master); /* whether all could be stored */
  status = end(master);
  wait_for_members(master);
  if (master->store) farm_store_free(master->store);
  farm_progress_free(master->progress);
  farm_plan_free(master->plan);
  return status;
}

/* It was done before: only `finish` may be left. */
static int run_done(struct farm_master *master) {
  int status;
  fprintf(stderr, "dmifarm: %s is done (to add tasks, remove the file `done`)\n",
          master->options->job);
  master->over = true;
  status = farm_master_finish(master);
  wait_for_members(master);
  return status;
}

int farm_master(const struct farm_options *options) {
  struct farm_master master = {.options = options, .alarm = farm_alarm_new(on_time)};
  int status = EXIT_FAILURE;
  char *why = farm_job_open(&master.job, options->job);
  if (!why && !DMI_rank(&master.my_dmi_id)) why = farm_strdup(DMI_strerror(DMI_errno()));
  if (!why && !master.job.done) why = share_bin(&master);
  if (why) {
    fprintf(stderr, "dmifarm: %s\n", why);
    free(why);
    status = 2;
  } else {
    status = master.job.done ? run_done(&master) : run_job(&master);
  }
  if (master.alarm) farm_alarm_free(master.alarm);
  farm_job_close(&master.job);
  free(master.fatal);
  return status;
}
