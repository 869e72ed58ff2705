/*
 * access.h - reads, writes and read-modify-writes of this process's threads, and page messages of
 * other processes: what is around the page protocol of lib/core.
 *
 * Must not include anything of the layers above; what it needs from them is in struct
 * dmi_access_above.
 */
#ifndef DMI_ACCESS_ACCESS_H
#define DMI_ACCESS_ACCESS_H

#include "base/doing.h"
#include "base/event.h"
#include "base/lock.h"
#include "base/trace.h"
#include "core/page.h"
#include "access/faults.h"
#include "access/ops.h"
#include "access/profile.h"
#include "access/space.h"
#include "access/status.h"
#include "net/net.h"

struct dmi_access;
struct dmi_deferred_request;
struct dmi_group;
struct dmi_self_msg;

/* Functions of the layers above.  Neither hits nor ordinary page messages call them. */
struct dmi_access_above {
  /* Finds the mapping of an address, if necessary in the directory; returns it with a reference.
   * NULL: *error says why.  May wait, so the daemon thread must not call it. */
  struct dmi_mapping *(*lookup)(void *arg, uint64_t addr, int32_t *error);
  /* Makes a mapping with this tag (core/heap.h), or ends one.  They wait, and return DMI_OK or
   * DMI_E*; unmap_later does not wait and reports no error. */
  int32_t (*map)(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag, int64_t *addr);
  int32_t (*unmap)(void *arg, uint64_t base, uint64_t tag);
  void (*unmap_later)(void *arg, uint64_t base, uint64_t tag);
  /* A write of this page waits for memory (DMI_ACT_STALLED).  The page is locked. */
  void (*stalled)(void *arg, struct dmi_page *page);
  /* An event has happened that the pager waits for.  Any thread, with any locks held. */
  void (*wake_pager)(void *arg);
};

/* One process's access to global memory. */
struct dmi_access {
  struct dmi_core core;
  struct dmi_space space;      /* the mappings known here */
  struct dmi_net *net;         /* any thread may send; the rest is for the daemon thread */
  struct dmi_look_rule look;   /* whether its threads look before they sleep */
  struct dmi_ops *ops;         /* operations in flight; own lock */
  struct dmi_stream *stream;   /* gets the events of the process */
  struct dmi_doings doings;    /* what its threads are doing; own lock */
  struct dmi_faults faults;    /* own lock */
  struct dmi_profile *profile; /* NULL: nobody has asked for it; own lock */
  struct dmi_trace trace;      /* what they do in time, if somebody traces; own lock */
  const struct dmi_access_above *above;
  void *above_arg;

  /* Flags that every access or step reads; any thread. */
  _Atomic uint32_t active; /* bool: API calls are possible; set after dmi_id */
  /* bool: this process leaves; the daemon reads core.owned after each step */
  _Atomic uint32_t drain;
  /* bool: node/stall.c looks for members that do not answer, or begins to */
  _Atomic uint32_t stalling;
  /* bool: pages are stalled or offered, so GRANTs are events for the pager */
  _Atomic uint32_t pager_expects;
  _Atomic uint32_t
      pager_watches_steps; /* bool: the end of any page's step is an event for the pager */
  _Atomic uint32_t
      idle_owed; /* user code that ended while its operations were still in flight: the */
                 /* membership core is told that it is idle when they are complete */

  _Atomic uint64_t sent[DMI_MSG_NUMBERS]; /* page messages of own operations to others, by type */
  struct {
    _Atomic uint64_t num, bytes;
  } pages[DMI_MSG_NUMBERS]; /* messages to others that brought pages, by type */

  struct dmi_mutex self_lock; /* guards selfs */
  struct dmi_self_msg *selfs, **selfs_end;

  struct dmi_mutex
      /* guards dmi_mapping.deferred of all mappings, setting map.arriving to 0, and `held` */
      deferred_lock;
  struct dmi_deferred_request *held,
      **held_end; /* until all have recovered from a loss; in order */
};

/* Initialises a struct of zero bytes.  The caller fills in `core`, `net`, `active`, and `stream` if
 * there is one. */
