/*
 * remote_pool_test.c - the pool of a server: one event after the other, and what it asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dmi_api.h"
#include "remote/pool.h"

#define ME 5u
#define OTHER 6u
static const dmi_remote_client_t client = {.process = 1, .n = 1};

/* ---- Actions as text ------------------------------------------------------------------------ */

static char said[4096]; /* what the last event asked for */
static struct dmi_remote_fetch *fetch[16];
static struct dmi_remote_run *run[16]; /* by number of the call modulo 16 */

static void say(const char *format, ...) {
  size_t used = strlen(said);
  va_list args;
  va_start(args, format);
  if (used) said[used++] = ' ';
  vsnprintf(said + used, sizeof(said) - used, format, args);
  va_end(args);
}

static void note(const struct dmi_remote_pool_action *a) {
  switch (a->type) {
    case DMI_REMOTE_SEND_HAVE:
      say(a->result.state == DMI_REMOTE_FAILED ? "have%d:%d!" : "have%d:%d", (int)a->number,
          (int)a->to);
      if (a->bytes) say("with%s", (const char *)a->bytes);
      break;
    case DMI_REMOTE_SEND_DONE:
      say(a->why ? "failed%d" : "done%d", (int)a->call->number);
      break;
    case DMI_REMOTE_SEND_RETURN:
      say("return%d/%d", (int)a->call->number, (int)a->reason);
      break;
    case DMI_REMOTE_SEND_STOLEN:
      say("stolen");
      break;
    case DMI_REMOTE_SEND_FIRED:
      say("fired%d", (int)a->call->number);
      break;
    case DMI_REMOTE_COMPLETE:
      break;
    case DMI_REMOTE_FETCH:
      say("fetch%d@%d", (int)a->fetch->number, (int)a->fetch->addr);
      if (a->fetch->carried) say("has%s", (const char *)a->fetch->carried);
      fetch[a->fetch->number % 16] = a->fetch;
      break;
    case DMI_REMOTE_RELEASE:
      say("release%d", (int)a->fetch->number);
      break;
    case DMI_REMOTE_RUN:
      say("run%d", (int)a->run->call->number);
      run[a->run->call->number % 16] = a->run;
      break;
    case DMI_REMOTE_FREE:
      say(a->retire ? "retire%d@%d" : "free%d@%d", (int)a->number, (int)a->result.addr);
      break;
    case DMI_REMOTE_EMPTY:
      say("empty");
  }
}

/* Takes out the actions of the last event. */
static void drain(struct dmi_remote_pool *pool) {
  const struct dmi_remote_pool_action *action;
  while ((action = dmi_remote_pool_next(pool)) != NULL)
    note(action);
}

/* Compares what was asked for since the last call. */
static void expect(struct dmi_remote_pool *pool, const char *text) {
  drain(pool);
  assert_string_equal(said, text);
  said[0] = 0;
}

/* ---- Events --------------------------------------------------------------------------------- */

static uint64_t seq;
static uint32_t flags; /* of calls */

static struct dmi_remote_pool *new_pool(uint32_t cores, uint64_t limit) {
  seq = 0;
  return dmi_remote_pool_new(
      &(struct dmi_remote_pool_config){.self = ME, .cores = cores, .limit = limit});
}

/* A call with up to two inputs (number; addr 0: pending) of 10 bytes and one output of 10. */
static bool call(struct dmi_remote_pool *pool, uint64_t number, uint64_t output, uint64_t a,
                 int64_t a_addr, uint64_t b, int64_t b_addr) {
  struct dmi_remote_input in[2] = {
      {a, 1, {a_addr ? DMI_REMOTE_DONE : DMI_REMOTE_PENDING, a_addr, 10, NULL}, false},
      {b, 1, {b_addr ? DMI_REMOTE_DONE : DMI_REMOTE_PENDING, b_addr, 10, NULL}, false}};
  struct dmi_remote_output out = {.number = output, .at = {DMI_REMOTE_PENDING, 0, 10, NULL}};
  struct dmi_remote_call it = {.client = client,
                               .number = number,
                               .seq = ++seq,
                               .gen = 1,
                               .flags = flags,
                               .input_num = a ? b ? 2 : 1 : 0,
                               .output_num = output != 0,
                               .inputs = in,
                               .outputs = &out,
                               .args = "xy",
                               .arg_size = 3};
  bool good = dmi_remote_pool_call(pool, &it);
  drain(pool);
  return good;
}

