/*
 * delegate_test.c - pages passed on by readers (docs/protocol.md R13), step by step: which process
 * sends how often, the hint, BLOCKs that a correct peer does not send, and that nothing is left
 * over.
 *
 * Runs the cores of several processes; the test delivers each message itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/page.h"
#include "dmi_api.h"

#define LINE 4096 /* messages in flight */
#define PROCS 65
#define PAGE 1024
#include "page_line.h"

#define BLOCK 256

struct proc {
  struct dmi_core core;
  struct dmi_page page;
  struct dmi_map map;
  struct dmi_req read;
  bool done;
  unsigned char got[PAGE];
};

struct world {
  struct proc proc[PROCS]; /* uid: index + 1; 0 is home and owner */
  struct line line;
  uint32_t transfers[PROCS]; /* DATA, or a BLOCK at offset 0, by sender */
};

static void act(struct world *w, struct proc *proc, struct dmi_out *out) {
  for (uint32_t i = 0; i < out->num; i++) {
    struct dmi_act *a = &out->act[i];
    if (a->type == DMI_ACT_COMPLETE) {
      struct proc *own = (struct proc *)(void *)((char *)a->req - offsetof(struct proc, read));
      assert_false(own->done);
      own->done = true;
      continue;
    }
    line_put(&w->line, proc->core.self, a);
    if (a->msg.type == DMI_MSG_DATA || (a->msg.type == DMI_MSG_BLOCK && a->msg.block.off == 0))
      w->transfers[proc->core.self - 1]++;
  }
  dmi_out_free(out);
}

/* Gives one message to process `who`.  Returns the core's result. */
static bool hand(struct world *w, uint32_t who, uint32_t from, struct dmi_msg *msg) {
  struct proc *proc = &w->proc[who];
  struct dmi_out out;
  bool good;
  dmi_out_init(&out);
  good = dmi_page_message(&proc->core, &proc->page, from, msg, NULL, &out);
  if (!good) dmi_slice_drop(&msg->body);
  dmi_page_check(&proc->core, &proc->page);
  act(w, proc, &out);
  return good;
}

static void deliver(struct world *w) {
  struct dmi_msg msg;
  uint32_t to, from = line_take(&w->line, &msg, &to);
  assert_true(hand(w, to - 1, from, &msg));
}

static void settle(struct world *w) {
  while (line_any(&w->line))
    deliver(w);
  line_end(&w->line);
}

/* Takes the oldest message away without delivering it; it must be of this type. */
static struct dmi_msg take(struct world *w, uint8_t type) {
  struct dmi_msg msg;
  uint32_t to;
  (void)line_take(&w->line, &msg, &to);
  assert_int_equal(msg.type, type);
  return msg;
}

static void reads(struct world *w, uint32_t who) {
  struct proc *proc = &w->proc[who];
  struct dmi_out out;
  proc->done = false;
  memset(&proc->read, 0, sizeof(proc->read));
  memset(proc->got, 0, sizeof(proc->got));
  proc->read.type = DMI_REQ_READ;
  proc->read.kind = DMI_KIND_INVALIDATE;
  proc->read.len = PAGE;
  proc->read.dst = proc->got;
  dmi_out_init(&out);
  dmi_page_begin(&proc->core, &proc->page, &proc->read, &out);
  act(w, proc, &out);
}

static unsigned char want(uint64_t at) {
  return (unsigned char)(at * 7 + at / 256 + 1);
}

static void has_read(struct world *w, uint32_t who) {
  assert_true(w->proc[who].done);
  for (uint64_t i = 0; i < PAGE; i++)
    assert_int_equal(w->proc[who].got[i], want(i));
}

static int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  unsigned char bytes[PAGE];
  for (uint64_t i = 0; i < PAGE; i++)
    bytes[i] = want(i);
  for (uint32_t i = 0; w && i < PROCS; i++) {
    struct proc *proc = &w->proc[i];
    proc->core.hop = PAGE; /* one page here corresponds to 256 KiB in the product */
    proc->core.block = BLOCK;
    line_open(&proc->core, &proc->map, &proc->page, i);
  }
  if (w) assert_true(dmi_page_write_now(&w->proc[0].core, &w->proc[0].page, 0, bytes, PAGE));
  *state = w;
  return w ? 0 : -1;
}

static int teardown(void **state) {
  struct world *w = *state;
  line_drop(&w->line);
  for (uint32_t i = 0; i < PROCS; i++)
    dmi_page_fini(&w->proc[i].core, &w->proc[i].page);
  free(w);
  assert_int_equal(dmi_frame_total(), 0); /* no frame is left, also no assembly */
  return 0;
}

static uint32_t log2_up(uint32_t number) {
  uint32_t log = 0;
  while (1u << log < number)
    log++;
  return log;
}

