/*
 * tracer_file.c - the file of --trace: asks each member of each view, measures its clock, and
 * writes what comes.
 *
 * The happy path: a member is asked once, and then told how many of its pieces were written, so
 * that it sends more.  A piece that comes when the last measurement is older than PERIOD waits for
 * the next one, so that its times are right.
 *
 * Failure modes: the file cannot be made (the process does not start); the disk is slow (members
 * are not told, and leave events out) or full (a line, and the file ends there); a member is lost
 * (what came of it is written); it tells another process (a line).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/file.h"
#include "base/trace_clock.h"
#include "base/trace_json.h"
#include "base/trace_open.h"
#include "node/runtime.h"
#include "node/see_int.h"
#include "node/tracer_int.h"

#define PERIOD INT64_C(1000000000) /* ns between two measurements of a clock */
#define FIRST_ROUND 8              /* questions of the first one */
#define ROUND 4

/* Texts by their numbers, from 1. */
struct texts {
  char **at;
  uint32_t num, room;
  uint64_t bytes; /* of them that count for this member alone (dmi_trace_text_fits) */
};

/* A process whose events are written. */
struct source {
  struct source *next;
  dmi_uid_t uid;
  bool is_self, is_over;
  struct texts names, places;
  struct dmi_trace_opens opens;
  uint32_t written;                     /* pieces */
  struct dmi_tracer_job *first, **last; /* pieces that wait for the clock */
  struct dmi_trace_clock clock;
  uint32_t questions; /* of the present round that are left; 0: none goes on */
  int64_t begun;      /* when it was asked first */
  int64_t asked;      /* when the last question for its clock was sent */
  int64_t measured;
};

struct dmi_tracer_file {
  FILE *file;   /* NULL: it could not be written any more */
  int64_t zero; /* when the trace began */
  struct source *sources;
  uint64_t texts; /* bytes of texts of all, beyond what each has for itself */
};

