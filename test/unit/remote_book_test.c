/*
 * remote_book_test.c - the book of a client: one event after the other, and what it asks for.
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
#include "remote/book.h"

#define ME 1u
#define P 5u
#define Q 6u

/* ---- Actions as text ------------------------------------------------------------------------ */

static char said[4096]; /* what was asked for since the last expect */

static void say(const char *format, ...) {
  size_t used = strlen(said);
  va_list args;
  va_start(args, format);
  if (used) said[used++] = ' ';
  vsnprintf(said + used, sizeof(said) - used, format, args);
  va_end(args);
}

static void note(const struct dmi_remote_book_action *a) {
  int number = (int)a->number, to = (int)a->to;
  switch (a->type) {
    case DMI_REMOTE_SEND_CALL:
      say("call%d.%d:%d%s%s", (int)a->call->number, (int)a->call->gen, to,
          a->call->flags & DMI_REMOTE_SUSPECT ? "!" : "",
          a->call->flags & DMI_REMOTE_ALONE ? "!" : "");
      for (uint32_t i = 0; i < a->call->output_num; i++)
        if (a->call->outputs[i].spare) say("spare%d", (int)a->call->outputs[i].number);
      break;
    case DMI_REMOTE_SEND_WANT:
      say("want%d:%d>%d/%d", number, to, (int)a->reader, (int)a->seq);
      break;
    case DMI_REMOTE_TELL_HAVE:
      say(a->result.state == DMI_REMOTE_FAILED ? "have%d:%d!" : "have%d:%d", number, to);
      break;
    case DMI_REMOTE_SEND_DROP:
      say(a->lost ? "lost%d:%d" : "drop%d:%d", number, to);
      break;
    case DMI_REMOTE_SEND_STEAL:
      say("steal%d:%d", (int)a->num, to);
      break;
    case DMI_REMOTE_WAKE:
      say("wake%d", number);
      break;
    case DMI_REMOTE_ROOM:
      say("room");
      break;
    case DMI_REMOTE_FREE_PUT:
      say("free%d@%d", number, (int)a->result.addr);
      break;
    case DMI_REMOTE_GONE:
      say("gone%d:%d@%d", number, to, (int)a->result.addr);
  }
}

static void drain(struct dmi_remote_book *book) {
  const struct dmi_remote_book_action *action;
  while ((action = dmi_remote_book_next(book)) != NULL)
    note(action);
}

static void expect(struct dmi_remote_book *book, const char *text) {
  drain(book);
  assert_string_equal(said, text);
  said[0] = 0;
}

/* ---- Events --------------------------------------------------------------------------------- */

static struct dmi_remote_book *new_book(bool survive) {
  return dmi_remote_book_new(&(struct dmi_remote_book_config){
      .client = {.process = ME, .n = 1}, .survive = survive, .most = 1});
}

static void serves(struct dmi_remote_book *book, dmi_uid_t uid) {
  struct dmi_remote_server server = {.uid = uid, .cores = 1, .limit = 100};
  dmi_remote_book_serves(book, &server);
  drain(book);
}

/* A call on this server, with up to two inputs and one output of 10 bytes, whose number is
 * returned; that of the call is one less. */
static uint64_t call_on(struct dmi_remote_book *book, dmi_uid_t on, uint64_t a, uint64_t b) {
  uint64_t in[] = {a, b}, size = 10, out;
  struct dmi_remote_issue issue = {
      .inputs = in, .sizes = &size, .input_num = a ? b ? 2 : 1 : 0, .output_num = 1, .on = on};
  assert_int_equal(dmi_remote_book_call(book, &issue, &out), DMI_OK);
  drain(book);
  return out;
}

static void done(struct dmi_remote_book *book, dmi_uid_t from, uint64_t output, int64_t addr) {
  struct dmi_remote_result at = {DMI_REMOTE_DONE, addr, 10, NULL};
  assert_true(dmi_remote_book_done(book, from, output - 1, &at, 1, 1000));
  drain(book);
}

