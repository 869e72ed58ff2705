/*
 * room_test.c - replacement (docs/protocol.md R12), one test for each row of its table, and the
 * account behind struct dmi_room.
 *
 * Four processes' cores side by side, each with a pool of some pages; messages are carried by
 * hand, oldest first.  Process 1 is the home.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/page.h"
#include "dmi_api.h"
#include "page_line.h"

#define PROCS 4
#define PAGE 16

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

static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= 1 && uid <= PROCS;
}

static bool reserve(void *arg, uint64_t bytes, bool force) {
  struct proc *proc = arg;
  if (!force && proc->used + (int64_t)bytes > proc->limit) return false;
  proc->used += (int64_t)bytes;
  proc->reserved += (int64_t)bytes;
  return true;
}

static void release(void *arg, uint64_t bytes) {
  struct proc *proc = arg;
  proc->used -= (int64_t)bytes;
  proc->reserved -= (int64_t)bytes;
}

static void attach(void *arg, struct dmi_frame *frame, bool reserved) {
  struct proc *proc = arg;
  if (reserved) release(arg, frame->size);
  proc->used += (int64_t)frame->size;
}

static void detach(void *arg, struct dmi_frame *frame) {
  struct proc *proc = arg;
  proc->used -= (int64_t)frame->size;
}

static void copies(void *arg, int64_t more) {
  struct proc *proc = arg;
  proc->copies += more;
}

static void unspilled(void *arg, struct dmi_page *page) {
  struct proc *proc = arg;
  (void)page;
  proc->overwritten++;
}

static const struct dmi_room room = {reserve, release, attach, detach, copies, unspilled};

/* What the pool of this process has now. */
static void expect(const struct proc *proc, int64_t used, int64_t reserved, int64_t copied) {
  assert_int_equal(proc->used, used);
  assert_int_equal(proc->reserved, reserved);
  assert_int_equal(proc->copies, copied);
}

/* ---- The world ------------------------------------------------------------------------------ */

static void act(struct world *w, struct proc *proc, struct dmi_out *out) {
  dmi_page_check(&proc->core, &proc->page);
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_ROOM) {
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

static bool is_answer(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_DONE || msg->type == DMI_MSG_GOT ||
         (msg->type == DMI_MSG_FAIL && !(msg->flags & DMI_F_FETCH));
}

static void take(struct world *w, struct proc *proc, uint32_t from, struct dmi_msg *msg) {
  struct dmi_out out;
  bool must = msg->flags & DMI_F_MUST;
  struct dmi_tail entry;
  memcpy(&entry, msg->list.ptr, sizeof(entry));
  dmi_out_init(&out);
  if (!dmi_page_take(&proc->core, &proc->page, must, entry.zero, &out)) {
    assert_int_equal(out.num, 0);
    dmi_out_free(&out);
    proc = &w->proc[from - 1];
    w->line.sent[DMI_MSG_KEEP]++;
    dmi_page_kept(&proc->core, &proc->page, w->line.to[w->line.first - 1], must, &out);
  }
  dmi_slice_drop(&msg->list);
  act(w, proc, &out);
}

/* Delivers the oldest message. */
static void deliver(struct world *w) {
  uint32_t at = w->line.first++;
  struct dmi_msg msg = w->line.msg[at];
  struct proc *proc = &w->proc[w->line.to[at] - 1];
  struct dmi_out out;
  assert_true(at < w->line.last);
  if (msg.type == DMI_MSG_TAKE) {
    take(w, proc, w->line.from[at], &msg);
    return;
  }
  dmi_out_init(&out);
  assert_true(dmi_page_message(&proc->core, &proc->page, w->line.from[at], &msg,
                               is_answer(&msg) ? &w->own[msg.op]->req : NULL, &out));
  act(w, proc, &out);
}

static void settle(struct world *w) {
  while (line_any(&w->line))
    deliver(w);
  line_end(&w->line);
}

static void begin(struct world *w, uint32_t who, struct own *own, enum dmi_req_type type,
                  uint64_t off, uint64_t len) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  own->done = false;
  memset(&own->req, 0, sizeof(own->req));
  own->req.type = (uint8_t)type;
  own->req.kind = DMI_KIND_INVALIDATE;
  own->req.op = ++w->owns % 16;
  own->req.off = off;
  own->req.len = len;
  own->req.dst = own->bytes;
  if (type == DMI_REQ_PUT || type == DMI_REQ_EXCL) {
    own->req.src = (struct dmi_slice){NULL, own->bytes, len};
  }
  w->own[own->req.op] = own;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, &proc->page, &own->req, &out);
  act(w, proc, &out);
}

