/*
 * see_int.h - private to the files of see.
 */
#ifndef DMI_NODE_SEE_INT_H
#define DMI_NODE_SEE_INT_H

#include <time.h>

#include "base/doing.h"
#include "base/json.h"
#include "core/member.h"
#include "node/see.h"

/* The handlers of class SEE.  False: not from a correct peer. */
#define DMI_SEE_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg);
DMI_MSGS_SEE(DMI_SEE_HANDLER)

/* A line of JSON that was written from `before` on.  False: it did not fit, and is taken back. */
static inline bool dmi_see_line(struct dmi_json *to, size_t before) {
  dmi_json_put(to, "\n");
  if (to->at < to->most) return true;
  to->at = before;
  return false;
}

/* Each writes one piece of an answer, from `at` on, and returns where the next one begins; 0: that
 * was all. */
/* ---- see_member.c: the daemon ---- */
uint64_t dmi_see_member(struct dmi_process *process, const struct dmi_msg_see *ask, time_t began,
                        struct dmi_json *to);
/* True if only the daemon may answer such a question. */
bool dmi_see_by_daemon(uint32_t what);
/* ---- see_count.c: any thread ---- */
uint64_t dmi_see_hot(struct dmi_process *process, struct dmi_json *to);
uint64_t dmi_see_waits(struct dmi_process *process, struct dmi_json *to);
uint64_t dmi_see_profile(struct dmi_process *process, uint64_t at, struct dmi_json *to);
/* ---- see_look.c: any thread ---- */
uint64_t dmi_see_look(struct dmi_process *process, const struct dmi_msg_see *ask,
                      struct dmi_json *to);
/* ---- see_page.c: any thread ---- */
uint64_t dmi_see_mappings(struct dmi_process *process, uint64_t at, struct dmi_json *to);
uint64_t dmi_see_page(struct dmi_process *process, const struct dmi_msg_see *ask,
                      struct dmi_json *to);
/* Adds which page has this address, and whom this process asks for it. */
void dmi_see_place(struct dmi_process *process, uint64_t addr, struct dmi_json *to);
/* The same.  False: no mapping of this address is known here. */
struct dmi_see_at {
  uint64_t base, page; /* of the mapping; in it */
  dmi_uid_t hint;
  uint8_t role; /* enum dmi_role */
};
bool dmi_see_find(struct dmi_process *process, uint64_t addr, struct dmi_see_at *at);

/* ---- see_look.c ---- */
/* Adds ,"call":"DMI_read","place":"prog.c:42 (DMI_main)"; nothing if there was no call. */
void dmi_see_call(struct dmi_json *to, const struct dmi_doing_called *call);
const char *dmi_see_wait_name(enum dmi_doing_what what);

/* ---- see_tell.c: the thread that looks ---- */
/* A line about the thread that waits for a page of this process. */
void dmi_see_say_waits(struct dmi_process *process, dmi_uid_t uid, const char *name);
/* `port`: at which this process can be asked; 0: it is no member yet. */
struct dmi_see_names;
void dmi_see_write_dump(struct dmi_process *process, uint32_t port,
                        const struct dmi_see_names *names);

/* ---- see_thread.c: the thread that looks ---- */
struct dmi_see_thread;
struct dmi_see_thread *dmi_see_thread_new(struct dmi_process *process);
/* What it is to do.  The daemon asks. */
struct dmi_see_job {
  enum { DMI_SEE_JOB_ANSWER, DMI_SEE_JOB_SAY, DMI_SEE_JOB_DUMP } type;
  uint32_t to;              /* ANSWER: who gets it; SAY: for whom threads wait; DUMP: see above */
  struct dmi_msg_see ask;   /* ANSWER */
  char name[DMI_NAME_TEXT]; /* SAY: of `to`, for people */
  struct dmi_see_names *names; /* DUMP: of all members, malloc'ed; it goes with the job */
};
/* Members as they are named for people; the daemon makes the list. */
struct dmi_see_names {
  uint32_t num;
  struct dmi_see_name {
    dmi_uid_t uid;
    char text[DMI_NAME_TEXT];
  } of[];
};
/* False: it cannot be done; `names` was freed. */
bool dmi_see_thread_ask(struct dmi_see_thread *thread, const struct dmi_see_job *job);
/* How many answers to this one it has not begun. */
uint32_t dmi_see_thread_has(struct dmi_see_thread *thread, uint32_t to);
void dmi_see_thread_end(struct dmi_see_thread *thread);

/* Sends an answer; takes over the body's reference.  A body that could not be copied is told as
 * silence.  Any thread, which then flushes. */
void dmi_see_send(struct dmi_process *process, uint32_t to, uint32_t number, enum dmi_seen_how how,
                  uint64_t next, struct dmi_slice body);

#endif
