/*
 * worker.c - a worker: a process that was welcomed, and its places.
 *
 * Each place has two threads, and a runner.  A runner that is killed is started again; what it ran
 * is reported as lost with it.
 */
#include "worker.h"

#include <dmi_api.h>
#include <dmi_ext.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "alloc.h"
#include "pack.h"
#include "worker_int.h"

#define PROGRAM "/proc/self/exe"
#define PAUSE_NS 20000000 /* before what found no memory is tried again */

/* ---- Reports --------------------------------------------------------------------------------- */

/* With the lock. */
static bool report_now(struct farm_work *work, struct farm_report *report) {
  const struct farm_start *start = &work->worker->start;
  const int64_t addr = start->report_addr + work->number * (int64_t)sizeof(*report);
  if (work->error) {
    report->type = FARM_REPORT_BROKEN;
    report->told.status = work->error;
  }
  return DMI_write(addr, sizeof(*report), report, DMI_PUT_WRITE, NULL) &&
         DMI_notify(FARM_NOTE(start->worker, work->number));
}

bool farm_try_again(void) {
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  return DMI_errno() == DMI_ENOMEM && nanosleep(&pause, NULL) == 0;
}

bool farm_report(struct farm_work *work, struct farm_report *report) {
  bool well;
  do {
    pthread_mutex_lock(&work->lock);
    well = report_now(work, report);
    pthread_mutex_unlock(&work->lock);
  } while (!well && farm_try_again());
  return well;
}

bool farm_report_end(struct farm_work *work, enum farm_how how, int status) {
  struct farm_report ended = {.turn = work->turn, .type = FARM_REPORT_ENDED};
  ended.told.how = how;
  ended.told.status = status;
  return farm_report(work, &ended);
}

void farm_report_broken(struct farm_work *work, int error) {
  struct farm_report broken = {.turn = work->turn};
  pthread_mutex_lock(&work->lock);
  work->error = error ? error : EIO;
  pthread_mutex_unlock(&work->lock);
  (void)farm_report(work, &broken);
}

/* ---- The runner ------------------------------------------------------------------------------ */

/* Somebody had the program open for writing: a process that was being started by another thread of
 * this one.  Not the task's fault. */
static void look_at_told(struct farm_told *told) {
  if (told->how == FARM_NOT_RUN && told->status == ETXTBSY) told->how = FARM_NO_RUNNER;
}

/* Until the runner ends. */
static void hear_runner(struct farm_work *work, struct farm_report *report) {
  for (;;) {
    const ssize_t size = recv(work->runner.socket, &report->told, sizeof(report->told), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != (ssize_t)sizeof(report->told)) return;
    look_at_told(&report->told);
    farm_run_next(work->worker);
    pthread_mutex_lock(&work->lock);
    report->type = FARM_REPORT_ENDED;
    report->turn = work->turn;
    work->asked = false;
    pthread_mutex_unlock(&work->lock);
    (void)farm_report(work, report);
  }
}

/* Until it has begun; 0, or an errno.  *base: the directory, in new memory. */
static int wait_for(const struct farm_runner *runner, char **base) {
  char *path = farm_runner_ready(runner);
  const int error = path ? 0 : errno;
  if (base) {
    *base = path;
  } else {
    free(path);
  }
  return error;
}

/* It was killed, all that it has run has ended, and it is started again.  With the lock. */
static void replace_runner(struct farm_work *work) {
  struct farm_runner *runner = &work->runner;
  const struct farm_worker *worker = work->worker;
  farm_runner_end(runner);
  work->unclean = true;
  if (!farm_runner_start(runner, PROGRAM, worker->base, work->number)) {
    work->error = errno;
  } else {
    work->error = wait_for(runner, NULL);
  }
}

/* The runner has ended.  Not with the lock: an order for this place would wait for it, and hold up
 * all others of the worker. */
static void end_lost(struct farm_work *work) {
  bool over;
  pthread_mutex_lock(&work->lock);
  over = work->over;
  pthread_mutex_unlock(&work->lock);
  if (!over) farm_runner_lost(&work->runner);
}

