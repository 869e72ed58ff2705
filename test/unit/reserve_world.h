/*
 * reserve_world.h - the cores of four processes, each with a pool of some pages; the test delivers
 * the messages itself, oldest first.  Process 1 is the home.
 *
 * Included after cmocka.h.
 */
#ifndef DMI_TEST_RESERVE_WORLD_H
#define DMI_TEST_RESERVE_WORLD_H

#include "core/page.h"
#include "dmi_api.h"

#define PROCS 4
#define PAGE 16
#include "page_line.h"

struct proc {
  struct dmi_core core; /* uid: index + 1 */
  struct dmi_page page;
  struct dmi_map map;
  int64_t limit, used, reserved, copies; /* bytes */
  uint32_t stalls, overwritten;
};

/* An own operation: its bytes, and whether it is complete. */
struct own {
  struct dmi_req req;
  bool done;
  unsigned char bytes[PAGE];
};

struct world {
  struct proc proc[PROCS];
  struct own *own[16];
  uint64_t owns;
  struct line line;
};

/* ---- The pools ------------------------------------------------------------------------------ */

static inline bool reserve(void *arg, uint64_t bytes, bool force) {
  struct proc *proc = arg;
  if (!force && proc->used + (int64_t)bytes > proc->limit) return false;
  proc->used += (int64_t)bytes;
  proc->reserved += (int64_t)bytes;
  return true;
}

static inline void release(void *arg, uint64_t bytes) {
  struct proc *proc = arg;
  proc->used -= (int64_t)bytes;
  proc->reserved -= (int64_t)bytes;
}

static inline void attach(void *arg, struct dmi_frame *frame, bool reserved) {
  struct proc *proc = arg;
  if (reserved) release(arg, frame->size);
  proc->used += (int64_t)frame->size;
}

static inline void detach(void *arg, struct dmi_frame *frame) {
  struct proc *proc = arg;
  proc->used -= (int64_t)frame->size;
}

static inline void copies(void *arg, int64_t more) {
  struct proc *proc = arg;
  proc->copies += more;
}

static inline void unspilled(void *arg, struct dmi_page *page) {
  struct proc *proc = arg;
  (void)page;
  proc->overwritten++;
}

static const struct dmi_account account = {reserve, release, attach, detach, copies, unspilled};

/* Checks what the pool of this process has. */
static inline void expect(const struct proc *proc, int64_t used, int64_t reserved, int64_t copied) {
  assert_int_equal(proc->used, used);
  assert_int_equal(proc->reserved, reserved);
  assert_int_equal(proc->copies, copied);
}

/* ---- The world ------------------------------------------------------------------------------ */

static inline void act(struct world *w, struct proc *proc, struct dmi_out *out) {
  dmi_page_check(&proc->core, &proc->page);
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_STALLED) {
      assert_int_equal(a->msg.map, proc->map.base);
      assert_int_equal(a->msg.page, 0);
      proc->stalls++;
    } else if (a->type == DMI_ACT_COMPLETE) {
      struct own *own = (struct own *)(void *)a->req;
      assert_false(own->done);
      own->done = true;
      dmi_slice_drop(&own->req.src);
    } else {
      line_put(&w->line, proc->core.self, a);
    }
  }
  dmi_out_free(out);
}

static inline void take(struct world *w, struct proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  bool must = msg->flags & DMI_F_MUST;
  uint32_t to = proc->core.self;
  struct dmi_tail entry;
  memcpy(&entry, msg->list.ptr, sizeof(entry));
  dmi_out_init(&out);
  if (!dmi_page_take(&proc->core, &proc->page, must, entry.zero, &out)) {
    assert_int_equal(out.num, 0);
    dmi_out_free(&out);
    proc = &w->proc[from - 1];
    w->line.sent[DMI_MSG_REFUSE_PAGE]++;
    dmi_page_refused(&proc->core, &proc->page, to, must, &out);
  }
  dmi_slice_drop(&msg->list);
  act(w, proc, &out);
}