/* The second call: of these outputs, and this input or none. */
static bool call_of_two(struct dmi_remote_pool *pool, uint64_t first, uint64_t second,
                        uint64_t in) {
  struct dmi_remote_input input = {in, 1, {DMI_REMOTE_PENDING, 0, 10, NULL}, false};
  struct dmi_remote_output out[2] = {{.number = first}, {.number = second}};
  return dmi_remote_pool_call(pool, &(struct dmi_remote_call){.client = client,
                                                              .number = 3,
                                                              .seq = 2,
                                                              .gen = 1,
                                                              .input_num = in != 0,
                                                              .output_num = 2,
                                                              .inputs = &input,
                                                              .outputs = out});
}

static void done(struct dmi_remote_pool *pool, uint64_t number, int64_t addr) {
  struct dmi_remote_result made = {DMI_REMOTE_DONE, addr, 10, NULL};
  dmi_remote_pool_done(pool, run[number % 16], &made, 1000);
}

static void have(struct dmi_remote_pool *pool, uint64_t number, int64_t addr, uint64_t at_seq) {
  struct dmi_remote_result at = {DMI_REMOTE_DONE, addr, 10, NULL};
  assert_true(dmi_remote_pool_have(pool, client, number, 1, at_seq, &at, NULL));
  drain(pool);
}

static void drop(struct dmi_remote_pool *pool, uint64_t number) {
  assert_true(dmi_remote_pool_drop(pool, client, number, false));
  drain(pool);
}

static void ends(struct dmi_remote_pool *pool) {
  struct dmi_remote_pool_counts counts = dmi_remote_pool_counts(pool);
  assert_int_equal(counts.calls, 0);
  assert_int_equal(counts.values, 0);
  assert_int_equal(counts.made, 0);
  assert_int_equal(counts.used, 0);
  assert_int_equal(counts.carried, 0);
  dmi_remote_pool_free(pool);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void test_run(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_memory_equal(run[1]->call->args, "xy", 3);
  assert_true(call(pool, 3, 4, 2, 0, 0, 0)); /* needs what call 1 makes */
  assert_true(call(pool, 5, 6, 0, 0, 0, 0));
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_load(pool, client).ready, 1);
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 9));
  expect(pool, "");
  done(pool, 1, 100);
  expect(pool, "have2:6 done1 fetch2@100 run5");
  assert_true(fetch[2]->here);
  dmi_remote_pool_fetched(pool, fetch[2], true);
  expect(pool, "");
  done(pool, 5, 200);
  expect(pool, "done5 run3");
  assert_ptr_equal(run[3]->inputs[0], fetch[2]);
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 10)); /* it is made already */
  expect(pool, "have2:6");
  done(pool, 3, 300);
  expect(pool, "release2 done3");
  for (uint64_t n = 2; n <= 6; n += 2)
    drop(pool, n);
  expect(pool, "free2@100 free4@300 free6@200");
  ends(pool);
}

static void test_bad_calls(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_false(call(pool, 3, 2, 0, 0, 0, 0)); /* another call makes that */
  assert_false(call(pool, 3, 4, 4, 0, 0, 0)); /* needs itself; and its number is wrong now */
  seq = 1;
  assert_false(call(pool, 3, 4, 4, 0, 0, 0)); /* needs itself */
  assert_false(call_of_two(pool, 5, 4, 0));   /* does not count */
  assert_false(call_of_two(pool, 4, 4, 0));
  assert_false(call_of_two(pool, 4, 6, 6));
  assert_false(call_of_two(pool, 4, 6, 5));
  seq = 1;
  assert_true(call(pool, 3, 4, 0, 0, 0, 0));
  assert_false(dmi_remote_pool_have(pool, client, 9, 1, 1, &(struct dmi_remote_result){0}, NULL));
  assert_false(dmi_remote_pool_want(pool, client, 2, 0, 1));
  expect(pool, "");
  dmi_remote_pool_close(pool, client);
  expect(pool, "");
  done(pool, 1, 100); /* it ran on */
  expect(pool, "free2@100");
  seq = 0;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0)); /* of a client that has closed: nothing */
  have(pool, 7, 100, 5);
  expect(pool, "");
  ends(pool);
}