void dmi_access_init(struct dmi_access *access, const struct dmi_access_above *above, void *arg);
/* At the end of the process: frees the mappings, and the operations that will not be answered any
 * more. */
void dmi_access_end(struct dmi_access *access);
/* Frees everything else. */
void dmi_access_fini(struct dmi_access *access);

/* Set while DMI_function runs in this thread. */
extern __thread bool dmi_in_function __attribute__((tls_model("initial-exec")));

/* DMI_OK if this thread may call DMI functions now.  DMI_EINFUNC: it runs DMI_function.
 * DMI_EINACTIVE: the program does not run (`access` is NULL before and after it). */
static inline int32_t dmi_access_usable(const struct dmi_access *access) {
  if (dmi_in_function) return DMI_EINFUNC;
  if (access && atomic_load_explicit(&access->active, memory_order_acquire)) return DMI_OK;
  return DMI_EINACTIVE;
}

/* Bytes.  Longer reads unlock the page first and then copy from its frame. */
#define DMI_COPY_LOCKED 16384
/* The most pages of a synchronous access that are requested at the same time: this limits the
 * memory for operations. */
#define DMI_PAGES_AT_ONCE 8192

/* An operation on one page that is in flight, or begins. */
struct dmi_op {
  struct dmi_req req;          /* first: the core passes it back */
  struct dmi_mapping *mapping; /* one reference, or with of_group that of the call's group */
  struct dmi_page *page;
  struct dmi_call *call;
  uint32_t slot; /* index in the table of operations */
  bool of_group;
  bool heap;    /* freed when complete; else the caller's, or in a block of its call */
  bool claimed; /* an answer is just being received into req.dst; guarded by the page's lock */
  unsigned char small[24]; /* for small inputs, and for an answer that the caller does not want */
};

/* Is told that a call is complete, in whichever thread that happens: it must not wait, nor access
 * global memory.  The library's last access to it is this call. */
struct dmi_access_end {
  void (*done)(struct dmi_access_end *end, int32_t error);
};

/* Memory for some operations of a call, one after another; freed when the call is complete. */
struct dmi_op_block {
  struct dmi_op_block *next;
  uint32_t num, capacity;
  struct dmi_op op[];
};

/* A call of the API.  It is complete when all its operations are. */
struct dmi_call {
  _Atomic uint32_t left; /* operations that are not complete, plus 1 until all have begun */
  _Atomic int32_t error; /* of the first operation that failed */
  struct dmi_status *status;
  struct dmi_access_end *end;  /* NULL, or is told instead of the status */
  struct dmi_group *group;     /* NULL, or a reference to the group whose parts are in use */
  struct dmi_op_block *blocks; /* the last one made is the first; only who begins it uses them */
  bool heap;
};

/* Any thread; to be called when a question is sent that another process's daemon should answer at
 * once: node/stall.c then watches whether it does.  Costs one read of a word, and once a second a
 * little more. */
static inline void dmi_access_watch_stall(struct dmi_access *access) {
  if (!atomic_load_explicit(&access->stalling, memory_order_relaxed) &&
      !atomic_exchange(&access->stalling, 1)) {
    dmi_net_post(access->net);
  }
}

/* Begins a call with `left` 1 and a status that was begun, which the caller's
 * dmi_access_call_finish takes away. */
void dmi_access_call_begin(struct dmi_call *call, struct dmi_status *status, bool heap);
void dmi_access_call_fail(struct dmi_call *call, int32_t error);
/* A new operation of the call, all zero, which lives until the call is complete.  `most`: so many
 * may still be made, with this one.  NULL: no memory. */
struct dmi_op *dmi_access_call_op(struct dmi_call *call, uint64_t most);
/* Takes 1 from `left`.  At 0 the status is done, and the call is freed. */
void dmi_access_call_finish(struct dmi_call *call);

/* Peers whose queued messages this thread must still write, so that the operations of one call go
 * out together.  They do so earlier when they ask for many bytes, or bring them: then the others
 * begin to work. */