/* With k readers: counts the owner's transfers, and the most of any reader; all together send k.
 */
static void tree(struct world *w, uint32_t k, uint64_t hop, uint32_t *owner, uint32_t *most) {
  uint32_t sum = 0;
  memset(w->transfers, 0, sizeof(w->transfers));
  for (uint32_t i = 0; i <= k; i++)
    w->proc[i].core.hop = hop;
  for (uint32_t i = 1; i <= k; i++)
    reads(w, i);
  settle(w);
  *most = 0;
  for (uint32_t i = 0; i <= k; i++) {
    sum += w->transfers[i];
    if (i && w->transfers[i] > *most) *most = w->transfers[i];
    if (i) has_read(w, i);
  }
  assert_int_equal(sum, k);
  *owner = w->transfers[0];
}

static void one_tree(uint32_t k, uint64_t hop, uint32_t *owner, uint32_t *most) {
  void *state = NULL;
  assert_int_equal(setup(&state), 0);
  tree(state, k, hop, owner, most);
  assert_int_equal(teardown(&state), 0);
}

/* The limit of transfers, for every k: the owner sends small pages, large ones are passed on in a
 * chain. */
static void bound(void **state) {
  uint32_t owner, most;
  (void)state;
  for (uint32_t k = 1; k < PROCS; k++) {
    one_tree(k, PAGE, &owner, &most); /* 256 KiB */
    assert_true(owner <= log2_up(k + 1));
    one_tree(k, PAGE / 4, &owner, &most); /* 1 MiB */
    assert_true(owner <= log2_up(k + 1));
    one_tree(k, PAGE / 256, &owner, &most); /* 64 MiB */
    assert_int_equal(owner, 1);
    assert_true(most <= 1);
    one_tree(k, 64 * PAGE, &owner, &most); /* 4 KiB */
    assert_int_equal(owner, k < 64 ? k : 64);
  }
}

/* NEAR readers are on the owner's host, from uid `near_from` on. */
#define NEAR 3
static uint32_t near_from;
static bool some_are_near(void *arg, uint32_t uid) {
  (void)arg;
  return uid >= near_from && uid < near_from + NEAR;
}

/* With k readers elsewhere, and NEAR before or behind them. */
static void one_near(uint32_t k, bool before, uint64_t hop) {
  void *state = NULL;
  struct world *w;
  uint32_t alone = 0, owner, most;
  if (k) one_tree(k, hop, &alone, &most);
  assert_int_equal(setup(&state), 0);
  w = state;
  near_from = before ? 2 : 2 + k;
  w->proc[0].core.is_near = some_are_near;
  tree(w, k + NEAR, hop, &owner, &most);
  assert_int_equal(owner, alone + NEAR);
  for (uint32_t i = near_from - 1; i < near_from - 1 + NEAR; i++)
    assert_int_equal(w->transfers[i], 0);
  assert_int_equal(teardown(&state), 0);
}

/* The owner sends to its own host's processes itself, and they pass nothing on; the others have
 * their tree, as if nobody else were there. */
static void near_owner(void **state) {
  (void)state;
  for (uint32_t k = 0; k + NEAR < PROCS; k++) {
    for (int before = 0; before < 2; before++) {
      one_near(k, before, PAGE / 256); /* 64 MiB */
      one_near(k, before, PAGE);       /* 256 KiB */
    }
  }
}

/* Process 1 reads, and has a copy then. */
static void copy_at_1(struct world *w) {
  reads(w, 1);
  settle(w);
  has_read(w, 1);
}

/* The sender of DATA does not become the hint if it is not the owner. */
static void hint(void **state) {
  struct world *w = *state;
  w->proc[0].core.hop = 1;
  copy_at_1(w);
  reads(w, 2);
  deliver(w); /* READ at the owner */
  assert_int_equal(w->line.msg[w->line.first].type, DMI_MSG_DELEGATE);
  assert_int_equal(w->line.to[w->line.first], 2);
  settle(w);
  has_read(w, 2);
  assert_int_equal(w->transfers[1], 1);
  assert_int_equal(w->proc[1].page.hint, 1);
  assert_int_equal(w->proc[2].page.hint, 0);
}

/* The copy has been dropped: the READ goes back with DIRECT, and the owner sends. */
static void dropped(void **state) {
  struct world *w = *state;
  w->proc[0].core.hop = 1;
  copy_at_1(w);
  assert_true(dmi_page_drop(&w->proc[1].core, &w->proc[1].page));
  reads(w, 2);
  settle(w);
  has_read(w, 2);
  assert_int_equal(w->transfers[0], 2);
}

