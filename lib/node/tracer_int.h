/*
 * tracer_int.h - private to the files of tracer.  All but the inbox belongs to the thread
 * dmi-trace.
 */
#ifndef DMI_NODE_TRACER_INT_H
#define DMI_NODE_TRACER_INT_H

#include <pthread.h>
#include <stdio.h>

#include "base/trace_hold.h"
#include "base/trace_piece.h"
#include "core/member.h"
#include "node/tracer.h"

/* Something for the thread to do. */
struct dmi_tracer_job {
  struct dmi_tracer_job *next;
  enum {
    DMI_TRACER_ASKED, /* by `from`, that has written `heard` pieces of ours */
    DMI_TRACER_PIECE, /* of `from` has come */
    DMI_TRACER_TIME,  /* its clock: got and sent by it, heard by us */
    DMI_TRACER_NO,    /* it tells another one; `is_last`: nobody, as it ends */
    DMI_TRACER_MUCH,  /* more of `about` has come than is held: nothing more comes of it */
    DMI_TRACER_GONE,  /* the connection with `about` has ended: nothing more comes of it */
    DMI_TRACER_VIEW,  /* members have changed; `heard`: when, by dmi_clock_ns */
    DMI_TRACER_FINISH /* the process is about to end; `heard`: how long it may wait for others */
  } type;
  dmi_uid_t from;  /* 0: none; else it is held (dmi_trace_hold) */
  dmi_uid_t about; /* MUCH, GONE */
  struct dmi_slice piece;
  bool is_last;
  int64_t heard, got, sent;
};

struct dmi_tracer_known;
struct dmi_tracer_name; /* what a member is called */
struct dmi_tracer_file;

struct dmi_tracer {
  struct dmi_process *process;
  struct dmi_trace *trace;       /* of the process */
  char host[DMI_TRACE_TEXT + 1]; /* and the tag */

  /* ---- the inbox ---- */
  struct dmi_mutex lock; /* guards these */
  struct dmi_tracer_job *first, **last;
  struct dmi_trace_holds holds; /* jobs there, or kept by the file */
  struct dmi_tracer_name *called; /* the members that the daemon has asked */
  bool closes;                    /* nothing comes any more */
  bool runs; /* the thread was made; the daemon's, or of who begins and ends the process */
  pthread_t pthread;

  _Atomic dmi_uid_t self; /* uid; 0: this process is no member yet, and nothing is taken */
  struct dmi_subscriber subscriber; /* of the event stream: marks */
  dmi_uid_t asked;                  /* the daemon's: the last member that it has asked */

  /* ---- the thread's ---- */
  dmi_uid_t reader; /* whom we tell; 0: nobody, or the own file */
  bool begun;       /* it was told who this process is: */
  int64_t told_id;  /* its dmi_id, as it was told */
  uint32_t sent;    /* pieces */
  uint32_t heard;   /* of these written, as it says */
  int64_t told;     /* when the rings were looked at last, by dmi_clock_ns */
  bool behind;      /* not all was taken then: the other has written too little */
  struct dmi_tracer_known *names, *places; /* that were told */
  uint32_t name_num, place_num;
  struct dmi_trace_item pool;   /* the last one told */
  int64_t looked;               /* when waits that go on were told last, by dmi_clock_ns */
  uint64_t below;               /* where that goes on: a number of a thread; 0: at the last */
  struct dmi_tracer_file *file; /* NULL: this process writes none */
  bool knows_self;              /* members are asked since then */
  bool ends, stopped;           /* the process ends; the network was stopped */
  int64_t until;                /* how long it waits then for others, by dmi_clock_ns */
  int64_t says;                 /* when a line says that it does, likewise; INT64_MAX: it has */
};

/* ---- tracer.c ---- */

/* The daemon: the member will be called so in lines, as "process 3 (node7)". */
void dmi_tracer_call(struct dmi_tracer *tracer, dmi_uid_t uid, const char text[DMI_NAME_TEXT]);
/* Any thread: what it is called. */
void dmi_tracer_name(struct dmi_tracer *tracer, dmi_uid_t uid, char text[DMI_NAME_TEXT]);

/* A job is done. */
void dmi_tracer_drop(struct dmi_tracer *tracer, struct dmi_tracer_job *job);

/* ---- tracer_take.c: this process's records as pieces ---- */

struct dmi_tracer_piece {
  size_t length;
  char bytes[DMI_WIRE_SEEN];
};

/* Nothing was told so far. */
void dmi_tracer_forget(struct dmi_tracer *tracer);
/* Fills a piece with what there is; waits that go on for DMI_TRACE_LONG or longer are told as
 * often.  False: nothing. */
bool dmi_tracer_take(struct dmi_tracer *tracer, struct dmi_tracer_piece *piece);

/* ---- tracer_file.c: the file, and the members that are asked ---- */

/* NULL: a line has said why. */
struct dmi_tracer_file *dmi_tracer_file_new(struct dmi_tracer *tracer, const char *path);
/* Ends the file, and frees it. */
void dmi_tracer_file_close(struct dmi_tracer *tracer);
/* A piece of this process. */
void dmi_tracer_file_own(struct dmi_tracer *tracer, const struct dmi_tracer_piece *piece);
/* The daemon, with a new view: asks those that are new at once, as a member records nothing before it
 * is asked, and the thread may be busy with debug information. */
void dmi_tracer_file_ask(struct dmi_tracer *tracer);
/* PIECE, TIME, NO, MUCH, GONE, VIEW.  A piece that is kept is taken out of the job, with its `from`. */
void dmi_tracer_file_job(struct dmi_tracer *tracer, struct dmi_tracer_job *job);
/* What was written so far can be read by others. */
void dmi_tracer_file_flush(struct dmi_tracer *tracer);
/* A member that has not told all; 0: there is none. */
dmi_uid_t dmi_tracer_file_awaits(const struct dmi_tracer *tracer);

#endif
