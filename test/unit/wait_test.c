/*
 * wait_test.c - operations that wait at the owner (docs/protocol.md R11), step by step: which
 * process sends what, and how often.
 *
 * Runs the cores of three processes; the test delivers the messages itself, and counts them.
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
#include "core/syncop.h"
#include "dmi_api.h"

#define PROCS 3
#define PAGE 64
#include "page_line.h"

struct proc {
  struct dmi_core core;
  struct dmi_page page;
  struct dmi_map map;
};

/* An own operation, with memory for its answer, and whether that has come. */
struct own {
  struct dmi_req req;
  bool done;
  int error;
  unsigned char answer[24], input[128]; /* of a lock: struct dmi_locked */
};

struct world {
  struct proc proc[PROCS]; /* uid: index + 1 */
  struct own *own[16];
  uint64_t owns;
  struct line line;
};

static void act(struct world *w, struct proc *proc, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_COMPLETE) {
      struct own *own = (struct own *)(void *)a->req;
      assert_false(own->done);
      own->done = true;
      own->error = a->req->error;
      dmi_slice_drop(&own->req.src);
      continue;
    }
    line_put(&w->line, proc->core.self, a);
  }
  dmi_out_free(out);
}

/* Delivers the oldest message. */
static void deliver(struct world *w) {
  struct dmi_msg msg;
  uint32_t to, from = line_take(&w->line, &msg, &to);
  struct proc *proc = &w->proc[to - 1];
  struct dmi_req *req = NULL;
  struct dmi_out out;
  dmi_op_t op;
  if (dmi_msg_answers(&msg, &op)) req = &w->own[op.n]->req;
  dmi_out_init(&out);
  assert_true(dmi_page_message(&proc->core, &proc->page, from, &msg, req, &out));
  dmi_page_check(&proc->core, &proc->page);
  act(w, proc, &out);
}

/* Delivers all messages; returns how many there were. */
static uint32_t settle(struct world *w) {
  uint32_t num = 0;
  for (; line_any(&w->line); num++)
    deliver(w);
  line_end(&w->line);
  return num;
}

static void begin(struct world *w, uint32_t who, struct own *own) {
  struct proc *proc = &w->proc[who];
  struct dmi_out out;
  own->done = false;
  own->req.op.n = ++w->owns % 16;
  own->req.dst = own->answer;
  w->own[own->req.op.n] = own;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, &proc->page, &own->req, &out);
  act(w, proc, &out);
}

static struct own rmw(enum dmi_rmw kind, uint64_t off, uint64_t len, uint64_t input, uint64_t in) {
  struct own own;
  memset(&own, 0, sizeof(own));
  own.req.type = DMI_REQ_ATOMIC;
  own.req.kind = (uint8_t)kind;
  own.req.off = off;
  own.req.len = len;
  own.req.sizes = (struct dmi_rmw_sizes){input, 0, in};
  return own;
}

/* The input is borrowed from the operation itself, which must stay where it is. */
static void begin_with(struct world *w, uint32_t who, struct own *own, const void *input) {
  if (input) memcpy(own->input, input, own->req.sizes.out1);
  own->req.src = (struct dmi_slice){NULL, own->input, own->req.sizes.out1};
  begin(w, who, own);
}

static struct own begin_lock_into(void) {
  return rmw(DMI_RMW_LOCK, 3, sizeof(struct dmi_locked_by), 0, sizeof(struct dmi_locked));
}

/* By the process of the thread that holds it: `lock` has taken it. */
static void unlock(struct world *w, const struct own *lock, struct own *own) {
  struct dmi_locked locked;
  memcpy(&locked, lock->answer, sizeof(locked));
  assert_int_equal(locked.how, DMI_LOCKED_YES);
  *own = rmw(DMI_RMW_UNLOCK, 3, sizeof(struct dmi_locked_by), 8, 0);
  begin_with(w, lock->req.origin - 1, own, &locked.op);
}

static int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  if (!w) return -1;
  for (uint32_t i = 0; i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    line_open(&proc->core, &proc->map, &proc->page, i);
  }
  *state = w;
  return 0;
}

static int teardown(void **state) {
  struct world *w = *state;
  for (uint32_t i = 0; i < PROCS; i++)
    dmi_page_fini(&w->proc[i].core, &w->proc[i].page);
  free(w);
  return dmi_frame_total() != 0;
}