/* Writes 8 bytes of this value, begun only. */
static void write_begin(struct world *w, uint32_t who, struct own *own, enum dmi_req_type type,
                        int value) {
  memset(own->bytes, value, sizeof(own->bytes));
  begin(w, who, own, type, 0, 8);
}

static void write_now(struct world *w, uint32_t who, enum dmi_req_type type, int value) {
  struct own own;
  write_begin(w, who, &own, type, value);
  settle(w);
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_OK);
}

/* A read by GET at this process, 0 when it fails. */
static int value_at(struct world *w, uint32_t who) {
  struct own own;
  begin(w, who, &own, DMI_REQ_GET, 0, 8);
  settle(w);
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_OK);
  return own.bytes[0];
}

static void read_copy(struct world *w, uint32_t who) {
  struct own own;
  begin(w, who, &own, DMI_REQ_READ, 0, 8);
  settle(w);
  assert_true(own.done);
}

static bool offer(struct world *w, uint32_t who, uint32_t to) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  bool done;
  dmi_out_init(&out);
  done = dmi_page_offer(&proc->core, &proc->page, to, &out);
  act(w, proc, &out);
  return done;
}

/* With DMI_OK: room is reserved first, by force. */
static bool go_on(struct world *w, uint32_t who, int error) {
  struct proc *proc = &w->proc[who - 1];
  struct dmi_out out;
  bool done;
  if (error == DMI_OK) (void)reserve(proc, PAGE, true);
  dmi_out_init(&out);
  done = dmi_page_room(&proc->core, &proc->page, error, &out);
  if (!done && error == DMI_OK) release(proc, PAGE);
  act(w, proc, &out);
  return done;
}

static bool unspill(struct world *w, uint32_t who, struct dmi_frame *frame) {
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

static int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  if (!w) return -1;
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    proc->core.self = i + 1;
    proc->core.is_member = is_member;
    proc->core.room = &room;
    proc->core.arg = proc;
    proc->limit = PAGE;
    proc->map.base = 1 << 20;
    proc->map.page_size = PAGE;
    proc->map.page_num = 1;
    atomic_store(&proc->map.home, 1);
    dmi_page_init(&proc->core, &proc->map, &proc->page, 0);
  }
  *state = w;
  return 0;
}

static int teardown(void **state) {
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

/* ---- Drop ----------------------------------------------------------------------------------- */

static void test_drop(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  expect(two, PAGE, 0, PAGE);
  assert_true(dmi_page_drop(&two->core, &two->page));
  expect(two, 0, 0, 0);
  assert_int_equal(two->page.copy, 0);
  assert_int_equal(w->line.last, 0); /* nobody is told */
  assert_false(dmi_page_drop(&two->core, &two->page));
  read_copy(w, 2); /* the owner believes in a copy still: a new one, and a write finds it */
  write_now(w, 1, DMI_REQ_PUT, 8);
  assert_int_equal(value_at(w, 2), 8);
}

static void test_no_drop(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_false(dmi_page_drop(&one->core, &one->page)); /* owned */
  read_copy(w, 2);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 9);
  assert_int_equal(two->page.role, DMI_ROLE_PENDING);
  assert_false(dmi_page_drop(&two->core, &two->page)); /* GRANT will say HAVE */
  expect(two, PAGE, 0, 0);
  settle(w);
  assert_true(own.done);
}

