/*
 * pool.h - the pool of a server: calls that came, of all clients, values that were made here, who
 * is to be told of them, which inputs are fetched ahead, what runs (docs/remote.md, "The pool").
 *
 * Pure: events in, actions out; no threads, clocks, sockets.  There is one for each process.  All
 * functions are called under one lock of its owner.  After each event the owner takes out all
 * actions (dmi_remote_pool_next) before it gives the next event; what an action points to is valid
 * until then, unless said.  Actions to one process are to arrive in order (they may share a message
 * if they are next to each other).
 *
 * An event that a correct peer does not cause returns false, and has changed nothing.
 */
#ifndef DMI_REMOTE_POOL_H
#define DMI_REMOTE_POOL_H

#include "remote/types.h"

struct dmi_remote_pool;

struct dmi_remote_pool_config {
  dmi_uid_t self;
  uint32_t cores; /* so many calls run at once, beside those that wait for others */
  uint64_t limit; /* most bytes of inputs and outputs that are held for calls; 0: no limit */
};

/* The bytes of an input in local memory.  It lives from FETCH to RELEASE; the pool does not touch
 * `buffer`.  Between dmi_remote_pool_fetched and RELEASE nobody changes it: calls that run read it
 * without the lock. */
struct dmi_remote_fetch {
  dmi_remote_client_t client;
  uint64_t number;
  int64_t addr;
  uint64_t size;
  bool here;     /* it was made in this process */
  void *buffer;  /* the owner's */
  void *holder;  /* the owner's, as whatever has the buffer in it */
  void *carried; /* of malloc, with FETCH: its bytes, which a HAVE has brought; the owner takes them
                    (and sets this to NULL) instead of reading */
};

/* A call that runs.  It lives from RUN until dmi_remote_pool_done or _failed; nobody changes it. */
struct dmi_remote_run {
  const struct dmi_remote_call *call;
  const struct dmi_remote_fetch *const *inputs; /* one for each input */
  /* Set by the owner before dmi_remote_pool_done, valid until all actions of that are taken out:
   * bytes of output i that may go with a HAVE; NULL: not these; or none, as at first. */
  const void *const *carry;
  struct dmi_remote_task *task; /* the pool's */
};

enum dmi_remote_pool_do {
  DMI_REMOTE_SEND_HAVE = 1, /* to process `to`: number, gen, seq, result */
  DMI_REMOTE_SEND_DONE,     /* to the client: `call`, whose outputs have their results: all DONE, or
                               all FAILED for the reason `why` */
  DMI_REMOTE_SEND_FIRED,    /* to the client: `call` will run; to be sent before it does */
  DMI_REMOTE_SEND_RETURN,   /* to the client: `call` has not been fired; reason.  LOST: input
                               `number` cannot be fetched from result.addr */
  DMI_REMOTE_SEND_STOLEN,   /* to the client: that was all for a STEAL (behind its RETURNs) */
  DMI_REMOTE_COMPLETE,      /* all inputs of `call` are known and will be fetched; for the log */
  DMI_REMOTE_FETCH,         /* fetch->size bytes from fetch->addr into fetch->buffer, then
                               dmi_remote_pool_fetched */
  DMI_REMOTE_RELEASE, /* fetch->buffer is not needed any more, the fetch not valid afterwards */
  DMI_REMOTE_RUN,     /* run `run` on a thread, then dmi_remote_pool_done or _failed */
  DMI_REMOTE_FREE,    /* the value at result.addr, result.size is dropped: its page is free; or
                         never to be used again, if `retire`: it is lost, but others may still
                         try to read it */
  DMI_REMOTE_EMPTY    /* the pool leaves, and nothing runs any more: go on with the leave */
};

enum dmi_remote_return {
  DMI_REMOTE_LEAVES = 1, /* the server leaves */
  DMI_REMOTE_STOLEN,     /* asked for by STEAL */
  DMI_REMOTE_INPUT_LOST
};