/* DATA for 1 is in flight, and 2's READ waits for it at 1.  Returns the DATA. */
static struct dmi_msg delegated(struct world *w) {
  struct dmi_msg data;
  w->proc[0].core.hop = 1;
  reads(w, 1);
  deliver(w);
  data = take(w, DMI_MSG_DATA);
  reads(w, 2);
  deliver(w); /* READ */
  deliver(w); /* DELEGATE */
  assert_false(line_any(&w->line));
  assert_non_null(w->proc[1].page.busy->delegated);
  return data;
}

static void part(struct world *w, const struct dmi_msg *data, uint64_t got) {
  struct dmi_out out;
  dmi_out_init(&out);
  dmi_page_part(&w->proc[1].core, &w->proc[1].page, data, 0, got, &out);
  act(w, &w->proc[1], &out);
}

/* BLOCKs are passed on while the page arrives, but only whole ones. */
static void arriving(void **state) {
  struct world *w = *state;
  struct dmi_msg data = delegated(w);
  part(w, &data, BLOCK - 1);
  assert_false(line_any(&w->line));
  part(w, &data, 2 * BLOCK + 1);
  assert_int_equal(w->line.last - w->line.first, 2);
  settle(w);
  assert_false(w->proc[2].done);
  assert_true(hand(w, 1, 1, &data));
  assert_int_equal(w->line.last - w->line.first, 2);
  settle(w);
  has_read(w, 1);
  has_read(w, 2);
}

/* The fetch ends in another way when half of the page was passed on: the reader gets it from the
 * owner. */
static void gives_up(void **state) {
  struct world *w = *state;
  struct dmi_msg data = delegated(w), fail = {.type = DMI_MSG_FAIL};
  part(w, &data, 2 * BLOCK);
  settle(w);
  fail.fail = (struct dmi_msg_fail){.fetch = data.data.fetch, .error = DMI_ENOMEM};
  assert_true(hand(w, 1, 1, &fail));
  assert_int_equal(w->line.msg[w->line.first].type, DMI_MSG_READ);
  assert_true(w->line.msg[w->line.first].flags & DMI_F_DIRECT);
  settle(w);
  assert_int_equal(w->proc[1].read.error, DMI_ENOMEM);
  has_read(w, 2);
  assert_true(hand(w, 1, 1, &data)); /* late, and ignored */
  assert_int_equal(w->proc[1].page.copy, 0);
}

/* The mapping is unmapped while others wait: they are told. */
static void unmapped(void **state) {
  struct world *w = *state;
  struct dmi_msg data = delegated(w);
  struct dmi_out out;
  dmi_slice_drop(&data.body);
  dmi_out_init(&out);
  dmi_page_kill(&w->proc[1].core, &w->proc[1].page, &out);
  act(w, &w->proc[1], &out);
  assert_int_equal(w->line.msg[w->line.first].type, DMI_MSG_FAIL);
  settle(w);
  assert_true(w->proc[2].done);
  assert_int_equal(w->proc[2].read.error, DMI_EADDR);
}

static struct dmi_msg block(const struct world *w, uint64_t off, uint64_t len) {
  static unsigned char bytes[PAGE];
  struct dmi_msg msg = {
      .type = DMI_MSG_BLOCK, .flags = DMI_F_DELEGATED, .origin = 3, .map = LINE_MAP};
  msg.block = (struct dmi_msg_block){.fetch = w->proc[2].page.busy->fetch,
                                     .kind = DMI_KIND_INVALIDATE,
                                     .version = {1},
                                     .off = off};
  for (uint64_t i = 0; i < PAGE; i++)
    bytes[i] = want(i);
  msg.body = (struct dmi_slice){NULL, bytes + (off < PAGE ? off : 0), len};
  return msg;
}

/* Messages that a correct peer does not send are refused, and change nothing. */
static void malformed(void **state) {
  struct world *w = *state;
  static const uint64_t bad[][2] = {{0, 0},          {PAGE, 1},          {1, PAGE},
                                    {0, PAGE + 1},   {UINT64_MAX, 2},    {2, UINT64_MAX},
                                    {UINT64_MAX, 1}, {UINT64_MAX - 1, 3}};
  struct dmi_msg msg;
  struct dmi_msg data = delegated(w);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    msg = block(w, bad[i][0], bad[i][1]);
    assert_null(dmi_page_block_body(&w->proc[2].core, &w->proc[2].page, 2, &msg));
    assert_false(hand(w, 2, 2, &msg));
  }
  msg = block(w, 0, 10);
  msg.block.kind = 0;
  assert_false(hand(w, 2, 2, &msg));
  msg = block(w, 0, 100);
  assert_true(hand(w, 2, 2, &msg));
  static const uint64_t next[][2] = {{0, 100}, {99, 10}, {101, 10}, {50, 500}, {200, 824}};
  for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
    msg = block(w, next[i][0], next[i][1]);
    assert_false(hand(w, 2, 2, &msg)); /* overlap, gap */
  }
  msg = block(w, 100, 100);
  msg.block.version.n = 2;
  assert_false(hand(w, 2, 2, &msg));
  msg = block(w, 0, PAGE);
  assert_true(hand(w, 2, 4, &msg)); /* another sender: ignored */
  assert_false(w->proc[2].done);
  msg = block(w, 100, PAGE - 100);
  msg.block.fetch.n++;
  assert_true(hand(w, 2, 2, &msg)); /* another fetch: ignored */
  assert_false(w->proc[2].done);
  msg = block(w, 100, PAGE - 100);
  assert_true(hand(w, 2, 2, &msg));
  has_read(w, 2);
  dmi_slice_drop(&data.body);
}