/* One request and one answer, each for lock and unlock. */
static void uncontended(void **state) {
  struct world *w = *state;
  struct own lock = begin_lock_into(), done;
  begin_with(w, 1, &lock, NULL);
  assert_int_equal(settle(w), 2);
  assert_true(lock.done);
  unlock(w, &lock, &done);
  assert_int_equal(settle(w), 2);
  assert_true(done.done);
  assert_int_equal(w->line.sent[DMI_MSG_ATOMIC], 2);
  assert_int_equal(w->line.sent[DMI_MSG_DONE], 2);
}

/* Waiters cost one request each; an unlock answers exactly the one that is next. */
static void hand_over(void **state) {
  struct world *w = *state;
  struct own held = begin_lock_into(), wait[4], done;
  begin_with(w, 0, &held, NULL); /* the owner's own: nothing is sent */
  assert_true(held.done);
  assert_int_equal(settle(w), 0);
  for (uint32_t i = 0; i < 4; i++) {
    wait[i] = begin_lock_into();
    begin_with(w, i % PROCS, &wait[i], NULL);
    assert_int_equal(settle(w), i % PROCS ? 1 : 0);
    assert_false(wait[i].done);
  }
  unlock(w, &held, &done);
  for (uint32_t i = 0; i < 4; i++) {
    bool other = i % PROCS != 0;
    (void)settle(w);
    for (uint32_t k = 0; k < 4; k++)
      assert_int_equal(wait[k].done, k <= i);
    w->line.sent[DMI_MSG_DONE] = w->line.sent[DMI_MSG_ATOMIC] = 0;
    unlock(w, &wait[i], &done);
    (void)settle(w);
    /* the request of the unlock and its answer, unless it is the owner's, and one DONE if the next
     * one is not */
    assert_int_equal(w->line.sent[DMI_MSG_ATOMIC], other);
    assert_int_equal(w->line.sent[DMI_MSG_DONE], other + (i + 1 < 4 && (i + 1) % PROCS != 0));
  }
  assert_int_equal(w->line.sent[DMI_MSG_GET] + w->line.sent[DMI_MSG_READ], 0);
}

/* Waiting operations move with the ownership, before the GRANT, and keep their order. */
static void moves(void **state) {
  struct world *w = *state;
  struct own held = begin_lock_into(), own = begin_lock_into(), other = begin_lock_into(), done;
  const int64_t one = 1;
  uint32_t waiting = 0, grant = 0;
  begin_with(w, 0, &held, NULL);
  begin_with(w, 0, &own, NULL);
  begin_with(w, 1, &other, NULL);
  (void)settle(w);
  done = rmw(DMI_RMW_FAD, 40, 8, 8, 8); /* elsewhere in the page */
  done.req.type = DMI_REQ_ATOMIC_EXCL;
  begin_with(w, 2, &done, &one);
  deliver(w); /* OWN */
  for (uint32_t i = w->line.first; i < w->line.last; i++) {
    assert_int_equal(w->line.to[i], 3);
    if (w->line.msg[i].type == DMI_MSG_GRANT) grant = i;
    if (w->line.msg[i].flags & DMI_F_WAITING) {
      waiting++;
      assert_int_equal(w->line.msg[i].atomic.rmw, DMI_RMW_LOCK);
      assert_int_equal(w->line.msg[i].origin, waiting); /* 1 came before 2 */
      assert_int_equal(grant, 0);
    }
  }
  assert_int_equal(waiting, 2);
  assert_int_not_equal(grant, 0);
  (void)settle(w);
  assert_true(done.done && !own.done && !other.done);
  unlock(w, &held, &done);
  (void)settle(w);
  assert_true(own.done && !other.done);
  unlock(w, &own, &done);
  (void)settle(w);
  assert_true(other.done);
}

