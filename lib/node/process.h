/*
 * process.h - one process of a DMI program.  Private to lib/node and lib/api.
 */
#ifndef DMI_NODE_PROCESS_H
#define DMI_NODE_PROCESS_H

#include <pthread.h>

#include "base/event.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/outlet.h"
#include "access/access.h"
#include "core/node.h"
#include "node/announce.h"
#include "node/config.h"
#include "node/contact.h"
#include "node/program.h"

struct dmi_alloc;
struct dmi_barriers;
struct dmi_dying;
struct dmi_openxm;
struct dmi_pager;
struct dmi_parent;
struct dmi_pulser;
struct dmi_remote;
struct dmi_see;
struct dmi_stall;
struct dmi_stays;
struct dmi_sync;
struct dmi_teams;
struct dmi_threads;
struct dmi_tracer;
struct dmi_transport;

struct dmi_process;

/* Work that another thread gives to the daemon thread. */
struct dmi_post {
  struct dmi_post *next;
  void (*run)(struct dmi_process *process, struct dmi_post *post);
  void (*drop)(struct dmi_post *post); /* in place of run: the daemon has ended; NULL: nothing */
};

/* The members that have not left, sorted; behind them those that have left, sorted. */
struct dmi_uids {
  uint32_t num;
  uint32_t left;
  dmi_uid_t uid[];
};

struct dmi_actions;

/* What a DMI process may do to the OS process that it is in. */
struct dmi_host {
  bool signals;            /* handles the signals of dmi_net_signals */
  bool only;               /* threads that the program makes itself belong to it */
  int err;                 /* descriptor for lines that people read */
  void (*end)(int status); /* ends the OS process at once; does not return */
  /* The process has run to its end in a thread that has called pthread_exit, so dmi_runtime_run
   * does not return: does what follows it.  NULL: nothing. */
  void (*over)(struct dmi_process *process, int status);
  /* Makes the transport between processes, which the network then owns.  NULL: TCP. */
  struct dmi_transport *(*transport)(void *arg);
  void *arg;
};

/* The member that this process contacts to join. */
struct dmi_seed {
  char host[DMI_CONTACT_HOST]; /* the last one tried */
  uint16_t port;
  bool trying; /* the connection being made is to it, not to a member that it named */
};

/* Exit statuses of what ends otherwise than the program wants (dmirun(1), EXIT STATUS). */
enum { DMI_EXIT_FAILED = 1, DMI_EXIT_OPTION = 2 /* a wrong option */ };

struct dmi_process {
  struct dmi_stream stream; /* events of this process; any thread emits */
  struct dmi_program program;
  struct dmi_host host;
  struct dmi_access access;      /* to global memory; any thread */
  struct dmi_alloc *alloc;       /* likewise: DMI_malloc */
  struct dmi_sync *sync;         /* locks that threads here hold; own lock */
  struct dmi_barriers *barriers; /* barriers in use here; own lock */
  struct dmi_remote *remote;     /* remote functions and their clients; own lock; may be NULL */
  struct dmi_teams *teams;       /* ranks of teams here; own lock; may be NULL */
  struct dmi_openxm *openxm;     /* the server of --ox; NULL: none */
  struct dmi_uids *_Atomic uids; /* each view replaces it and retires the old one */
  _Atomic uint64_t uids_number;  /* of `uids`, changed behind it; no other process has the same */
  struct dmi_pager *pager;       /* own lock */
  pthread_t daemon;              /* the daemon thread, joined by the one that runs DMI_main */
  struct dmi_mutex recover_lock; /* of struct dmi_recover_env */
  const char *_Atomic elastic;   /* what handles all notices: DMI_farm_run, ...; NULL: nothing */

  struct dmi_mutex post_lock; /* guards posts */
  struct dmi_post *posts, **posts_end;
  bool posts_ended; /* nobody takes them any more */

  /* ---- used by the daemon thread only ---- */
  struct dmi_node_env node_env;
  struct dmi_node *node;       /* the protocol of this process; NULL until process_open */
  struct dmi_member *member;   /* part of `node`; read only */
  struct dmi_threads *threads; /* own lock */
  struct dmi_see *see;         /* those who look, and their questions */
  struct dmi_dying *dying;     /* what members have told of their end */
  struct dmi_tracer *tracer;   /* traces; NULL: no memory for it, or not yet */
  struct dmi_stall *stall;     /* NULL until something is in flight */
  struct dmi_stays *stays;     /* NULL until this process is asked to leave */
  struct dmi_pulser *pulser;   /* NULL: this process is no member yet */
  struct dmi_actions *events;
  struct dmi_contact *contact;
  struct dmi_parent *parent; /* NULL: no parent is followed */
  struct dmi_seed seed;
  int signals;        /* count: the first of any kind, and each SIGINT after it */
  int exit_code;      /* also of a process that could not start; 0 there: DMI_EXIT_FAILED */
  bool finished;      /* the program, or this process's part in it, has ended in order */
  bool ended;         /* everything but the stream was freed */
  bool takes_no_part; /* it has no thread for pulses: it ends, and the others lose it */
  bool cut_off;       /* the end does not wait for threads; their calls get no answer any more */
  bool trust_warned;  /* that --trust-refused does not count */
  uint32_t losses;    /* members that were lost, since this process knows of members */

  dmi_id_t dmi_id;
  struct dmi_status recover_now; /* done when DMI_recover is to run here, or can never be */
  dmi_id_t main_lost_with;       /* then: the process with which DMI_main was lost */
  struct dmi_status member_now;  /* done when this process is a member, or can never become one */
  struct dmi_config config;      /* not changed after the start */
  char command[200];             /* likewise; name and arguments of the program, perhaps cut off */
  struct dmi_machine machine;    /* likewise */
  struct dmi_log log;            /* subscribers to `stream` */
  struct dmi_outlet outlet;      /* DMI_EVENT_FD */
  struct dmi_outlet events_file; /* --events */
  int profile_fd;                /* --profile; -1: none, or written */
  struct dmi_announce announce;
};

/* Queues the work for the daemon thread, or drops it when that has ended. */
void dmi_post(struct dmi_process *process, struct dmi_post *post);
/* The daemon has ended: drops what is queued, and what comes. */
void dmi_posts_end(struct dmi_process *process);

/* ---- Whose thread is this? ---- */

/* The process of the calling thread.  NULL: not set, as in threads that the program makes. */
extern __thread struct dmi_process *dmi_runtime_mine __attribute__((tls_model("initial-exec")));
/* The process of threads without one; NULL: this OS process has none, or several. */
extern struct dmi_process *_Atomic dmi_runtime_only;

/* Sets the process of the calling thread; NULL: none. */
void dmi_runtime_enter(struct dmi_process *process);

/* The process of the calling thread; NULL before it begins and after it has ended. */
static inline struct dmi_process *dmi_runtime_process(void) {
  struct dmi_process *mine = dmi_runtime_mine;
  return __builtin_expect(mine != NULL, 1)
             ? mine
             : atomic_load_explicit(&dmi_runtime_only, memory_order_acquire);
}

#endif