/* Delivers the oldest message. */
static inline void deliver(struct world *w) {
  struct dmi_msg msg;
  uint32_t to, from = line_take(&w->line, &msg, &to);
  struct proc *proc = &w->proc[to - 1];
  struct dmi_out out;
  dmi_op_t op;
  if (msg.type == DMI_MSG_TAKE) {
    take(w, proc, from, &msg);
    return;
  }
  dmi_out_init(&out);
  assert_true(dmi_page_message(&proc->core, &proc->page, from, &msg,
                               dmi_msg_answers(&msg, &op) ? &w->own[op.n]->req : NULL, &out));
  act(w, proc, &out);
}

static inline void settle(struct world *w) {
  while (line_any(&w->line))
    deliver(w);
  line_end(&w->line);
}

static inline void begin(struct world *w, uint32_t who, struct own *own, enum dmi_req_type type,
                         uint64_t off, uint64_t len) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  own->done = false;
  memset(&own->req, 0, sizeof(own->req));
  own->req.type = (uint8_t)type;
  own->req.kind = DMI_KIND_INVALIDATE;
  own->req.op.n = ++w->owns % 16;
  own->req.off = off;
  own->req.len = len;
  own->req.dst = own->bytes;
  if (type == DMI_REQ_PUT || type == DMI_REQ_EXCL) {
    own->req.src = (struct dmi_slice){NULL, own->bytes, len};
  }
  w->own[own->req.op.n] = own;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, &proc->page, &own->req, &out);
  act(w, proc, &out);
}

/* Begins a write of 8 bytes of this value. */
static inline void write_begin(struct world *w, uint32_t who, struct own *own,
                               enum dmi_req_type type, int value) {
  memset(own->bytes, value, sizeof(own->bytes));
  begin(w, who, own, type, 0, 8);
}

static inline void write_now(struct world *w, uint32_t who, enum dmi_req_type type, int value) {
  struct own own;
  write_begin(w, who, &own, type, value);
  settle(w);
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_OK);
}

/* The value that a GET at this process reads; 0 when it fails. */
static inline int value_at(struct world *w, uint32_t who) {
  struct own own;
  begin(w, who, &own, DMI_REQ_GET, 0, 8);
  settle(w);
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_OK);
  return own.bytes[0];
}

static inline void read_copy(struct world *w, uint32_t who) {
  struct own own;
  begin(w, who, &own, DMI_REQ_READ, 0, 8);
  settle(w);
  assert_true(own.done);
}

static inline bool offer(struct world *w, uint32_t who, uint32_t to) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  bool done;
  dmi_out_init(&out);
  done = dmi_page_offer(&proc->core, &proc->page, to, &out);
  act(w, proc, &out);
  return done;
}

/* With DMI_OK, memory is reserved first, even above the limit. */
static inline bool go_on(struct world *w, uint32_t who, int error) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  bool done;
  if (error == DMI_OK) (void)reserve(proc, PAGE, true);
  dmi_out_init(&out);
  done = dmi_page_unstall(&proc->core, &proc->page, error, &out);
  if (!done && error == DMI_OK) release(proc, PAGE);
  act(w, proc, &out);
  return done;
}

static inline bool unspill(struct world *w, uint32_t who, struct dmi_frame *frame) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  bool done;
  (void)reserve(proc, PAGE, true);
  dmi_out_init(&out);
  done = dmi_page_unspill(&proc->core, &proc->page, frame, &out);
  if (!done) release(proc, PAGE);
  act(w, proc, &out);
  return done;
}

static inline int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  if (!w) return -1;
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    proc->core.account = &account;
    proc->core.arg = proc;
    proc->limit = PAGE;
    line_open(&proc->core, &proc->map, &proc->page, i);
  }
  *state = w;
  return 0;
}

static inline int teardown(void **state) {
  struct world *w = *state;
  int64_t left = 0;
  line_drop(&w->line);
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    dmi_page_fini(&proc->core, &proc->page);
    left |= proc->used | proc->reserved | proc->copies;
  }
  free(w);
  return left == 0 && dmi_frame_total() == 0 ? 0 : -1;
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
