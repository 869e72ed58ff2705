/*
 * worker_place.c - a place of a worker: follows the orders of the master.
 */
#include <dmi_api.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"
#include "worker_int.h"

static char *path_of(const struct farm_work *work, const char *name) {
  return farm_format("%s/%d/%s", work->worker->base, work->number, name);
}

static int64_t part_addr(const struct farm_work *work) {
  return work->worker->start.part_addr + work->number * FARM_PART;
}

/* ---- Who may run ----------------------------------------------------------------------------- */

/* If there is no runner at the moment, its thread says so. */
static void ask_runner(struct farm_work *work) {
  struct farm_ask ask = {.type = FARM_ASK_START,
                         .version = work->task.version,
                         .timeout_ms = work->task.timeout_ms,
                         .has_data = work->task.has_data};
  memcpy(ask.name, work->task.name, sizeof(ask.name));
  pthread_mutex_lock(&work->lock);
  work->asked = true;
  work->unclean = false;
  (void)send(work->runner.socket, &ask, sizeof(ask), MSG_NOSIGNAL);
  pthread_mutex_unlock(&work->lock);
}

/* Runs the task, now or when another one has ended. */
static bool run(struct farm_work *work) {
  struct farm_worker *worker = work->worker;
  pthread_mutex_lock(&worker->lock);
  if (worker->idle > 0) {
    worker->idle--;
    ask_runner(work);
  } else {
    work->waits = true;
    work->next = NULL;
    if (worker->first) {
      worker->last->next = work;
    } else {
      worker->first = work;
    }
    worker->last = work;
  }
  pthread_mutex_unlock(&worker->lock);
  return true;
}

void farm_run_next(struct farm_worker *worker) {
  struct farm_work *work;
  pthread_mutex_lock(&worker->lock);
  if ((work = worker->first)) {
    worker->first = work->next;
    work->waits = false;
    ask_runner(work);
  } else {
    worker->idle++;
  }
  pthread_mutex_unlock(&worker->lock);
}

/* True: the task has waited, and will not run. */
static bool wait_no_more(struct farm_work *work) {
  struct farm_worker *worker = work->worker;
  struct farm_work **at = &worker->first, *before = NULL;
  bool waited;
  pthread_mutex_lock(&worker->lock);
  waited = work->waits;
  while (waited && *at != work) {
    before = *at;
    at = &before->next;
  }
  if (waited) {
    *at = work->next;
    if (worker->last == work) worker->last = before;
    work->waits = false;
  }
  pthread_mutex_unlock(&worker->lock);
  return waited;
}

/* ---- A task begins --------------------------------------------------------------------------- */

static const char *file_name(enum farm_file file) {
  static const char *const names[] = {"program", "cwd/data", "out", "err"};
  return names[file];
}

/* That of the task before is written over, as a rule: new files, and files that were cut to
 * nothing, cost much more in some file systems. */
static int open_over(const char *path, mode_t mode) {
  struct stat status;
  int file = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return -1;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
      ((status.st_mode & 07777) == mode || fchmod(file, mode) == 0))
    return file;
  close(file);
  return -1;
}