#define DMI_FLUSH_MAX 16
#define DMI_FLUSH_BYTES 32768
#define DMI_FLUSH_PAGES 32
struct dmi_flush {
  uint32_t num;
  uint64_t bytes; /* of the operations that have begun; each counts as a message more */
  dmi_uid_t uid[DMI_FLUSH_MAX];
  /* Requests of this type for these pages were sent, and are not counted yet. */
  uint8_t type;
  uint32_t asked;
  struct dmi_page *page[DMI_FLUSH_PAGES];
  struct dmi_faults_bytes touched[DMI_FLUSH_PAGES];
};
static inline void dmi_access_flush_init(struct dmi_flush *flush) {
  flush->num = flush->asked = 0;
  flush->bytes = 0;
}
void dmi_access_flush(struct dmi_access *access, struct dmi_flush *flush);
/* Notes that messages for `uid` must be flushed, together with others. */
void dmi_access_flush_later(struct dmi_access *access, dmi_uid_t uid, struct dmi_flush *later);

/* With the page locked: marks it as used, so that it is not replaced soon (docs/replacement.md).
 * Writes only if the mark is not set, which is once for each round of the pager. */
static inline void dmi_access_used(struct dmi_page *page) {
  if (!(page->flags & DMI_PAGE_USED)) page->flags |= DMI_PAGE_USED;
}

/* With the page locked: true if its bytes can be read (written) here without a message; then marks
 * the page as used. */
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

/* Gives the operation to the core.  It may be complete, and freed, when this returns.  Its message
 * is written at once or, with `later`, when the caller flushes that, which must be soon. */
void dmi_access_op_begin(struct dmi_access *access, struct dmi_op *op, struct dmi_flush *later);

/* The mapping that contains this range, with a reference.  NULL: *error says why.  May wait. */
struct dmi_mapping *dmi_access_mapping(struct dmi_access *access, int64_t addr, int64_t size,
                                       int32_t *error);

/* How many page messages of this type this process has sent to others for its own operations;
 * answers and forwarded messages are not counted. */
uint64_t dmi_access_sent(const struct dmi_access *access, enum dmi_msg_type type);

/* How many messages of any kind it has sent to member `to`; of several in one envelope it is one.
 */
uint64_t dmi_access_messages(const struct dmi_access *access, dmi_uid_t to);

/* How many bytes of pages this process has sent to others in messages of this type (DATA, BLOCK,
 * GRANT), and (`num` not NULL) in how many. */
uint64_t dmi_access_bytes(const struct dmi_access *access, enum dmi_msg_type type, uint64_t *num);

/* Bytes of page tables and records.  Any thread. */
uint64_t dmi_access_tables(const struct dmi_access *access);

/* DMI_read and DMI_write without a status, if they are hits: true.  False: nothing has happened,
 * and the next ones do it, or say why not. */
bool dmi_access_read_now(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                         int8_t mode);
bool dmi_access_write_now(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                          int8_t mode);

/* DMI_read and DMI_write; `status` NULL: synchronous.  They return DMI_TRUE or DMI_FALSE. */
int32_t dmi_access_read(struct dmi_access *access, int64_t addr, int64_t size, void *buf,
                        int8_t mode, DMI_local_status_t *status);
/* DMI_read that does not wait but, in its caller, for the directory.  True: it is over, with
 * *error; false: `end` is told, or was already.  The bytes may not be looked at before. */
bool dmi_access_fetch(struct dmi_access *access, int64_t addr, int64_t size, void *buf, int8_t mode,
                      struct dmi_access_end *end, int32_t *error);
int32_t dmi_access_write(struct dmi_access *access, int64_t addr, int64_t size, const void *buf,
                         int8_t mode, DMI_local_status_t *status);

/* Whole pages without copying (access_lend.c), if a hit could do it; `addr`: of a page's first
 * byte. Lend: a reference to its bytes, which nobody may change.  Take: its bytes, of which nobody
 * has another reference; the page is then all zero, so this is for what nobody needs any more.
 * NULL: not now.  Give: the frame becomes the bytes of the page, and is not the caller's any more;
 * false: not now, and it is. */
