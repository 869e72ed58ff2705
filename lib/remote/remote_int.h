/*
 * remote_int.h - private to the runtime of remote functions.
 *
 * All of a process is in struct dmi_remote, under one lock: its pool, its clients' books, what is
 * to be sent.  Nothing waits under that lock.  Whoever has given an event to a machine has its
 * actions carried out (dmi_remote_carry, dmi_remote_carry_book) and ends with dmi_remote_unlock.
 */
#ifndef DMI_REMOTE_REMOTE_INT_H
#define DMI_REMOTE_REMOTE_INT_H

#include <pthread.h>

#include <uthash.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "msg/pack.h"
#include "remote/book.h"
#include "remote/pool.h"
#include "remote/remote.h"
#include "remote/arena.h"

/* What is to be sent to one process: things of one kind, in a body that grows. */
struct dmi_remote_line {
  UT_hash_handle hh;
  dmi_uid_t uid; /* key */
  struct dmi_pack body;
  enum dmi_msg_type type;
  uint64_t num;    /* things in `body`; 0: nothing */
  bool listed;     /* among remote->lines_used */
  bool shut;       /* something for it was dropped, as it has left: so is all that comes later */
  bool unsent;     /* the network has messages that are not flushed */
  uint64_t weight; /* of what waits, while not `listed` */
  struct dmi_remote_line *next;
};

/* A message of this process to itself. */
struct dmi_remote_letter {
  struct dmi_remote_letter *next;
  uint8_t type;
  uint64_t num;
  struct dmi_slice body;
};

/* What was made here for one client. */
struct dmi_remote_owned {
  UT_hash_handle hh;
  dmi_remote_client_t client; /* key */
  struct dmi_remote_store *store;
  uint32_t refs; /* calls that run for it */
  bool closed;
};

/* A process that serves. */
struct dmi_remote_served {
  UT_hash_handle hh;
  dmi_uid_t uid; /* key */
  dmi_id_t dmi_id;
  bool leaves;
  struct dmi_remote_server as;
};

/* A thread that waits for something of a client. */
struct dmi_remote_waiter {
  struct dmi_remote_waiter *next;
  pthread_cond_t cond;
  uint64_t number; /* a value; 0: any change */
  bool woken;
};

/* An arena of another process, which unmaps it unless it has gone. */
struct dmi_remote_lent {
  dmi_uid_t maker;
  uint64_t base;
};

/* A process that was dismissed, which is not known to have left. */
struct dmi_remote_goodbye {
  struct dmi_remote_goodbye *next;
  int32_t dmi_id;
  DMI_local_status_t status;
};

/* A client that is open: DMI_client_t is its `n`. */
struct dmi_remote_user {
  struct dmi_remote_user *next;
  dmi_remote_client_t id;
  struct dmi_remote_book *book;
  struct dmi_remote_waiter *waiters;
  struct dmi_remote_reading *readings; /* asynchronous ones that wait for their values */
  const DMI_remote_t *in;              /* the call in which it was opened; NULL: none */
  pthread_t opener;
  bool own_poll; /* the program handles notices */
  bool polls;    /* a thread handles notices for it */
  bool late;     /* inputs of its calls are not fetched ahead */
  bool told;     /* the program has heard why a call has failed */
  bool closing;
  uint32_t inside; /* threads that use it without the lock */
  pthread_t poller;
  struct dmi_remote_lent *lent; /* arenas of other processes */
  uint32_t lent_num, lent_room;
};

/* How fast inputs come: measured while large ones are under way, and no longer. */
struct dmi_remote_rate {
  uint64_t bytes; /* in a microsecond, lately; 0: not known */
  uint32_t under; /* way: so many */
  uint64_t since; /* ns */
  uint64_t came;  /* bytes, since then */
};

/* A read of an input, or of a value for an asynchronous DMI_data_read. */
struct dmi_remote_reading {
  struct dmi_access_end end; /* first */
  struct dmi_remote *remote;
  struct dmi_remote_reading *next;
  struct dmi_remote_reading *prev_way, *next_way; /* in remote->way, if `listed`; the fetcher */
  bool listed;
  struct dmi_remote_fetch *fetch; /* of the pool; NULL: */
  struct dmi_remote_user *user;   /* of DMI_data_read; its `inside` counts this */
  uint64_t number;
  void *buf;
  int64_t offset, size, addr;
  DMI_local_status_t *status;
  int32_t error;
  uint64_t begun;      /* ns: when the bytes were asked for */
  uint64_t ended;      /* ns: when they were there */
  bool here;           /* they were here, as a copy */
  bool counted;        /* in remote->rate */
  bool again;          /* begun a second time, without a copy of the page */
  bool lends;          /* an input whose page is to be here: its frame is lent */
  unsigned char first; /* lends: byte of the page */
};

