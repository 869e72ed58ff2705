/*
 * worker.c - a worker: a process that was welcomed, and its places.
 *
 * Threads of a worker: the DMI thread that the master has started, which follows the runner; and
 * one for each place, which follows the orders for it.  A place's report is written by the first
 * one when its task has ended, else by its own; as both sides take turns (share.h), never by both.
 */
#include "worker.h"

#include <dmi_api.h>
#include <dmi_ext.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "file.h"
#include "pack.h"
#include "share.h"

struct worker {
  struct farm_start start;
  struct farm_runner runner;
  struct place *places;
  atomic_bool over; /* all places have ended: the runner is not needed any more */
};

struct place {
  struct worker *worker;
  int32_t number;
  pthread_t thread;
  struct farm_order order; /* the last one */
  uint32_t turn;           /* of the last one that was not out of turn */
  bool stopped;            /* the task of this turn is not to be run */
  struct farm_order task;  /* the START of the task that is fetched or runs */
  int file;                /* being fetched; -1: none */
};

static char *path_of(const struct place *place, const char *name) {
  return farm_format("%s/%d/%s", place->worker->runner.dir, place->number, name);
}

static int64_t order_addr(const struct place *place) {
  return place->worker->start.order_addr + place->number * (int64_t)sizeof(struct farm_order);
}

