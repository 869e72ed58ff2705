/*
 * farm_thread.c - a thread that does tasks of a farm.
 *
 * It takes a few tasks at a time (struct dmi_farm_step), so many as take some milliseconds: then a
 * step is cheap, and the thread is soon back when its process is to leave.  It writes their results
 * together, and only then says that they are done.  When it finds that tasks take longer than it
 * thought it gives the rest back.
 *
 * While its tasks are short it has two slots: it does the tasks of one, and meanwhile the results of
 * the other one are written and reported, and new tasks are given out for it.  So it does not wait,
 * though the process that has the table may be slow to answer, as threads compute there, too.
 *
 * It ends when the farm does, when it is told to stop, and when the program is ending (DMI_exit);
 * also when the farm is gone, because whoever ran it has failed.
 */
#include "elastic/farm_int.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "access/status.h"
#include "base/clock.h"
#include "base/error.h"
#include "node/calls.h"
#include "node/runtime.h"
#include "sync/sync.h"

#define PIECE_NS 5e6         /* what a piece should take */
#define LONG_NS 20e6         /* what takes longer is not ended, if others can do the rest */
#define MANY 128             /* slots; with more of them both times grow, as steps take longer */
#define GROWTH 8             /* a piece has at most so many times the tasks of the one before */
#define ROOM_BYTES (1 << 20) /* of results that are written together, if they are so small */

/* What a thread does of one slot, and says of it. */
struct piece {
  enum {
    NONE, /* no slot */
    IDLE, /* it has not asked for tasks */
    TELL, /* its results are being written, or need not be; its step is due */
    ASKED /* its step is being done */
  } state;
  struct dmi_farm_step step;
  struct dmi_farm_answer answer; /* the last one */
  int64_t wrote;                 /* results that are being written, of tasks from `from` on */
  int64_t from;
  char *entries;
  int64_t room;  /* for so many tasks */
  int32_t tries; /* how often the next task has failed */
  DMI_local_status_t writes, asks;
};

