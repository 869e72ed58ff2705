/*
 * tracer.c - see tracer.h.  The thread dmi-trace, what it is given to do, and what it does for the
 * one that reads: the process itself, if it has the file, else a member that asks.
 *
 * The happy path: a question comes; from then on records are made, and every half second, or when a
 * ring is half full, they are sent in pieces, at most WINDOW more than the other has written.  At
 * the end of the process the rest is sent at once, and then the network is stopped.
 *
 * Failure modes: the other writes slowly (rings fill, and records are left out), or is lost
 * (nothing is recorded any more).  Without memory, or without a thread, nothing is traced.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/futex.h"
#include "node/runtime.h"
#include "node/see_int.h"
#include "node/tracer_int.h"

#define WINDOW 4                   /* pieces sent that the other has not written */
#define PERIOD DMI_TRACE_LONG      /* ns between two looks at the rings */
#define SILENT INT64_C(1000000000) /* ns of waiting at the end before a line says so */

/* ---- The inbox ------------------------------------------------------------------------------- */

static void wake(struct dmi_tracer *tracer) {
  atomic_fetch_add(&tracer->trace->events, 1);
  dmi_futex_wake(&tracer->trace->events, 1);
}

/* NULL: there is none; *closes: nor will there be any. */
static struct dmi_tracer_job *take_job(struct dmi_tracer *tracer, bool *closes) {
  struct dmi_tracer_job *job;
  dmi_mutex_lock(&tracer->lock);
  job = tracer->first;
  if (job && !(tracer->first = job->next)) tracer->last = &tracer->first;
  *closes = !job && tracer->closes;
  dmi_mutex_unlock(&tracer->lock);
  return job;
}

void dmi_tracer_drop(struct dmi_tracer *tracer, struct dmi_tracer_job *job) {
  dmi_slice_drop(&job->piece);
  if (job->from) {
    dmi_mutex_lock(&tracer->lock);
    dmi_trace_release(&tracer->holds, job->from);
    dmi_mutex_unlock(&tracer->lock);
  }
  free(job);
}

static void *body(void *arg);

/* Signals go to the daemon. */
static bool start(struct dmi_tracer *tracer) {
  sigset_t set, old;
  dmi_net_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  tracer->runs = pthread_create(&tracer->pthread, NULL, body, tracer) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return tracer->runs;
}

/* With the lock held: puts the job into the inbox, or instead of it, if its member has sent too
 * much, that this is so.  False: it is not there. */
static bool put_in(struct dmi_tracer *tracer, struct dmi_tracer_job *job) {
  enum dmi_trace_held held = job->from ? dmi_trace_hold(&tracer->holds, job->from) : DMI_TRACE_HELD;
  if (held == DMI_TRACE_REFUSED) return false;
  if (held == DMI_TRACE_TOO_MUCH) {
    dmi_slice_drop(&job->piece);
    *job = (struct dmi_tracer_job){.type = DMI_TRACER_MUCH, .about = job->from};
  }
  *tracer->last = job;
  tracer->last = &job->next;
  return true;
}

/* The daemon, or who begins and ends the process.  False: it cannot be done, and the piece is
 * dropped. */
static bool give(struct dmi_tracer *tracer, struct dmi_tracer_job job) {
  struct dmi_tracer_job *copy = tracer->runs || start(tracer) ? malloc(sizeof(*copy)) : NULL;
  bool given;
  if (!copy) {
    dmi_slice_drop(&job.piece);
    return false;
  }
  *copy = job;
  copy->next = NULL;
  dmi_mutex_lock(&tracer->lock);
  given = put_in(tracer, copy);
  dmi_mutex_unlock(&tracer->lock);
  if (given) {
    wake(tracer);
  } else {
    dmi_slice_drop(&copy->piece);
    free(copy);
  }
  return given;
}

/* ---- Names of members ------------------------------------------------------------------------ */

struct dmi_tracer_name {
  struct dmi_tracer_name *next;
  dmi_uid_t uid;
  char text[DMI_NAME_TEXT];
};