static int64_t part_addr(const struct place *place) {
  return place->worker->start.part_addr + place->number * FARM_PART;
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* False: the master does not hear it any more. */
static bool report(struct place *place, struct farm_report *report) {
  const struct farm_start *start = &place->worker->start;
  const int64_t addr = start->report_addr + place->number * (int64_t)sizeof(*report);
  return DMI_write(addr, sizeof(*report), report, DMI_PUT_WRITE, NULL) &&
         DMI_notify(FARM_NOTE(start->worker, place->number));
}

static bool report_end(struct place *place, enum farm_how how, int status) {
  struct farm_report ended = {.turn = place->turn, .type = FARM_REPORT_ENDED};
  ended.told.how = how;
  ended.told.status = status;
  return report(place, &ended);
}

/* ---- A task begins --------------------------------------------------------------------------- */

static const char *file_name(enum farm_file file) {
  static const char *const names[] = {"program", "cwd/data", "out", "err"};
  return names[file];
}

static bool open_file(struct place *place, enum farm_file file) {
  char *path = path_of(place, file_name(file));
  const mode_t mode = file == FARM_PROGRAM && place->task.runs ? 0700 : 0600;
  place->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (place->file >= 0) (void)fchmod(place->file, mode);
  free(path);
  return place->file >= 0;
}

static bool close_file(struct place *place) {
  const int file = place->file;
  place->file = -1;
  return close(file) == 0;
}

/* An empty directory for the task. */
static bool make_cwd(const struct place *place) {
  char *cwd = path_of(place, "cwd"), *dir = path_of(place, "");
  bool made;
  if (rmdir(cwd) != 0 && errno != ENOENT) farm_remove(cwd);
  made = (mkdir(dir, 0700) == 0 || errno == EEXIST) && mkdir(cwd, 0700) == 0;
  free(cwd);
  free(dir);
  return made;
}

static bool run(struct place *place) {
  struct farm_ask ask = {.type = FARM_ASK_START,
                         .place = (uint32_t)place->number,
                         .version = place->task.version,
                         .timeout_ms = place->task.timeout_ms,
                         .has_data = place->task.has_data};
  memcpy(ask.name, place->task.name, sizeof(ask.name));
  return send(place->worker->runner.socket, &ask, sizeof(ask), MSG_NOSIGNAL) == sizeof(ask);
}

static bool want(struct place *place, enum farm_file file, int64_t offset) {
  struct farm_report wanted = {
      .turn = place->turn, .type = FARM_REPORT_WANT, .file = file, .offset = offset};
  return report(place, &wanted);
}

/* All of `file` before `offset` is here: asks for more, or goes on with the next file, or runs. */
static bool fetch(struct place *place, enum farm_file file, int64_t offset) {
  if (place->stopped) {
    if (place->file >= 0) (void)close_file(place);
    return report_end(place, FARM_STOPPED, 0);
  }
  for (; file <= (place->task.has_data ? FARM_DATA : FARM_PROGRAM); file++, offset = 0) {
    if (place->file < 0 && !open_file(place, file))
      return report_end(place, FARM_NOT_STORED, errno);
    if (offset < place->task.size[file]) return want(place, file, offset);
    if (!close_file(place)) return report_end(place, FARM_NOT_STORED, errno);
  }
  return run(place);
}

static bool on_start(struct place *place) {
  const struct farm_order *order = &place->order;
  const char *bytes = order->bytes;
  place->task = *order;
  if (place->stopped) return report_end(place, FARM_STOPPED, 0);
  if (!make_cwd(place)) return report_end(place, FARM_NOT_STORED, errno);
  if (order->size[0] + order->size[1] > FARM_SHORT) return fetch(place, FARM_PROGRAM, 0);
  for (enum farm_file file = FARM_PROGRAM; file <= (order->has_data ? FARM_DATA : FARM_PROGRAM);
       file++) {
    const int64_t size = order->size[file];
    if (!open_file(place, file)) return report_end(place, FARM_NOT_STORED, errno);
    if (!farm_write(place->file, bytes, size) || !close_file(place))
      return report_end(place, FARM_NOT_STORED, errno);
    bytes += size;
  }
  return run(place);
}

/* The part that was asked for. */
static bool on_part(struct place *place) {
  const struct farm_order *order = &place->order;
  char *bytes = farm_alloc((size_t)order->part_size);
  bool well = DMI_read(part_addr(place), order->part_size, bytes, DMI_GET_READ, NULL);
  bool stored = well && farm_write(place->file, bytes, order->part_size);
  const int error = errno;
  free(bytes);
  if (!well) return false;
  if (stored) return fetch(place, order->file, order->offset + order->part_size);
  (void)close_file(place);
  return report_end(place, FARM_NOT_STORED, error);
}

/* ---- What it has printed --------------------------------------------------------------------- */

static bool on_send(struct place *place) {
  const struct farm_order *order = &place->order;
  struct farm_report sent = {
      .turn = place->turn, .type = FARM_REPORT_SENT, .file = order->file, .offset = order->offset};
  char *path = path_of(place, file_name(order->file)), *bytes = farm_alloc(FARM_PART);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : pread(file, bytes, FARM_PART, order->offset);
  bool well = size < 0 || DMI_write(part_addr(place), size, bytes, DMI_EXCLUSIVE_WRITE, NULL);
  sent.part_size = size; /* -1: it cannot be read */
  if (file >= 0) close(file);
  free(path);
  free(bytes);
  return well && report(place, &sent);
}

/* ---- A place --------------------------------------------------------------------------------- */

static bool on_turn(struct place *place) {
  place->turn = place->order.turn;
  place->stopped = place->order.stop == place->turn;
  switch (place->order.type) {
    case FARM_ORDER_START:
      return on_start(place);
    case FARM_ORDER_PART:
      return on_part(place);
    case FARM_ORDER_SEND:
      return on_send(place);
    default:
      return true;
  }
}

static void stop(struct place *place) {
  struct farm_ask ask = {.type = FARM_ASK_STOP, .place = (uint32_t)place->number};
  (void)send(place->worker->runner.socket, &ask, sizeof(ask), MSG_NOSIGNAL);
}

static void *follow_orders(void *arg) {
  struct place *place = arg;
  const int64_t addr = order_addr(place);
  const int64_t number_addr = addr + (int64_t)offsetof(struct farm_order, number);
  struct farm_report here = {.type = FARM_REPORT_FREE};
  int64_t known = 0;
  bool well = DMI_write(addr, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL) && report(place, &here);
  while (well && DMI_watch(number_addr, sizeof(known), &known, &known, NULL) &&
         DMI_read(addr, sizeof(place->order), &place->order, DMI_GET_READ, NULL)) {
    known = place->order.number;
    if (place->order.type == FARM_ORDER_END) break;
    if (place->order.turn != place->turn) {
      well = on_turn(place);
    } else if (place->order.stop == place->turn) {
      stop(place);
    }
  }
  return NULL;
}

/* ---- The worker ------------------------------------------------------------------------------ */

/* Until all places have ended, or the runner is gone. */
static void follow_runner(struct worker *worker) {
  struct farm_report *ended = farm_alloc(sizeof(*ended));
  ssize_t size;
  while ((size = recv(worker->runner.socket, &ended->told, sizeof(ended->told), 0)) ==
             (ssize_t)sizeof(ended->told) ||
         (size < 0 && errno == EINTR)) {
    if (size < 0) continue;
    struct place *place = &worker->places[ended->told.place];
    ended->turn = place->turn;
    ended->type = FARM_REPORT_ENDED;
    (void)report(place, ended);
  }
  free(ended);
}

static void *end_places(void *arg) {
  struct worker *worker = arg;
  for (int32_t i = 0; i < worker->start.places; i++)
    pthread_join(worker->places[i].thread, NULL);
  atomic_store(&worker->over, true);
  shutdown(worker->runner.socket, SHUT_RDWR); /* follow_runner ends */
  return NULL;
}

static int unpack_bin(const struct worker *worker) {
  const int64_t size = worker->start.bin_size;
  char *bytes = farm_alloc((size_t)size), *dir = farm_format("%s/bin", worker->runner.dir);
  int error = 0;
  if (size && !DMI_read(worker->start.bin_addr, size, bytes, DMI_GET_READ, NULL)) error = ENOMEM;
  if (!error) error = farm_unpack(dir, bytes, size);
  free(bytes);
  free(dir);
  return error;
}

static void broken(struct worker *worker, int error) {
  struct place place = {.worker = worker};
  struct farm_report told = {.type = FARM_REPORT_BROKEN};
  told.told.status = error;
  (void)report(&place, &told);
}

static bool start_places(struct worker *worker) {
  pthread_t ends;
  worker->places = farm_alloc((size_t)worker->start.places * sizeof(*worker->places));
  for (int32_t i = 0; i < worker->start.places; i++) {
    struct place *place = &worker->places[i];
    *place = (struct place){.worker = worker, .number = i, .file = -1};
    if (pthread_create(&place->thread, NULL, follow_orders, place) == 0) continue;
    worker->start.places = i; /* fewer, then */
  }
  if (worker->start.places == 0 || pthread_create(&ends, NULL, end_places, worker) != 0)
    return false;
  follow_runner(worker);
  if (!atomic_load(&worker->over)) broken(worker, ECHILD);
  pthread_join(ends, NULL);
  return true;
}

void farm_worker(int64_t addr) {
  struct worker *worker = farm_alloc(sizeof(*worker));
  int error;
  if (DMI_read(addr, sizeof(worker->start), &worker->start, DMI_GET_READ, NULL)) {
    if (!farm_runner_start(&worker->runner, "/proc/self/exe")) {
      broken(worker, errno);
    } else {
      if ((error = unpack_bin(worker)) || !start_places(worker))
        broken(worker, error ? error : EAGAIN);
      farm_runner_end(&worker->runner);
    }
  }
  free(worker->places);
  free(worker);
}