static void test_race(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  have(pool, 7, 100, 2); /* ahead of the second CALL */
  assert_int_equal(dmi_remote_pool_counts(pool).values, 1);
  assert_true(call(pool, 1, 0, 7, 0, 0, 0));
  expect(pool, "fetch7@100");
  dmi_remote_pool_fetched(pool, fetch[7], true);
  expect(pool, "run1");
  dmi_remote_pool_done(pool, run[1], NULL, 1);
  expect(pool, "release7 done1");
  assert_int_equal(dmi_remote_pool_counts(pool).values, 1); /* for the second one */
  assert_true(call(pool, 2, 0, 7, 0, 0, 0));
  expect(pool, "fetch7@100");
  dmi_remote_pool_fetched(pool, fetch[7], true);
  expect(pool, "run2");
  dmi_remote_pool_done(pool, run[2], NULL, 1);
  expect(pool, "release7 done2");
  have(pool, 7, 100, 2); /* late */
  have(pool, 8, 100, 1);
  expect(pool, "");
  ends(pool);
}

static void test_memory(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 50);
  (void)state;
  assert_true(call(pool, 1, 2, 101, 1, 102, 2)); /* 30 bytes */
  expect(pool, "fetch101@1 fetch102@2");
  assert_true(call(pool, 3, 4, 102, 2, 103, 3)); /* 20 more */
  expect(pool, "fetch103@3");
  assert_true(call(pool, 5, 6, 104, 4, 0, 0)); /* waits for memory */
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_counts(pool).used, 50);
  for (uint64_t n = 101; n <= 103; n++) {
    dmi_remote_pool_fetched(pool, fetch[n % 16], true);
    drain(pool);
  }
  expect(pool, "run1");
  done(pool, 1, 200);
  expect(pool, "release101 done1 fetch104@4 run3");
  dmi_remote_pool_waits(pool, run[3]); /* its 30 bytes do not count now, nor its core */
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_counts(pool).used, 20);
  dmi_remote_pool_fetched(pool, fetch[104 % 16], true);
  expect(pool, "run5");
  dmi_remote_pool_resumes(pool, run[3]);
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_counts(pool).used, 50);
  done(pool, 5, 300);
  expect(pool, "release104 done5");
  done(pool, 3, 400);
  expect(pool, "release102 release103 done3");
  for (uint64_t n = 2; n <= 6; n += 2)
    assert_true(dmi_remote_pool_drop(pool, client, n, false)), expect(pool, n == 2   ? "free2@200"
                                                                            : n == 4 ? "free4@400"
                                                                                     : "free6@300");
  ends(pool);
}

/* Bytes that are not lost, but cannot be read. */
static void test_unfetched(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 35);
  struct dmi_remote_why *why = dmi_remote_why_new(DMI_ENOMEM, NULL, "host", "no memory");
  (void)state;
  assert_true(call(pool, 1, 2, 101, 1, 0, 0));
  assert_true(call(pool, 3, 4, 101, 1, 0, 0));
  expect(pool, "fetch101@1");
  assert_true(call(pool, 5, 6, 101, 1, 0, 0)); /* waits for memory: it tries once more */
  expect(pool, "");
  dmi_remote_pool_unfetched(pool, fetch[101 % 16], why);
  expect(pool, "release101 failed1 failed3 fetch101@1");
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 1));
  expect(pool, "have2:6!");
  dmi_remote_pool_fetched(pool, fetch[101 % 16], true);
  expect(pool, "run5");
  done(pool, 5, 100);
  expect(pool, "release101 done5");
  assert_true(call(pool, 7, 8, 102, 2, 0, 0));
  dmi_remote_pool_leave(pool);
  expect(pool, "fetch102@2 return7/1 empty");
  dmi_remote_pool_unfetched(pool, fetch[102 % 16], why); /* nobody waits for it */
  expect(pool, "release102");
  for (uint64_t n = 2; n <= 6; n += 2)
    drop(pool, n);
  expect(pool, "free6@100");
  ends(pool);
  assert_int_equal(why->refs, 1);
  dmi_remote_why_release(why);
}

static void test_too_big(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 29);
  (void)state;
  assert_true(call(pool, 1, 2, 101, 1, 101, 1)); /* twice the same: 20 bytes */
  expect(pool, "fetch101@1");
  assert_true(call(pool, 3, 4, 102, 2, 103, 3));
  expect(pool, "failed3");
  assert_true(dmi_remote_pool_want(pool, client, 4, OTHER, 1));
  expect(pool, "have4:6!");
  assert_true(call(pool, 5, 6, 4, 0, 0, 0)); /* poisoned */
  expect(pool, "failed5");
  dmi_remote_pool_fetched(pool, fetch[101 % 16], true);
  expect(pool, "run1");
  done(pool, 1, 100);
  expect(pool, "release101 done1");
  for (uint64_t n = 2; n <= 6; n += 2)
    drop(pool, n);
  expect(pool, "free2@100");
  ends(pool);
}