static struct dmi_process *process_of(const struct dmi_tracer *tracer) {
  return tracer->process;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Numbers come one after the other; others are of a faulty process, and are not kept.  `all`: bytes
 * of all processes. */
static void add_text(struct texts *texts, uint64_t *all, uint32_t number, const char *text,
                     size_t length) {
  char *copy;
  if (number != texts->num + 1 || !dmi_trace_text_fits(&texts->bytes, all, length)) return;
  if (texts->num == texts->room) {
    const uint32_t room = texts->room ? 2 * texts->room : 16;
    char **more = realloc(texts->at, room * sizeof(*more));
    if (!more) return;
    texts->at = more;
    texts->room = room;
  }
  copy = strndup(text, length);
  if (copy) texts->at[texts->num++] = copy;
}

static const char *text_of(const struct texts *texts, uint32_t number) {
  return number && number <= texts->num ? texts->at[number - 1] : NULL;
}

static void free_texts(struct texts *texts) {
  for (uint32_t i = 0; i < texts->num; i++)
    free(texts->at[i]);
  free(texts->at);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* It cannot be written, by errno: it ends there. */
static void give_up(struct dmi_tracer *tracer) {
  struct dmi_tracer_file *file = tracer->file;
  const struct dmi_process *process = process_of(tracer);
  dmi_say(&tracer->process->stream, DMI_LOG_WARN, "trace",
          "cannot write %s: %s; the trace (--trace) ends there", process->config.trace,
          dmi_file_why(errno));
  if (file->file) fclose(file->file);
  file->file = NULL;
}

static void put(struct dmi_tracer *tracer, const char *text, size_t length) {
  FILE *file = tracer->file->file;
  bool good;
  if (!file) return;
  dmi_file_begin();
  good = fwrite(text, 1, length, file) == length;
  if (!good) give_up(tracer);
  dmi_file_end();
}

static int64_t ours(const struct dmi_tracer *tracer, struct source *source, int64_t theirs) {
  return (source->is_self ? theirs : dmi_trace_clock_ours(&source->clock, theirs)) -
         tracer->file->zero;
}

/* `ends`: only the end of a wait. */
static void write_item(struct dmi_tracer *tracer, struct source *source,
                       const struct dmi_trace_item *item, const char *text, bool ends) {
  char bytes[DMI_TRACE_LINE], end[DMI_TRACE_TEXT + 1];
  struct dmi_json json = {bytes, 0, sizeof(bytes)};
  const char *name = text_of(&source->names, item->name);
  struct dmi_trace_line line = {.item = item,
                                .member = source->uid,
                                .name = name ? name : "?",
                                .text = end,
                                .place = text_of(&source->places, item->place),
                                .ends = ends,
                                .begin = ours(tracer, source, item->begin),
                                .end = ours(tracer, source, item->end),
                                .error = source->is_self ? 0 : source->clock.error};
  memcpy(end, text, item->text);
  end[item->text] = '\0';
  if (item->kind == DMI_TRACE_NAME)
    add_text(&source->names, &tracer->file->texts, item->name, text, item->text);
  if (item->kind == DMI_TRACE_PLACE)
    add_text(&source->places, &tracer->file->texts, item->place, text, item->text);
  if ((item->kind == DMI_TRACE_CALL || item->kind == DMI_TRACE_OPEN) &&
      item->what < DMI_DOING_KINDS)
    line.waits = dmi_see_wait_name((enum dmi_doing_what)item->what);
  if (line.waits && line.begin < 0) line.begin = 0; /* it had begun before the trace */
  dmi_trace_json(&json, &line);
  put(tracer, bytes, json.at);
}

/* The end of a wait that has none: it went on when it was told last. */
static void end_wait(struct dmi_tracer *tracer, struct source *source,
                     const struct dmi_trace_open *open) {
  const struct dmi_trace_item item = {.kind = DMI_TRACE_OPEN,
                                      .tid = open->tid,
                                      .name = open->name,
                                      .begin = open->begin,
                                      .end = open->end};
  write_item(tracer, source, &item, "", true);
}

static void end_waits(struct dmi_tracer *tracer, struct source *source) {
  struct dmi_trace_open open;
  while (dmi_trace_open_rest(&source->opens, &open))
    end_wait(tracer, source, &open);
}

static void take_item(struct dmi_tracer *tracer, struct source *source,
                      const struct dmi_trace_item *item, const char *text) {
  struct dmi_trace_open lost;
  enum dmi_trace_open_way way;
  if (dmi_trace_open_look(&source->opens, item, &way, &lost)) end_wait(tracer, source, &lost);
  if (way == DMI_TRACE_GOES_ON) return;
  if (way == DMI_TRACE_BEGINS) { /* its thread may have told nothing before */
    struct dmi_trace_item thread = {.kind = DMI_TRACE_THREAD, .tid = item->tid, .text = item->text};
    write_item(tracer, source, &thread, text, false);
  }
  write_item(tracer, source, item, text, way == DMI_TRACE_ENDS);
}

static void write_piece(struct dmi_tracer *tracer, struct source *source, const void *bytes,
                        size_t length) {
  struct dmi_trace_item item;
  const char *text;
  size_t at = 0;
  while (dmi_trace_item_get(bytes, length, &at, &item, &text))
    take_item(tracer, source, &item, text);
}

/* ---- Members --------------------------------------------------------------------------------- */

static struct source *find(const struct dmi_tracer *tracer, dmi_uid_t uid) {
  struct source *source = tracer->file->sources;
  while (source && source->uid != uid)
    source = source->next;
  return source;
}

static struct source *add(struct dmi_tracer *tracer, dmi_uid_t uid) {
  struct source *source = calloc(1, sizeof(*source));
  if (!source) return NULL;
  source->uid = uid;
  source->is_self = uid == atomic_load(&tracer->self);
  source->last = &source->first;
  source->next = tracer->file->sources;
  tracer->file->sources = source;
  return source;
}

/* `written`: pieces of it. */
static void ask_member(struct dmi_tracer *tracer, dmi_uid_t uid, enum dmi_see_what what,
                       uint32_t written) {
  struct dmi_msg msg = {.type = DMI_SEE_ASK};
  msg.see =
      (struct dmi_msg_see){.number = what == DMI_SEE_CLOCK ? DMI_TRACER_CLOCK : DMI_TRACER_EVENTS,
                           .heard = written,
                           .what = (uint32_t)what};
  dmi_runtime_send(process_of(tracer), uid, &msg);
}

static void ask(struct dmi_tracer *tracer, struct source *source, enum dmi_see_what what) {
  if (what == DMI_SEE_CLOCK) source->asked = dmi_clock_ns();
  ask_member(tracer, source->uid, what, source->written);
}

static void measure(struct dmi_tracer *tracer, struct source *source) {
  if (source->questions) return;
  source->questions = source->clock.is_known ? ROUND : FIRST_ROUND;
  ask(tracer, source, DMI_SEE_CLOCK);
}

/* Its first round was not over when it ended: its last item is of the time between the first
 * question and now, so it is as an answer that took so long. */
static void guess(struct source *source, const struct dmi_tracer_job *job) {
  struct dmi_trace_answer answer = {source->begun, source->begun, source->begun, job->heard};
  struct dmi_trace_item item;
  const char *text;
  size_t at = 0;
  while (dmi_trace_item_get(job->piece.ptr, job->piece.len, &at, &item, &text)) {
    if (item.end) answer.got = answer.sent = item.end;
    if (!item.end && item.begin) answer.got = answer.sent = item.begin;
  }
  dmi_trace_clock_answer(&source->clock, &answer);
  dmi_trace_clock_round(&source->clock);
}

/* Writes the pieces that have waited. */
static void write_waiting(struct dmi_tracer *tracer, struct source *source) {
  struct dmi_tracer_job *job;
  while ((job = source->first)) {
    source->first = job->next;
    if (!source->clock.is_known) guess(source, job);
    write_piece(tracer, source, job->piece.ptr, job->piece.len);
    source->written++;
    dmi_tracer_drop(tracer, job);
  }
  source->last = &source->first;
}

static void is_over(struct dmi_tracer *tracer, struct source *source) {
  write_waiting(tracer, source);
  end_waits(tracer, source);
  source->is_over = true;
}

/* ---- What comes ------------------------------------------------------------------------------ */

static void on_piece(struct dmi_tracer *tracer, struct source *source, struct dmi_tracer_job *job) {
  struct dmi_tracer_job *wait = malloc(sizeof(*wait));
  if (wait) {
    *wait = *job;
    wait->next = NULL;
    job->piece = (struct dmi_slice){0};
    job->from = 0;
    *source->last = wait;
    source->last = &wait->next;
  }
  if (job->is_last) {
    is_over(tracer, source);
  } else if (!source->clock.is_known || job->heard - source->measured > PERIOD) {
    measure(tracer, source);
  } else if (!source->questions) {
    write_waiting(tracer, source);
    ask(tracer, source, DMI_SEE_TRACE);
  }
}

static void on_time(struct dmi_tracer *tracer, struct source *source,
                    const struct dmi_tracer_job *job) {
  const struct dmi_trace_answer answer = {source->asked, job->got, job->sent, job->heard};
  if (!source->questions) return;
  if (job->got) dmi_trace_clock_answer(&source->clock, &answer); /* else it had no memory */
  if (--source->questions) {
    ask(tracer, source, DMI_SEE_CLOCK);
    return;
  }
  dmi_trace_clock_round(&source->clock);
  source->measured = job->heard;
  write_waiting(tracer, source);
  ask(tracer, source, DMI_SEE_TRACE);
}

static void on_no(struct dmi_tracer *tracer, struct source *source,
                  const struct dmi_tracer_job *job) {
  char name[DMI_NAME_TEXT];
  dmi_tracer_name(tracer, source->uid, name);
  if (!source->is_over && !job->is_last)
    dmi_say(&process_of(tracer)->stream, DMI_LOG_WARN, "trace",
            "%s is not in the trace: another process traces it", name);
  is_over(tracer, source);
}

static void on_too_much(struct dmi_tracer *tracer, struct source *source) {
  char name[DMI_NAME_TEXT];
  dmi_tracer_name(tracer, source->uid, name);
  dmi_say(
      &process_of(tracer)->stream, DMI_LOG_WARN, "trace",
      "%s has sent more events than can be kept until they are written: the rest of them is not "
      "in the trace",
      name);
  is_over(tracer, source);
}

static void on_gone(struct dmi_tracer *tracer, struct source *source) {
  char name[DMI_NAME_TEXT];
  if (source->is_over) return;
  dmi_tracer_name(tracer, source->uid, name);
  if (tracer->ends) /* else other lines say that it was lost */
    dmi_say(&process_of(tracer)->stream, DMI_LOG_WARN, "trace",
            "the trace ends without the last events of %s, which has ended before it sent them",
            name);
  is_over(tracer, source);
}

static void begin(struct dmi_tracer *tracer, struct source *source, int64_t now) {
  source->begun = now;
  ask(tracer, source, DMI_SEE_TRACE);
  measure(tracer, source);
}

void dmi_tracer_file_ask(struct dmi_tracer *tracer) {
  const struct dmi_uids *uids = atomic_load(&process_of(tracer)->uids);
  const dmi_uid_t self = atomic_load(&tracer->self);
  char name[DMI_NAME_TEXT];
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->uid[i] <= tracer->asked) continue;
    tracer->asked = uids->uid[i];
    dmi_member_name(process_of(tracer)->member, tracer->asked, name);
    dmi_tracer_call(tracer, tracer->asked, name);
    if (self && tracer->asked != self) ask_member(tracer, tracer->asked, DMI_SEE_TRACE, 0);
  }
}

