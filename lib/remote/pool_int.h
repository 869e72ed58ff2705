/*
 * pool_int.h - private to the files of the pool (pool.h).
 */
#ifndef DMI_REMOTE_POOL_INT_H
#define DMI_REMOTE_POOL_INT_H

#include <utlist.h>

#include "base/mutation.h"
#include "mem/range_set.h"
#include "remote/pool.h"
#include "remote/table.h"

/* ---- Calls ---------------------------------------------------------------------------------- */

enum dmi_remote_stage {
  DMI_REMOTE_WAITING,   /* an input is not known */
  DMI_REMOTE_COMPLETED, /* all are; it waits for memory, in pool->complete */
  DMI_REMOTE_FETCHING,  /* it has memory; bytes of inputs are not here */
  DMI_REMOTE_READY,     /* they are; it waits for a core, in pool->ready */
  DMI_REMOTE_RUNNING,
  DMI_REMOTE_BLOCKED, /* runs, and waits for a value of another client */
  DMI_REMOTE_FAILING, /* in pool->failing */
  DMI_REMOTE_OVER     /* in the trash */
};

/* An input of a call. */
struct dmi_remote_use {
  struct dmi_remote_task *task;
  struct dmi_remote_value *value;
  struct dmi_remote_use *prev, *next; /* in value->uses */
};

/* A call that is here; one block with what it points to. */
struct dmi_remote_task {
  struct dmi_remote_call call;
  struct dmi_remote_run run;
  struct dmi_remote_pool_client *client; /* NULL: its client has closed */
  enum dmi_remote_stage stage;
  uint32_t unknown;                            /* inputs that are not known */
  uint32_t unread;                             /* FETCHING: inputs whose bytes are not here */
  uint64_t took;                               /* ns: when it has run */
  uint64_t room;                               /* bytes of its outputs */
  struct dmi_remote_why *why;                  /* FAILING; a reference */
  struct dmi_remote_use *uses;                 /* input_num */
  struct dmi_remote_value **outputs;           /* output_num; if the client has closed: not valid */
  const struct dmi_remote_fetch **fetches;     /* input_num */
  bool memory;                                 /* it has memory: its uses hold their values */
  struct dmi_remote_task *prev, *next;         /* in a list of the pool, by its stage */
  struct dmi_remote_task *prev_own, *next_own; /* in client->tasks */
  struct dmi_remote_task *prev_spare, *next_spare; /* in client->spare, if `spare` */
  bool spare;                                      /* it could be stolen */
  uint64_t due;   /* number of the first call that others wait for, and that needs this one, or is
                     it; 0: none is known */
  size_t at;      /* READY, and due: in pool->due */
  bool alone;     /* DMI_REMOTE_ALONE; READY: in pool->alone */
  uint64_t place; /* READY: so manyth that became so */
};

/* ---- Values --------------------------------------------------------------------------------- */

enum dmi_remote_bytes { DMI_REMOTE_NONE, DMI_REMOTE_READING, DMI_REMOTE_HERE };

/* A server that is to be told. */
struct dmi_remote_reader {
  dmi_uid_t to;
  uint64_t seq;
  struct dmi_remote_reader *next;
};

/* A value that is an input of a call here, or made here, or of which a HAVE came early.  It has a
 * record while `made`, `maker`, `early` or `uses` say so; and while it is being fetched, but then
 * not in the table (`orphan`). */