static void test_failure(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  struct dmi_remote_why *why = dmi_remote_why_new(DMI_EINVAL, "f", "host", "no");
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  assert_int_equal(why->refs, 1);
  expect(pool, "run1");
  assert_true(call(pool, 3, 4, 2, 0, 101, 1));
  assert_true(call(pool, 5, 6, 4, 0, 0, 0));
  expect(pool, "fetch101@1");
  dmi_remote_pool_failed(pool, run[1], why);
  expect(pool, "failed1 failed3 failed5");
  for (uint64_t n = 2; n <= 6; n += 2)
    drop(pool, n);
  expect(pool, "");
  dmi_remote_pool_fetched(pool, fetch[101 % 16], true);
  expect(pool, "release101");
  ends(pool);
  assert_int_equal(why->refs, 1); /* the pool has given back all of its own */
  dmi_remote_why_release(why);
}

static void test_leave(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_true(call(pool, 3, 4, 2, 0, 0, 0));
  assert_true(call(pool, 5, 6, 101, 1, 0, 0));
  expect(pool, "fetch101@1");
  assert_true(dmi_remote_pool_want(pool, client, 4, OTHER, 1));
  expect(pool, "");
  dmi_remote_pool_leave(pool);
  expect(pool, "return3/1 return5/1");
  assert_true(dmi_remote_pool_want(pool, client, 4, OTHER, 1)); /* not made here any more */
  assert_true(call(pool, 7, 8, 0, 0, 0, 0));
  expect(pool, "return7/1");
  dmi_remote_pool_stay(pool);
  assert_true(call(pool, 7, 8, 2, 0, 0, 0));
  dmi_remote_pool_leave(pool);
  expect(pool, "return7/1");
  dmi_remote_pool_fetched(pool, fetch[101 % 16], true); /* nobody waits for it */
  expect(pool, "release101");
  done(pool, 1, 100);
  expect(pool, "done1 empty");
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 1)); /* until the end */
  expect(pool, "have2:6");
  assert_true(dmi_remote_pool_drop(pool, client, 2, false));
  expect(pool, "free2@100");
  ends(pool);
}

static void test_steal(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  for (uint64_t n = 1; n <= 4; n++)
    assert_true(call(pool, n, 0, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_int_equal(dmi_remote_pool_load(pool, client).ready, 3);
  assert_true(dmi_remote_pool_steal(pool, client, 2, 1000));
  expect(pool, "return4/2 return3/2 stolen");
  assert_true(dmi_remote_pool_steal(pool, client, 5, 1000));
  expect(pool, "return2/2 stolen");
  dmi_remote_pool_done(pool, run[1], NULL, 1);
  expect(pool, "done1");
  assert_int_equal(dmi_remote_pool_counts(pool).fired, 1);
  ends(pool);
}

/* Calls are given back if moving their bytes is sooner than waiting for a core. */
static void test_worth(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 11, 0, 0, 0, 0));
  expect(pool, "run1");
  done(pool, 1, 100); /* in 1 us */
  expect(pool, "done1");
  assert_true(call(pool, 2, 0, 0, 0, 0, 0));
  expect(pool, "run2");
  assert_true(call(pool, 3, 0, 11, 100, 0, 0));
  expect(pool, "fetch11@100");
  dmi_remote_pool_fetched(pool, fetch[11], true);
  expect(pool, "");
  for (uint64_t n = 4; n <= 6; n++)
    assert_true(call(pool, n, 0, 11, 100, 0, 0));
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_load(pool, client).ready, 4);
  assert_true(dmi_remote_pool_steal(pool, client, 9, 3)); /* 10 bytes in 3.3 us: the last one */
  expect(pool, "return6/2 stolen");
  assert_true(dmi_remote_pool_steal(pool, client, 9, 1)); /* 10 us */
  expect(pool, "stolen");
  assert_true(call(pool, 7, 0, 0, 0, 0, 0)); /* it needs nothing */
  assert_true(dmi_remote_pool_steal(pool, client, 9, 1));
  expect(pool, "return7/2 stolen");
  assert_true(dmi_remote_pool_steal(pool, client, 9, 1000));
  expect(pool, "return5/2 return4/2 release11 return3/2 stolen");
  dmi_remote_pool_done(pool, run[2], NULL, 1);
  expect(pool, "done2");
  drop(pool, 11);
  expect(pool, "free11@100");
  ends(pool);
}