static enum dmi_remote_state state_of(struct dmi_remote_book *book, uint64_t number) {
  struct dmi_remote_result at;
  assert_true(dmi_remote_book_look(book, number, false, &at));
  return at.state;
}

static void drop(struct dmi_remote_book *book, uint64_t number) {
  assert_true(dmi_remote_book_drop(book, number));
  drain(book);
}

static void ends(struct dmi_remote_book *book) {
  struct dmi_remote_book_counts counts = dmi_remote_book_counts(book);
  assert_int_equal(counts.values, 0);
  assert_int_equal(counts.calls, 0);
  assert_int_equal(counts.bytes, 0);
  assert_int_equal(counts.lineage, 0);
  dmi_remote_book_free(book);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void test_counts(void **state) {
  struct dmi_remote_book *book = new_book(false);
  uint64_t a, b, c;
  (void)state;
  a = dmi_remote_book_put(book, 50, 10);
  b = call_on(book, P, a, 0);
  expect(book, ""); /* no server yet */
  serves(book, P);
  expect(book, "call2.1:5");
  assert_true(dmi_remote_book_full(book));
  serves(book, Q);
  c = call_on(book, Q, a, b);
  expect(book, "call4.1:6 want3:5>6/1");
  drop(book, a);
  drop(book, b);
  expect(book, ""); /* calls need them */
  done(book, P, b, 100);
  expect(book, "");
  assert_false(dmi_remote_book_drop(book, b));
  assert_int_equal(state_of(book, c), DMI_REMOTE_PENDING);
  done(book, Q, c, 200);
  expect(book, "drop3:5 free1@50 room");
  assert_int_equal(state_of(book, c), DMI_REMOTE_DONE);
  assert_true(dmi_remote_book_hold(book, c));
  drop(book, c);
  expect(book, "");
  drop(book, c);
  expect(book, "drop5:6");
  c = call_on(book, 0, 0, 0);
  drop(book, c); /* before it is made */
  expect(book, "call6.1:5");
  done(book, P, c, 100);
  expect(book, "drop7:5");
  ends(book);
}

static bool last_said; /* the last CALL: nobody else needs its first input */

/* A call on P that makes a new value of `input`, whose handle it drops. */
static uint64_t change(struct dmi_remote_book *book, uint64_t input) {
  const struct dmi_remote_book_action *action;
  uint64_t size = 10, out;
  bool takes = true;
  struct dmi_remote_issue issue = {
      .inputs = &input, .takes = &takes, .sizes = &size, .input_num = 1, .output_num = 1, .on = P};
  assert_int_equal(dmi_remote_book_call(book, &issue, &out), DMI_OK);
  while ((action = dmi_remote_book_next(book)) != NULL) {
    if (action->type == DMI_REMOTE_SEND_CALL) last_said = action->call->inputs[0].last;
    note(action);
  }
  return out;
}

/* Who may change an input in its own memory. */
static void test_last(void **state) {
  (void)state;
  for (int survive = 0; survive < 2; survive++) {
    struct dmi_remote_book *book = new_book(survive);
    uint64_t a, b, c, d;
    serves(book, P);
    a = call_on(book, P, 0, 0);
    b = change(book, a);
    assert_false(dmi_remote_book_drop(book, a));
    assert_int_equal(last_said, !survive); /* with lineage it may be needed again */
    c = call_on(book, P, b, 0);            /* needs it, too */
    d = change(book, b);
    assert_false(last_said);
    assert_true(dmi_remote_book_hold(book, d));
    b = change(book, d);
    assert_false(last_said); /* it has another name */
    for (uint64_t n = 2; n <= 10; n += 2)
      done(book, P, n, (int64_t)n);
    drop(book, b);
    drop(book, c);
    drop(book, d);
    said[0] = 0;
    ends(book);
  }
}

static void test_wrong(void **state) {
  struct dmi_remote_book *book = new_book(false);
  uint64_t out, none = 77, size = 10, a;
  struct dmi_remote_issue issue = {
      .inputs = &none, .sizes = &size, .input_num = 1, .output_num = 1};
  struct dmi_remote_result at = {DMI_REMOTE_PENDING, 0, 10, NULL};
  (void)state;
  serves(book, P);
  assert_int_equal(dmi_remote_book_call(book, &issue, &out), DMI_EINVAL);
  a = call_on(book, P, 0, 0);
  expect(book, "call1.1:5");
  assert_false(dmi_remote_book_done(book, Q, 1, &at, 1, 1000));
  assert_false(dmi_remote_book_done(book, P, 1, &at, 0, 1000));
  at = (struct dmi_remote_result){DMI_REMOTE_DONE, 1, 11, NULL}; /* larger than it was to be */
  assert_false(dmi_remote_book_done(book, P, 1, &at, 1, 1000));
  at = (struct dmi_remote_result){DMI_REMOTE_PENDING, 0, 10, NULL};
  assert_false(dmi_remote_book_done(book, P, 1, &at, 1, 1000));
  assert_false(dmi_remote_book_done(book, P, a, &at, 1, 1000));
  assert_false(dmi_remote_book_returned(book, P, 9, 0, 0));
  assert_false(dmi_remote_book_stolen(book, P));
  /* Too big for every server: failed at once. */
  size = 101;
  issue.input_num = 0;
  assert_int_equal(dmi_remote_book_call(book, &issue, &out), DMI_OK);
  drain(book);
  assert_int_equal(state_of(book, out), DMI_REMOTE_FAILED);
  drop(book, out);
  done(book, P, a, 100);
  drop(book, a);
  expect(book, "drop2:5");
  ends(book);
}

static void test_failure(void **state) {
  struct dmi_remote_book *book = new_book(true);
  struct dmi_remote_why *why = dmi_remote_why_new(DMI_EINVAL, "f", "host", "no");
  struct dmi_remote_result at;
  uint64_t a, b, c;
  (void)state;
  serves(book, P);
  a = call_on(book, P, 0, 0);
  b = call_on(book, P, a, 0);
  assert_true(dmi_remote_book_look(book, a, true, &at));
  expect(book, "call1.1:5 call3.1:5");
  assert_true(dmi_remote_book_failed(book, P, a - 1, why));
  expect(book, "wake2");
  c = call_on(book, P, a, 0);
  expect(book, ""); /* it need not be sent */
  assert_true(dmi_remote_book_look(book, c, true, &at));
  assert_int_equal(at.state, DMI_REMOTE_FAILED);
  assert_string_equal(at.why->sentence, "no");
  drop(book, a);
  expect(book, ""); /* call b needs it */
  assert_true(dmi_remote_book_returned(book, P, b - 1, 0, 0));
  expect(book, "drop2:5");
  assert_int_equal(state_of(book, b), DMI_REMOTE_FAILED);
  drop(book, b);
  drop(book, c);
  expect(book, "");
  ends(book);
  assert_int_equal(why->refs, 1);
  dmi_remote_why_release(why);
}

static void test_leave(void **state) {
  struct dmi_remote_book *book = new_book(false);
  uint64_t a, b, c;
  (void)state;
  serves(book, P);
  serves(book, Q);
  a = call_on(book, P, 0, 0);
  b = call_on(book, P, 0, 0);
  c = call_on(book, Q, a, b);
  expect(book, "call1.1:5 call3.1:5 call5.1:6 want2:5>6/1 want4:5>6/1");
  serves(book, 7);
  expect(book, "");
  dmi_remote_book_leaves(book, P);
  assert_true(dmi_remote_book_returned(book, P, b - 1, 0, 0));
  expect(book, "call3.1:7 want4:7>6/1"); /* whoever waits is told from there */
  done(book, P, a, 100);
  expect(book, "");
  dmi_remote_book_left(book, P);
  expect(book, "have2:6"); /* the WANT may have come too late */
  drop(book, a);
  drop(book, b);
  done(book, 7, b, 200);
  done(book, Q, c, 300);
  expect(book, "drop4:7 gone2:5@100");
  drop(book, c);
  expect(book, "drop6:6");
  ends(book);
}

static void test_steal(void **state) {
  struct dmi_remote_book *book = new_book(false);
  uint64_t a[4];
  (void)state;
  serves(book, P);
  for (int i = 0; i < 4; i++)
    a[i] = call_on(book, 0, 0, 0);
  expect(book, "call1.1:5 call3.1:5 call5.1:5 call7.1:5");
  serves(book, Q);
  expect(book, "steal2:5"); /* half of the three that have no core */
  assert_true(dmi_remote_book_returned(book, P, a[3] - 1, 0, 0));
  expect(book, "call7.1:6");
  assert_true(dmi_remote_book_stolen(book, P));
  expect(book, "");
  done(book, Q, a[3], 100);
  expect(book, "");
  dmi_remote_book_load(book, Q, &(struct dmi_remote_load){0});
  expect(book, "steal1:5"); /* it is dry */
  dmi_remote_book_left(book, Q);
  assert_true(dmi_remote_book_returned(book, P, a[2] - 1, 0, 0));
  expect(book, "call5.1:5"); /* back */
  for (int i = 0; i < 3; i++)
    done(book, P, a[i], 200 + i);
  for (int i = 0; i < 4; i++)
    drop(book, a[i]);
  expect(book, "drop2:5 drop4:5 drop6:5 gone8:6@100");
  ends(book);
}

/* One with too little memory for the calls has nothing to do, and gets none of them. */
static void test_unfit(void **state) {
  struct dmi_remote_book *book = new_book(false);
  const struct dmi_remote_server small = {.uid = Q, .cores = 1, .limit = 5};
  const struct dmi_remote_load load = {.ready = 2};
  uint64_t a[3];
  (void)state;
  serves(book, P);
  for (int i = 0; i < 3; i++)
    a[i] = call_on(book, 0, 0, 0);
  expect(book, "call1.1:5 call3.1:5 call5.1:5");
  dmi_remote_book_serves(book, &small);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_returned(book, P, a[2] - 1, 0, 0));
  expect(book, "call5.1:5"); /* back */
  assert_true(dmi_remote_book_stolen(book, P));
  expect(book, "");
  dmi_remote_book_load(book, P, &load);
  expect(book, ""); /* not again and again */
  for (int i = 0; i < 3; i++)
    done(book, P, a[i], 200 + i);
  for (int i = 0; i < 3; i++)
    drop(book, a[i]);
  said[0] = 0;
  ends(book);
}