struct dmi_remote_value {
  struct dmi_remote_fetch fetch;
  struct dmi_remote_pool_client *client; /* NULL: orphan */
  struct dmi_remote_result at;   /* what calls here know; PENDING: nothing.  `why`: a reference */
  struct dmi_remote_result page; /* made: what others are told; `why`: a reference */
  uint32_t gen, page_gen;        /* of at, of page */
  bool made;                     /* its page, or its failure, is here until DROP */
  uint64_t early;                /* seq of a CALL that is to come and needs it; 0: none */
  bool orphan;                   /* nobody needs it; its fetch has not ended */
  bool counted;                  /* its bytes are in pool->used */
  bool idle;                     /* in pool->idle: bytes that only calls without memory need */
  enum dmi_remote_bytes bytes;   /* in fetch.buffer */
  uint32_t held;                 /* uses by calls that have memory */
  uint32_t active;               /* of these, not BLOCKED */
  uint32_t mark;                 /* see pool->mark */
  uint64_t carried;              /* bytes in fetch.carried; in pool->carried */
  struct dmi_remote_task *maker; /* the call here that makes it; NULL: none */
  struct dmi_remote_use *uses;   /* by calls here */
  struct dmi_remote_reader *readers; /* to be told when it is made */
  struct dmi_remote_value *prev_idle, *next_idle;
  struct dmi_remote_value *prev_own, *next_own; /* in client->values */
  struct dmi_remote_value *next_trash;
};

struct dmi_remote_pool_client {
  dmi_remote_client_t id;
  uint64_t received; /* seq of the last CALL */
  uint32_t calls, ready;
  struct dmi_remote_task *tasks, *spare;
  struct dmi_remote_value *values;
  struct dmi_remote_pool_client *prev, *next;
};

struct dmi_remote_pool {
  struct dmi_remote_pool_config config;
#ifdef DMI_MUTATIONS
  enum dmi_remote_pool_break broken;
#endif
  struct dmi_remote_table values;     /* name -> struct dmi_remote_value */
  struct dmi_remote_table clients;    /* {id, 0} -> struct dmi_remote_pool_client */
  struct dmi_remote_pool_client *all; /* clients */
  struct dmi_range_set closed;        /* clients (process << 32 | n) that are never heard again */
  struct dmi_remote_task *complete, *ready, *urgent, *alone, *failing;
  struct dmi_remote_task **due; /* those in urgent, a heap: what is due first is first */
  size_t due_num, due_capacity;
  uint32_t alone_active;         /* RUNNING, of DMI_REMOTE_ALONE: others wait */
  uint64_t readied;              /* calls that have become READY */
  uint32_t row;                  /* urgent ones fired in a row while others were ready */
  struct dmi_remote_value *idle; /* oldest first */
  uint64_t used, calls, made, fired;
  uint64_t took;                          /* ns: mean of calls; 0: none has run */
  uint64_t carried;                       /* bytes that HAVEs have brought, before FETCH */
  uint32_t running;                       /* RUNNING and BLOCKED */
  uint32_t active;                        /* RUNNING */
  uint32_t admitted;                      /* FETCHING and READY */
  uint32_t mark;                          /* of the last look at inputs of a call */
  bool leaves, empty;                     /* it leaves; EMPTY was said */
  struct dmi_remote_pool_action *actions; /* from first to num - 1 */
  size_t first, num, capacity;
  struct dmi_remote_task *old_tasks; /* freed at the next event */
  struct dmi_remote_value *old_values;
};

/* ---- pool.c ---- */
/* To be called first by each event: all actions were taken, so what they pointed to can go. */
void dmi_remote_pool_begin(struct dmi_remote_pool *pool);
/* To be called last by each event: what has become possible happens. */
void dmi_remote_pool_end(struct dmi_remote_pool *pool);
struct dmi_remote_pool_action *dmi_remote_pool_act(struct dmi_remote_pool *pool,
                                                   enum dmi_remote_pool_do type);
/* NULL: unknown; with `make`: closed. */
struct dmi_remote_pool_client *dmi_remote_pool_client_of(struct dmi_remote_pool *pool,
                                                         dmi_remote_client_t id, bool make);

/* ---- pool_value.c ---- */
/* The record of a value, made if there is none. */
struct dmi_remote_value *dmi_remote_value_get(struct dmi_remote_pool *pool,
                                              struct dmi_remote_pool_client *client,
                                              uint64_t number);