static void over(struct dmi_remote_pool *pool, int number) {
  dmi_remote_pool_done(pool, run[number], NULL, 1);
}

/* Calls that may have cost a server are told before they run; those that have cost two run beside
 * no other call, but for what they wait for inside. */
static void test_suspect(void **state) {
  struct dmi_remote_pool *pool = new_pool(2, 0);
  (void)state;
  flags = DMI_REMOTE_SUSPECT;
  assert_true(call(pool, 1, 0, 0, 0, 0, 0));
  expect(pool, "fired1 run1");
  flags |= DMI_REMOTE_ALONE;
  assert_true(call(pool, 2, 0, 0, 0, 0, 0));
  assert_true(call(pool, 3, 0, 0, 0, 0, 0));
  flags = 0;
  assert_true(call(pool, 4, 0, 0, 0, 0, 0));
  assert_true(call(pool, 5, 0, 0, 0, 0, 0));
  expect(pool, ""); /* there is a core, but 1 runs */
  over(pool, 1);
  expect(pool, "done1 fired2 run2");
  dmi_remote_pool_waits(pool, run[2]); /* maybe for 3 */
  expect(pool, "fired3 run3");
  dmi_remote_pool_waits(pool, run[3]); /* maybe for 4 */
  expect(pool, "run5 run4");
  dmi_remote_pool_resumes(pool, run[2]);
  assert_true(call(pool, 6, 0, 0, 0, 0, 0));
  over(pool, 4);
  drain(pool);
  over(pool, 5);
  expect(pool, "done4 done5"); /* 6 does not run beside 2 */
  dmi_remote_pool_resumes(pool, run[3]);
  over(pool, 2);
  expect(pool, "done2"); /* nor beside 3 */
  over(pool, 3);
  expect(pool, "done3 run6");
  over(pool, 6);
  expect(pool, "done6");
  ends(pool);
}

/* What waits inside goes on with a call that runs alone, whose turn comes: 1 waits for 2. */
static void test_alone(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 0, 0, 0, 0, 0));
  assert_true(call(pool, 2, 0, 0, 0, 0, 0));
  flags = DMI_REMOTE_SUSPECT | DMI_REMOTE_ALONE;
  assert_true(call(pool, 3, 0, 0, 0, 0, 0));
  flags = 0;
  expect(pool, "run1");
  dmi_remote_pool_waits(pool, run[1]);
  expect(pool, "fired3 run3");
  over(pool, 3);
  expect(pool, "done3 run2");
  over(pool, 2);
  expect(pool, "done2");
  dmi_remote_pool_resumes(pool, run[1]);
  over(pool, 1);
  expect(pool, "done1");
  ends(pool);
}

static void test_lost(void **state) {
  struct dmi_remote_pool *pool = new_pool(2, 0);
  (void)state;
  assert_true(call(pool, 1, 0, 7, 100, 0, 0));
  expect(pool, "fetch7@100");
  assert_true(call(pool, 2, 0, 7, 0, 8, 0)); /* waits for another one, too */
  expect(pool, "");
  dmi_remote_pool_fetched(pool, fetch[7], false);
  expect(pool, "release7 return1/3 return2/3");
  ends(pool);
  /* It is made again elsewhere, while the old page is tried. */
  pool = new_pool(1, 0);
  assert_true(call(pool, 1, 0, 7, 100, 0, 0));
  expect(pool, "fetch7@100");
  have(pool, 7, 200, 1);
  expect(pool, "");
  dmi_remote_pool_fetched(pool, fetch[7], false);
  expect(pool, "release7 fetch7@200");
  dmi_remote_pool_fetched(pool, fetch[7], true);
  expect(pool, "run1");
  dmi_remote_pool_unread(pool, run[1], 0);
  expect(pool, "release7 return1/3");
  ends(pool);
}