/* A connection with it was there, so its end is told, behind its last piece. */
static bool has_told(const struct source *source) {
  return source->clock.is_known || source->written || source->first;
}

/* Members that are new since `now`.  The daemon has asked them, but for those that came before this
 * process knew its own number: it would have asked itself, and waited for its own last piece.  A
 * second question for the first piece does no harm. */
static void on_view(struct dmi_tracer *tracer, int64_t now) {
  struct dmi_process *process = process_of(tracer);
  const struct dmi_core *core = &process->access.core;
  const dmi_uid_t self = atomic_load(&tracer->self);
  const struct dmi_uids *uids;
  if (!self) return;
  dmi_epoch_enter();
  uids = atomic_load(&process->uids);
  for (uint32_t i = 0; i < uids->num; i++) {
    if (uids->uid[i] != self && !find(tracer, uids->uid[i])) (void)add(tracer, uids->uid[i]);
  }
  dmi_epoch_leave();
  for (struct source *at = tracer->file->sources; at; at = at->next) {
    if (!at->is_self && !at->begun) begin(tracer, at, now);
    if (!at->is_self && !at->is_over && !has_told(at) && !core->is_there(core->arg, at->uid))
      is_over(tracer, at);
  }
}

void dmi_tracer_file_job(struct dmi_tracer *tracer, struct dmi_tracer_job *job) {
  struct source *source;
  if (job->type == DMI_TRACER_VIEW) {
    on_view(tracer, job->heard);
    return;
  }
  source = find(tracer, job->about ? job->about : job->from);
  if (!source || source->is_self) return;
  if (job->type == DMI_TRACER_PIECE) {
    on_piece(tracer, source, job);
  } else if (job->type == DMI_TRACER_TIME) {
    on_time(tracer, source, job);
  } else if (job->type == DMI_TRACER_MUCH) {
    on_too_much(tracer, source);
  } else if (job->type == DMI_TRACER_GONE) {
    on_gone(tracer, source);
  } else {
    on_no(tracer, source, job);
  }
}

