/*
 * call.h - a call while it runs: what DMI_remote_t is.
 */
#ifndef DMI_REMOTE_CALL_H
#define DMI_REMOTE_CALL_H

#include <setjmp.h>

#include "remote/remote_int.h"

struct dmi_remote_arg {
  uint8_t kind; /* enum dmi_remote_kind */
  bool own;     /* `bytes` is freed after the call */
  bool carried; /* `bytes` may go with a HAVE */
  uint32_t input, output;
  int64_t size;
  void *bytes;
  struct dmi_frame *frame; /* NULL, or `bytes` are in it; a reference */
};

/* Used by one thread, without the lock. */
struct DMI_remote_t {
  struct dmi_remote *remote;
  struct dmi_remote_run *run;
  struct dmi_remote_store *store;  /* for what it makes */
  char name[DMI_REMOTE_NAME_TEXT]; /* of the function */
  uint32_t worker;                 /* its place among the calls that run, for events */
  uint32_t num;                    /* arguments */
  struct dmi_remote_arg *args;
  void *values;       /* bytes of arguments by value */
  const void **carry; /* of outputs: see struct dmi_remote_run */
  jmp_buf end;
  bool failed; /* by itself */
  int32_t error;
  bool unread;        /* an input was lost before the function began: */
  uint32_t unread_at; /* its number */
  char sentence[DMI_SENTENCE_SIZE];
};

/* Bytes of an output that go with a HAVE at most: reading them would cost a message each way. */
#define DMI_REMOTE_CARRY_MOST 4096

/* Runs it; made[i] is output i.  NULL: it is done, else why it has failed.  Afterwards
 * dmi_remote_run_end, when it is known who gets the outputs. */
struct dmi_remote_why *dmi_remote_run(DMI_remote_t *call, struct dmi_remote_result *made);
void dmi_remote_run_end(DMI_remote_t *call);

/* ---- crash.c ---- */
/* From now on a function that ends this process by exit() is named. */
void dmi_remote_crash_begin(void);
/* Names the function that the calling thread runs, if it does, and what ends the process.  In a
 * handler of a signal. */
void dmi_remote_dies(const char *what);
/* This process ends, as it has lost others: names the calls for it that these had. */
void dmi_remote_fatal(struct dmi_remote *remote);

#endif