/* Sets what is known, and tells the calls here. */
void dmi_remote_value_learn(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                            uint32_t gen, const struct dmi_remote_result *result);
/* What calls knew of it is not true any more; none needs it. */
void dmi_remote_value_forget(struct dmi_remote_pool *pool, struct dmi_remote_value *value);
/* A call here has made it, or has failed: tells others (with `bytes`, if they are not NULL), and
 * the calls here. */
void dmi_remote_value_make(struct dmi_remote_pool *pool, struct dmi_remote_value *value,
                           uint32_t gen, const struct dmi_remote_result *result, const void *bytes);
/* Ends the record if nothing needs it any more. */
void dmi_remote_value_settle(struct dmi_remote_pool *pool, struct dmi_remote_value *value);
/* Forgets who is to be told. */
void dmi_remote_value_unread(struct dmi_remote_value *value);
/* Its client has closed: it is freed, and what runs goes on with its bytes. */
void dmi_remote_value_close(struct dmi_remote_pool *pool, struct dmi_remote_value *value);

/* ---- pool_memory.c ---- */
/* Gives memory to calls that are complete, in order, as far as there is any. */
void dmi_remote_pool_admit(struct dmi_remote_pool *pool);
/* The value is known: fetches its bytes for calls that still wait for others, if memory is free. */
void dmi_remote_value_ahead(struct dmi_remote_pool *pool, struct dmi_remote_value *value);
/* Bytes of all inputs and outputs of a call. */
uint64_t dmi_remote_task_bytes(struct dmi_remote_pool *pool, const struct dmi_remote_task *task);
/* The call does not need its inputs any more; it may have memory. */
void dmi_remote_task_release(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* Its bytes count, or not, as its fields now say. */
void dmi_remote_value_count(struct dmi_remote_pool *pool, struct dmi_remote_value *value);
/* Its buffer goes. */
void dmi_remote_value_release(struct dmi_remote_pool *pool, struct dmi_remote_value *value);

/* ---- pool_call.c ---- */
/* All inputs of a WAITING call are known. */
void dmi_remote_task_complete(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* The call runs on a core, or does not. */
static inline void dmi_remote_task_active(struct dmi_remote_pool *pool,
                                          const struct dmi_remote_task *task, bool active) {
  pool->active += active ? 1u : -1u;
  if (task->alone) pool->alone_active += active ? 1u : -1u;
}
/* Fires calls as long as there are cores. */
void dmi_remote_pool_fire(struct dmi_remote_pool *pool);
/* The call, which was not fired, will fail: takes a reference to `why`. */
void dmi_remote_task_fail(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                          struct dmi_remote_why *why);
/* Ends the calls that were to fail, and those that depend on them. */
void dmi_remote_pool_fail(struct dmi_remote_pool *pool);
/* Takes an unfired call out of the list of its stage. */
void dmi_remote_task_out(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* The call is over: into the trash. */
void dmi_remote_task_over(struct dmi_remote_pool *pool, struct dmi_remote_task *task);

/* ---- pool_ready.c ---- */
/* The call has memory and all bytes. */
void dmi_remote_task_ready(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* The opposite: takes it out of the list of those that are. */
void dmi_remote_task_unready(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* Others wait for what this call makes: it, and the calls here that it waits for, are due with it.
 */
void dmi_remote_task_urge(struct dmi_remote_pool *pool, struct dmi_remote_task *task);
/* The call to be fired next; NULL: none is ready, or has to wait for those that run. */
struct dmi_remote_task *dmi_remote_pool_first(struct dmi_remote_pool *pool);

/* ---- pool_return.c ---- */
/* True if the call was neither fired nor is about to fail. */
bool dmi_remote_task_unfired(const struct dmi_remote_task *task);
/* Gives an unfired call back. */
void dmi_remote_task_return(struct dmi_remote_pool *pool, struct dmi_remote_task *task,
                            enum dmi_remote_return reason, uint64_t lost, int64_t addr);
/* Its bytes cannot be read at fetch.addr: gives back all calls that need them. */
void dmi_remote_value_lost(struct dmi_remote_pool *pool, struct dmi_remote_value *value);

#endif