/* A body is received at its place, and the place lives as long as the message. */
static void in_place(void **state) {
  struct world *w = *state;
  struct dmi_msg data = delegated(w), msg = block(w, 0, 100), second;
  unsigned char *place = dmi_page_block_body(&w->proc[2].core, &w->proc[2].page, 2, &msg);
  assert_non_null(place);
  memcpy(place, msg.body.ptr, 100);
  msg.body.ptr = place;
  assert_true(hand(w, 2, 2, &msg));
  second = block(w, 100, PAGE - 100);
  place = dmi_page_block_body(&w->proc[2].core, &w->proc[2].page, 2, &second);
  assert_non_null(place);
  assert_true(hand(w, 1, 1, &data)); /* meanwhile the fetch ends by this */
  settle(w);
  has_read(w, 2);
  memcpy(place, second.body.ptr, PAGE - 100);
  second.body.ptr = place;
  assert_true(hand(w, 2, 2, &second));
  has_read(w, 2);
}

/* If there is no memory for the bytes of a BLOCK (its body was dropped), the read fails. */
static void no_memory(void **state) {
  struct world *w = *state;
  struct dmi_msg data = delegated(w), msg = block(w, 0, 100);
  msg.body.ptr = NULL;
  assert_true(hand(w, 2, 2, &msg));
  assert_true(w->proc[2].done);
  assert_int_equal(w->proc[2].read.error, DMI_ENOMEM);
  dmi_slice_drop(&data.body);
}

/* A correct peer does not send bytes with the flag for zeros, or that a copyset cannot have: the
 * page would be too small. */
static void bytes_that_cannot_be(void **state) {
  struct world *w = *state;
  struct dmi_holder holder = {3, 7};
  struct dmi_msg msg;
  dmi_fetch_t fetch;
  reads(w, 1);
  msg = take(w, DMI_MSG_READ);
  fetch = msg.read.fetch;
  msg.read.fetch = (dmi_fetch_t){0}; /* its answer would look like that of an operation */
  assert_false(hand(w, 1, 2, &msg));
  msg = (struct dmi_msg){.type = DMI_MSG_DATA,
                         .flags = DMI_F_ZERO,
                         .origin = 2,
                         .map = msg.map,
                         .body = dmi_slice_copy("8 bytes.", 8)};
  msg.data = (struct dmi_msg_data){.fetch = fetch, .kind = DMI_KIND_INVALIDATE};
  assert_false(hand(w, 1, 1, &msg));
  assert_false(w->proc[1].done);
  w->proc[2].page.role = DMI_ROLE_PENDING;
  w->proc[2].page.flags = DMI_PAGE_ZEROS; /* which needs no memory */
  for (int i = 0; i < 3; i++) {
    static const uint8_t flags[] = {DMI_F_ZERO, DMI_F_HAVE, 0};
    msg = (struct dmi_msg){.type = DMI_MSG_GRANT, .flags = flags[i], .origin = 3, .map = msg.map};
    msg.body = dmi_slice_copy("8 bytes.", 8);
    assert_false(hand(w, 2, 1, &msg));
  }
  msg = (struct dmi_msg){.type = DMI_MSG_GRANT, .flags = DMI_F_ZERO, .origin = 3, .map = msg.map};
  msg.list = (struct dmi_slice){NULL, (unsigned char *)&holder, sizeof holder};
  assert_false(hand(w, 2, 1, &msg));
  w->proc[2].page.role = DMI_ROLE_NONE;
  w->proc[2].page.flags = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bound),
      cmocka_unit_test(near_owner),
      cmocka_unit_test_setup_teardown(hint, setup, teardown),
      cmocka_unit_test_setup_teardown(dropped, setup, teardown),
      cmocka_unit_test_setup_teardown(arriving, setup, teardown),
      cmocka_unit_test_setup_teardown(bytes_that_cannot_be, setup, teardown),
      cmocka_unit_test_setup_teardown(gives_up, setup, teardown),
      cmocka_unit_test_setup_teardown(unmapped, setup, teardown),
      cmocka_unit_test_setup_teardown(malformed, setup, teardown),
      cmocka_unit_test_setup_teardown(in_place, setup, teardown),
      cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