/* A call is done again; one output is still there.  Of another one only the lost page is. */
static void test_again(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  struct dmi_remote_output out[2] = {{.number = 2, .spare = true, .at = {.size = 10}},
                                     {.number = 3, .at = {.size = 10}}};
  struct dmi_remote_call it = {
      .client = client, .number = 1, .seq = 1, .gen = 2, .output_num = 2, .outputs = out};
  struct dmi_remote_result made[2] = {{0}, {DMI_REMOTE_DONE, 300, 10, NULL}};
  (void)state;
  assert_true(dmi_remote_pool_call(pool, &it));
  expect(pool, "run1");
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 1)); /* not made here */
  assert_true(dmi_remote_pool_want(pool, client, 3, OTHER, 1));
  expect(pool, "");
  dmi_remote_pool_done(pool, run[1], made, 1);
  expect(pool, "have3:6 done1");
  have(pool, 3, 400, 2); /* ahead of a CALL; older than the page here */
  assert_true(dmi_remote_pool_drop(pool, client, 3, true));
  expect(pool, "retire3@300");
  seq = 1;
  assert_true(call(pool, 4, 0, 3, 0, 0, 0)); /* finds the lost page, and goes back */
  expect(pool, "fetch3@300");
  dmi_remote_pool_fetched(pool, fetch[3], false);
  expect(pool, "release3 return4/3");
  ends(pool);
}

/* A value was dropped and is made again: its old page may be that of another one. */
static void test_old(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  struct dmi_remote_input in = {.number = 7, .gen = 2, .at = {.size = 10}};
  struct dmi_remote_call it = {
      .client = client, .number = 1, .seq = 1, .gen = 1, .input_num = 1, .inputs = &in};
  struct dmi_remote_result at = {DMI_REMOTE_DONE, 200, 10, NULL};
  (void)state;
  assert_true(dmi_remote_pool_call(pool, &it));
  have(pool, 7, 100, 1); /* of the first generation */
  expect(pool, "");
  assert_true(dmi_remote_pool_have(pool, client, 7, 2, 1, &at, NULL));
  expect(pool, "fetch7@200");
  dmi_remote_pool_fetched(pool, fetch[7], true);
  expect(pool, "run1");
  dmi_remote_pool_done(pool, run[1], NULL, 1);
  expect(pool, "release7 done1");
  /* The call that a fetch was for goes back; what it will bring is not for a later call. */
  seq = 1;
  assert_true(call(pool, 2, 0, 8, 100, 0, 0));
  assert_true(call(pool, 3, 0, 9, 100, 0, 0));
  expect(pool, "fetch8@100 fetch9@100");
  assert_true(dmi_remote_pool_steal(pool, client, 1, UINT64_MAX));
  expect(pool, "return3/2 stolen");
  struct dmi_remote_fetch *old = fetch[9];
  assert_true(call(pool, 4, 0, 9, 300, 0, 0));
  expect(pool, "fetch9@300");
  dmi_remote_pool_fetched(pool, old, true);
  expect(pool, "release9");
  dmi_remote_pool_fetched(pool, fetch[9], true);
  expect(pool, "run4");
  dmi_remote_pool_close(pool, client);
  expect(pool, "");
  dmi_remote_pool_fetched(pool, fetch[8], true);
  expect(pool, "release8");
  dmi_remote_pool_done(pool, run[4], NULL, 1);
  expect(pool, "release9");
  ends(pool);
}

/* Inputs are fetched while others are not known yet, into memory that nobody else needs. */
static void test_ahead(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 60);
  (void)state;
  assert_true(call(pool, 1, 0, 7, 0, 8, 100)); /* it has no output: 20 bytes */
  expect(pool, "fetch8@100");
  flags = DMI_REMOTE_LATE;
  assert_true(call(pool, 2, 0, 7, 0, 9, 200));
  flags = 0;
  expect(pool, "");
  assert_true(call(pool, 3, 0, 7, 0, 10, 300));
  assert_true(call(pool, 4, 0, 7, 0, 11, 400));
  assert_true(call(pool, 5, 0, 7, 0, 12, 500)); /* half is left */
  expect(pool, "fetch10@300 fetch11@400");
  dmi_remote_pool_fetched(pool, fetch[8], true);
  dmi_remote_pool_fetched(pool, fetch[10], true);
  expect(pool, "");
  assert_int_equal(dmi_remote_pool_counts(pool).used, 30);
  /* Calls that are complete take it: what came first goes. */
  assert_true(call(pool, 6, 2, 21, 601, 22, 602));
  expect(pool, "fetch21@601 fetch22@602");
  assert_true(call(pool, 7, 0, 23, 603, 0, 0));
  expect(pool, "release8 fetch23@603");
  assert_int_equal(dmi_remote_pool_counts(pool).used, 60);
  /* What is lost goes back, though it was not complete. */
  dmi_remote_pool_fetched(pool, fetch[11], false);
  expect(pool, "release11 return4/3");
  dmi_remote_pool_close(pool, client);
  drain(pool);
  for (uint64_t n = 21; n < 24; n++) {
    dmi_remote_pool_fetched(pool, fetch[n % 16], true);
    drain(pool);
  }
  said[0] = 0;
  ends(pool);
}