struct dmi_remote_pool_action {
  enum dmi_remote_pool_do type;
  dmi_uid_t to;                       /* SEND_* */
  dmi_remote_client_t client;         /* SEND_*, FREE */
  uint64_t number;                    /* SEND_HAVE, SEND_RETURN (INPUT_LOST), FREE: of the value */
  uint64_t seq;                       /* SEND_HAVE */
  uint32_t gen;                       /* SEND_HAVE */
  const void *bytes;                  /* SEND_HAVE: the value's, to go with it; NULL: not */
  uint64_t took;                      /* SEND_DONE: ns; 0: it did not run */
  bool retire;                        /* FREE */
  enum dmi_remote_return reason;      /* SEND_RETURN */
  struct dmi_remote_result result;    /* SEND_HAVE, SEND_RETURN, FREE; its `why` is the pool's */
  const struct dmi_remote_why *why;   /* SEND_DONE; NULL: done */
  const struct dmi_remote_call *call; /* SEND_DONE, SEND_FIRED, SEND_RETURN, COMPLETE */
  struct dmi_remote_fetch *fetch;     /* FETCH, RELEASE */
  struct dmi_remote_run *run;         /* RUN */
};

struct dmi_remote_pool *dmi_remote_pool_new(const struct dmi_remote_pool_config *config);
/* Nothing may run or be fetched; buffers that are still held are not released. */
void dmi_remote_pool_free(struct dmi_remote_pool *pool);

/* The next action; NULL: there is none, and the next event may be given.  Valid until the next
 * call of this function. */
const struct dmi_remote_pool_action *dmi_remote_pool_next(struct dmi_remote_pool *pool);

/* ---- Messages from clients ---- */

/* CALL.  The call is copied.  If the pool leaves it goes back with RETURN. */
bool dmi_remote_pool_call(struct dmi_remote_pool *pool, const struct dmi_remote_call *call);
/* WANT: when value `number` is made, tell process `to` with HAVE and this seq.  Nothing happens if
 * no call here makes it: that was given back, and the client asks anew. */
bool dmi_remote_pool_want(struct dmi_remote_pool *pool, dmi_remote_client_t client, uint64_t number,
                          dmi_uid_t to, uint64_t seq);
/* DROP: the value, which was made here, is not needed any more.  `lost`: nor can it be read. */
bool dmi_remote_pool_drop(struct dmi_remote_pool *pool, dmi_remote_client_t client, uint64_t number,
                          bool lost);
/* STEAL: give back up to `num` calls that are ready and have no core; of those whose inputs, and
 * what calls here need of their outputs, are moved sooner than a core would be free here, if `rate`
 * bytes are moved in a microsecond. */
bool dmi_remote_pool_steal(struct dmi_remote_pool *pool, dmi_remote_client_t client, uint32_t num,
                           uint64_t rate);
/* CLOSE: forget all of this client; what runs for it ends, and its outputs are freed. */
void dmi_remote_pool_close(struct dmi_remote_pool *pool, dmi_remote_client_t client);

/* ---- Messages from producers, or from the client instead of one that has gone ---- */

/* HAVE: DONE or FAILED.  `result->why` is copied with a new reference (of this machine).  `bytes`:
 * those of the value, or NULL.  They are copied, if not too much is kept of that kind. */
bool dmi_remote_pool_have(struct dmi_remote_pool *pool, dmi_remote_client_t client, uint64_t number,
                          uint32_t gen, uint64_t seq, const struct dmi_remote_result *result,
                          const void *bytes);

/* ---- Its own process ---- */

/* The fetch has ended; not `good`: the bytes are lost. */
void dmi_remote_pool_fetched(struct dmi_remote_pool *pool, struct dmi_remote_fetch *fetch,
                             bool good);
/* The fetch has ended without the bytes, though they are not lost (as for want of memory): the
 * calls that it was for fail for that reason. */
void dmi_remote_pool_unfetched(struct dmi_remote_pool *pool, struct dmi_remote_fetch *fetch,
                               struct dmi_remote_why *why);
