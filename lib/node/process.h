/*
 * process.h - this process's part of the program, in one place.  Private to lib/node and lib/api.
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
struct dmi_pager;
struct dmi_parent;
struct dmi_stall;
struct dmi_sync;
struct dmi_threads;
struct dmi_transport;

struct dmi_process;

/* Something to be done by the daemon thread, for a thread that asks. */
struct dmi_post {
  struct dmi_post *next;
  void (*run)(struct dmi_process *process, struct dmi_post *post);
};

/* The set of members that have not left, sorted; and behind them, sorted, those that have. */
struct dmi_uids {
  uint32_t num;
  uint32_t left;
  uint32_t uid[];
};

struct dmi_actions;

/* What a process may do to the OS process that it is in. */
struct dmi_host {
  bool signals;            /* hears the signals of dmi_net_signals */
  bool only;               /* threads that the program makes belong to it */
  int err;                 /* descriptor for lines for people */
  void (*end)(int status); /* ends the OS process at once; does not return */
  /* What carries the bytes between processes: a new one; the network's from then on.  NULL: TCP. */
  struct dmi_transport *(*transport)(void *arg);
  void *arg;
};

/* The member by way of which this process joins. */
struct dmi_seed {
  char host[DMI_CONTACT_HOST]; /* as last tried */
  uint16_t port;
  bool trying; /* a connection to it, not to one it sent us to, is being made */
};

struct dmi_process {
  struct dmi_stream stream; /* what happens here: any thread tells it */
  struct dmi_program program;
  struct dmi_host host;
  struct dmi_access access;      /* of global memory; any thread */
  struct dmi_alloc *alloc;       /* likewise: DMI_malloc */
  struct dmi_sync *sync;         /* locks held here; own lock */
  struct dmi_barriers *barriers; /* used here; own lock */
  struct dmi_uids *_Atomic uids; /* replaced at a view, old one retired */
  struct dmi_pager *pager;       /* own lock */

  struct dmi_mutex post_lock; /* guards posts */
  struct dmi_post *posts, **posts_end;

  /* ---- the daemon's alone ---- */
  struct dmi_node_env node_env;
  struct dmi_node *node;       /* the protocol of this process; NULL until process_open */
  struct dmi_member *member;   /* the node's, to look at */
  struct dmi_threads *threads; /* own lock */
  struct dmi_stall *stall;     /* NULL until there is something to look at */
  struct dmi_actions *events;
  struct dmi_contact *contact;
  struct dmi_parent *parent; /* NULL: nobody's end matters */
  struct dmi_seed seed;
  int signals; /* the first of any kind, and each SIGINT behind it */
  int exit_code;
  bool ended;   /* only the stream is left */
  bool cut_off; /* the end does not wait for threads; their calls get no answer any more */

  int32_t dmi_id;
  struct dmi_status member_now; /* done when this process is a member, or will never be */
  struct dmi_config config;     /* not changed after the start */
  struct dmi_machine machine;   /* likewise */
  struct dmi_log log;           /* subscribers to `stream` */
  struct dmi_outlet outlet;
  struct dmi_announce announce;
};

/* Queues it for the daemon thread. */
void dmi_post(struct dmi_process *process, struct dmi_post *post);

/* ---- Whose thread is this? ---- */

/* NULL: it has not said, as threads that the program makes itself. */
extern __thread struct dmi_process *dmi_runtime_mine __attribute__((tls_model("initial-exec")));
/* The process of those; NULL: there is none, or there are several in this OS process. */
extern struct dmi_process *_Atomic dmi_runtime_only;

/* The calling thread works for this process from now on; NULL: for none. */
void dmi_runtime_enter(struct dmi_process *process);

/* The process that the calling thread works for, NULL before and after it. */
static inline struct dmi_process *dmi_runtime_process(void) {
  struct dmi_process *mine = dmi_runtime_mine;
  return __builtin_expect(mine != NULL, 1)
             ? mine
             : atomic_load_explicit(&dmi_runtime_only, memory_order_acquire);
}

#endif