/* Of calls that are due, that is fired first which leads to the one that was issued first. */
static void test_due(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_true(call(pool, 3, 20, 0, 0, 0, 0)); /* nobody waits for it */
  assert_true(call(pool, 4, 30, 0, 0, 0, 0));
  assert_true(call(pool, 5, 40, 30, 0, 0, 0));
  assert_true(call(pool, 6, 50, 40, 0, 0, 0));
  assert_true(call(pool, 7, 60, 0, 0, 0, 0));
  assert_true(call(pool, 8, 45, 0, 0, 0, 0));
  for (uint64_t n = 60; n > 40; n -= n == 50 ? 5 : 10)
    assert_true(dmi_remote_pool_want(pool, client, n, OTHER, n));
  drain(pool);
  done(pool, 1, 1);
  expect(pool, "done1 run8"); /* 45 */
  done(pool, 8, 45);
  expect(pool, "have45:6 done8 run4"); /* for 50, two calls later */
  done(pool, 4, 30);
  expect(pool, "done4 fetch30@30 run7"); /* while the next one has no bytes: 60 */
  dmi_remote_pool_fetched(pool, fetch[30 % 16], true);
  done(pool, 7, 60);
  expect(pool, "have60:6 done7 run5");
  done(pool, 5, 40);
  expect(pool, "release30 done5 fetch40@40 run3");
  dmi_remote_pool_fetched(pool, fetch[40 % 16], true);
  dmi_remote_pool_close(pool, client);
  drain(pool);
  dmi_remote_pool_done(pool, run[3], NULL, 1);
  drain(pool);
  said[0] = 0;
  ends(pool);
}

/* Those that go back leave the others in order. */
static void test_due_stolen(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  uint64_t last = 0;
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  for (uint64_t i = 0; i < 12; i++) {
    uint64_t n = 3 + i, output = 100 + i * 7 % 12; /* in no order */
    assert_true(call(pool, n, output, 0, 0, 0, 0));
    assert_true(dmi_remote_pool_want(pool, client, output, OTHER, n));
    drain(pool);
  }
  assert_true(dmi_remote_pool_steal(pool, client, 5, UINT64_MAX));
  drain(pool);
  for (uint64_t n = 1, num = 0; num < 8; num++) {
    uint64_t output;
    said[0] = 0;
    done(pool, n, 1);
    drain(pool);
    if (num == 7) break;
    n = strtoull(strstr(said, "run") + 3, NULL, 10);
    output = 100 + (n - 3) * 7 % 12;
    assert_true(output > last);
    last = output;
  }
  assert_null(strstr(said, "run")); /* seven were left */
  dmi_remote_pool_close(pool, client);
  drain(pool);
  said[0] = 0;
  ends(pool);
}

/* Calls whose outputs others wait for are fired before those that are ready longer. */
static void test_urgent(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  (void)state;
  for (uint64_t n = 1; n <= 5; n += 2)
    assert_true(call(pool, n, n + 1, 0, 0, 0, 0));
  expect(pool, "run1");
  assert_true(dmi_remote_pool_want(pool, client, 6, OTHER, 9)); /* it is ready already */
  assert_true(call(pool, 7, 8, 0, 0, 0, 0));
  assert_true(call(pool, 9, 0, 10, 0, 0, 0));
  assert_true(call(pool, 11, 0, 10, 0, 0, 0));
  assert_true(call(pool, 12, 10, 2, 0, 0, 0)); /* two calls wait for what it makes */
  done(pool, 1, 100);
  expect(pool, "done1 fetch2@100 run5");
  dmi_remote_pool_fetched(pool, fetch[2], true);
  expect(pool, "");
  done(pool, 5, 300);
  expect(pool, "have6:6 done5 run12");
  done(pool, 12, 400);
  expect(pool, "release2 done12 fetch10@400 run3");
  dmi_remote_pool_close(pool, client);
  drain(pool);
  dmi_remote_pool_done(pool, run[3], NULL, 1);
  drain(pool);
  dmi_remote_pool_fetched(pool, fetch[10], true);
  drain(pool);
  said[0] = 0;
  ends(pool);
}

