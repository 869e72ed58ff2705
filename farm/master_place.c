/*
 * master_place.c - what the places of workers run: orders to them, and their reports.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "clock.h"
#include "file.h"
#include "master_int.h"

/* ---- Orders ---------------------------------------------------------------------------------- */

/* A call has failed.  If a process was lost, or ends, a notice says so. */
static void check_memory(struct farm_master *master) {
  if (DMI_errno() == DMI_ENOMEM)
    farm_master_fail(master, farm_format("%s; give the processes more of it (dmirun -s)",
                                         DMI_strerror(DMI_ENOMEM)));
}

/* The page is here (share.h). */
void farm_place_order(struct farm_master *master, struct farm_member *member, int32_t number) {
  struct farm_place *place = &member->places[number];
  const int64_t addr = member->start.order_addr + number * (int64_t)sizeof(place->order);
  place->order.number++;
  if (!DMI_write(addr, sizeof(place->order), &place->order, DMI_PUT_WRITE, NULL))
    check_memory(master);
}

static void order_turn(struct farm_master *master, struct farm_member *member, int32_t number,
                       enum farm_order_type type) {
  struct farm_place *place = &member->places[number];
  place->order.type = type;
  place->order.turn++;
  place->order.stop = place->bad ? place->order.turn : 0;
  farm_place_order(master, member, number);
}

/* The version need not go on. */
static void stop(struct farm_master *master, struct farm_member *member, int32_t number) {
  struct farm_place *place = &member->places[number];
  if (place->state != FARM_PLACE_RUNS) return; /* it has ended */
  place->order.stop = place->order.turn;
  farm_place_order(master, member, number);
}