/* ---- No room at who asks -------------------------------------------------------------------- */

static void test_read_without_room(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  write_now(w, 1, DMI_REQ_PUT, 7);
  two->limit = PAGE - 1;
  read_copy(w, 2);
  assert_int_equal(w->line.sent[DMI_MSG_READ], 0);
  assert_int_equal(w->line.sent[DMI_MSG_GET], 1);
  assert_int_equal(two->page.copy, 0);
  expect(two, 0, 0, 0);
}

static void test_read_reserves(void **state) {
  struct world *w = *state;
  struct own own;
  begin(w, 2, &own, DMI_REQ_READ, 0, 8);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w); /* DATA is ZERO: a copy without bytes */
  assert_true(own.done);
  assert_int_equal(w->proc[1].page.copy, DMI_KIND_INVALIDATE);
  expect(&w->proc[1], 0, 0, 0);
}

static void test_exclusive_without_room(void **state) {
  struct world *w = *state;
  w->proc[1].limit = 0;
  write_now(w, 2, DMI_REQ_EXCL, 5);
  assert_int_equal(w->line.sent[DMI_MSG_OWN], 0);
  assert_int_equal(w->line.sent[DMI_MSG_PUT], 1);
  assert_int_equal(value_at(w, 1), 5);
  expect(&w->proc[0], PAGE, 0, 0);
}

static void test_exclusive_reserves(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 5);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w);
  expect(&w->proc[1], PAGE, 0, 0);
  expect(&w->proc[0], 0, 0, 0);
}

/* A copy that goes while PENDING leaves its room for what GRANT brings. */
static void test_copy_goes_while_pending(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct own put, own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  write_begin(w, 3, &put, DMI_REQ_PUT, 8); /* comes first, and invalidates */
  write_begin(w, 2, &own, DMI_REQ_EXCL, 9);
  expect(two, PAGE, 0, 0);
  deliver(w); /* PUT */
  deliver(w); /* OWN */
  deliver(w); /* INVALIDATE */
  assert_int_equal(two->page.copy, 0);
  expect(two, PAGE, PAGE, 0);
  settle(w);
  assert_true(own.done && put.done);
  expect(two, PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 9);
}

/* A zero copy that an UPDATE would give bytes. */
static void test_update_without_room(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct own own;
  begin(w, 2, &own, DMI_REQ_READ, 0, 8);
  own.req.kind = DMI_KIND_UPDATE;
  w->line.msg[0].kind = DMI_KIND_UPDATE;
  settle(w);
  assert_int_equal(two->page.copy, DMI_KIND_UPDATE);
  two->limit = 0;
  write_now(w, 1, DMI_REQ_PUT, 3);
  assert_int_equal(w->line.sent[DMI_MSG_UPDATED], 1);
  assert_int_equal(two->page.copy, 0);
  assert_null(w->proc[0].page.busy); /* DROPPED: out of the copyset */
}

/* The room of who reads is set aside until the answer comes: behind a write that stalls it would be
 * missing for ever. */
static void test_what_needs_no_room_passes_a_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct own write, get, read;
  one->limit = 0;
  two->limit = PAGE;
  write_begin(w, 1, &write, DMI_REQ_PUT, 3);
  assert_int_equal(one->stalls, 1);
  begin(w, 3, &get, DMI_REQ_GET, 0, 8);
  begin(w, 2, &read, DMI_REQ_READ, 0, 8);
  expect(two, PAGE, PAGE, 0);
  settle(w);
  assert_true(get.done && read.done && !write.done);
  assert_int_equal(get.bytes[0] | read.bytes[0], 0);
  expect(two, 0, 0, 0); /* so there is room for the write */
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  assert_int_equal(one->stalls, 1); /* the shell knows */
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_true(write.done);
  assert_int_equal(write.req.error, DMI_OK);
  assert_int_equal(two->page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 3), 3);
}

