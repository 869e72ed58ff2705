/*
 * farm_thread.c - a thread that does tasks of a farm.
 *
 * It takes a few tasks at a time (struct dmi_farm_step), so many as take some milliseconds: then a
 * step is cheap, and the thread is soon back when its process is to leave.  It writes their results
 * together, and only then says that they are done.  When it finds that tasks take longer than it
 * thought it gives the rest back.
 *
 * It ends when the farm does, when it is told to stop, and when the program is ending (DMI_exit);
 * also when the farm is gone, because whoever ran it has failed.
 */
#include "elastic/farm_int.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "sync/sync.h"

#define PIECE_NS 5e6         /* what a piece should take */
#define LONG_NS 20e6         /* what takes longer is not ended, if others can do the rest */
#define MANY 64              /* threads; with more of them both times grow, as steps take longer */
#define GROWTH 8             /* a piece has at most so many times the tasks of the one before */
#define ROOM_BYTES (1 << 20) /* of results that are written together, if they are so small */

struct worker {
  struct dmi_process *process;
  struct dmi_farm_at at;
  struct dmi_farm_about about;
  int64_t about_addr; /* notes to whoever runs the farm name it */
  void *job;
  struct dmi_farm_step step;
  struct dmi_farm_answer answer;
  char *entries; /* of the present piece */
  int64_t room;  /* for so many tasks */
  int64_t most;  /* tasks in a piece */
  int32_t tries; /* how often the next task has failed */
};

/* The calling thread is one of these. */
static __thread bool does_tasks;

bool dmi_farm_in_task(void) {
  return does_tasks;
}

static bool program_ends(const struct worker *worker) {
  return atomic_load(&worker->process->access.core.stopping) != 0;
}