static bool open_file(struct farm_work *work, enum farm_file file) {
  char *path = path_of(work, file_name(file));
  const mode_t mode = file == FARM_PROGRAM && work->task.runs ? 0700 : 0600;
  work->file = open_over(path, mode);
  if (work->file < 0) {
    farm_remove(path);
    work->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  free(path);
  return work->file >= 0;
}

/* It ends where it was written to last. */
static bool close_file(struct farm_work *work) {
  const int file = work->file;
  const off_t size = lseek(file, 0, SEEK_CUR);
  struct stat status;
  bool well = size >= 0 && fstat(file, &status) == 0 &&
              (status.st_size <= size || ftruncate(file, size) == 0);
  work->file = -1;
  return close(file) == 0 && well;
}

/* An empty directory for the task; the runner has left it so, if it has run one in it. */
static bool make_cwd(struct farm_work *work) {
  char *cwd = path_of(work, "cwd");
  bool unclean, made;
  pthread_mutex_lock(&work->lock);
  unclean = work->unclean;
  work->unclean = true;
  pthread_mutex_unlock(&work->lock);
  if (unclean) farm_remove(cwd);
  made = mkdir(cwd, 0700) == 0 || errno == EEXIST;
  free(cwd);
  return made;
}

static bool want(struct farm_work *work, enum farm_file file, int64_t offset) {
  struct farm_report wanted = {
      .turn = work->turn, .type = FARM_REPORT_WANT, .file = file, .offset = offset};
  return farm_report(work, &wanted);
}

/* All of `file` before `offset` is here: asks for more, or goes on with the next file, or runs. */
static bool fetch(struct farm_work *work, enum farm_file file, int64_t offset) {
  if (work->stopped) {
    if (work->file >= 0) (void)close_file(work);
    return farm_report_end(work, FARM_STOPPED, 0);
  }
  for (; file <= (work->task.has_data ? FARM_DATA : FARM_PROGRAM); file++, offset = 0) {
    if (work->file < 0 && !open_file(work, file))
      return farm_report_end(work, FARM_NOT_STORED, errno);
    if (offset < work->task.size[file]) return want(work, file, offset);
    if (!close_file(work)) return farm_report_end(work, FARM_NOT_STORED, errno);
  }
  return run(work);
}

static bool on_start(struct farm_work *work) {
  const struct farm_order *order = &work->order;
  const char *bytes = order->bytes;
  work->task = *order;
  if (work->file >= 0) (void)close_file(work); /* of one before that could not be stored */
  if (work->stopped) return farm_report_end(work, FARM_STOPPED, 0);
  if (!make_cwd(work)) return farm_report_end(work, FARM_NOT_STORED, errno);
  if (order->size[0] + order->size[1] > FARM_SHORT) return fetch(work, FARM_PROGRAM, 0);
  for (enum farm_file file = FARM_PROGRAM; file <= (order->has_data ? FARM_DATA : FARM_PROGRAM);
       file++) {
    const int64_t size = order->size[file];
    if (!open_file(work, file)) return farm_report_end(work, FARM_NOT_STORED, errno);
    if (!farm_write(work->file, bytes, size) || !close_file(work))
      return farm_report_end(work, FARM_NOT_STORED, errno);
    bytes += size;
  }
  return run(work);
}

/* The part that was asked for. */
static bool on_part(struct farm_work *work) {
  const struct farm_order *order = &work->order;
  char *bytes = farm_alloc((size_t)order->part_size);
  const bool came = DMI_read(part_addr(work), order->part_size, bytes, DMI_GET_READ, NULL);
  const bool full = !came && DMI_errno() == DMI_ENOMEM;
  const bool stored = came && farm_write(work->file, bytes, order->part_size);
  const int error = full ? ENOMEM : errno;
  free(bytes);
  if (!came && !full) return false; /* the master is gone */
  if (stored) return fetch(work, order->file, order->offset + order->part_size);
  (void)close_file(work);
  return farm_report_end(work, FARM_NOT_STORED, error);
}

/* ---- What it has printed --------------------------------------------------------------------- */

static bool on_send(struct farm_work *work) {
  const struct farm_order *order = &work->order;
  struct farm_report sent = {
      .turn = work->turn, .type = FARM_REPORT_SENT, .file = order->file, .offset = order->offset};
  char *path = path_of(work, file_name(order->file)), *bytes = farm_alloc(FARM_PART);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : pread(file, bytes, FARM_PART, order->offset);
  bool well = true;
  if (size > 0 && !DMI_write(part_addr(work), size, bytes, DMI_PUT_WRITE, NULL)) {
    well = DMI_errno() == DMI_ENOMEM; /* else the master is gone */
    size = -1;
  }
  sent.part_size = size; /* -1: it cannot be read, or not be sent */
  if (file >= 0) close(file);
  free(path);
  free(bytes);
  return well && farm_report(work, &sent);
}

/* ---- A place --------------------------------------------------------------------------------- */

static bool on_turn(struct farm_work *work) {
  work->turn = work->order.turn;
  work->stopped = work->order.stop == work->turn;
  switch (work->order.type) {
    case FARM_ORDER_START:
      return on_start(work);
    case FARM_ORDER_PART:
      return on_part(work);
    case FARM_ORDER_SEND:
      return on_send(work);
    default:
      return true;
  }
}

/* What runs, if it still does.  False: the master does not hear it any more. */
static bool stop(struct farm_work *work) {
  struct farm_ask ask = {.type = FARM_ASK_STOP};
  if (wait_no_more(work)) return farm_report_end(work, FARM_STOPPED, 0);
  pthread_mutex_lock(&work->lock);
  if (work->asked) (void)send(work->runner.socket, &ask, sizeof(ask), MSG_NOSIGNAL);
  pthread_mutex_unlock(&work->lock);
  return true;
}

/* Waits for the next order.  False: there is none any more. */
static bool watch(struct farm_work *work) {
  const int64_t size = sizeof(struct farm_order);
  const int64_t addr = work->worker->start.order_addr + work->number * size;
  while (!DMI_watch(addr, size, &work->order, &work->order, NULL))
    if (!farm_try_again()) return false;
  return true;
}

/* A place that ends unasked must not leave the master waiting: it is told, if it still hears it. */
void farm_follow_orders(struct farm_work *work) {
  const struct farm_order *order = &work->order;
  struct farm_report here = {.type = FARM_REPORT_FREE};
  bool well = farm_report(work, &here);
  while (well && (well = watch(work)) && order->type != FARM_ORDER_END) {
    if (order->turn != work->turn) {
      well = on_turn(work);
    } else if (order->stop == work->turn) {
      well = stop(work);
    }
  }
  (void)wait_no_more(work);
  if (!well) farm_report_broken(work, EIO);
}