/* ---- Offers --------------------------------------------------------------------------------- */

static void test_offer(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_true(offer(w, 1, 2));
  assert_true(w->proc[0].page.flags & DMI_PAGE_OFFERED);
  assert_false(offer(w, 1, 3)); /* one at a time */
  assert_int_equal(w->line.msg[0].flags & DMI_F_MUST, 0);
  deliver(w);
  expect(&w->proc[1], PAGE, PAGE, 0);
  settle(w);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[0].page.flags, 0);
  expect(&w->proc[0], 0, 0, 0);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(value_at(w, 3), 7);
}

static void test_offer_to_who_has_a_copy(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  assert_true(offer(w, 1, 2)); /* its room is the copy's; no bytes travel */
  deliver(w);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(w->line.msg[1].flags & DMI_F_HAVE, DMI_F_HAVE);
  settle(w);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
}

static void test_kept(void **state) {
  struct world *w = *state;
  write_now(w, 1, DMI_REQ_PUT, 7);
  w->proc[1].limit = PAGE - 1;
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_KEEP], 1);
  assert_int_equal(w->proc[0].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[0].page.flags, 0);
  assert_true(offer(w, 1, 3));
  settle(w);
  assert_int_equal(w->proc[2].page.role, DMI_ROLE_OWNER);
}

static void test_offer_comes_too_late(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 8);
  assert_true(offer(w, 1, 2)); /* meets PENDING, or an owner: nothing to do */
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_OWN], 1);
  assert_int_equal(w->line.sent[DMI_MSG_KEEP], 0);
  assert_int_equal(w->proc[0].page.flags, 0);
}

static void test_no_offer(void **state) {
  struct world *w = *state;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_false(offer(w, 2, 3)); /* not the owner */
  read_copy(w, 2);
  write_begin(w, 1, &own, DMI_REQ_PUT, 8); /* waits for INVALIDATED */
  assert_false(offer(w, 1, 3));
  settle(w);
  assert_true(own.done);
}

static void test_offer_sent_back(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_out out;
  write_now(w, 1, DMI_REQ_PUT, 7);
  assert_true(offer(w, 1, 2));
  dmi_out_init(&out);
  dmi_page_bounced(&one->core, &one->page, 2, &w->line.msg[w->line.first++], &out);
  act(w, one, &out);
  assert_int_equal(one->page.flags, 0);
  assert_false(line_any(&w->line));
}

/* ---- Leavers -------------------------------------------------------------------------------- */

static void test_leaver_keeps(void **state) {
  struct world *w = *state;
  struct dmi_out out;
  write_now(w, 1, DMI_REQ_PUT, 7);
  atomic_store(&w->proc[1].core.heir, 3);
  w->proc[1].limit = 4 * PAGE;
  dmi_out_init(&out);
  assert_false(dmi_page_take(&w->proc[1].core, &w->proc[1].page, false, false, &out));
  assert_false(dmi_page_take(&w->proc[1].core, &w->proc[1].page, true, false, &out));
  dmi_out_free(&out);
  expect(&w->proc[1], 0, 0, 0);
}

static void test_leaver_gives(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  atomic_store(&w->proc[1].core.heir, 1);
  atomic_store(&w->proc[2].core.heir, 1); /* the one it asks leaves, too */
  one->limit = 0;
  dmi_out_init(&out);
  dmi_page_give(&w->proc[1].core, &w->proc[1].page, 3, &out);
  act(w, &w->proc[1], &out);
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_KEEP], 1);
  assert_int_equal(w->line.sent[DMI_MSG_TAKE], 2);
  assert_int_equal(one->page.role, DMI_ROLE_OWNER); /* the heir, room or not */
  expect(one, PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 7);
}