/* One that has given nothing, as nothing was worth moving, is asked again when it has more. */
static void test_refused(void **state) {
  struct dmi_remote_book *book = new_book(false);
  const struct dmi_remote_load same = {.ready = 2}, more = {.ready = 3}, none = {.ready = 0};
  uint64_t a[3];
  (void)state;
  serves(book, P);
  for (int i = 0; i < 3; i++)
    a[i] = call_on(book, 0, 0, 0);
  expect(book, "call1.1:5 call3.1:5 call5.1:5");
  serves(book, Q);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  dmi_remote_book_load(book, P, &same);
  expect(book, "");
  dmi_remote_book_load(book, P, &more);
  expect(book, "steal2:5");
  assert_true(dmi_remote_book_stolen(book, P));
  dmi_remote_book_load(book, P, &none); /* these have run */
  dmi_remote_book_load(book, P, &same); /* others */
  expect(book, "steal1:5");
  for (int i = 0; i < 3; i++)
    done(book, P, a[i], 200 + i);
  for (int i = 0; i < 3; i++)
    drop(book, a[i]);
  said[0] = 0;
  ends(book);
}

static uint64_t call_of_kind_on(struct dmi_remote_book *book, uint32_t kind, dmi_uid_t on) {
  uint64_t size = 10, out;
  struct dmi_remote_issue issue = {
      .sizes = &size, .output_num = 1, .kind = kind, .on = on, .name = "boom"};
  assert_int_equal(dmi_remote_book_call(book, &issue, &out), DMI_OK);
  drain(book);
  return out;
}

