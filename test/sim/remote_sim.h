/*
 * remote_sim.h - remote functions in one thread: the product's pools and books (lib/remote), with a
 * simulated network, memory, functions and programs (docs/simulation.md, "Remote functions").
 */
#ifndef SIM_REMOTE_SIM_H
#define SIM_REMOTE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "remote/book.h"
#include "remote/pool.h"
#include "rng.h"

#define PROCESSES 48 /* in a run, one after the other; a uid is an index, 0 is none */

enum kind {
  M_CALL,
  M_WANT,
  M_HAVE,
  M_DROP,
  M_STEAL,
  M_CLOSE,
  M_DONE,
  M_RETURN,
  M_STOLEN,
  M_FIRED,
  M_LOAD,
  M_SERVES,
  M_LEAVES,
  M_LEFT, /* not a message: the end of all that a process has sent */
  M_LOST  /* the same */
};

struct msg {
  enum kind kind;
  dmi_remote_client_t client;
  uint64_t number, seq;
  uint64_t took; /* DONE */
  uint64_t rate; /* STEAL */
  uint32_t gen, num;
  bool lost;
  dmi_uid_t reader;
  enum dmi_remote_return reason;
  struct dmi_remote_result result; /* its `why` is the message's own */
  struct dmi_remote_load load;
  struct dmi_remote_server server;
  struct dmi_remote_call call; /* CALL: its arrays are the message's own */
  struct dmi_remote_result *results;
  uint64_t bytes[4]; /* HAVE: of the value, if `carries` */
  bool carries;
  struct msg *next;
};

struct channel {
  struct msg *first, **last;
  size_t place; /* in world.busy, plus 1; 0: empty */
};

/* The page of a value.  Its address: uid of its arena, index in it. */
struct page {
  uint64_t bytes; /* what is in it: the value's hash */
  bool used, lost, retired, put, gone;
};

/* Something that takes time, and ends when the seed says so. */
struct job {
  enum { J_FETCH, J_RUN, J_READ } kind;
  dmi_uid_t process;
  struct dmi_remote_fetch *fetch;
  struct dmi_remote_run *run;
  struct program *program; /* READ; RUN: the nested client, which must end before; or NULL */
  bool opened;             /* RUN: it has had a nested client */
  bool carried;            /* FETCH: a HAVE has brought the bytes */
  uint64_t number;         /* READ */
  int64_t addr;            /* READ */
};

struct process {
  dmi_uid_t uid;
  enum { P_NONE, P_LIVE, P_LEAVING, P_GONE } state;
  bool serves; /* it has said so */
  bool fixed;  /* it neither leaves nor is lost */
  bool empty;  /* EMPTY was said */
  struct dmi_remote_pool *pool;
  struct dmi_remote_pool_config config;
  uint32_t clients; /* opened so far */
  struct page *pages;
  size_t page_num, page_capacity;
  size_t *free_pages;
  size_t free_num, free_capacity;
  uint64_t buffers; /* bytes between FETCH and RELEASE */
  bool blocked;     /* a call has waited inside: more may be held than the limit */
  /* what this process has heard of the others */
  struct dmi_remote_server heard[PROCESSES];
  bool leaving[PROCESSES];
};

/* A name that a program knows: a call or a value, by number. */
struct name {
  uint64_t hash, size;
  bool failed;    /* there will be none */
  uint32_t fired; /* calls */
  uint32_t cost;  /* calls: processes that it has ended since it was done last */
};

struct program {
  dmi_remote_client_t id;
  struct dmi_remote_book *book;
  struct dmi_remote_run *parent; /* nested: the call whose function has opened it */
  bool waits;                    /* the parent was told to wait */
  bool blocked;                  /* it waits for ROOM */
  bool reading;                  /* it waits for a value */
  uint64_t reads;                /* its number */
  uint32_t ops, depth;
  bool closed; /* it has dropped all, and does nothing any more */
  bool hasty;  /* it closes when calls are not done */
  uint64_t *handles;
  size_t handle_num, handle_capacity;
  struct name *names;
  size_t name_num, name_capacity;
  struct program *next;
};

struct totals {
  uint64_t seeds, calls, fired, again, joins, leaves, losses, lost_pages, steals, stolen, returned,
      messages, reads, failed, given_up, nested, early, told, wants, carried, peak, fatal;
};

struct options {
  uint64_t calls; /* of a seed */
  enum dmi_remote_pool_break pool_break;
  enum dmi_remote_book_break book_break;
  bool verbose;
};