struct dmi_remote_worker {
  struct dmi_remote_worker *next;
  struct dmi_remote *remote;
  pthread_t pthread;
  uint32_t number; /* from 0 */
};

struct dmi_remote_queued {
  struct dmi_remote_queued *next;
  struct dmi_remote_run *run;
  bool held; /* its store: else the client was closed before */
};

struct dmi_remote {
  struct dmi_process *process;
  struct dmi_mutex lock;        /* all of this, unless said */
  struct dmi_remote_pool *pool; /* NULL until it serves, or has a client */
  struct dmi_remote_server self;
  char host[DMI_HOST_MAX + 1]; /* of this process, as the others know it */
  bool serves;                 /* welcomed */
  bool survive;                /* the program does */
  bool leaving;                /* the pool gives back its calls */
  bool stopping;               /* DMI_exit was called */
  bool ended;                  /* the process ends: no thread waits any more */
  bool awaits;                 /* the daemon waits for the end of what runs */
  bool empty;                  /* the pool has said EMPTY */
  struct dmi_post post;        /* of that, for the daemon */

  struct dmi_remote_served *servers;
  pthread_cond_t changed; /* servers, or the end */
  struct dmi_remote_user *users;
  uint32_t last_user;
  bool asked;                          /* this process itself is to leave when they are closed */
  struct dmi_remote_goodbye *goodbyes; /* of the thread that handles notices */
  struct dmi_remote_owned *stores;     /* of clients that have made values here */

  struct dmi_remote_line *lines, *lines_used;
  struct dmi_remote_letter *letters, **letters_end;

  pthread_t sender, fetcher;
  bool threads;        /* these two run */
  pthread_cond_t kick; /* of the sender */
  bool kicked;

  struct dmi_remote_reading *readings, **readings_end; /* to begin */
  _Atomic uint32_t fetch_ends;                         /* bool: the fetcher is to end */
  _Atomic uint32_t news;           /* count: something for the fetcher; any thread */
  _Atomic uint32_t lately;         /* lock of `read`, rank LEAF */
  struct dmi_remote_reading *read; /* over; guarded by `lately` */
  struct dmi_remote_reading *way;  /* under way; the fetcher */
  struct dmi_remote_rate rate;

  struct dmi_remote_queued *runs, **runs_end; /* for workers */
  pthread_cond_t work;
  struct dmi_remote_worker *workers;
  _Atomic uint32_t warned; /* bool: of a client that was not closed */
  uint32_t worker_num;
  bool *places; /* of events: the n-th is taken by a call that runs */
  uint32_t place_num, place_room;
  uint32_t idle;           /* workers that sleep */
  bool defers;             /* they are woken only when the lock is free (dmi_remote_message) */
  uint32_t wakes;          /* so many then */
  uint32_t soon;           /* workers that look for another call now */
  _Atomic uint32_t queued; /* of `runs`; written with the lock */
  uint32_t vain;    /* how often in a row a worker has looked for a call in vain before it slept */
  uint32_t skips;   /* so often none looks */
  uint32_t running; /* calls, with those that wait inside */
  uint32_t blocked; /* of these, those that wait inside */
  bool no_thread;   /* said: none could be made */
};

/* The handlers of class REMOTE: one thing of a message.  False: not from a correct peer. */
#define DMI_REMOTE_HANDLER(symbol, number, name, handler, ...) \
  bool handler(struct dmi_remote *remote, dmi_uid_t from, struct dmi_unpack *body);
DMI_MSGS_REMOTE(DMI_REMOTE_HANDLER)

/* ---- runtime.c ---- */
/* Makes the pool, and starts the threads, unless that was done.  False: no memory. */
bool dmi_remote_begin_locked(struct dmi_remote *remote);
/* Only makes the pool. */
void dmi_remote_make_pool(struct dmi_remote *remote);
/* The beginning of each thread of the runtime. */
void dmi_remote_thread_begin(struct dmi_remote *remote, const char *name);

