/*
 * process.h - this process's part of the program, in one place.  Private to lib/node and lib/api.
 */
#ifndef DMI_NODE_PROCESS_H
#define DMI_NODE_PROCESS_H

#include <pthread.h>

#include "base/lock.h"
#include "base/machine.h"
#include "core/page.h"
#include "net/net.h"
#include "access/access.h"
#include "node/config.h"
#include "node/contact.h"
#include "access/ops.h"
#include "node/program.h"

struct dmi_heap;
struct dmi_member;
struct dmi_threads;
struct dmi_leave;
struct dmi_sync;
struct dmi_pager;
struct dmi_parent;
struct dmi_stall;

/* Something to be done by the daemon thread, for a thread that asks. */
struct dmi_post {
  struct dmi_post *next;
  void (*run)(struct dmi_process *process, struct dmi_post *post);
};

struct dmi_self_msg {
  struct dmi_self_msg *next;
  struct dmi_msg msg;
};

/* The set of members that have not left, sorted; and behind them, sorted, those that have. */
struct dmi_uids {
  uint32_t num;
  uint32_t left;
  uint32_t uid[];
};

struct dmi_events;

/* The member by way of which this process joins. */
struct dmi_seed {
  char host[DMI_CONTACT_HOST]; /* as last tried */
  uint16_t port;
  bool trying; /* a connection to it, not to one it sent us to, is being made */
};

struct dmi_process {
  struct dmi_program program;
  struct dmi_core core;
  struct dmi_net *net;           /* sends: any thread; else the daemon */
  struct dmi_ops *ops;           /* own lock */
  struct dmi_heap *_Atomic heap; /* made at its first use */
  struct dmi_uids *_Atomic uids; /* replaced at a view, old one retired */

  _Atomic uint64_t sent[DMI_MSG_PAGE_LAST + 1]; /* own page messages to others, by type */
  struct {
    _Atomic uint64_t num, bytes;
  } pages[DMI_MSG_PAGE_LAST + 1]; /* messages to others that brought pages, by type */

  struct dmi_mutex post_lock; /* guards posts, selfs */
  struct dmi_post *posts, **posts_end;
  struct dmi_self_msg *selfs, **selfs_end;

  struct dmi_mutex park_lock; /* guards dmi_mapping.parked of all, and clearing map.arriving */

  struct dmi_pager *pager;        /* own lock */
  _Atomic uint32_t pager_expects; /* bool: pages stall or are offered; it is told of GRANTs */
  _Atomic uint32_t pager_curious; /* bool: it wants to know when a step of some page is over */

  /* ---- the daemon's alone ---- */
  struct dmi_member *member;
  struct dmi_threads *threads; /* own lock */
  struct dmi_sync *sync;       /* locks held and barriers used here; own lock */
  struct dmi_stall *stall;     /* NULL until there is something to look at */
  struct dmi_leave *leave;     /* while this process hands over: homes not yet HOME_DONE */
  struct dmi_events *events;
  struct dmi_contact *contact;
  struct dmi_parent *parent; /* NULL: nobody's end matters */
  struct dmi_seed seed;
  int signals; /* the first of any kind, and each SIGINT behind it */
  int exit_code;
  bool cut_off; /* the end does not wait for threads; their calls get no answer any more */

  _Atomic uint32_t active;    /* bool: API calls are possible; set once dmi_id is */
  _Atomic uint32_t drain;     /* bool: leaving; the daemon looks at core.owned after each step */
  _Atomic uint32_t stalling;  /* bool: stall.c looks, or is about to */
  _Atomic uint32_t idle_owed; /* user code that ended while its operations were still out: the */
                              /* membership core is told that it is idle when they are complete */
  int32_t dmi_id;
  struct dmi_status member_now; /* done when this process is a member, or will never be */
  struct dmi_config config;     /* not changed after the start */
  struct dmi_machine machine;   /* likewise */
};

/* Set while DMI_function runs in this thread. */
extern __thread bool dmi_in_function;

/* May this thread call DMI functions now?  DMI_OK; DMI_EINFUNC, if not; DMI_EINACTIVE: nobody may,
 * as the program does not run (`process` NULL, before and after it). */
static inline int32_t dmi_usable(const struct dmi_process *process) {
  if (dmi_in_function) return DMI_EINFUNC;
  if (process && atomic_load_explicit(&process->active, memory_order_acquire)) return DMI_OK;
  return DMI_EINACTIVE;
}

/* Puts it in line for the daemon thread. */
void dmi_post(struct dmi_process *process, struct dmi_post *post);

/* An answer to ourselves: delivered by the daemon thread. */
void dmi_post_self(struct dmi_process *process, const struct dmi_msg *msg);

/* The mapping of an address, asking the directory if need be; with a reference.  NULL: *error.
 * Waits; not for the daemon thread. */
struct dmi_mapping *dmi_lookup(struct dmi_process *process, uint64_t addr, int32_t *error);

#endif