static uint64_t call_of_kind(struct dmi_remote_book *book, uint32_t kind) {
  return call_of_kind_on(book, kind, 0);
}

/* The call with this output is done, and took so many ns. */
static void took(struct dmi_remote_book *book, dmi_uid_t from, uint64_t output, uint64_t ns) {
  struct dmi_remote_result at = {DMI_REMOTE_DONE, 100, 10, NULL};
  assert_true(dmi_remote_book_done(book, from, output - 1, &at, 1, ns));
  drain(book);
}

/* Nor is it asked again before links or calls turn out to be others than was known, or half of the
 * calls have gone. */
static void test_refused_until(void **state) {
  struct dmi_remote_book *book = new_book(false);
  struct dmi_remote_load load = {.ready = 2};
  uint64_t a[8];
  (void)state;
  serves(book, P);
  for (int i = 0; i < 8; i++)
    a[i] = call_of_kind(book, 0);
  took(book, P, a[0], 1000);
  dmi_remote_book_load(book, P, &load);
  drain(book);
  said[0] = 0;
  serves(book, Q);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  dmi_remote_book_load(book, P, &load);
  expect(book, "");
  load.rate = 100; /* it was not known */
  dmi_remote_book_load(book, P, &load);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  load.rate = 199;
  dmi_remote_book_load(book, P, &load);
  expect(book, "");
  load.rate = 200;
  dmi_remote_book_load(book, P, &load);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  took(book, P, a[1], 1000);
  dmi_remote_book_load(book, P, &load);
  expect(book, "");
  for (int i = 2; i < 6; i++)
    took(book, P, a[i], 1000000); /* until now 1 us */
  dmi_remote_book_load(book, P, &load);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  load.ready = 1;
  dmi_remote_book_load(book, P, &load);
  expect(book, "steal1:5");
  assert_true(dmi_remote_book_stolen(book, P));
  dmi_remote_book_load(book, P, &load);
  expect(book, "");
  dmi_remote_book_free(book);
}