struct worker {
  struct dmi_process *process;
  struct dmi_farm_at at;
  struct dmi_farm_about about;
  int64_t about_addr; /* notes to whoever runs the farm name it */
  bool notes;         /* one is on its way, or was */
  DMI_local_status_t noted;
  void *job;
  struct piece pieces[2];
  struct piece *piece; /* the one that is done, or will be */
  struct piece *other;
  int64_t most; /* tasks in a piece */
  int64_t want; /* that it wants in the next one */
  bool is_long; /* tasks take longer than it thought */
  bool is_full; /* the table had no place for another slot */
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
  const uint32_t slots = worker->piece->answer.threads;
  return slots > MANY ? (double)slots / MANY : 1;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* The last note that was made is in the queue. */
static void await_note(struct worker *worker) {
  if (worker->notes) (void)dmi_access_wait(&worker->process->access, dmi_status_of(&worker->noted));
  worker->notes = false;
}

/* Tells whoever runs the farm to look at the table. */
static void notify(struct worker *worker) {
  await_note(worker);
  worker->notes = true;
  (void)dmi_call_notify(worker->process, worker->about_addr, &worker->noted);
}

/* The farm cannot go on: whoever runs it is told. */
static void give_up(struct worker *worker, int32_t error) {
  struct dmi_farm_answer answer;
  struct dmi_farm_step step = {.op = DMI_FARM_ERROR, .error = error};
  (void)dmi_farm_table_ask(&worker->at, &step, &answer); /* else it finds that itself */
  notify(worker);
}

/* What the next step of this slot says, but for what was done. */
static void say(struct worker *worker, struct piece *piece) {
  piece->step.want = worker->want;
  if (program_ends(worker)) piece->step.ends = 1;
}

/* The results of a piece are there, or will never be: then its tasks are not done, and the farm
 * cannot go on. */
static void end_write(struct worker *worker, struct piece *piece) {
  if (!piece->wrote) return;
  if (!dmi_farm_result_end(worker->process, &worker->about, piece->from, piece->wrote,
                           piece->entries, &piece->writes)) {
    piece->step.done = piece->step.failed = 0;
    piece->step.again = 0;
    piece->step.ends = 1;
    give_up(worker, dmi_error_last());
  }
  piece->wrote = 0;
}

/* Between two tasks: when the results of the other piece are there, its step can begin. */
static void go_on(struct worker *worker, bool waits) {
  struct piece *piece = worker->other;
  if (piece->state != TELL) return;
  if (!waits && piece->wrote && !dmi_status_is_done(dmi_status_of(&piece->writes))) return;
  end_write(worker, piece);
  say(worker, piece);
  piece->state = ASKED;
  dmi_farm_table_begin(&worker->at, &piece->step, &piece->answer, &piece->asks);
}

/* Waits for the step of a piece, or does it.  False: the farm is gone. */
static bool ask(struct worker *worker, struct piece *piece) {
  int32_t good;
  if (piece->state == ASKED) {
    good = dmi_farm_table_end(&worker->at, &piece->step, &piece->answer, &piece->asks);
  } else {
    end_write(worker, piece);
    say(worker, piece);
    good = dmi_farm_table_ask(&worker->at, &piece->step, &piece->answer);
  }
  piece->state = IDLE;
  if (!good) return false;
  if (piece->answer.notify) notify(worker);
  piece->step.done = piece->step.failed = 0;
  piece->step.again = 0;
  if (piece->answer.what == DMI_FARM_END) piece->state = NONE;
  return true;
}

/* Nothing to do until something changes.  False: the thread is to end. */
static bool wait(struct worker *worker) {
  uint64_t wake;
  return dmi_sync_watch(worker->process->sync,
                        worker->at.addr + (int64_t)offsetof(struct dmi_farm_table, wake),
                        sizeof(wake), &worker->piece->answer.wake, &wake, NULL) == DMI_TRUE;
}

static void swap(struct worker *worker) {
  struct piece *piece = worker->piece;
  worker->piece = worker->other;
  worker->other = piece;
}

/* ---- The other slot ------------------------------------------------------------------------- */

/* It pays to ask for tasks before they are needed. */
static bool is_early(const struct worker *worker) {
  return worker->want > 1;
}

/* Takes another slot, and asks for tasks of it.  If there is none the thread goes on without. */
static void take_other(struct worker *worker) {
  struct piece *other = worker->other;
  const struct dmi_farm_step step = {.op = DMI_FARM_SLOT, .process = worker->piece->step.process};
  struct dmi_farm_answer answer;
  if (other->state == NONE) {
    if (worker->is_full || !dmi_farm_table_ask(&worker->at, &step, &answer)) return;
    worker->is_full = answer.what != DMI_FARM_DONE;
    if (worker->is_full) return;
    other->step =
        (struct dmi_farm_step){.op = DMI_FARM_WORK, .process = step.process, .slot = answer.slot};
    other->state = IDLE;
  }
  if (other->state == IDLE) other->state = TELL;
}

/* Gives the other slot back, with its tasks: they take long, and others can do them meanwhile.
 * False: the farm is gone. */
static bool drop_other(struct worker *worker) {
  struct piece *other = worker->other;
  if (other->state == ASKED && !ask(worker, other)) return false;
  other->step.ends = 1;
  return other->state == NONE || ask(worker, other);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* Does a task.  False: it has failed, and is to be tried again. */
static bool do_task(struct worker *worker, int64_t task, char *entry) {
  const struct dmi_farm_about *about = &worker->about;
  struct piece *piece = worker->piece;
  int64_t mark = DMI_FARM_MARK_DONE;
  struct dmi_trace *trace = &worker->process->access.trace;
  const int64_t begin = dmi_trace_on(trace) ? dmi_clock_ns() : 0;
  int32_t status = worker->process->program.farm_task(task, entry + sizeof(mark),
                                                      about->result_size, worker->job);
  if (begin) dmi_trace_step(trace, "task", begin, (uint64_t)task);
  if (status) {
    if (piece->tries < about->retries) return false;
    mark = DMI_FARM_MARK_FAILED(status);
    piece->step.failed++;
  }
  memcpy(entry, &mark, sizeof(mark));
  piece->step.done++;
  return true;
}

/* Does the tasks of the piece, or those that can be done now. */
static void do_tasks(struct worker *worker) {
  struct piece *piece = worker->piece;
  const int64_t begin = dmi_clock_ns();
  const double times = many_times(worker);
  double spent = 0;
  for (int64_t i = 0; i < piece->answer.num && spent < times * LONG_NS && !program_ends(worker);
       i++) {
    char *entry = piece->entries + i * worker->about.entry;
    go_on(worker, false);
    memset(entry, 0, (size_t)worker->about.entry);
    if (!do_task(worker, piece->answer.begin + i, entry)) {
      piece->step.again = 1;
      piece->step.tries = piece->tries;
      return;
    }
    piece->tries = 0;
    spent = (double)(dmi_clock_ns() - begin);
  }
  worker->is_long = spent >= times * LONG_NS;
  if (piece->step.done) {
    double want = times * PIECE_NS / (spent / (double)piece->step.done + 1),
           most = (double)worker->most;
    if (want > GROWTH * (double)piece->step.done) want = GROWTH * (double)piece->step.done;
    worker->want = (int64_t)(want < most ? want : most);
  }
}

/* Memory for the entries of the piece.  False: there is none. */
static bool make_room(struct worker *worker) {
  struct piece *piece = worker->piece;
  char *more;
  if (piece->answer.num <= piece->room) return true;
  more = realloc(piece->entries, (size_t)(piece->answer.num * worker->about.entry));
  if (!more) return false;
  piece->entries = more;
  piece->room = piece->answer.num;
  return true;
}

/* Does what can be done of the piece, and begins to write the results; its next step says what. */
static void do_piece(struct worker *worker) {
  struct piece *piece = worker->piece;
  piece->state = TELL;
  if (!make_room(worker)) {
    piece->step.ends = 1;
    give_up(worker, DMI_ENOMEM);
    return;
  }
  do_tasks(worker);
  piece->wrote = piece->step.done;
  piece->from = piece->answer.begin;
  if (piece->wrote)
    dmi_farm_result_begin(worker->process, &worker->about, piece->from, piece->wrote,
                          piece->entries, &piece->writes);
}

/* Does the piece; which one is next?  False: the farm is gone. */
static bool do_next(struct worker *worker) {
  if (is_early(worker)) take_other(worker);
  do_piece(worker);
  if (worker->is_long) return drop_other(worker);
  go_on(worker, true);
  if (worker->other->state == ASKED) swap(worker);
  return true;
}

/* Works until it has no slot any more. */
static void work(struct worker *worker) {
  for (;;) {
    if (!ask(worker, worker->piece)) {
      give_up(worker, dmi_error_last());
      return;
    }
    switch (worker->piece->answer.what) {
      case DMI_FARM_WAIT:
        if (worker->other->state == TELL || worker->other->state == ASKED) {
          swap(worker); /* others may wait for what it tells */
        } else if (!wait(worker)) {
          worker->piece->step.ends = 1;
        }
        continue;
      case DMI_FARM_DO:
        worker->piece->tries = worker->piece->answer.tries;
        break;
      case DMI_FARM_HERE:
        worker->piece->tries++;
        break;
      default: /* whatever ends one slot ends the thread */
        if (!drop_other(worker)) give_up(worker, dmi_error_last());
        return;
    }
    if (!do_next(worker)) {
      give_up(worker, dmi_error_last());
      return;
    }
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

/* Reads the job, which is behind the description of the farm. */
static bool read_job(struct worker *worker) {
  const struct dmi_farm_about *about = &worker->about;
  worker->most = about->entry < ROOM_BYTES ? ROOM_BYTES / about->entry : 1;
  if (!about->job_size) return true;
  worker->job = malloc((size_t)about->job_size);
  return worker->job && read_from(worker, worker->about_addr + (int64_t)sizeof(*about),
                                  about->job_size, worker->job);
}

static bool begin(struct worker *worker, int64_t addr) {
  struct dmi_farm_arg arg;
  if (!read_from(worker, addr, sizeof(arg), &arg)) return false;
  worker->at =
      (struct dmi_farm_at){.process = worker->process, .addr = arg.table, .size = arg.table_size};
  worker->about_addr = arg.about_addr;
  worker->about = arg.about;
  worker->want = 1;
  worker->piece = &worker->pieces[0];
  worker->other = &worker->pieces[1];
  worker->piece->state = IDLE;
  worker->piece->step =
      (struct dmi_farm_step){.op = DMI_FARM_WORK,
                             .slot = (uint32_t)arg.slot,
                             .process = (dmi_farm_name_t)worker->process->dmi_id.n + 1};
  if (read_job(worker)) return true;
  give_up(worker, worker->job || !worker->about.job_size ? dmi_error_last() : DMI_ENOMEM);
  return false;
}

/* Nobody uses what is in this frame any more. */
static void settle(struct worker *worker, struct piece *piece) {
  struct dmi_access *access = &worker->process->access;
  if (piece->wrote) (void)dmi_access_wait(access, dmi_status_of(&piece->writes));
  if (piece->state == ASKED) (void)dmi_access_wait(access, dmi_status_of(&piece->asks));
}

int64_t dmi_farm_thread(int64_t addr) {
  struct worker worker = {.process = dmi_runtime_process()};
  does_tasks = true; /* until it ends */
  if (begin(&worker, addr)) work(&worker);
  await_note(&worker);
  for (int i = 0; i < 2; i++) {
    settle(&worker, &worker.pieces[i]);
    free(worker.pieces[i].entries);
  }
  free(worker.job);
  return 0;
}