void dmi_tracer_file_own(struct dmi_tracer *tracer, const struct dmi_tracer_piece *piece) {
  const dmi_uid_t self = atomic_load(&tracer->self);
  struct source *source = find(tracer, self);
  if (!source) source = add(tracer, self);
  if (source) write_piece(tracer, source, piece->bytes, piece->length);
}

dmi_uid_t dmi_tracer_file_awaits(const struct dmi_tracer *tracer) {
  for (const struct source *at = tracer->file->sources; at; at = at->next) {
    if (!at->is_self && !at->is_over) return at->uid;
  }
  return 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

struct dmi_tracer_file *dmi_tracer_file_new(struct dmi_tracer *tracer, const char *path) {
  /* Each line that follows begins with a comma. */
  static const char begin[] =
      "[\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"trace_of\",\"args\":{\"name\":\"DMI\"}}";
  struct dmi_tracer_file *file = calloc(1, sizeof(*file));
  if (file) file->file = fopen(path, "we");
  if (file && file->file) {
    file->zero = dmi_clock_ns();
    fputs(begin, file->file);
    return file;
  }
  (void)dmi_runtime_not_made(process_of(tracer), "--trace", path, file ? errno : ENOMEM);
  free(file);
  return NULL;
}

void dmi_tracer_file_flush(struct dmi_tracer *tracer) {
  dmi_file_begin();
  if (tracer->file->file && fflush(tracer->file->file) != 0) give_up(tracer);
  dmi_file_end();
}

void dmi_tracer_file_close(struct dmi_tracer *tracer) {
  struct dmi_tracer_file *file = tracer->file;
  struct source *source;
  while ((source = file->sources)) {
    write_waiting(tracer, source);
    end_waits(tracer, source);
    file->sources = source->next;
    free_texts(&source->names);
    free_texts(&source->places);
    free(source);
  }
  put(tracer, "\n]\n", 3);
  dmi_tracer_file_flush(tracer);
  if (file->file && fclose(file->file) != 0) {
    file->file = NULL;
    give_up(tracer);
  }
  free(file);
  tracer->file = NULL;
}