/* Calls of others count by the time of all: the server with the least to do is known when that has
 * changed, too. */
static void test_foreign(void **state) {
  struct dmi_remote_book *book = new_book(false);
  const struct dmi_remote_load one = {.foreign = 1};
  uint64_t a[16], b;
  (void)state;
  serves(book, P);
  dmi_remote_book_load(book, P, &one);
  b = call_of_kind_on(book, 9, P);
  took(book, P, b, 10000); /* 10 us */
  serves(book, Q);
  serves(book, Q + 1);
  for (int i = 0; i < 16; i++)
    a[i] = call_of_kind_on(book, 7, Q + 1);
  for (int i = 0; i < 2; i++)
    (void)call_of_kind_on(book, 9, Q); /* 22 us */
  took(book, Q + 1, a[0], 1000000);    /* 1 ms; the mean of all: 14 us */
  said[0] = 0;
  (void)call_of_kind_on(book, 9, 0);
  assert_non_null(strstr(said, ".1:5")); /* 15 us by the mean */
  for (int i = 1; i < 12; i++)
    took(book, Q + 1, a[i], 1000000);
  said[0] = 0;
  (void)call_of_kind_on(book, 9, 0);
  assert_non_null(strstr(said, ".1:6"));
  dmi_remote_book_free(book);
}

/* A long call counts as many short ones, from when that is known, also those that are placed. */
static void test_time(void **state) {
  struct dmi_remote_book *book = new_book(false);
  struct dmi_remote_result at = {DMI_REMOTE_DONE, 100, 10, NULL};
  uint64_t a[2], b[8];
  (void)state;
  serves(book, P);
  serves(book, Q);
  for (int i = 0; i < 2; i++)
    a[i] = call_of_kind(book, 7);
  expect(book, "call1.1:5 call3.1:6");
  for (int i = 0; i < 2; i++)
    b[i] = call_of_kind(book, 2);
  expect(book, "call5.1:5 call7.1:6");
  assert_true(dmi_remote_book_done(book, P, 5, &at, 1, 10000)); /* 10 us */
  assert_true(dmi_remote_book_done(book, Q, 7, &at, 1, 10000));
  assert_true(dmi_remote_book_done(book, P, 1, &at, 1, 5000000)); /* 5 ms */
  drain(book);
  for (int i = 2; i < 8; i++)
    b[i] = call_of_kind(book, 2);
  expect(book, "call9.1:5 call11.1:5 call13.1:5 call15.1:5 call17.1:5 call19.1:5");
  dmi_remote_book_free(book);
  (void)a;
  (void)b;
}