/* A page without bytes takes no room, not even for a moment; but if it gets some on the way, they
 * are taken. */
static void test_leaver_gives_zeros(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0], *two = &w->proc[1];
  struct dmi_out out;
  struct own own;
  for (int late = 0; late < 2; late++) {
    one->limit = 0;
    atomic_store(&one->core.heir, 2); /* 1 leaves */
    atomic_store(&two->core.heir, 0);
    two->limit = 0;
    dmi_out_init(&out);
    dmi_page_give(&one->core, &one->page, 2, &out);
    act(w, one, &out);
    deliver(w); /* TAKE */
    assert_int_equal(two->page.role, DMI_ROLE_PENDING);
    expect(two, 0, 0, 0);
    if (late) write_begin(w, 1, &own, DMI_REQ_PUT, 7);
    settle(w);
    assert_int_equal(two->page.role, DMI_ROLE_OWNER);
    expect(two, late ? PAGE : 0, 0, 0);
    if (late) {
      assert_int_equal(value_at(w, 3), 7);
      return;
    }
    /* Back again. */
    atomic_store(&one->core.heir, 0);
    atomic_store(&two->core.heir, 1);
    dmi_out_init(&out);
    dmi_page_give(&two->core, &two->page, 1, &out);
    act(w, two, &out);
    settle(w);
    assert_int_equal(one->page.role, DMI_ROLE_OWNER);
    expect(one, 0, 0, 0);
  }
}

/* What it had offered before it began to leave is no promise, and the heir is not asked for it. */
static void test_leaver_has_offered(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  w->proc[3].limit = 0;
  assert_true(offer(w, 2, 4));
  atomic_store(&two->core.heir, 1);
  dmi_out_init(&out);
  dmi_page_give(&two->core, &two->page, 3, &out);
  act(w, two, &out);
  settle(w);
  assert_int_equal(w->line.sent[DMI_MSG_KEEP], 1);
  assert_int_equal(w->line.sent[DMI_MSG_TAKE], 2);
  assert_int_equal(w->line.sent[DMI_MSG_GRANT], 2);
  assert_int_equal(w->proc[2].page.role, DMI_ROLE_OWNER); /* and stays there */
  expect(&w->proc[0], 0, 0, 0);
}

/* Whom it wanted to give to has left: the heir takes it.  An offer that comes back is none. */
static void test_leaver_sent_back(void **state) {
  struct world *w = *state;
  struct proc *two = &w->proc[1];
  struct dmi_out out;
  write_now(w, 2, DMI_REQ_EXCL, 7);
  assert_true(offer(w, 2, 4));
  atomic_store(&two->core.heir, 1);
  dmi_out_init(&out);
  dmi_page_bounced(&two->core, &two->page, 4, &w->line.msg[w->line.first++], &out);
  assert_int_equal(out.num, 0);
  dmi_page_give(&two->core, &two->page, 3, &out);
  act(w, two, &out);
  dmi_out_init(&out);
  dmi_page_bounced(&two->core, &two->page, 3, &w->line.msg[w->line.first++], &out);
  act(w, two, &out);
  settle(w);
  assert_int_equal(w->proc[0].page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 1), 7);
}

static void test_leaver_does_not_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own own;
  struct dmi_out out;
  one->limit = 0;
  write_begin(w, 2, &own, DMI_REQ_PUT, 7);
  settle(w);
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  atomic_store(&one->core.heir, 2);
  dmi_out_init(&out);
  dmi_page_give(&one->core, &one->page, 2, &out);
  assert_int_equal(one->page.flags & DMI_PAGE_STALLED, 0);
  act(w, one, &out);
  settle(w);
  assert_true(own.done);
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(value_at(w, 3), 7);
}

/* ---- Stalls --------------------------------------------------------------------------------- */