/* How much longer a piece takes than with few threads: so the owner of the table keeps up. */
static double many_times(const struct worker *worker) {
  return worker->answer.threads > MANY ? (double)worker->answer.threads / MANY : 1;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Does a task.  False: it has failed, and is to be tried again. */
static bool do_task(struct worker *worker, int64_t task, int32_t tries, char *entry) {
  const struct dmi_farm_about *about = &worker->about;
  int64_t mark = DMI_FARM_MARK_DONE;
  struct dmi_trace *trace = &worker->process->access.trace;
  const int64_t begin = dmi_trace_on(trace) ? dmi_clock_ns() : 0;
  int32_t status = worker->process->program.farm_task(task, entry + sizeof(mark),
                                                      about->result_size, worker->job);
  if (begin) dmi_trace_step(trace, "task", begin, (uint64_t)task);
  if (status) {
    if (tries < about->retries) return false;
    mark = DMI_FARM_MARK_FAILED(status);
    worker->step.failed++;
  }
  memcpy(entry, &mark, sizeof(mark));
  worker->step.done++;
  return true;
}

/* Does the tasks of the piece, or those that can be done now. */
static void do_tasks(struct worker *worker) {
  const struct dmi_farm_answer *piece = &worker->answer;
  const int64_t begin = dmi_clock_ns();
  const double times = many_times(worker);
  double spent = 0;
  for (int64_t i = 0; i < piece->num && spent < times * LONG_NS && !program_ends(worker); i++) {
    char *entry = worker->entries + i * worker->about.entry;
    memset(entry, 0, (size_t)worker->about.entry);
    if (!do_task(worker, piece->begin + i, worker->tries, entry)) {
      worker->step.again = 1;
      worker->step.tries = worker->tries;
      return;
    }
    worker->tries = 0;
    spent = (double)(dmi_clock_ns() - begin);
  }
  if (worker->step.done) {
    double want = times * PIECE_NS / (spent / (double)worker->step.done + 1),
           most = (double)worker->most;
    if (want > GROWTH * (double)worker->step.done) want = GROWTH * (double)worker->step.done;
    worker->step.want = (int64_t)(want < most ? want : most);
  }
}

/* Memory for the entries of the piece.  False: there is none. */
static bool make_room(struct worker *worker) {
  char *more;
  if (worker->answer.num <= worker->room) return true;
  more = realloc(worker->entries, (size_t)(worker->answer.num * worker->about.entry));
  if (!more) return false;
  worker->entries = more;
  worker->room = worker->answer.num;
  return true;
}

/* Does what can be done of the piece; the step says what. */
static int32_t do_piece(struct worker *worker) {
  if (!make_room(worker)) return DMI_ENOMEM;
  do_tasks(worker);
  if (!worker->step.done) return DMI_OK;
  return dmi_error_of(dmi_farm_result_write(worker->process, &worker->about, worker->answer.begin,
                                            worker->step.done, worker->entries));
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Nothing to do until something changes.  False: the thread is to end. */
static bool wait(struct worker *worker) {
  uint64_t wake;
  return dmi_sync_watch(worker->process->sync,
                        worker->at.addr + (int64_t)offsetof(struct dmi_farm_table, wake),
                        sizeof(wake), &worker->answer.wake, &wake, NULL) == DMI_TRUE;
}

/* The farm cannot go on: whoever runs it is told. */
static void give_up(struct worker *worker, int32_t error) {
  struct dmi_farm_answer answer;
  struct dmi_farm_step step = {.op = DMI_FARM_ERROR, .error = error};
  (void)dmi_farm_table_ask(&worker->at, &step, &answer); /* else it finds that itself */
  (void)dmi_call_notify(worker->process, worker->about_addr);
}

/* Works until the slot is not this thread's any more. */
static void work(struct worker *worker) {
  for (;;) {
    int32_t error;
    if (program_ends(worker)) worker->step.ends = 1;
    if (!dmi_farm_table_ask(&worker->at, &worker->step, &worker->answer)) {
      give_up(worker, dmi_error_last());
      return;
    }
    if (worker->answer.notify) (void)dmi_call_notify(worker->process, worker->about_addr);
    worker->step.done = worker->step.failed = 0;
    worker->step.again = 0;
    switch (worker->answer.what) {
      case DMI_FARM_WAIT:
        if (!wait(worker)) worker->step.ends = 1;
        continue;
      case DMI_FARM_DO:
        worker->tries = worker->answer.tries;
        break;
      case DMI_FARM_HERE:
        worker->tries++;
        break;
      default:
        return;
    }
    error = do_piece(worker);
    if (error == DMI_OK) continue;
    worker->step.done = worker->step.failed = 0; /* its results are not there */
    worker->step.again = 0;
    worker->step.ends = 1;
    give_up(worker, error);
  }
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* Reads from global memory, also if there is no memory for it at once. */
static bool read_from(const struct worker *worker, int64_t addr, int64_t size, void *to) {
  while (!dmi_access_read(&worker->process->access, addr, size, to, DMI_GET_READ, NULL)) {
    if (!dmi_farm_pause(worker->process)) return false;
  }
  return true;
}

/* Reads the description of the farm, and the job behind it. */
static bool read_about(struct worker *worker) {
  struct dmi_farm_about *about = &worker->about;
  const int64_t addr = worker->about_addr;
  if (!read_from(worker, addr, sizeof(*about), about)) return false;
  worker->most = about->entry < ROOM_BYTES ? ROOM_BYTES / about->entry : 1;
  if (!about->job_size) return true;
  worker->job = malloc((size_t)about->job_size);
  return worker->job &&
         read_from(worker, addr + (int64_t)sizeof(*about), about->job_size, worker->job);
}

static bool begin(struct worker *worker, int64_t addr) {
  struct dmi_farm_arg arg;
  if (!read_from(worker, addr, sizeof(arg), &arg)) return false;
  worker->at = (struct dmi_farm_at){.process = worker->process, .addr = arg.table};
  if (!dmi_farm_table_open(&worker->at)) return false;
  worker->step = (struct dmi_farm_step){.op = DMI_FARM_WORK,
                                        .slot = (uint32_t)arg.slot,
                                        .process = (dmi_farm_name_t)worker->process->dmi_id.n + 1,
                                        .want = 1};
  if (!read_from(worker, arg.table + (int64_t)offsetof(struct dmi_farm_table, about),
                 sizeof(worker->about_addr), &worker->about_addr))
    return false;
  if (read_about(worker)) return true;
  give_up(worker, worker->job || !worker->about.job_size ? dmi_error_last() : DMI_ENOMEM);
  return false;
}

int64_t dmi_farm_thread(int64_t addr) {
  struct worker worker = {.process = dmi_runtime_process()};
  does_tasks = true; /* until it ends */
  if (begin(&worker, addr)) work(&worker);
  free(worker.entries);
  free(worker.job);
  return 0;
}