/* A call that has cost servers: it says so, it is kept away from the client, and given up. */
static void test_fatal(void **state) {
  struct dmi_remote_book *book = new_book(true);
  struct dmi_remote_result at;
  uint64_t a;
  (void)state;
  for (dmi_uid_t uid = P; uid < P + 4; uid++)
    serves(book, uid);
  a = call_of_kind(book, 0);
  expect(book, "call1.1:5");
  dmi_remote_book_lost(book, P);
  expect(book, "call1.1:6!");
  dmi_remote_book_lost(book, Q); /* it did not run there */
  expect(book, "call1.1:7!");
  assert_true(dmi_remote_book_fired(book, P + 2, 1));
  serves(book, ME);
  dmi_remote_book_lost(book, P + 2);
  expect(book, "call1.1:8!!");
  assert_false(dmi_remote_book_fired(book, P + 2, 1));
  assert_true(dmi_remote_book_fired(book, P + 3, 1));
  assert_true(dmi_remote_book_look(book, a, true, &at));
  dmi_remote_book_lost(book, P + 3);
  expect(book, "wake2");
  assert_true(dmi_remote_book_look(book, a, false, &at));
  assert_int_equal(at.state, DMI_REMOTE_FAILED);
  assert_int_equal(at.why->error, DMI_EREMOTE);
  assert_string_equal(at.why->function, "boom");
  assert_non_null(strstr(at.why->sentence, "3 processes were lost with it (call 1)"));
  drop(book, a);
  ends(book);
}

/* After the fourth loss it fails, though there are servers. */
static void test_fatal_often(void **state) {
  struct dmi_remote_book *book = new_book(true);
  uint64_t a;
  (void)state;
  for (dmi_uid_t uid = P; uid < P + 6; uid++)
    serves(book, uid);
  a = call_of_kind(book, 0);
  for (dmi_uid_t uid = P; uid < P + 4; uid++) {
    assert_int_equal(state_of(book, a), DMI_REMOTE_PENDING);
    if (uid > P) assert_true(dmi_remote_book_fired(book, uid, 1));
    dmi_remote_book_lost(book, uid);
    drain(book);
  }
  assert_int_equal(state_of(book, a), DMI_REMOTE_FAILED);
  expect(book, "call1.1:5 call1.1:6! call1.1:7!! call1.1:8!!");
  drop(book, a);
  ends(book);
}

/* a is put, b = f(a), c = g(b), d = h(c); b and c are dropped, d is lost: all is done again. */
static void test_lineage(void **state) {
  struct dmi_remote_book *book = new_book(true);
  uint64_t a, b, c, d;
  (void)state;
  serves(book, P);
  serves(book, Q);
  a = dmi_remote_book_put(book, 50, 10);
  b = call_on(book, P, a, 0);
  c = call_on(book, P, b, 0);
  d = call_on(book, P, c, 0);
  done(book, P, b, 100);
  done(book, P, c, 200);
  done(book, P, d, 300);
  drop(book, a);
  drop(book, b);
  drop(book, c);
  expect(book, "call2.1:5 call4.1:5 call6.1:5 drop3:5 drop5:5");
  assert_int_equal(dmi_remote_book_counts(book).undone, 0);
  dmi_remote_book_lost(book, P);
  expect(book, ""); /* nobody has missed anything yet */
  dmi_remote_book_unreadable(book, d, 299);
  expect(book, ""); /* it is not there any more: no news */
  dmi_remote_book_unreadable(book, d, 300);
  expect(book, "gone7:5@300 call2.2:6 call4.2:6 call6.2:6");
  done(book, Q, b, 100);
  done(book, Q, c, 200);
  expect(book, "drop3:6");
  drop(book, d);
  done(book, Q, d, 300);
  expect(book, "drop5:6 drop7:6 free1@50");
  ends(book);
}