static void test_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, get;
  one->limit = 0;
  assert_false(dmi_page_write_now(&one->core, &one->page, 0, "x", 1));
  expect(one, 0, 0, 0);
  write_begin(w, 2, &put, DMI_REQ_PUT, 7);
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  assert_int_equal(one->stalls, 1);
  assert_true(one->page.flags & DMI_PAGE_STALLED);
  assert_true(get.done && !put.done); /* it is zero until then */
  assert_int_equal(get.bytes[0], 0);
  assert_true(dmi_page_readable(&one->core, &one->page));
  assert_true(go_on(w, 1, DMI_OK));
  settle(w);
  assert_true(put.done);
  assert_int_equal(value_at(w, 2), 7);
  expect(one, PAGE, 0, 0);
  assert_false(go_on(w, 1, DMI_OK)); /* does not stall any more */
  expect(one, PAGE, 0, 0);
}

static void test_stalled_write_fails(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, own, get;
  one->limit = 0;
  write_begin(w, 2, &put, DMI_REQ_PUT, 7);
  settle(w);
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  write_begin(w, 1, &own, DMI_REQ_PUT, 8);
  assert_int_equal(one->stalls, 1);
  assert_true(go_on(w, 1, DMI_ENOMEM));
  settle(w);
  assert_true(put.done && get.done);
  assert_int_equal(put.req.error, DMI_ENOMEM);
  assert_int_equal(get.bytes[0], 0); /* nothing was written */
  assert_int_equal(one->stalls, 2);  /* the next one stalls */
  assert_true(go_on(w, 1, DMI_ENOMEM));
  assert_true(own.done);
  assert_int_equal(own.req.error, DMI_ENOMEM);
  assert_null(one->page.busy);
  expect(one, 0, 0, 0);
}

/* A failed compare takes room before it runs, and gives it back. */
static void test_atomic_changes_nothing(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own own;
  struct dmi_out out;
  static const unsigned char input[2] = {1, 2};
  memset(&own, 0, sizeof(own));
  own.req.type = DMI_REQ_ATOMIC;
  own.req.kind = DMI_RMW_CAS;
  own.req.len = 1;
  own.req.sizes = (struct dmi_rmw_sizes){1, 1, 1};
  own.req.src = (struct dmi_slice){NULL, input, 2};
  own.req.dst = own.bytes;
  dmi_out_init(&out);
  dmi_page_begin(&one->core, &one->page, &own.req, &out);
  act(w, one, &out);
  assert_true(own.done);
  assert_int_equal(own.bytes[0], 0);
  expect(one, 0, 0, 0);
  assert_null(one->page.frame);
}

static void test_own_passes_a_stall(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put, own;
  one->limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  assert_int_equal(one->stalls, 1);
  write_begin(w, 2, &own, DMI_REQ_EXCL, 8);
  settle(w);
  assert_true(own.done && put.done); /* both written, at 2 */
  assert_int_equal(w->proc[1].page.role, DMI_ROLE_OWNER);
  assert_int_equal(w->proc[1].page.version, 2);
  assert_int_equal(one->page.flags, 0);
}

static void test_offer_of_a_stalled_page(void **state) {
  struct world *w = *state;
  struct own put;
  w->proc[0].limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  assert_true(offer(w, 1, 2));
  settle(w);
  assert_true(put.done);
  assert_int_equal(put.req.error, DMI_OK);
  expect(&w->proc[1], PAGE, 0, 0);
  assert_int_equal(value_at(w, 1), 7);
}

static void test_kill_a_stalled_page(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct own put;
  struct dmi_out out;
  one->limit = 0;
  write_begin(w, 3, &put, DMI_REQ_PUT, 7);
  settle(w);
  dmi_out_init(&out);
  dmi_page_kill(&one->core, &one->page, &out);
  act(w, one, &out);
  settle(w);
  assert_int_equal(put.req.error, DMI_EADDR);
  assert_int_equal(one->page.flags, DMI_PAGE_DEAD);
}

/* ---- Spilling ------------------------------------------------------------------------------- */