static void *follow_runner(void *arg) {
  struct farm_work *work = arg;
  struct farm_report *report = farm_alloc(sizeof(*report));
  bool goes_on = true;
  while (goes_on) {
    bool ran = false, tells = false;
    hear_runner(work, report);
    end_lost(work);
    pthread_mutex_lock(&work->lock);
    goes_on = !work->over;
    if (goes_on) {
      replace_runner(work);
      *report = (struct farm_report){.turn = work->turn, .type = FARM_REPORT_ENDED};
      report->told.how = FARM_NO_RUNNER;
      ran = work->asked;
      tells = ran || work->error;
      work->asked = false;
      goes_on = !work->error;
    }
    pthread_mutex_unlock(&work->lock);
    if (tells) (void)farm_report(work, report);
    if (ran) farm_run_next(work->worker);
  }
  free(report);
  return NULL;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Until the master ends the place. */
static void follow_both(struct farm_work *work) {
  farm_follow_orders(work);
  pthread_mutex_lock(&work->lock);
  work->over = true;
  shutdown(work->runner.socket, SHUT_RDWR);
  pthread_mutex_unlock(&work->lock);
  pthread_join(work->runner_thread, NULL);
}

static void *run_place(void *arg) {
  struct farm_work *work = arg;
  int error = work->number ? wait_for(&work->runner, NULL) : 0; /* the first one has begun */
  if (!error) error = pthread_create(&work->runner_thread, NULL, follow_runner, work);
  if (error) {
    farm_report_broken(work, error);
  } else {
    follow_both(work);
  }
  farm_runner_end(&work->runner);
  return NULL;
}

/* Starts the runner of a place; 0, or an errno.  The first one makes the worker's directory. */
static int start_runner(struct farm_worker *worker, int32_t number) {
  struct farm_work *work = &worker->places[number];
  *work = (struct farm_work){.worker = worker, .number = number, .file = -1};
  pthread_mutex_init(&work->lock, NULL);
  if (!farm_runner_start(&work->runner, PROGRAM, worker->base, number)) return errno;
  return number ? 0 : wait_for(&work->runner, &worker->base);
}

static int unpack_bin(const struct farm_worker *worker) {
  const int64_t size = worker->start.bin_size;
  char *bytes = farm_alloc((size_t)size), *dir = farm_format("%s/bin", worker->base);
  int error = 0;
  if (size && !DMI_read(worker->start.bin_addr, size, bytes, DMI_GET_READ, NULL)) error = ENOMEM;
  if (!error) error = farm_unpack(dir, bytes, size);
  free(bytes);
  free(dir);
  return error;
}

/* Starts the threads of all places; how many there are, and 0 or an errno. */
static int start_threads(struct farm_worker *worker, int32_t *threads) {
  int error = 0;
  for (*threads = 0; *threads < worker->start.places; ++*threads) {
    struct farm_work *work = &worker->places[*threads];
    error = pthread_create(&work->order_thread, NULL, run_place, work);
    if (error) break;
  }
  return error;
}

/* The runners first: while a process is started nobody is to have a program open for writing, as
 * that could not be run meanwhile.  If something fails, the master ends what has begun. */
static void run_places(struct farm_worker *worker) {
  int32_t runners = 0, threads = 0;
  int error = 0;
  while (runners < worker->start.places && !error)
    error = start_runner(worker, runners++);
  if (!error) error = unpack_bin(worker);
  if (!error) error = start_threads(worker, &threads);
  if (error) farm_report_broken(&worker->places[threads], error);
  for (int32_t i = 0; i < threads; i++)
    pthread_join(worker->places[i].order_thread, NULL);
  for (int32_t i = threads; i < runners; i++)
    farm_runner_end(&worker->places[i].runner);
}

/* ---- The worker ------------------------------------------------------------------------------ */

void farm_worker(int64_t addr) {
  struct farm_worker worker = {.lock = PTHREAD_MUTEX_INITIALIZER};
  while (!DMI_read(addr, sizeof(worker.start), &worker.start, DMI_GET_READ, NULL))
    if (!farm_try_again()) return;
  worker.idle = worker.start.at_once;
  worker.places = farm_alloc((size_t)worker.start.places * sizeof(*worker.places));
  run_places(&worker);
  free(worker.base);
  free(worker.places);
}