/* ---- line.c: what is to be sent ---- */
/* Where to write another thing of this kind for a process, perhaps this one. */
struct dmi_pack *dmi_remote_line(struct dmi_remote *remote, dmi_uid_t to, enum dmi_msg_type type);
static inline void dmi_remote_lock(struct dmi_remote *remote) {
  dmi_mutex_lock(&remote->lock);
}
/* The same for what may wait until something else is sent to that process, or until
 * dmi_remote_line_go for it. */
struct dmi_pack *dmi_remote_line_lazy(struct dmi_remote *remote, dmi_uid_t to,
                                      enum dmi_msg_type type, uint64_t weight);
void dmi_remote_line_go(struct dmi_remote *remote, dmi_uid_t to);
/* Delivers and sends what is to be sent. */
void dmi_remote_unlock(struct dmi_remote *remote);
/* The same, soon, by another thread. */
void dmi_remote_unlock_later(struct dmi_remote *remote);
void dmi_remote_lines_free(struct dmi_remote *remote);
void *dmi_remote_sender(void *remote);

/* ---- message.c: things that are sent ---- */
void dmi_remote_pack_client(struct dmi_pack *body, dmi_remote_client_t client);
void dmi_remote_pack_result(struct dmi_pack *body, const struct dmi_remote_result *result);
void dmi_remote_pack_why(struct dmi_pack *body, const struct dmi_remote_why *why); /* or NULL */
void dmi_remote_pack_call(struct dmi_pack *body, const struct dmi_remote_call *call);
void dmi_remote_pack_load(struct dmi_pack *body, const struct dmi_remote_load *load);
/* Gives a message of this process to itself. */
bool dmi_remote_deliver(struct dmi_remote *remote, dmi_uid_t from, uint8_t type, uint64_t num,
                        const struct dmi_slice *body);
bool dmi_remote_message(struct dmi_remote *remote, dmi_uid_t from, const struct dmi_msg *msg);

/* For events: "member.number"; the function that `args` begins with, shortened. */
#define DMI_REMOTE_CLIENT_TEXT 24
#define DMI_REMOTE_NAME_TEXT 64
const char *dmi_remote_client_text(dmi_remote_client_t client, char text[DMI_REMOTE_CLIENT_TEXT]);
const char *dmi_remote_name_text(const struct dmi_remote_call *call,
                                 char text[DMI_REMOTE_NAME_TEXT]);

/* ---- carry.c: actions of the machines ---- */
void dmi_remote_carry(struct dmi_remote *remote);
void dmi_remote_carry_book(struct dmi_remote *remote, struct dmi_remote_user *user);

/* ---- store.c: the stores of all clients ---- */
/* Where values of this client are made; a reference.  NULL: it is closed.  With the lock. */
struct dmi_remote_store *dmi_remote_store_take(struct dmi_remote *remote,
                                               dmi_remote_client_t client);
void dmi_remote_store_give(struct dmi_remote *remote, dmi_remote_client_t client);
/* Frees a value of it, if the client is not closed. */
void dmi_remote_store_drop(struct dmi_remote *remote, dmi_remote_client_t client,
                           const struct dmi_remote_result *value, bool retire);
/* Its values may go when nobody has a reference. */
void dmi_remote_store_close(struct dmi_remote *remote, dmi_remote_client_t client);
/* The same of all clients of a process. */
void dmi_remote_stores_close(struct dmi_remote *remote, dmi_uid_t process);
void dmi_remote_stores_trim(struct dmi_remote *remote);
void dmi_remote_stores_free(struct dmi_remote *remote);

/* ---- serve.c: who serves ---- */
void dmi_remote_opened(struct dmi_remote *remote);
void dmi_remote_view(struct dmi_remote *remote, const struct dmi_mact *view);
void dmi_remote_last(struct dmi_remote *remote, dmi_uid_t from);
/* This process does not leave after all. */
void dmi_remote_stays(struct dmi_remote *remote);
void dmi_remote_announce(struct dmi_remote *remote, dmi_uid_t to, bool answer);
/* A process has gone, in order or not: all its messages were given before. */
void dmi_remote_gone(struct dmi_remote *remote, dmi_uid_t uid, bool lost);