static void test_spill(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own get, own;
  assert_null(dmi_page_spill(&one->core, &one->page)); /* zero: nothing to gain */
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  assert_non_null(frame);
  expect(one, 0, 0, 0);
  assert_false(dmi_page_readable(&one->core, &one->page));
  assert_false(dmi_page_writable(&one->core, &one->page));
  assert_null(dmi_page_spill(&one->core, &one->page));
  begin(w, 2, &get, DMI_REQ_GET, 0, 8);
  settle(w);
  begin(w, 1, &own, DMI_REQ_GET, 0, 8);
  assert_int_equal(one->stalls, 1);
  assert_false(go_on(w, 1, DMI_OK)); /* room alone is not enough */
  assert_true(unspill(w, 1, frame));
  settle(w);
  assert_true(get.done && own.done);
  assert_int_equal(get.bytes[0], 7);
  assert_int_equal(own.bytes[0], 7);
  expect(one, PAGE, 0, 0);
  assert_int_equal(one->overwritten, 0);
}

static void test_spilled_is_overwritten(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  memset(own.bytes, 9, sizeof(own.bytes));
  begin(w, 1, &own, DMI_REQ_PUT, 0, PAGE); /* needs room only, which there is */
  assert_true(own.done);
  assert_int_equal(one->overwritten, 1);
  assert_false(unspill(w, 1, frame));
  expect(one, PAGE, 0, 0);
  dmi_frame_unref(frame);
  assert_int_equal(value_at(w, 2), 9);
}

static void test_spilled_and_asked_for(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  struct dmi_frame *frame;
  struct own own;
  write_now(w, 1, DMI_REQ_PUT, 7);
  frame = dmi_page_spill(&one->core, &one->page);
  begin(w, 2, &own, DMI_REQ_EXCL, 0, 4);
  settle(w);
  assert_int_equal(one->stalls, 1);
  assert_false(go_on(w, 1, DMI_ENOMEM)); /* OWN cannot fail */
  assert_true(unspill(w, 1, frame));
  settle(w);
  assert_true(own.done);
  begin(w, 1, &own, DMI_REQ_GET, 4, 4); /* what it did not write came along */
  settle(w);
  assert_int_equal(own.bytes[0], 7);
}

static void test_no_spill(void **state) {
  struct world *w = *state;
  struct proc *one = &w->proc[0];
  write_now(w, 1, DMI_REQ_PUT, 7);
  read_copy(w, 2);
  assert_null(dmi_page_spill(&one->core, &one->page)); /* another has the bytes: offer it there */
  assert_null(dmi_page_spill(&w->proc[1].core, &w->proc[1].page));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      ROW(test_drop),
      ROW(test_no_drop),
      ROW(test_read_without_room),
      ROW(test_read_reserves),
      ROW(test_exclusive_without_room),
      ROW(test_exclusive_reserves),
      ROW(test_copy_goes_while_pending),
      ROW(test_update_without_room),
      ROW(test_what_needs_no_room_passes_a_stall),
      ROW(test_offer),
      ROW(test_offer_to_who_has_a_copy),
      ROW(test_kept),
      ROW(test_offer_comes_too_late),
      ROW(test_no_offer),
      ROW(test_offer_sent_back),
      ROW(test_leaver_keeps),
      ROW(test_leaver_gives),
      ROW(test_leaver_gives_zeros),
      ROW(test_leaver_has_offered),
      ROW(test_leaver_sent_back),
      ROW(test_leaver_does_not_stall),
      ROW(test_stall),
      ROW(test_stalled_write_fails),
      ROW(test_atomic_changes_nothing),
      ROW(test_own_passes_a_stall),
      ROW(test_offer_of_a_stalled_page),
      ROW(test_kill_a_stalled_page),
      ROW(test_spill),
      ROW(test_spilled_is_overwritten),
      ROW(test_spilled_and_asked_for),
      ROW(test_no_spill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