/* A round: one request and one answer for each process. */
static void barrier(void **state) {
  struct world *w = *state;
  struct own arrive[PROCS];
  struct {
    uint64_t pnum;
    double value[2];
  } input = {5, {1, 10}};
  for (uint32_t i = 0; i < PROCS; i++) {
    struct dmi_arrived got;
    uint64_t size = i ? 24 : 16; /* one thread of the first, two of each of the others */
    arrive[i] = rmw(DMI_RMW_ARRIVE, 5, sizeof(struct dmi_round), size, sizeof(got));
    begin_with(w, i, &arrive[i], &input);
    assert_int_equal(arrive[0].done, 0);
    (void)settle(w);
  }
  assert_int_equal(w->line.sent[DMI_MSG_ATOMIC], 2);
  assert_int_equal(w->line.sent[DMI_MSG_DONE], 2);
  for (uint32_t i = 0; i < PROCS; i++) {
    struct dmi_arrived got;
    assert_true(arrive[i].done);
    memcpy(&got, arrive[i].answer, sizeof(got));
    assert_int_equal(got.taken, i ? 2 : 1);
    assert_true(got.sum == 23);
  }
}

/* Arrivals that are too many for the round are left out; those with another pnum change nothing. */
static void beyond(void **state) {
  struct world *w = *state;
  struct {
    uint64_t pnum;
    double value[4];
  } input = {3, {1, 2, 4, 8}};
  struct dmi_arrived got;
  struct own first = rmw(DMI_RMW_ARRIVE, 0, sizeof(struct dmi_round), 24, sizeof(got)),
             wrong = first, many = first;
  begin_with(w, 1, &first, &input);
  (void)settle(w);
  input.pnum = 4;
  begin_with(w, 2, &wrong, &input);
  (void)settle(w);
  memcpy(&got, wrong.answer, sizeof(got));
  assert_true(wrong.done && got.taken == 0);
  input.pnum = 3;
  many.req.sizes.out1 = 40;
  begin_with(w, 2, &many, &input);
  (void)settle(w);
  memcpy(&got, many.answer, sizeof(got));
  assert_true(many.done && got.taken == 1 && got.sum == 4);
  memcpy(&got, first.answer, sizeof(got));
  assert_true(first.done && got.taken == 2 && got.sum == 4);
}

static void write_bytes(struct world *w, const void *bytes, uint64_t len) {
  struct own write;
  memset(&write, 0, sizeof(write));
  write.req = (struct dmi_req){.type = DMI_REQ_PUT, .off = 3, .len = len};
  memcpy(write.input, bytes, len);
  write.req.src = (struct dmi_slice){NULL, write.input, len};
  begin(w, 0, &write);
  (void)settle(w);
  assert_true(write.done);
}

/* Bytes that are no object: the operation is refused with one request, and the bytes are not
 * changed. */
static void no_object(struct world *w, const void *bytes) {
  static const struct {
    enum dmi_rmw kind;
    uint64_t len, input, in;
  } ops[] = {{DMI_RMW_TRYLOCK, 16, 0, 16},
             {DMI_RMW_UNLOCK, 16, 8, 0},
             {DMI_RMW_MEND, 16, 8, 0},
             {DMI_RMW_SIGNAL, 16, 8, 0},
             {DMI_RMW_TICKET, 16, 0, 8},
             {DMI_RMW_LOCK, 16, 0, 16},
             {DMI_RMW_ARRIVE, sizeof(struct dmi_round), 16, sizeof(struct dmi_arrived)}};
  const uint64_t input[] = {2, 0};
  write_bytes(w, bytes, sizeof(struct dmi_round));
  for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
    for (uint32_t who = 0; who < 2; who++) {
      struct own own = rmw(ops[i].kind, 3, ops[i].len, ops[i].input, ops[i].in);
      begin_with(w, who, &own, input);
      assert_int_equal(settle(w), 2 * who);
      assert_true(own.done);
      assert_int_equal(own.req.error, DMI_EINVAL);
      assert_memory_equal(w->proc[0].page.frame->bytes + 3, bytes, sizeof(struct dmi_round));
    }
  }
}

static void no_objects(void **state) {
  struct world *w = *state;
  uint64_t numbers[5];
  unsigned char bytes[sizeof(numbers)];
  for (int fill = 1; fill < 256; fill++) {
    memset(bytes, fill, sizeof(bytes));
    no_object(w, bytes);
  }
  for (uint64_t first = 0; first < 200; first++) { /* small numbers, or their difference is one */
    for (uint64_t i = 0; i < 5; i++)
      numbers[i] = first * first * first + (i + 1) * (first % 7 + 1);
    no_object(w, numbers);
  }
  for (uint64_t first = 1; first < 200; first++) {
    for (int i = 0; i < 5; i++) {
      double value = (double)first / (i + 1);
      memcpy(&numbers[i], &value, 8);
    }
    no_object(w, numbers);
  }
}