struct world {
  struct rng rng;
  const struct options *options;
  struct totals *totals;
  struct process process[PROCESSES];
  dmi_uid_t last_uid;
  struct channel channel[PROCESSES][PROCESSES]; /* from, to */
  struct channel **busy;
  size_t busy_num, busy_capacity;
  struct job *jobs;
  size_t job_num, job_capacity;
  struct program *programs;
  bool survive;      /* processes are lost */
  uint32_t losses;   /* so far */
  bool fatal;        /* some functions end their process */
  uint32_t ends;     /* pages of living processes lost with others */
  bool limited;      /* pools have limits */
  bool forgets;      /* books keep little lineage: what is lost may stay lost */
  bool fails;        /* some functions fail */
  uint32_t slow[2];  /* messages from the first to the second take long; 0: from, or to, all */
  bool carries;      /* bytes of values go with HAVEs */
  bool newest;       /* of what takes time, that which began last mostly ends first */
  uint32_t speed[2]; /* of 100 steps: below the first messages, below the second programs, jobs */
  char failed[256];  /* what is wrong; "": nothing */
};

/* Something is wrong: the run ends. */
__attribute__((format(printf, 2, 3))) void sim_wrong(struct world *world, const char *format, ...);

/* With --verbose: what happens. */
#define sim_say(world, ...)                                      \
  do {                                                           \
    if ((world)->options->verbose) fprintf(stderr, __VA_ARGS__); \
  } while (0)

/* ---- remote_net.c: messages, and who gets them ---- */
struct msg *net_new(enum kind kind, dmi_remote_client_t client);
void net_send(struct world *world, dmi_uid_t from, dmi_uid_t to, struct msg *msg);
void net_send_all(struct world *world, dmi_uid_t from, const struct msg *msg);
/* The head of a random channel arrives. */
void net_deliver(struct world *world);
/* Of what it has sent each receiver gets a first part; then `end`. */
void net_cut(struct world *world, dmi_uid_t from, enum kind end, bool all);
void net_free(struct msg *msg);
void net_free_channel(struct world *world, struct channel *channel);

/* ---- remote_proc.c: processes, pages, jobs ---- */
struct process *proc_join(struct world *world, bool fixed);
void proc_leave(struct world *world, struct process *process);
/* `all`: what it has sent arrives, else only a part. */
void proc_crash(struct world *world, struct process *process, bool all);
/* Of those that leave, one that has nothing to do any more goes.  False: there is none. */
bool proc_part(struct world *world);
int64_t page_new(struct world *world, struct process *process, uint64_t bytes, bool put);
struct page *page_at(struct world *world, int64_t addr);
void page_free(struct world *world, int64_t addr, bool retire);
/* Carries out what the last event of its pool asks for. */
void proc_act(struct world *world, struct process *process);
/* A random job goes on. */
void job_step(struct world *world);
void job_add(struct world *world, const struct job *job);
void job_end(struct world *world, size_t at);
void proc_free(struct world *world, struct process *process);

/* ---- remote_prog.c: programs ---- */
struct program *prog_open(struct world *world, struct process *process, uint32_t ops,
                          struct dmi_remote_run *parent, uint32_t depth);
struct program *prog_find(struct world *world, dmi_remote_client_t id);
/* Carries out what the last event of its book asks for. */
void prog_act(struct world *world, struct program *program);
/* When a server has said how much it has to do: one without calls gets some of others. */
void prog_check_steal(struct world *world, const struct program *program);
void prog_forget(struct world *world, struct program *program);
/* It has nothing to do any more. */
void prog_close(struct world *world, struct program *program);
/* Nested: the call whose function it is waits, or goes on. */
void prog_parent_waits(struct world *world, struct program *program, bool waits);
struct name *prog_name(struct program *program, uint64_t number);
void prog_add_handle(struct program *program, uint64_t number);
/* For --verbose: what it waits for. */
void prog_print(const struct program *program);

/* ---- remote_user.c: what programs do ---- */
/* It does something, if it can.  False: it waits. */
bool prog_step(struct world *world, struct program *program);
/* A read of a page has ended. */
void prog_read_ends(struct world *world, struct program *program, const struct job *job);
/* What a function makes: output i. */
uint64_t prog_hash(uint64_t function, const uint64_t *inputs, uint32_t num, uint32_t i);
/* A function fails whenever it runs, or never. */
bool prog_fails(uint64_t function);
/* A function ends its process, unless that is a fixed one. */
bool prog_ends(const struct world *world, uint64_t function);

#endif