/* The function returned, its outputs are at made[i].addr with made[i].size bytes (in their pages:
 * others may read them), but those that are spare, for which made[i] is not looked at.  `took`: ns.
 * `run` is not valid afterwards. */
void dmi_remote_pool_done(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                          const struct dmi_remote_result *made, uint64_t took);
/* The function failed; no output has a page.  A reference to `why` is taken. */
void dmi_remote_pool_failed(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                            struct dmi_remote_why *why);
/* The function was not started: input number `input` cannot be read from its page, as it is lost
 * (for an owner that reads what was made here only now).  The call goes back. */
void dmi_remote_pool_unread(struct dmi_remote_pool *pool, struct dmi_remote_run *run,
                            uint32_t input);
/* The function waits for a value (of a client of its own): another call may use its core, and its
 * bytes do not count, so that the calls it waits for can run here.  And: it goes on. */
void dmi_remote_pool_waits(struct dmi_remote_pool *pool, struct dmi_remote_run *run);
void dmi_remote_pool_resumes(struct dmi_remote_pool *pool, struct dmi_remote_run *run);
/* This process leaves: gives back what has not been fired, now and from now on.  EMPTY when nothing
 * runs.  WANTs are answered until the end. */
void dmi_remote_pool_leave(struct dmi_remote_pool *pool);
/* It does not leave, after all; then SERVES is to be said again. */
void dmi_remote_pool_stay(struct dmi_remote_pool *pool);
/* A process has left, or is lost; all messages from it were given before.  Its clients are closed.
 */
void dmi_remote_pool_gone(struct dmi_remote_pool *pool, dmi_uid_t process);

/* ---- Questions ---- */

/* To be said with messages to this client; but its rate is the owner's. */
struct dmi_remote_load dmi_remote_pool_load(const struct dmi_remote_pool *pool,
                                            dmi_remote_client_t client);

struct dmi_remote_pool_counts {
  uint64_t calls;   /* that are here, with those that run */
  uint64_t running; /* of these, that run, with those that wait inside */
  uint64_t values;  /* of which the pool knows */
  uint64_t made;    /* of these, made here and not dropped */
  uint64_t used;    /* bytes held for calls; at most the limit, but for calls that went on */
  uint64_t carried; /* bytes that came with HAVEs and are not asked for yet */
  uint64_t fired;   /* calls fired since the beginning */
};
struct dmi_remote_pool_counts dmi_remote_pool_counts(const struct dmi_remote_pool *pool);

/* Rules that tests switch off (base/mutation.h). */
enum dmi_remote_pool_break {
  DMI_REMOTE_BREAK_NOTHING,
  DMI_REMOTE_BREAK_EARLY,   /* a HAVE that is ahead of its CALL is kept */
  DMI_REMOTE_BREAK_LATE,    /* a HAVE that nobody here needs any more is not */
  DMI_REMOTE_BREAK_GEN,     /* an older HAVE does not count */
  DMI_REMOTE_BREAK_LIMIT,   /* no more memory is used than the limit */
  DMI_REMOTE_BREAK_WAITS,   /* bytes of a call that waits do not count */
  DMI_REMOTE_BREAK_REFUSE,  /* a pool that leaves gives back calls that come */
  DMI_REMOTE_BREAK_UNFIRED, /* only calls that were not fired are given back */
  DMI_REMOTE_BREAK_TOLD,    /* a WANT that comes after its value is answered at once */
  DMI_REMOTE_BREAK_STALE,   /* bytes of a fetch that nobody waited for any more are not used */
  DMI_REMOTE_BREAK_KEEP, /* what a HAVE said that is ahead of its CALL stays known, if also lost */
  DMI_REMOTE_BREAK_POISON, /* a failed input fails the call */
  DMI_REMOTE_BREAK_RETIRE, /* the page of a lost value is not used again */
  DMI_REMOTE_BREAK_AHEAD,  /* fetches ahead of a call's completion leave half of the memory */
  DMI_REMOTE_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_remote_pool_set_break(struct dmi_remote_pool *pool, enum dmi_remote_pool_break broken);
#endif

#endif