/* One of two outputs is lost; the other one stays where it is. */
static void test_spare(void **state) {
  struct dmi_remote_book *book = new_book(true);
  uint64_t sizes[] = {10, 10}, out[2];
  struct dmi_remote_issue issue = {.sizes = sizes, .output_num = 2, .on = P};
  struct dmi_remote_result at[] = {{DMI_REMOTE_DONE, 100, 10, NULL},
                                   {DMI_REMOTE_DONE, 200, 10, NULL}};
  (void)state;
  serves(book, P);
  serves(book, Q);
  assert_int_equal(dmi_remote_book_call(book, &issue, out), DMI_OK);
  drain(book);
  assert_true(dmi_remote_book_done(book, P, 1, at, 2, 1000));
  dmi_remote_book_leaves(book, P);
  dmi_remote_book_unreadable(book, out[0], 100);
  expect(book, "call1.1:5 lost2:5 call1.2:6 spare3");
  at[0].addr = 300;
  at[1].state = DMI_REMOTE_PENDING; /* not made */
  assert_true(dmi_remote_book_done(book, Q, 1, at, 2, 1000));
  dmi_remote_book_unreadable(book, out[0], 300);
  expect(book, "lost2:6 call1.3:6 spare3");
  /* That one is found lost, too, before the call is done: so it is done once more. */
  dmi_remote_book_unreadable(book, out[1], 200);
  drain(book);
  assert_true(dmi_remote_book_done(book, Q, 1, at, 2, 1000));
  expect(book, "lost3:5 call1.4:6 spare2");
  at[1] = (struct dmi_remote_result){DMI_REMOTE_DONE, 400, 10, NULL};
  assert_true(dmi_remote_book_done(book, Q, 1, at, 2, 1000));
  expect(book, "");
  /* Where its server has gone it is made anew in any case. */
  serves(book, P);
  dmi_remote_book_lost(book, Q);
  drain(book);
  dmi_remote_book_unreadable(book, out[0], 300);
  expect(book, "gone2:6@300 call1.5:5");
  assert_true(dmi_remote_book_done(book, P, 1, at, 2, 1000));
  expect(book, "gone3:6@400");
  drop(book, out[0]);
  drop(book, out[1]);
  expect(book, "drop2:5 drop3:5");
  ends(book);
}

static void test_forgotten(void **state) {
  struct dmi_remote_book *book = dmi_remote_book_new(
      &(struct dmi_remote_book_config){.client = {ME, 1}, .survive = true, .lineage = 1});
  struct dmi_remote_result at;
  uint64_t a;
  (void)state;
  serves(book, P);
  a = call_on(book, P, 0, 0);
  done(book, P, a, 100);
  dmi_remote_book_unreadable(book, a, 100);
  expect(book, "call1.1:5 lost2:5");
  assert_true(dmi_remote_book_look(book, a, true, &at));
  assert_int_equal(at.state, DMI_REMOTE_FAILED);
  assert_int_equal(at.why->error, DMI_ELOST);
  drop(book, a);
  ends(book);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),  cmocka_unit_test(test_last),
      cmocka_unit_test(test_wrong),   cmocka_unit_test(test_failure),
      cmocka_unit_test(test_leave),   cmocka_unit_test(test_steal),
      cmocka_unit_test(test_unfit),   cmocka_unit_test(test_lineage),
      cmocka_unit_test(test_spare),   cmocka_unit_test(test_forgotten),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_time),
      cmocka_unit_test(test_foreign), cmocka_unit_test(test_refused_until),
      cmocka_unit_test(test_fatal),   cmocka_unit_test(test_fatal_often)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