struct dmi_frame *dmi_access_lend(struct dmi_access *access, int64_t addr);
struct dmi_frame *dmi_access_take(struct dmi_access *access, int64_t addr);
bool dmi_access_give(struct dmi_access *access, int64_t addr, struct dmi_frame *frame);

/* A read-modify-write: its inputs are out1 followed by out2; `in` gets the answer (NULL: not
 * wanted). */
struct dmi_rmw_call {
  enum dmi_rmw rmw;
  int64_t addr, size;
  const void *out1, *out2;
  void *in;
  struct dmi_rmw_sizes sizes;
  int8_t tag, mode;
  bool begun; /* asynchronous: the status was begun before, and other threads may wait for it */
  bool spin;  /* a synchronous caller spins for a while before it sleeps */
};
int32_t dmi_access_rmw(struct dmi_access *access, const struct dmi_rmw_call *rmw,
                       DMI_local_status_t *status);

/* Adds to the 64-bit number at `addr`; `old` gets the value before, if it is not NULL. */
int32_t dmi_access_fad(struct dmi_access *access, int64_t addr, int64_t add, int64_t *old,
                       int8_t mode, DMI_local_status_t *status);

/* DMI_revive: *pages_ptr (may be NULL) gets the number of pages that were LOST.  With `system`,
 * also in the allocator's mapping. */
int32_t dmi_access_revive(struct dmi_access *access, int64_t addr, int64_t size, bool system,
                          int64_t *pages_ptr);

/* How many operations wait for bytes at this address, if this process owns the page (R11).  For
 * tests. */
uint64_t dmi_access_waiting(struct dmi_access *access, int64_t addr);

/* Waits for a call, if possible by receiving the answer itself.  Returns the call's error. */
int32_t dmi_access_wait(struct dmi_access *access, struct dmi_status *status);

/* The same by a thread that others see waiting (base/doing.h). */
struct dmi_access_for {
  enum dmi_doing_what what;
  uint64_t addr, size, op;
};
int32_t dmi_access_wait_for(struct dmi_access *access, struct dmi_status *status,
                            const struct dmi_access_for *what);

/* ---- For the thread that receives: the daemon, or one that waits (docs/wire.md) ---- */

/* Bytes [off, got) of the body of a large message have arrived. */
void dmi_access_arrived(struct dmi_access *access, const struct dmi_msg *msg, uint64_t off,
                        uint64_t got);

/* Handles a message of class PAGE (msg/table.h) and takes over its slices.  False: a correct peer
 * does not send it. */
bool dmi_access_message(struct dmi_access *access, dmi_uid_t from, struct dmi_msg *msg);

/* Where to receive the body of a page message; see net.h. */
void *dmi_access_body(struct dmi_access *access, dmi_uid_t from, struct dmi_msg *msg);

/* ---- For the daemon ---- */

/* Queues an answer to this process itself, which the daemon thread delivers.  Any thread. */
void dmi_access_post_self(struct dmi_access *access, const struct dmi_msg *msg);
/* Delivers these answers. */
void dmi_access_self(struct dmi_access *access);

/* Keeps a message until RESUMED (DMI_ACT_HOLD); takes over its slices.  Any thread, with any page
 * locked. */
void dmi_access_hold(struct dmi_access *access, dmi_uid_t from, const struct dmi_msg *msg);
/* Takes out all that were kept, in order. */
struct dmi_deferred_request *dmi_access_take_held(struct dmi_access *access);
void dmi_access_free_held(struct dmi_deferred_request *held);

/* struct dmi_recover_env: the first own operation from place *at on that was sent and has no
 * answer, its page locked.  All connections on which an answer to it might be arriving are over, or
 * have been read up to CUT. */
struct dmi_req *dmi_access_next_op(struct dmi_access *access, uint64_t *at, struct dmi_page **page);

/* A step of the core on this page.  The beginning locks the page and empties `out`; the end carries
 * out the actions in `out` and unlocks the page.  Any thread. */
void dmi_access_step_begin(struct dmi_page *page, struct dmi_out *out);
void dmi_access_step_end(struct dmi_access *access, struct dmi_page *page, struct dmi_out *out);

#endif