void dmi_tracer_call(struct dmi_tracer *tracer, dmi_uid_t uid, const char text[DMI_NAME_TEXT]) {
  struct dmi_tracer_name *name = calloc(1, sizeof(*name));
  if (!name) return;
  name->uid = uid;
  snprintf(name->text, sizeof(name->text), "%s", text);
  dmi_mutex_lock(&tracer->lock);
  name->next = tracer->called;
  tracer->called = name;
  dmi_mutex_unlock(&tracer->lock);
}

void dmi_tracer_name(struct dmi_tracer *tracer, dmi_uid_t uid, char text[DMI_NAME_TEXT]) {
  const struct dmi_tracer_name *name;
  dmi_mutex_lock(&tracer->lock);
  name = tracer->called;
  while (name && name->uid != uid)
    name = name->next;
  snprintf(text, DMI_NAME_TEXT, "%s", name ? name->text : "a process");
  dmi_mutex_unlock(&tracer->lock);
}

static void forget_names(struct dmi_tracer *tracer) {
  struct dmi_tracer_name *name;
  while ((name = tracer->called)) {
    tracer->called = name->next;
    free(name);
  }
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void begin(struct dmi_tracer *tracer, dmi_uid_t reader) {
  dmi_tracer_forget(tracer);
  tracer->reader = reader;
  tracer->pool.kind = 0;
  tracer->told = 0; /* the first piece goes at once */
  dmi_trace_begin(tracer->trace);
}

static void end(struct dmi_tracer *tracer) {
  tracer->reader = 0;
  dmi_trace_end(tracer->trace);
}

static void send_piece(struct dmi_tracer *tracer, const struct dmi_tracer_piece *piece,
                       bool is_last) {
  dmi_see_send(tracer->process, tracer->reader, DMI_TRACER_EVENTS, DMI_SEEN_GOOD, !is_last,
               dmi_slice_copy(piece->bytes, piece->length));
  dmi_net_flush(tracer->process->access.net, tracer->reader);
  tracer->sent++;
}

/* Is it time to take something?  Not for each message of the other one: small pieces would go to
 * and fro without end. */
static bool is_due(struct dmi_tracer *tracer) {
  if (!atomic_load(&tracer->self)) return false;
  if (atomic_exchange(&tracer->trace->full, 0) || tracer->behind) return true;
  return dmi_clock_ns() - tracer->told >= PERIOD;
}

/* There is more than what comes meanwhile. */
static bool is_large(const struct dmi_tracer_piece *piece) {
  return piece->length > sizeof(piece->bytes) / 2;
}

/* Takes what there is, as far as the other keeps up.  True: there may be more, for now. */
static bool tell(struct dmi_tracer *tracer) {
  struct dmi_tracer_piece piece;
  bool more = true;
  tracer->told = dmi_clock_ns();
  if (tracer->file) {
    if (dmi_tracer_take(tracer, &piece)) dmi_tracer_file_own(tracer, &piece);
    return tracer->behind = is_large(&piece);
  }
  while (more && tracer->reader && tracer->sent - tracer->heard < WINDOW) {
    if (dmi_tracer_take(tracer, &piece)) send_piece(tracer, &piece, false);
    more = is_large(&piece);
  }
  tracer->behind = more && tracer->reader;
  return false;
}

static void asked(struct dmi_tracer *tracer, const struct dmi_tracer_job *job) {
  if (!tracer->reader && !tracer->file && !tracer->ends) begin(tracer, job->from);
  if (tracer->reader == job->from) {
    tracer->heard = (uint32_t)job->heard;
    return;
  }
  dmi_see_send(tracer->process, job->from, DMI_TRACER_EVENTS,
               tracer->ends ? DMI_SEEN_SILENT : DMI_SEEN_NOBODY, 0, (struct dmi_slice){0});
  dmi_net_flush(tracer->process->access.net, job->from);
}

static bool is_member(const struct dmi_process *process, dmi_uid_t uid) {
  return process->access.core.is_there(process->access.core.arg, uid);
}

/* ---- The end of the process ------------------------------------------------------------------ */

static void finish(struct dmi_tracer *tracer, int64_t patience) {
  struct dmi_tracer_piece piece;
  tracer->ends = true;
  tracer->until = dmi_clock_ns() + patience;
  tracer->says = dmi_clock_ns() + SILENT;
  tracer->looked = 0; /* waits that go on are told once more */
  tracer->below = 0;
  if (tracer->file || !tracer->reader) return;
  dmi_trace_stop(tracer->trace); /* else threads that go on could have more for ever */
  while (dmi_tracer_take(tracer, &piece))
    send_piece(tracer, &piece, false);
  send_piece(tracer, &piece, true);
  end(tracer);
}

/* The network is stopped as soon as nothing more is to come. */
static void stop(struct dmi_tracer *tracer) {
  char name[DMI_NAME_TEXT];
  const int64_t now = dmi_clock_ns();
  dmi_uid_t missing;
  if (!tracer->ends || tracer->stopped) return;
  missing = tracer->file ? dmi_tracer_file_awaits(tracer) : 0;
  if (missing) dmi_tracer_name(tracer, missing, name);
  if (missing && now < tracer->until) {
    if (now >= tracer->says) {
      dmi_say(&tracer->process->stream, DMI_LOG_WARN, "trace",
              "the trace waits for the last events of %s", name);
      tracer->says = INT64_MAX;
    }
    return;
  }
  if (missing) {
    dmi_say(&tracer->process->stream, DMI_LOG_WARN, "trace",
            "the trace ends without the last events of %s, which has not sent them in time", name);
  }
  tracer->stopped = true;
  dmi_net_stop(tracer->process->access.net);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void do_job(struct dmi_tracer *tracer, struct dmi_tracer_job *job) {
  switch (job->type) {
    case DMI_TRACER_ASKED:
      asked(tracer, job);
      break;
    case DMI_TRACER_FINISH:
      finish(tracer, job->heard);
      break;
    case DMI_TRACER_VIEW:
      if (!tracer->file && tracer->reader && !is_member(tracer->process, tracer->reader))
        end(tracer);
      /* fall through */
    default:
      if (tracer->file) dmi_tracer_file_job(tracer, job);
  }
}

/* Until there is something to do. */
static void rest(struct dmi_tracer *tracer, uint32_t seen) {
  const int64_t now = dmi_clock_ns();
  int64_t most = tracer->behind ? PERIOD : tracer->told + PERIOD - now;
  if (tracer->ends && !tracer->stopped && tracer->until - now < most) most = tracer->until - now;
  if (!tracer->reader && !tracer->file && (!tracer->ends || tracer->stopped)) {
    dmi_futex_wait(&tracer->trace->events, seen);
  } else if (!atomic_load(&tracer->self)) { /* it is told when that has changed */
    dmi_futex_wait(&tracer->trace->events, seen);
  } else if (most > 0) {
    dmi_futex_wait_for(&tracer->trace->events, seen, most);
  }
}

/* A view may have come before this process knew which of the members it is itself. */
static void know_self(struct dmi_tracer *tracer) {
  struct dmi_tracer_job view = {.type = DMI_TRACER_VIEW, .heard = dmi_clock_ns()};
  if (!tracer->file || tracer->knows_self || !atomic_load(&tracer->self)) return;
  tracer->knows_self = true;
  dmi_tracer_file_job(tracer, &view);
}

static void *body(void *arg) {
  struct dmi_tracer *tracer = arg;
  struct dmi_tracer_piece piece;
  bool closes = false;
  pthread_setname_np(pthread_self(), "dmi-trace");
  dmi_runtime_enter(tracer->process);
  if (tracer->file) begin(tracer, 0);
  while (!closes) {
    const uint32_t seen = atomic_load(&tracer->trace->events);
    struct dmi_tracer_job *job;
    know_self(tracer);
    job = take_job(tracer, &closes);
    if (job) {
      do_job(tracer, job);
      dmi_tracer_drop(tracer, job);
    } else if (!closes && !(is_due(tracer) && tell(tracer))) {
      if (tracer->file) dmi_tracer_file_flush(tracer);
      stop(tracer);
      rest(tracer, seen);
    }
  }
  dmi_trace_stop(tracer->trace);
  while (tracer->file && atomic_load(&tracer->self) && dmi_tracer_take(tracer, &piece))
    dmi_tracer_file_own(tracer, &piece);
  return NULL;
}

/* ---- Marks ----------------------------------------------------------------------------------- */

/* Events that are marks; those with a member are about it. */
static const struct {
  enum dmi_event_type type;
  bool of_member, with_id;
} marks[] = {
    {DMI_EVENT_joined, true, true},         {DMI_EVENT_opened, false, false},
    {DMI_EVENT_closed, false, false},       {DMI_EVENT_dismissed, false, false},
    {DMI_EVENT_left, false, false},         {DMI_EVENT_stopping, true, false},
    {DMI_EVENT_member_joined, true, true},  {DMI_EVENT_member_left, true, false},
    {DMI_EVENT_member_gone, true, false},   {DMI_EVENT_member_lost, true, true},
    {DMI_EVENT_stalled, true, false},       {DMI_EVENT_answers, true, false},
    {DMI_EVENT_coordinating, false, false}, {DMI_EVENT_memory_short, false, false},
};
#define MARKS (sizeof(marks) / sizeof(marks[0]))

static void take_event(struct dmi_subscriber *subscriber, const struct dmi_stream *stream,
                       const struct dmi_event *event) {
  struct dmi_tracer *tracer =
      (struct dmi_tracer *)((char *)subscriber - offsetof(struct dmi_tracer, subscriber));
  struct dmi_trace_record record = {
      .kind = DMI_TRACE_MARK, .name = dmi_event_rows[event->type].name, .id = UINT64_MAX};
  (void)stream;
  if (event->type == DMI_EVENT_joined) {
    atomic_store(&tracer->self, (uint32_t)event->joined.member);
    wake(tracer); /* the view may have come before */
  }
  if (!dmi_trace_on(tracer->trace)) return;
  for (size_t i = 0; i < MARKS; i++) {
    if (marks[i].type != event->type) continue;
    if (marks[i].of_member) record.member = (uint32_t)event->value[0].number;
    if (marks[i].with_id) record.id = event->value[1].number;
  }
  record.begin = record.end = dmi_clock_ns();
  dmi_trace_put(tracer->trace, &record);
}

/* ---- Its life -------------------------------------------------------------------------------- */

struct dmi_tracer *dmi_tracer_new(struct dmi_process *process, const char *host) {
  struct dmi_tracer *tracer = calloc(1, sizeof(*tracer));
  const char *path = process->config.trace;
  const char *tag = process->config.tag;
  if (!tracer) return NULL;
  tracer->process = process;
  tracer->trace = &process->access.trace;
  tracer->last = &tracer->first;
  snprintf(tracer->host, sizeof(tracer->host), "%s%s%s", host, tag ? ", " : "", tag ? tag : "");
  dmi_mutex_init(&tracer->lock, DMI_RANK_LEAF);
  tracer->subscriber.take = take_event;
  for (size_t i = 0; i < MARKS; i++)
    tracer->subscriber.wants |= DMI_EVENT_BIT(marks[i].type);
  dmi_stream_subscribe(&process->stream, &tracer->subscriber);
  if (path) tracer->file = dmi_tracer_file_new(tracer, path);
  if (tracer->file) {
    dmi_trace_begin(tracer->trace); /* before anything happens */
    if (!start(tracer)) {
      dmi_say(&process->stream, DMI_LOG_ERROR, "start",
              "the system allows no more threads (ulimit -u), so there is no trace in %s (--trace)",
              path);
      dmi_tracer_file_close(tracer);
    }
  }
  return tracer;
}

bool dmi_tracer_good(const struct dmi_process *process) {
  return !process->config.trace || (process->tracer && process->tracer->file);
}

void dmi_tracer_end(struct dmi_process *process) {
  struct dmi_tracer *tracer = process->tracer;
  if (!tracer) return;
  if (tracer->runs) {
    dmi_mutex_lock(&tracer->lock);
    tracer->closes = true;
    dmi_mutex_unlock(&tracer->lock);
    wake(tracer);
    pthread_join(tracer->pthread, NULL);
    tracer->runs = false;
  }
  if (tracer->file) dmi_tracer_file_close(tracer);
}

void dmi_tracer_free(struct dmi_process *process) {
  struct dmi_tracer *tracer = process->tracer;
  if (!tracer) return;
  process->tracer = NULL;
  dmi_tracer_forget(tracer);
  forget_names(tracer);
  dmi_trace_holds_free(&tracer->holds);
  dmi_stream_unsubscribe(&process->stream, &tracer->subscriber);
  dmi_mutex_destroy(&tracer->lock);
  free(tracer);
}

/* ---- For the daemon -------------------------------------------------------------------------- */

/* The answer says when the question came, and when it goes. */
static void tell_time(struct dmi_process *process, dmi_uid_t to, int64_t got) {
  int64_t times[2] = {got, dmi_clock_ns()};
  dmi_see_send(process, to, DMI_TRACER_CLOCK, DMI_SEEN_GOOD, 0,
               dmi_slice_copy(times, sizeof(times)));
  dmi_net_flush(process->access.net, to);
}

bool dmi_tracer_on_ask(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg_see *ask) {
  if (ask->what == DMI_SEE_CLOCK) {
    tell_time(process, from, dmi_clock_ns());
  } else if (!process->tracer ||
             !give(process->tracer,
                   (struct dmi_tracer_job){
                       .type = DMI_TRACER_ASKED, .from = from, .heard = ask->heard})) {
    dmi_see_send(process, from, ask->number, DMI_SEEN_SILENT, 0, (struct dmi_slice){0});
  }
  return true;
}

bool dmi_tracer_on_answer(struct dmi_process *process, dmi_uid_t from, const struct dmi_msg *msg) {
  struct dmi_tracer_job job = {.from = from, .type = DMI_TRACER_PIECE, .heard = dmi_clock_ns()};
  const void *bytes = msg->body.ptr;
  const uint64_t length = bytes ? msg->body.len : 0;
  if (!process->tracer || !process->tracer->file) return false;
  if (msg->seen.number == DMI_TRACER_CLOCK) {
    if (bytes && length != sizeof(job.got) + sizeof(job.sent)) return false;
    job.type = DMI_TRACER_TIME;
    if (bytes) memcpy(&job.got, bytes, sizeof(job.got));
    if (bytes) memcpy(&job.sent, (const char *)bytes + sizeof(job.got), sizeof(job.sent));
    if (!dmi_trace_time_good(job.got) || !dmi_trace_time_good(job.sent)) return false;
  } else if (msg->seen.how != DMI_SEEN_GOOD) {
    job.type = DMI_TRACER_NO;
    job.is_last = msg->seen.how == DMI_SEEN_SILENT;
  } else {
    if (length && !dmi_trace_piece_good(bytes, length)) return false;
    if (length) job.piece = dmi_slice_of(msg->body.frame, 0, length);
    job.is_last = msg->seen.next == 0;
  }
  (void)give(process->tracer, job);
  return true;
}

void dmi_tracer_view(struct dmi_process *process) {
  struct dmi_tracer *tracer = process->tracer;
  const struct dmi_tracer_job view = {.type = DMI_TRACER_VIEW, .heard = dmi_clock_ns()};
  if (!tracer || !tracer->runs) return;
  if (tracer->file) dmi_tracer_file_ask(tracer);
  (void)give(tracer, view);
}

void dmi_tracer_gone(struct dmi_process *process, dmi_uid_t uid) {
  struct dmi_tracer *tracer = process->tracer;
  const struct dmi_tracer_job job = {.type = DMI_TRACER_GONE, .about = uid};
  if (tracer && tracer->runs && tracer->file) (void)give(tracer, job);
}

void dmi_tracer_finish(struct dmi_process *process, int64_t patience) {
  struct dmi_tracer *tracer = process->tracer;
  const struct dmi_tracer_job job = {.type = DMI_TRACER_FINISH, .heard = patience};
  if (!tracer || !tracer->runs || !give(tracer, job)) dmi_net_stop(process->access.net);
}
