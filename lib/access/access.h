/*
 * access.h - reads, writes and read-modify-writes of this process's threads, and the page messages
 * of the others: the shell around the page protocol's core.
 *
 * Must not include anything of the layers above; what it needs from them is in struct
 * dmi_access_above.
 */
#ifndef DMI_ACCESS_ACCESS_H
#define DMI_ACCESS_ACCESS_H

#include "base/event.h"
#include "base/lock.h"
#include "core/page.h"
#include "access/ops.h"
#include "access/space.h"
#include "access/status.h"
#include "net/net.h"

struct dmi_access;
struct dmi_group;
struct dmi_self_msg;

/* What the layers above do for an access.  None of it is called for a hit, nor for a page message
 * that asks for nothing out of the ordinary. */
struct dmi_access_above {
  /* The mapping of an address, asking the directory if need be; with a reference.  NULL: *error.
   * Waits; not in the daemon thread. */
  struct dmi_mapping *(*lookup)(void *arg, uint64_t addr, int32_t *error);
  /* Makes a mapping with this word (core/heap.h), or ends one.  DMI_OK or DMI_E*.  Both wait, but
   * unmap_later does not, and tells nobody how it went. */
  int32_t (*map)(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag, int64_t *addr);
  int32_t (*unmap)(void *arg, uint64_t base, uint64_t tag);
  void (*unmap_later)(void *arg, uint64_t base, uint64_t tag);
  /* A write of this page waits for memory (DMI_ACT_STALLED); with the page locked. */
  void (*stalled)(void *arg, struct dmi_page *page);
  /* Something that the pager asked to be told of has happened; any thread, any lock. */
  void (*wake_pager)(void *arg);
};

/* One process's access to global memory. */
struct dmi_access {
  struct dmi_core core;
  struct dmi_space space;    /* the mappings known here */
  struct dmi_net *net;       /* sends: any thread; else the daemon */
  struct dmi_ops *ops;       /* operations that are out; own lock */
  struct dmi_stream *stream; /* what happens is told there */
  const struct dmi_access_above *above;
  void *above_arg;

  /* Flags that are looked at on the way of each access or step; any thread. */
  _Atomic uint32_t active;   /* bool: API calls are possible; set once dmi_id is */
  _Atomic uint32_t drain;    /* bool: leaving; the daemon looks at core.owned after each step */
  _Atomic uint32_t stalling; /* bool: node/stall.c looks, or is about to */
  _Atomic uint32_t pager_expects; /* bool: pages stall or are offered; it is told of GRANTs */
  _Atomic uint32_t
      pager_watches_steps; /* bool: the pager wants to know when a step of some page is over */
  _Atomic uint32_t
      idle_owed; /* user code that ended while its operations were still in flight: the */
                 /* membership core is told that it is idle when they are complete */

  _Atomic uint64_t sent[DMI_MSG_NUMBERS]; /* own page messages to others, by type */
  struct {
    _Atomic uint64_t num, bytes;
  } pages[DMI_MSG_NUMBERS]; /* messages to others that brought pages, by type */

  struct dmi_mutex self_lock; /* guards selfs */
  struct dmi_self_msg *selfs, **selfs_end;

  struct dmi_mutex
      deferred_lock; /* guards dmi_mapping.deferred of all mappings, and clearing map.arriving */
};

/* Makes one of zero bytes; `core`, `net`, `active` and perhaps `stream` are the caller's to fill
 * in. */
void dmi_access_init(struct dmi_access *access, const struct dmi_access_above *above, void *arg);
/* At the end of the process: frees the mappings, and the operations that nobody will ever answer.
 */
void dmi_access_end(struct dmi_access *access);
/* Frees the rest. */
void dmi_access_fini(struct dmi_access *access);

/* Set while DMI_function runs in this thread. */
extern __thread bool dmi_in_function __attribute__((tls_model("initial-exec")));

/* May this thread call DMI functions now?  DMI_OK; DMI_EINFUNC, if not; DMI_EINACTIVE: nobody may,
 * as the program does not run (`access` NULL, before and after it). */
static inline int32_t dmi_access_usable(const struct dmi_access *access) {
  if (dmi_in_function) return DMI_EINFUNC;
  if (access && atomic_load_explicit(&access->active, memory_order_acquire)) return DMI_OK;
  return DMI_EINACTIVE;
}

/* Bytes; longer reads copy from the frame after unlocking the page. */
#define DMI_COPY_LOCKED 16384
/* Of a synchronous access: bounds what its operations take of memory. */
#define DMI_PAGES_AT_ONCE 8192

/* One operation on a page that is in flight, or about to be. */
struct dmi_op {
  struct dmi_req req;          /* first: the core gives it back */
  struct dmi_mapping *mapping; /* one reference */
  struct dmi_page *page;
  struct dmi_call *call;
  uint32_t slot; /* place in the table of operations */
  bool heap;     /* free it when complete */
  bool claimed;  /* an answer is being received into req.dst; guarded by the page's lock */
  unsigned char small[24]; /* inputs or an answer nobody wants, when they are this small */
};

/* A call of the API: complete when all its operations are. */
struct dmi_call {
  _Atomic uint32_t left; /* operations not complete, and 1 until all have begun */
  _Atomic int32_t error; /* of the first that failed */
  struct dmi_status *status;
  struct dmi_group *group; /* NULL, or one reference: its parts are in use */
  bool heap;
};