/* ---- fetch.c ---- */
/* With the lock: has the thread begin it. */
void dmi_remote_reading_begin(struct dmi_remote *remote, struct dmi_remote_reading *reading);
/* Reads `size` bytes at addr + offset into `buf`; afterwards dmi_remote_read_over. */
void dmi_remote_reading_go(struct dmi_remote_reading *reading);
void *dmi_remote_fetcher(void *remote);
/* At the end of the process, without threads: what was to be read is not. */
void dmi_remote_readings_end(struct dmi_remote *remote);
void dmi_remote_fetch_news(struct dmi_remote *remote);

/* A read of a value has failed since its bytes are lost, or its arena was unmapped after its maker
 * has gone. */
static inline bool dmi_remote_is_lost(int32_t error) {
  return error == DMI_ELOST || error == DMI_EADDR;
}

/* ---- data.c: DMI_data_read with a status, in the thread of fetch.c ---- */
/* The value may be there now: reads it, or waits for it. */
void dmi_remote_read_on(struct dmi_remote_reading *reading);
/* It was read, or not.  With the lock.  False: it is lost, and to be looked at again. */
bool dmi_remote_read_over(struct dmi_remote_reading *reading);
/* Begins those again that wait for this value; 0: all. */
void dmi_remote_readings_wake(struct dmi_remote *remote, struct dmi_remote_user *user,
                              uint64_t number);
/* Of the program's DMI_data_t: DMI_OK and its number, or why it is none of this client's; and back.
 */
int32_t dmi_remote_check(struct dmi_remote *remote, const struct dmi_remote_user *user,
                         DMI_data_t data, uint64_t *number);
DMI_data_t dmi_remote_name(const struct dmi_remote_user *user, uint64_t number);

/* ---- worker.c ---- */
void dmi_remote_run_queue(struct dmi_remote *remote, struct dmi_remote_run *run);
/* Calls are queued, and no worker will take them, as none can be made: one of them fails.  With the
 * lock.  False: that is not so. */
bool dmi_remote_runs_fail(struct dmi_remote *remote);
void dmi_remote_workers_join(struct dmi_remote *remote);
/* At the end of the process, without threads: what was to be run fails. */
void dmi_remote_runs_end(struct dmi_remote *remote);
/* The call that the calling thread runs; NULL: none. */
DMI_remote_t *dmi_remote_mine(void);
uint64_t dmi_remote_clock(void); /* ns */
/* It waits for something, and goes on; with the lock. */
void dmi_remote_waits(struct dmi_remote *remote);
void dmi_remote_resumes(struct dmi_remote *remote);

/* ---- function.c ---- */
DMI_remote_function_t dmi_remote_function_find(const char *name, size_t len);
bool dmi_remote_function_any(void); /* the program has one */
/* NULL: unknown.  Each function has a number, from 0, in this process. */
const char *dmi_remote_function_name(DMI_remote_function_t function, uint32_t *number);

/* ---- client.c ---- */
/* The client; NULL: it is not open.  With the lock. */
struct dmi_remote_user *dmi_remote_user(struct dmi_remote *remote, const DMI_client_t *client);
struct dmi_remote_user *dmi_remote_user_of(struct dmi_remote *remote, dmi_remote_client_t id);
/* A client that no function here has opened needs this process.  With the lock. */
bool dmi_remote_has_client(const struct dmi_remote *remote);
/* Waits for a WAKE of this value (0: any change), in a function: another one runs meanwhile.
 * DMI_OK, or why it is of no use to wait.  With the lock. */
int32_t dmi_remote_wait(struct dmi_remote *remote, struct dmi_remote_user *user, uint64_t number);
void dmi_remote_wake(struct dmi_remote_user *user, uint64_t number);
void dmi_remote_wake_all(struct dmi_remote *remote);
/* Closes clients that the calling thread has opened (in `call`; NULL: in none) and not closed. */
void dmi_remote_close_left(struct dmi_remote *remote, const DMI_remote_t *call);

/* ---- notice.c ---- */
/* Has a thread handle notices, unless something else in this process does, or it is not to be for
 * this client.  With the lock.  False: there is no memory for a thread. */
bool dmi_remote_poll_begin(struct dmi_remote *remote, struct dmi_remote_user *user);
/* Without the lock. */
void dmi_remote_poll_end(struct dmi_remote *remote, struct dmi_remote_user *user);
/* Nothing in this process handles notices any more: a thread for a client does, if one is open. */
void dmi_remote_polls(struct dmi_remote *remote);

#endif