/* Counting goes on when 64 bits overflow. */
static void full_counts(void **state) {
  struct world *w = *state;
  const uint64_t last = (UINT64_C(1) << 51) * DMI_SYNC_UNIT, two = 2;
  const uint64_t turn = last + DMI_SYNC_UNIT;
  struct dmi_tickets tickets = {last, last};
  struct own take = rmw(DMI_RMW_TICKET, 3, sizeof(tickets), 0, 8);
  struct own wait = rmw(DMI_RMW_TURN, 3, sizeof(tickets), 8, 8);
  struct own signal = rmw(DMI_RMW_SIGNAL, 3, sizeof(tickets), 8, 0);
  write_bytes(w, &tickets, sizeof(tickets));
  begin_with(w, 1, &take, NULL);
  begin_with(w, 1, &wait, &turn);
  (void)settle(w);
  assert_true(take.done && take.req.error == DMI_OK && !wait.done);
  begin_with(w, 0, &signal, &two);
  (void)settle(w);
  assert_true(wait.done && wait.req.error == DMI_OK);
}

/* Nothing is sent until the watched bytes are written; then one answer is. */
static void watch(void **state) {
  struct world *w = *state;
  struct own see = rmw(DMI_RMW_WATCH, 10, 4, 4, 4), write;
  const unsigned char zeros[4] = {0};
  begin_with(w, 1, &see, zeros);
  assert_int_equal(settle(w), 1);
  memset(&write, 0, sizeof(write));
  for (uint64_t off = 0; off < 14;
       off += 7) { /* beside it: [0, 7), then [7, 14), with zeros there */
    write.req = (struct dmi_req){.type = DMI_REQ_PUT, .off = off, .len = 7};
    memset(write.input, off ? 0 : 1, 7);
    write.req.src = (struct dmi_slice){NULL, write.input, 7};
    begin(w, 2, &write);
    assert_int_equal(settle(w), 2);
    assert_true(write.done && !see.done);
  }
  assert_false(dmi_page_writable(&w->proc[0].core, &w->proc[0].page)); /* a write here is no hit */
  write.req = (struct dmi_req){.type = DMI_REQ_PUT, .off = 13, .len = 1};
  write.input[0] = 9;
  write.req.src = (struct dmi_slice){NULL, write.input, 1};
  begin(w, 0, &write);
  assert_int_equal(settle(w), 1);
  assert_true(see.done);
  assert_memory_equal(see.answer, "\0\0\0\x09", 4);
  assert_true(dmi_page_writable(&w->proc[0].core, &w->proc[0].page));
}

/* The mapping is freed: operations that wait fail. */
static void freed(void **state) {
  struct world *w = *state;
  struct own held = begin_lock_into(), own = begin_lock_into(), other = begin_lock_into();
  struct dmi_out out;
  begin_with(w, 0, &held, NULL);
  begin_with(w, 0, &own, NULL);
  begin_with(w, 1, &other, NULL);
  (void)settle(w);
  dmi_out_init(&out);
  dmi_page_kill(&w->proc[0].core, &w->proc[0].page, &out);
  act(w, &w->proc[0], &out);
  (void)settle(w);
  assert_true(own.done && own.req.error == DMI_EADDR);
  assert_true(other.done && other.req.error == DMI_EADDR);
}

static void stop_at(struct world *w, uint32_t who) {
  struct proc *proc = &w->proc[who];
  struct dmi_out out;
  dmi_out_init(&out);
  atomic_store(&proc->core.stopping, 1);
  dmi_page_wait_stop(&proc->core, &proc->page, &out);
  dmi_page_check(&proc->core, &proc->page);
  act(w, proc, &out);
}