void farm_stop_versions(struct farm_master *master, const struct farm_verdict *verdict) {
  for (uint32_t i = 0; i < verdict->stop_num; i++) {
    const struct farm_run *run = &verdict->stop[i];
    struct farm_member *member = farm_member_of(master, (int64_t)run->worker);
    for (int32_t number = 0; member && number < member->start.places; number++) {
      const struct farm_place *place = &member->places[number];
      if (place->run.task == run->task && place->run.version == run->version)
        stop(master, member, number);
    }
  }
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void close_files(struct farm_place *place) {
  for (int i = 0; i < 2; i++) {
    if (place->files[i] >= 0) close(place->files[i]);
    place->files[i] = -1;
  }
  if (place->out >= 0) close(place->out);
  place->out = -1;
}

static bool open_files(struct farm_master *master, struct farm_place *place) {
  static const char *const folders[] = {"tasks", "data"};
  const struct farm_job_task *task = &master->job.tasks[place->run.task];
  struct farm_order *order = &place->order;
  order->has_data = task->has_data;
  order->size[0] = order->size[1] = 0;
  for (int i = 0; i < (task->has_data ? 2 : 1); i++) {
    struct stat status;
    place->files[i] = farm_job_open_file(&master->job, folders[i], task->name);
    if (place->files[i] < 0 || fstat(place->files[i], &status) != 0) {
      place->bad = farm_format("%s/%s: %s", folders[i], task->name, strerror(errno));
      return false;
    }
    order->size[i] = status.st_size;
    if (i == 0) order->runs = (status.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
  }
  return true;
}

static void take_short(struct farm_place *place) {
  struct farm_order *order = &place->order;
  if (order->size[0] + order->size[1] > FARM_SHORT) return;
  if (!farm_read(place->files[0], order->bytes, order->size[0], 0) ||
      (order->has_data &&
       !farm_read(place->files[1], order->bytes + order->size[0], order->size[1], 0)))
    place->bad = farm_format("reading the task: %s", strerror(errno));
  close_files(place);
}

/* There is something of the user's with this name: the next version, then. */
static void leave_out(struct farm_master *master, const struct farm_run *run) {
  struct farm_verdict verdict;
  farm_plan_end(master->plan, run->task, run->version, FARM_END_RETURNED, farm_now(), &verdict);
  free(verdict.stop);
}

static void start(struct farm_master *master, struct farm_member *member, int32_t number,
                  const struct farm_run *run) {
  struct farm_place *place = &member->places[number];
  struct farm_order *order = &place->order;
  bool taken;
  char *why = farm_job_begin(&master->job, run->task, run->version, member->host, &taken);
  if (taken && !why) {
    leave_out(master, run);
    return;
  }
  place->run = *run;
  place->begin = farm_now();
  place->begin_date = farm_date();
  place->state = FARM_PLACE_RUNS;
  if (why) {
    farm_master_fail(master, why);
    return;
  }
  order->version = run->version;
  order->timeout_ms = master->options->timeout_ms;
  memset(order->name, 0, sizeof(order->name));
  memcpy(order->name, master->job.tasks[run->task].name, strlen(master->job.tasks[run->task].name));
  if (open_files(master, place)) take_short(place);
  if (place->bad) {
    close_files(place);
    place->told = (struct farm_told){.how = FARM_NOT_RUN};
    farm_place_ended(master, member, number);
  } else {
    order_turn(master, member, number, FARM_ORDER_START);
  }
}

/* The earlier of two times. */
static farm_ms_t sooner(farm_ms_t a, farm_ms_t b) {
  if (a == FARM_NEVER) return b;
  return b == FARM_NEVER || a < b ? a : b;
}

/* How many tasks run at a worker, or wait there. */
static int32_t count_runs(const struct farm_member *member) {
  int32_t num = 0;
  for (int32_t i = 0; i < member->start.places; i++)
    if (member->places[i].state == FARM_PLACE_RUNS) num++;
  return num;
}

/* For one more task, which waits there if as many run as may. */
static bool take(struct farm_master *master, const struct farm_member *member, uint32_t enough,
                 struct farm_run *run, farm_ms_t *again) {
  const uint64_t worker = (uint64_t)member->number;
  *again = FARM_NEVER;
  if (count_runs(member) < member->start.at_once)
    return farm_plan_take(master->plan, worker, farm_now(), run, again);
  return farm_plan_take_ahead(master->plan, worker, enough, farm_now(), run);
}

farm_ms_t farm_place_assign(struct farm_master *master) {
  farm_ms_t next = FARM_NEVER;
  uint32_t workers, places;
  farm_master_count(master, &workers, &places);
  for (struct farm_member *member = master->members; member; member = member->next) {
    if (member->state != FARM_MEMBER_HERE) continue;
    for (int32_t i = 0; i < member->start.places && !master->fatal; i++) {
      struct farm_run run;
      farm_ms_t again;
      if (member->places[i].state != FARM_PLACE_FREE) continue;
      if (take(master, member, 2 * places, &run, &again)) {
        start(master, member, i--, &run); /* it may be free again */
      } else {
        next = sooner(next, again);
        break; /* nor is there anything for the next place of this worker */
      }
    }
  }
  return next;
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void hear_want(struct farm_master *master, struct farm_member *member, int32_t number,
                      const struct farm_report *report) {
  struct farm_place *place = &member->places[number];
  struct farm_order *order = &place->order;
  const int64_t left = order->size[report->file] - report->offset;
  const int64_t size = left < FARM_PART ? left : FARM_PART;
  char *bytes = farm_alloc((size_t)size);
  order->file = report->file;
  order->offset = report->offset;
  order->part_size = size;
  if (!place->bad && !farm_read(place->files[report->file], bytes, size, report->offset))
    place->bad = farm_format("reading the task: %s", strerror(errno));
  if (!place->bad && farm_plan_state(master->plan, place->run.task) == FARM_TASK_FINISHED)
    place->bad = farm_strdup("stopped");
  if (place->bad) order->part_size = 0;
  if (DMI_write(member->start.part_addr + number * FARM_PART, order->part_size, bytes,
                DMI_PUT_WRITE, NULL)) {
    order_turn(master, member, number, FARM_ORDER_PART);
  } else {
    check_memory(master);
  }
  free(bytes);
}

/* Asks for the next part of what was printed, or ends. */
static void send_next(struct farm_master *master, struct farm_member *member, int32_t number) {
  struct farm_place *place = &member->places[number];
  struct farm_order *order = &place->order;
  const uint64_t sizes[] = {[FARM_OUT] = place->told.out_size, [FARM_ERR] = place->told.err_size};
  static const char *const names[] = {[FARM_OUT] = FARM_JOB_OUT, [FARM_ERR] = FARM_JOB_ERR};
  for (; place->file <= FARM_ERR; place->file++, order->offset = 0) {
    const bool all = (uint64_t)order->offset >= sizes[place->file];
    if (all && place->out >= 0 && close(place->out) != 0)
      farm_master_fail(master, farm_job_error(&master->job, names[place->file]));
    if (all) place->out = -1;
    if (all || sizes[place->file] <= FARM_INLINE) continue;
    if (place->out < 0)
      place->out =
          farm_job_create(&master->job, place->run.task, place->run.version, names[place->file]);
    if (place->out < 0) {
      farm_master_fail(master, farm_job_error(&master->job, names[place->file]));
      return;
    }
    order->file = place->file;
    order_turn(master, member, number, FARM_ORDER_SEND);
    return;
  }
  farm_place_ended(master, member, number);
}

static void hear_sent(struct farm_master *master, struct farm_member *member, int32_t number,
                      const struct farm_report *report) {
  struct farm_place *place = &member->places[number];
  const int64_t size = report->part_size;
  char *bytes = farm_alloc(FARM_PART);
  if (size <= 0) {
    place->bad = farm_strdup("what it printed could not be read again at its worker");
    if (place->told.out_size > FARM_INLINE) place->told.out_size = 0; /* it has not come */
    if (place->told.err_size > FARM_INLINE) place->told.err_size = 0;
    farm_place_ended(master, member, number);
  } else if (!DMI_read(member->start.part_addr + number * FARM_PART, size, bytes, DMI_GET_READ,
                       NULL)) {
    check_memory(master);
  } else {
    if (!farm_write(place->out, bytes, size)) { /* the parts come in their order */
      farm_master_fail(master, farm_job_error(&master->job, "what a task printed"));
    } else {
      place->order.offset += size;
      send_next(master, member, number);
    }
  }
  free(bytes);
}

/* The task may have waited at its worker, and its end on the way: how long it ran is what counts.
 */
static void note_time(struct farm_plan *plan, struct farm_place *place) {
  const farm_ms_t now = farm_now(), begin = now - (farm_ms_t)place->told.ms;
  if (place->told.ms >= (uint64_t)(now - place->begin)) return;
  place->begin_date += begin - place->begin;
  place->begin = begin;
  farm_plan_begun(plan, place->run.task, place->run.version, place->begin);
}

static void hear_ended(struct farm_master *master, struct farm_member *member, int32_t number,
                       const struct farm_report *report) {
  struct farm_place *place = &member->places[number];
  place->told = report->told;
  note_time(master->plan, place);
  close_files(place);
  place->state = FARM_PLACE_SENDS;
  place->file = FARM_OUT;
  place->order.offset = 0;
  if (farm_plan_state(master->plan, place->run.task) == FARM_TASK_FINISHED) {
    farm_place_ended(master, member, number); /* it comes second */
  } else {
    send_next(master, member, number);
  }
}

/* It gets no more tasks. */
static void end_broken(struct farm_master *master, struct farm_member *member, int32_t error) {
  farm_progress_say(master->progress, "%s cannot run tasks: %s", member->host, strerror(error));
  farm_member_end(master, member);
}

/* It answers the last order.  It may have been heard before, as a notice may come late: then the
 * place is in another state. */
static void hear_answer(struct farm_master *master, struct farm_member *member, int32_t number,
                        const struct farm_report *report) {
  struct farm_place *place = &member->places[number];
  const enum farm_place_state state = place->state;
  switch (report->type) {
    case FARM_REPORT_FREE:
      if (state == FARM_PLACE_NEW) place->state = FARM_PLACE_FREE;
      break;
    case FARM_REPORT_WANT:
      if (state == FARM_PLACE_RUNS) hear_want(master, member, number, report);
      break;
    case FARM_REPORT_ENDED:
      if (state == FARM_PLACE_RUNS) hear_ended(master, member, number, report);
      break;
    case FARM_REPORT_SENT:
      if (state == FARM_PLACE_SENDS) hear_sent(master, member, number, report);
      break;
    default:
      break;
  }
}

static void hear(struct farm_master *master, struct farm_member *member, int32_t number,
                 const struct farm_report *report) {
  const struct farm_place *place = &member->places[number];
  const bool runs = place->state == FARM_PLACE_RUNS || place->state == FARM_PLACE_SENDS;
  if (report->type == FARM_REPORT_BROKEN) {
    end_broken(master, member, report->told.status);
  } else if (report->turn != place->order.turn) {
    /* it was answered */
  } else if (runs && !farm_report_fits(report, &place->order, &place->told)) {
    end_broken(master, member, EPROTO);
  } else {
    hear_answer(master, member, number, report);
  }
}

void farm_place_hear(struct farm_master *master, struct farm_member *member, int32_t number) {
  struct farm_report *report;
  int64_t addr;
  if (member->state != FARM_MEMBER_HERE || number >= member->start.places) return;
  report = farm_alloc(sizeof(*report));
  addr = member->start.report_addr + number * (int64_t)sizeof(*report);
  if (DMI_read(addr, sizeof(*report), report, DMI_GET_READ, NULL)) {
    hear(master, member, number, report);
  } else {
    check_memory(master);
  }
  free(report);
}

void farm_place_drop(struct farm_master *master, struct farm_member *member, int32_t number,
                     enum farm_end end, const char *status) {
  struct farm_place *place = &member->places[number];
  struct farm_verdict verdict;
  const bool runs = place->state == FARM_PLACE_RUNS || place->state == FARM_PLACE_SENDS;
  close_files(place);
  if (runs &&
      farm_plan_end(master->plan, place->run.task, place->run.version, end, farm_now(), &verdict)) {
    const bool done = farm_plan_state(master->plan, place->run.task) == FARM_TASK_FINISHED;
    if (verdict.given_up && end == FARM_END_LOST) {
      farm_place_give_up(master, member, place);
    } else {
      farm_place_log(master, member, place, done ? "stopped" : status);
      if (verdict.given_up) master->job.tasks[place->run.task].failed = true;
    }
    free(verdict.stop);
  }
  free(place->bad);
  place->bad = NULL;
  place->state = FARM_PLACE_NEW;
}