/* Not for ever: others are ready, too. */
static void test_row(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 0);
  uint32_t before = 0;
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  assert_true(call(pool, 3, 4, 0, 0, 0, 0)); /* nobody waits for it */
  expect(pool, "run1");
  for (uint64_t n = 5; n < 85; n += 2) {
    assert_true(call(pool, n, n + 1, 0, 0, 0, 0));
    assert_true(dmi_remote_pool_want(pool, client, n + 1, OTHER, n));
    drain(pool);
  }
  for (uint64_t n = 1; n != 3; before++) {
    said[0] = 0;
    done(pool, n, (int64_t)n);
    drain(pool);
    n = strtoull(strstr(said, "run") + 3, NULL, 10);
  }
  assert_int_equal(before, 17);
  said[0] = 0;
  dmi_remote_pool_close(pool, client);
  dmi_remote_pool_next(pool);
  drain(pool);
  dmi_remote_pool_done(pool, run[3], NULL, 1);
  drain(pool);
  said[0] = 0;
  ends(pool);
}

/* Bytes of small values go with a HAVE, and are not read then. */
static void test_carried(void **state) {
  struct dmi_remote_pool *pool = new_pool(1, 320); /* two values may be kept that were brought */
  struct dmi_remote_result at = {DMI_REMOTE_DONE, 100, 10, NULL};
  const void *carry[1] = {"012345678"};
  (void)state;
  assert_true(call(pool, 1, 2, 0, 0, 0, 0));
  assert_true(dmi_remote_pool_want(pool, client, 2, OTHER, 9));
  expect(pool, "run1");
  run[1]->carry = carry;
  done(pool, 1, 100);
  expect(pool, "have2:6 with012345678 done1");
  assert_true(
      dmi_remote_pool_want(pool, client, 2, OTHER, 10)); /* its bytes are in its page only */
  expect(pool, "have2:6");
  drop(pool, 2);
  expect(pool, "free2@100");
  for (uint64_t n = 11; n < 14; n++)
    assert_true(call(pool, n, 0, n + 10, 0, 24, 0));
  for (uint64_t n = 21; n < 24; n++) {
    assert_true(dmi_remote_pool_have(pool, client, n, 1, 4, &at, "abcdefghi"));
    drain(pool);
  }
  assert_int_equal(dmi_remote_pool_counts(pool).carried, 20); /* the third one is to be read */
  have(pool, 24, 200, 4);
  expect(pool, "fetch23@100 fetch21@100 hasabcdefghi fetch24@200 fetch22@100 hasabcdefghi");
  assert_int_equal(dmi_remote_pool_counts(pool).carried, 0);
  for (uint64_t n = 21; n < 25; n++) {
    free(fetch[n % 16]->carried); /* the owner has it from FETCH on */
    fetch[n % 16]->carried = NULL;
    dmi_remote_pool_fetched(pool, fetch[n % 16], true);
    drain(pool);
  }
  said[0] = 0;
  for (uint64_t n = 11; n < 14; n++) {
    dmi_remote_pool_done(pool, run[n], NULL, 1);
    drain(pool);
  }
  /* Nobody asks for it any more: it goes with its record. */
  assert_true(call(pool, 14, 0, 25, 0, 26, 0));
  assert_true(dmi_remote_pool_have(pool, client, 25, 1, 5, &at, "abcdefghi"));
  dmi_remote_pool_close(pool, client);
  drain(pool);
  said[0] = 0;
  ends(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_run),        cmocka_unit_test(test_bad_calls),
      cmocka_unit_test(test_race),       cmocka_unit_test(test_memory),
      cmocka_unit_test(test_unfetched),  cmocka_unit_test(test_too_big),
      cmocka_unit_test(test_failure),    cmocka_unit_test(test_leave),
      cmocka_unit_test(test_steal),      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_again),      cmocka_unit_test(test_old),
      cmocka_unit_test(test_ahead),      cmocka_unit_test(test_due),
      cmocka_unit_test(test_due_stolen), cmocka_unit_test(test_urgent),
      cmocka_unit_test(test_row),        cmocka_unit_test(test_carried),
      cmocka_unit_test(test_worth),      cmocka_unit_test(test_suspect),
      cmocka_unit_test(test_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