/* DMI_exit: what waits at the owner fails, and what would begin to; locks are waited for. */
static void stopping(void **state) {
  struct world *w = *state;
  struct own turn = rmw(DMI_RMW_TURN, 3, sizeof(struct dmi_tickets), 8, 8), later = turn,
             watch = rmw(DMI_RMW_WATCH, 30, 8, 8, 8), held = begin_lock_into(),
             lock = begin_lock_into(), done,
             arrive =
                 rmw(DMI_RMW_ARRIVE, 5, sizeof(struct dmi_round), 16, sizeof(struct dmi_arrived));
  const uint64_t ticket = 7 * DMI_SYNC_UNIT, zero = 0;
  struct {
    uint64_t pnum;
    double value;
  } input = {2, 1};
  turn.req.off = later.req.off = 20; /* the lock is at 3 */
  arrive.req.off = 24;
  begin_with(w, 0, &held, NULL);
  begin_with(w, 1, &turn, &ticket);
  begin_with(w, 0, &watch, &zero);
  begin_with(w, 2, &lock, NULL);
  (void)settle(w);
  assert_false(turn.done || watch.done || lock.done);
  stop_at(w, 0);
  (void)settle(w);
  assert_true(turn.done && turn.error == DMI_EEND);
  assert_true(watch.done && watch.error == DMI_EEND);
  assert_false(lock.done);
  begin_with(w, 2, &later, &ticket);
  begin_with(w, 1, &arrive, &input);
  (void)settle(w);
  assert_true(later.done && later.error == DMI_EEND);
  assert_true(arrive.done && arrive.error == DMI_EEND);
  unlock(w, &held, &done);
  (void)settle(w);
  assert_true(lock.done && lock.error == DMI_OK);
}

/* One that waits at an owner that has not heard of DMI_exit moves to one that has. */
static void stopping_moves(void **state) {
  struct world *w = *state;
  struct own turn = rmw(DMI_RMW_TURN, 3, sizeof(struct dmi_tickets), 8, 8), done;
  const uint64_t ticket = 7 * DMI_SYNC_UNIT;
  const int64_t one = 1;
  begin_with(w, 1, &turn, &ticket);
  (void)settle(w);
  stop_at(w, 2);
  stop_at(w, 1);
  (void)settle(w);
  assert_false(turn.done);
  done = rmw(DMI_RMW_FAD, 40, 8, 8, 8); /* elsewhere in the page */
  done.req.type = DMI_REQ_ATOMIC_EXCL;
  begin_with(w, 2, &done, &one);
  (void)settle(w);
  assert_true(done.done && done.error == DMI_OK);
  assert_true(turn.done && turn.error == DMI_EEND);
}

/* A faulty peer: operations that move with the ownership must come to a process that waits for it.
 */
static void forged(void **state) {
  struct world *w = *state;
  const uint64_t ticket = 7 * DMI_SYNC_UNIT;
  struct dmi_rmw_sizes sizes = {8, 0, 8};
  struct dmi_msg msg = {
      .type = DMI_MSG_ATOMIC, .flags = DMI_F_WAITING, .origin = 2, .map = LINE_MAP};
  struct dmi_out out;
  msg.atomic = (struct dmi_msg_atomic){.len = sizeof(struct dmi_tickets), .rmw = DMI_RMW_TURN};
  msg.list = (struct dmi_slice){NULL, (const unsigned char *)&sizes, sizeof(sizes)};
  msg.body = (struct dmi_slice){NULL, (const unsigned char *)&ticket, sizeof(ticket)};
  for (uint32_t i = 0; i < 2; i++) { /* at the owner; at one that has no role */
    dmi_out_init(&out);
    assert_false(dmi_page_message(&w->proc[i].core, &w->proc[i].page, 3, &msg, NULL, &out));
    assert_int_equal(out.num, 0);
  }
  msg.flags = 0;
  msg.atomic.len = 8; /* too short for its kind */
  dmi_out_init(&out);
  assert_false(dmi_page_message(&w->proc[0].core, &w->proc[0].page, 3, &msg, NULL, &out));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(uncontended, setup, teardown),
      cmocka_unit_test_setup_teardown(hand_over, setup, teardown),
      cmocka_unit_test_setup_teardown(moves, setup, teardown),
      cmocka_unit_test_setup_teardown(barrier, setup, teardown),
      cmocka_unit_test_setup_teardown(beyond, setup, teardown),
      cmocka_unit_test_setup_teardown(no_objects, setup, teardown),
      cmocka_unit_test_setup_teardown(full_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(watch, setup, teardown),
      cmocka_unit_test_setup_teardown(freed, setup, teardown),
      cmocka_unit_test_setup_teardown(stopping, setup, teardown),
      cmocka_unit_test_setup_teardown(stopping_moves, setup, teardown),
      cmocka_unit_test_setup_teardown(forged, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