/* Any thread: something is asked that another process's daemon answers at once; whether it does is
 * looked after (node/stall.c).  Costs a look at a word, once a second more. */
static inline void dmi_access_watch_stall(struct dmi_access *access) {
  if (!atomic_load_explicit(&access->stalling, memory_order_relaxed) &&
      !atomic_exchange(&access->stalling, 1)) {
    dmi_net_post(access->net);
  }
}

/* With a status that has begun.  Begins with a count of one, which the caller's dmi_access_call_finish takes away. */
void dmi_access_call_begin(struct dmi_call *call, struct dmi_status *status, bool heap);
void dmi_access_call_fail(struct dmi_call *call, int32_t error);
/* One of `left` is done; with the last the status is, and the call is gone. */
void dmi_access_call_finish(struct dmi_call *call);

/* Peers with queued messages that no thread has written yet. */
#define DMI_FLUSH_MAX 16
struct dmi_flush {
  uint32_t num;
  uint32_t uid[DMI_FLUSH_MAX];
};
void dmi_access_flush(struct dmi_access *access, struct dmi_flush *flush);

/* With the page locked: it shall not be replaced soon (docs/replacement.md).  Written only when it
 * changes, which is once for each turn of the pager's hand. */
static inline void dmi_access_used(struct dmi_page *page) {
  if (!(page->flags & DMI_PAGE_USED)) page->flags |= DMI_PAGE_USED;
}

/* With the page locked: may its bytes be read (written) here and now, without a message?  Then they
 * are used. */
static inline bool dmi_access_readable(const struct dmi_core *core, struct dmi_page *page) {
  if (!dmi_page_readable(core, page) || (page->flags & DMI_PAGE_DEAD)) return false;
  dmi_access_used(page);
  return true;
}

static inline bool dmi_access_writable(const struct dmi_core *core, struct dmi_page *page) {
  if (!dmi_page_writable(core, page) || (page->flags & DMI_PAGE_DEAD)) return false;
  dmi_access_used(page);
  return true;
}

/* Gives the operation to the core; it may be complete, and freed, when this returns.  Its message
 * goes out at once or, with `later`, when the caller flushes that, which must be soon. */
void dmi_access_op_begin(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later);

/* The mapping that has this range, with a reference.  NULL: *error.  Waits. */
struct dmi_mapping *dmi_access_mapping(struct dmi_access *access, int64_t addr, int64_t size,
                                       int32_t *error);

/* How many page messages of this type this process has sent to others on its own account: neither
 * answers nor what it passes on. */
uint64_t dmi_access_sent(const struct dmi_access *access, enum dmi_msg_type type);

/* How many bytes of pages this process has sent to others in messages of this type (DATA, BLOCK,
 * GRANT), and (`num` not NULL) in how many. */
uint64_t dmi_access_bytes(const struct dmi_access *access, enum dmi_msg_type type, uint64_t *num);

/* Bytes in page tables and records.  Any thread. */
uint64_t dmi_access_tables(const struct dmi_access *access);

/* The API's reads and writes; `status` NULL: synchronous.  Return DMI_TRUE or DMI_FALSE. */
int32_t dmi_access_read(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status);
int32_t dmi_access_write(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                         int8_t mode, DMI_local_status_t *status);

/* A read-modify-write: inputs out1 then out2, answer to `in` (NULL: not wanted). */
struct dmi_rmw_call {
  enum dmi_rmw rmw;
  int64_t addr, size;
  const void *out1, *out2;
  void *in;
  struct dmi_rmw_sizes sizes;
  int8_t tag, mode;
  bool begun; /* asynchronous: the status has begun, and others may wait for it */
  bool spin;  /* a synchronous caller looks again and again for a while before it sleeps */
};
int32_t dmi_access_rmw(struct dmi_access *access, const struct dmi_rmw_call *rmw,
                       DMI_local_status_t *status);

/* Adds to the 64-bit number at `addr`; its old value goes to `old`, if that is not NULL. */
int32_t dmi_access_fad(struct dmi_access *access, int64_t addr, int64_t add, int64_t *old,
                       int8_t mode, DMI_local_status_t *status);

/* Waits for a call, receiving what it waits for if that is possible.  Returns its error. */
int32_t dmi_access_wait(struct dmi_access *access, struct dmi_status *status);

/* ---- For whoever receives: the daemon, or a thread that waits (docs/wire.md) ---- */

/* The first `got` bytes of the body of a large message are here. */
void dmi_access_arrived(struct dmi_access *access, const struct dmi_msg *msg, uint64_t got);

/* A message of class PAGE (msg/table.h).  Takes its slices over.  False: not from a correct peer.
 */
bool dmi_access_message(struct dmi_access *access, uint32_t from, struct dmi_msg *msg);

/* Where the body of a page message goes; see net.h. */
void *dmi_access_body(struct dmi_access *access, uint32_t from, struct dmi_msg *msg);

/* ---- For the daemon ---- */

/* Queues an answer to ourselves, which the daemon thread delivers; any thread. */
void dmi_access_post_self(struct dmi_access *access, const struct dmi_msg *msg);
/* Delivers them. */
void dmi_access_self(struct dmi_access *access);

/* A step of the core on this page: begins with `out` empty and the page locked; at its end the
 * actions are carried out and the page is unlocked.  Any thread. */
void dmi_access_step_begin(struct dmi_page *page, struct dmi_out *out);
void dmi_access_step_end(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out);

#endif
