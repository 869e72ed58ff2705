/*
 * ox_session_test.c - the stack machine of a session: commands, texts, functions, resets, errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ox_world.h"

static void test_stack(void **state) {
  (void)state;
  struct world *w = world_new(1, 1);
  assert_popped(w, 0, "0"); /* empty: NULL */
  push_int(w, 0, 7);
  push_text(w, 0, "x");
  command(w, 0, DMI_OX_GET_SP);
  assert_popped(w, 0, "2");
  command(w, 0, DMI_OX_PUSH_TAG);
  assert_popped(w, 0, "4");
  command(w, 0, DMI_OX_SET_NAME); /* x = 7 */
  command(w, 0, DMI_OX_GET_SP);
  assert_popped(w, 0, "0");
  push_text(w, 0, "x");
  command(w, 0, DMI_OX_EVAL_NAME);
  assert_popped(w, 0, "7");
  for (int i = 0; i < 5; i++)
    push_int(w, 0, i + 1);
  push_int(w, 0, 2);
  command(w, 0, DMI_OX_POPS);
  assert_popped(w, 0, "3");
  command(w, 0, DMI_OX_BEGIN_BLOCK);
  push_int(w, 0, 8);
  push_int(w, 0, 9);
  command(w, 0, DMI_OX_END_BLOCK);
  assert_popped(w, 0, "[8,9]");
  assert_popped(w, 0, "2");
  command(w, 0, DMI_OX_NOP);
  push_value(w, 0, DMI_ox_from_double(0.5));
  command(w, 0, DMI_OX_POP_STRING);
  struct dmi_ox_message message;
  assert_true(heard(w, 0, &message));
  assert_int_equal(DMI_ox_kind(message.value), DMI_OX_STRING);
  assert_string_equal(DMI_ox_bytes(message.value, NULL), "0.5");
  DMI_ox_drop(message.value);
  world_free(w);
}

static void test_mathcap(void **state) {
  (void)state;
  struct world *w = world_new(1, 2);
  command(w, 0, DMI_OX_MATHCAP_ASK);
  assert_popped(w, 0,
                "mathcap([[102,\"ox_dmi\",\"" DMI_VERSION
                "\"],[258,262,263,264,265,266,267,268,269,270,271,272,273,274,275,276,277,278,279,"
                "280,281,282,283,300,400],[[514,[1,2,3,4,5,17,20,21,22,40,41,51,2130706434]]]])");
  world_free(w);
}

static void test_texts(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"1+2*3-4", "3"},
      {"(1+2)*-3;", "-9"},
      {"6/4; 1/3+1/6", "1/2"},
      {"4/2", "2"},
      {"0.5*3", "1.5"},
      {"a = [1,\"b\\\"c\",[]]; [a,a]", "[[1,\"b\\\"c\",[]],[1,\"b\\\"c\",[]]]"},
      {"10000000000000000000000*10000000000000000000000",
       "100000000000000000000000000000000000000000000"},
      {"1-1", "0"},
      {"", "0"},
      {"ox_get_rank_102()", "[1,0]"},
      {"1/0", "error([*,5,\"division by 0\"])"},
      {"1+", "error([*,7,\"a value is missing (byte 2)\"])"},
      {"[1", "error([*,7,\"a bracket is not closed (byte 2)\"])"},
      {"1 2", "error([*,7,\"an operator is missing (byte 2)\"])"},
      {"\"a", "error([*,7,\"a string has no end (byte 2)\"])"},
      {"b", "error([*,6,\"b: nothing has this name\"])"},
      {"f(1)", "error([*,6,\"f: no function has this name\"])"},
      {"1+\"a\"", "error([*,5,\"an operand is no number\"])"},
      {"ox_send_102(1)", "error([*,5,\"ox_send_102: the number of arguments is wrong\"])"},
      {"[1,ox_recv_102(3)]", "error([*,8,\"rank 3: there is no link\"])"},
  };
  struct world *w = world_new(1, 3);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char expected[200];
    const char *star = strchr(rows[i][1], '*');
    /* The serial of the command that failed. */
    if (star != NULL && strncmp(rows[i][1], "error", 5) == 0)
      snprintf(expected, sizeof expected, "%.*s%u%s", (int)(star - rows[i][1]), rows[i][1],
               w->at[0].serial + 1, star + 1);
    else
      snprintf(expected, sizeof expected, "%s", rows[i][1]);
    execute(w, 0, rows[i][0]);
    assert_popped(w, 0, expected);
    command(w, 0, DMI_OX_GET_SP);
    assert_popped(w, 0, "0");
  }
  push_text(w, 0, "c = 5");
  command(w, 0, DMI_OX_EXECUTE_BATCH);
  command(w, 0, DMI_OX_GET_SP);
  assert_popped(w, 0, "0");
  execute(w, 0, "c");
  assert_popped(w, 0, "5");
  world_free(w);
}

static void test_functions(void **state) {
  (void)state;
  struct world *w = world_new(1, 4);
  push_int(w, 0, 99);
  push_int(w, 0, 2); /* the second argument */
  push_int(w, 0, 1);
  push_value(w, 0, dmi_ox_value_int32(2));
  push_text(w, 0, "add");
  command(w, 0, DMI_OX_EXECUTE_FUNCTION);
  command(w, 0, DMI_OX_GET_SP); /* waits */
  world_run(w);
  assert_string_equal(DMI_ox_bytes(w->at[0].name, NULL), "add");
  char *text = DMI_ox_to_text(w->at[0].args);
  assert_string_equal(text, "[1,2]");
  free(text);
  dmi_ox_session_returned(w->at[0].session, w->at[0].call + 1, DMI_ox_from_int64(8)); /* unknown */
  dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_from_int64(3));
  assert_popped(w, 0, "2");
  assert_popped(w, 0, "3");
  /* In the middle of a text; an error ends it. */
  execute(w, 0, "[1,twice(4),twice(5)]");
  world_run(w);
  dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_from_int64(8));
  world_run(w);
  uint32_t serial = w->at[0].serial - 1;
  dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_error("no"));
  char expected[100];
  snprintf(expected, sizeof expected, "error([%u,10,\"no\"])", serial);
  assert_popped(w, 0, expected);
  assert_popped(w, 0, "99");
  world_free(w);
}

/* Wrong use pushes an ERROR2 with the serial of the command, and the session goes on. */
static void test_errors(void **state) {
  (void)state;
  static const struct {
    int32_t command, code;
  } rows[] = {{265, 5}, {266, 5}, {267, 5}, {268, 5}, {269, 5}, {271, 5}, {273, 5}, {278, 5},
              {279, 5}, {280, 5}, {282, 5}, {283, 5}, {284, 3}, {-1, 3},  {1030, 3}};
  struct world *w = world_new(1, 5);
  char expected[100];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (int more = 0; more < 2; more++) {
      if (more) push_value(w, 0, DMI_ox_list(NULL, 0));
      uint32_t serial = w->at[0].serial;
      command(w, 0, rows[i].command);
      command(w, 0, DMI_OX_DUP_ERRORS);
      char *text = popped(w, 0);
      snprintf(expected, sizeof expected, "[error([%u,%d,", serial, rows[i].code);
      assert_true(strncmp(text, expected, strlen(expected)) == 0);
      free(text);
      push_int(w, 0, 100);
      command(w, 0, DMI_OX_POPS);
    }
  }
  world_free(w);
}

/* A stack without end of large and small values, of variables, and of blocks. */
static void test_full(void **state) {
  (void)state;
  struct world *w = world_new(1, 6);
  char large[5000];
  memset(large, 'a', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  for (int i = 0; i < 1000; i++)
    push_text(w, 0, large);
  char *text = popped(w, 0);
  assert_non_null(strstr(text, "the stack is full"));
  free(text);
  push_int(w, 0, INT32_MAX);
  command(w, 0, DMI_OX_POPS);
  execute(w, 0, "x = [1,2,3]; y = 0");
  for (int i = 0; i < 40; i++) {
    execute(w, 0, "x = [x,x]");
    push_int(w, 0, 1);
    command(w, 0, DMI_OX_POPS);
  }
  execute(w, 0, "x = [x,x]"); /* it never became larger than a message may be */
  text = popped(w, 0);
  assert_non_null(strstr(text, "error("));
  free(text);
  for (int i = 0; i < 300000; i++)
    command(w, 0, DMI_OX_BEGIN_BLOCK);
  text = popped(w, 0);
  assert_non_null(strstr(text, "error("));
  free(text);
  world_free(w);
}

/* ---- Resets ---------------------------------------------------------------------------------- */

static void test_reset(void **state) {
  (void)state;
  struct dmi_ox_message message;
  for (uint64_t seed = 1; seed < 50; seed++) {
    struct world *w = world_new(1, seed);
    int resets = 1 + (int)(seed % 3);
    push_int(w, 0, 5);
    execute(w, 0, "twice(1)");
    command(w, 0, DMI_OX_POP_CMO); /* discarded */
    world_run(w);
    for (int i = 0; i < resets; i++)
      control(w, 0, seed % 2 ? DMI_OX_RESET : DMI_OX_RESET_SERVER);
    world_run(w);
    assert_int_equal(w->at[0].cancelled, w->at[0].call);
    dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_from_int64(8)); /* too late */
    push_int(w, 0, 6); /* before the balls: discarded, with a message of an unknown type */
    push_value(w, 0, dmi_ox_value_new(77));
    for (int i = 0; i < resets; i++) {
      assert_true(heard(w, 0, &message));
      assert_int_equal(message.tag, DMI_OX_SYNC_BALL);
      command(w, 0, DMI_OX_POP_CMO);
      ball(w, 0);
    }
    assert_false(heard(w, 0, &message));
    assert_popped(w, 0, "5"); /* the stack stays */
    assert_popped(w, 0, "0");
    world_free(w);
  }
}

/* More of them than a client that does not read has room for. */
static void test_many_resets(void **state) {
  (void)state;
  struct world *w = world_new(1, 3);
  struct dmi_ox_action action;
  size_t queued = 0, balls = 100000;
  for (size_t i = 0; i < balls; i++)
    control(w, 0, DMI_OX_RESET);
  while (dmi_ox_session_next(w->at[0].session, &action)) {
    assert_int_not_equal(action.act, DMI_OX_END);
    queued += action.bytes.len;
    dmi_ox_action_free(&action);
  }
  assert_true(queued >= 8 && queued < 1000); /* the queue of the world is short */
  while (queued > 0) {
    dmi_ox_session_sent(w->at[0].session, DMI_OX_DATA_STREAM, queued);
    balls -= queued / 8;
    for (queued = 0; dmi_ox_session_next(w->at[0].session, &action); dmi_ox_action_free(&action))
      queued += action.bytes.len;
  }
  assert_int_equal(balls, 0);
  for (size_t i = 0; i < 100000; i++)
    ball(w, 0);
  push_int(w, 0, 4);
  assert_popped(w, 0, "4");
  world_free(w);
}

/* Before the client's order of bytes on the data connection is known, none can be sent. */
static void test_early_reset(void **state) {
  (void)state;
  static const unsigned char order = 1;
  struct dmi_ox_settings settings = {
      .limits = {.message = 1000, .stack = 1000, .queue = 100, .depth = 3}, .order_sent = true};
  struct dmi_ox_session *s = dmi_ox_session_new(&settings, world_known);
  struct dmi_ox_bytes bytes = {0};
  struct dmi_ox_action action;
  dmi_ox_session_bytes(s, DMI_OX_CONTROL, &order, 1);
  dmi_ox_encode_command(&bytes, true, 0, DMI_OX_RESET);
  dmi_ox_session_bytes(s, DMI_OX_CONTROL, bytes.at, bytes.len);
  assert_false(dmi_ox_session_next(s, &action));
  dmi_ox_session_bytes(s, DMI_OX_DATA_STREAM, &order, 1);
  assert_true(dmi_ox_session_next(s, &action));
  assert_int_equal(action.act, DMI_OX_SEND);
  assert_int_equal(action.bytes.len, 8);
  assert_int_equal(action.bytes.at[0], DMI_OX_SYNC_BALL & 0xff);
  dmi_ox_action_free(&action);
  dmi_ox_bytes_free(&bytes);
  dmi_ox_session_free(s);
}

/* A text of many steps goes on in slices: a reset between two of them ends it. */
static void test_reset_of_text(void **state) {
  (void)state;
  static char text[100001];
  struct dmi_ox_action action;
  struct dmi_ox_message message;
  for (size_t i = 0; i + 1 < sizeof text; i++)
    text[i] = i % 2 ? '+' : '1';
  text[sizeof text - 2] = ' ';
  struct world *w = world_new(1, 11);
  w->settings.limits.stack = 64 << 20; /* of sessions from now on */
  dmi_ox_session_free(w->at[0].session);
  unsigned char order = w->at[0].little;
  w->settings.order_sent = true;
  w->at[0].session = dmi_ox_session_new(&w->settings, world_known);
  dmi_ox_session_bytes(w->at[0].session, DMI_OX_CONTROL, &order, 1);
  dmi_ox_session_bytes(w->at[0].session, DMI_OX_DATA_STREAM, &order, 1);
  execute(w, 0, text);
  assert_true(dmi_ox_session_next(w->at[0].session, &action));
  assert_int_equal(action.act, DMI_OX_AGAIN);
  dmi_ox_action_free(&action);
  control(w, 0, DMI_OX_RESET);
  dmi_ox_session_again(w->at[0].session);
  assert_true(heard(w, 0, &message));
  assert_int_equal(message.tag, DMI_OX_SYNC_BALL);
  ball(w, 0);
  command(w, 0, DMI_OX_GET_SP);
  assert_popped(w, 0, "0");
  execute(w, 0, text);
  assert_popped(w, 0, "50000");
  world_free(w);
}

/* What a text makes counts with the stack; large numbers are for a thread. */
static void test_text_account(void **state) {
  (void)state;
  static char large[200000], text[2000000];
  struct world *w = world_new(1, 12);
  memset(large, '7', 100000);
  push_value(w, 0, DMI_ox_from_digits(large));
  push_text(w, 0, "a");
  command(w, 0, DMI_OX_SET_NAME);
  execute(w, 0, "a*a");
  world_run(w);
  assert_string_equal(DMI_ox_bytes(w->at[0].name, NULL), "*");
  dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_from_int64(3));
  assert_popped(w, 0, "3");
  execute(w, 0, "[a,a,a,a,a]");
  command(w, 0, DMI_OX_POP_CMO);
  struct dmi_ox_message message;
  assert_true(heard(w, 0, &message));
  assert_int_equal(DMI_ox_length(message.value), 5);
  DMI_ox_drop(message.value);
  size_t len = 0;
  text[len++] = '[';
  for (int i = 0; i < 40; i++) {
    text[len++] = 'a';
    text[len++] = ',';
  }
  text[len - 1] = ']';
  text[len] = '\0';
  execute(w, 0, text);
  char *error = popped(w, 0);
  assert_non_null(strstr(error, ",4,\"its values are too large for the session\""));
  free(error);
  for (len = 0; len < 400000; len += 2)
    memcpy(text + len, "1;", 3);
  execute(w, 0, text);
  error = popped(w, 0);
  assert_non_null(strstr(error, ",4,\"the text is too large for the session"));
  free(error);
  execute(w, 0, "1+1");
  assert_popped(w, 0, "2");
  world_free(w);
}

static void test_interrupt(void **state) {
  (void)state;
  struct world *w = world_new(1, 8);
  execute(w, 0, "twice(1)");
  world_run(w);
  control(w, 0, DMI_OX_INTERRUPT);
  char *text = popped(w, 0);
  assert_non_null(strstr(text, "interrupted"));
  free(text);
  control(w, 0, DMI_OX_INTERRUPT); /* nothing runs */
  command(w, 0, DMI_OX_GET_SP);
  assert_popped(w, 0, "0");
  world_free(w);
}

static void test_ends(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) {
    struct world *w = world_new(1, 9);
    execute(w, 0, i == 1 ? "1" : "twice(1)");
    world_run(w);
    assert_false(w->at[0].ended);
    if (i == 0) control(w, 0, DMI_OX_SHUTDOWN);
    if (i == 1) dmi_ox_session_eof(w->at[0].session, DMI_OX_DATA_STREAM);
    if (i == 2) control(w, 0, DMI_OX_KILL);
    if (i == 3) dmi_ox_session_eof(w->at[0].session, DMI_OX_CONTROL);
    if (i == 4) {
      command(w, 0, DMI_OX_SHUTDOWN);
      dmi_ox_session_returned(w->at[0].session, w->at[0].call, NULL);
    }
    world_run(w);
    assert_true(w->at[0].ended);
    world_free(w);
  }
}

/* A control connection whose client sends no byte of order; a server of network order. */
static void test_order(void **state) {
  (void)state;
  struct dmi_ox_settings settings = {
      .limits = {.message = 1000, .stack = 1000, .queue = 100, .depth = 3}};
  for (int i = 0; i < 4; i++) {
    struct dmi_ox_action action;
    struct dmi_ox_bytes bytes = {0};
    bool ended = false;
    settings.network = i == 3;
    struct dmi_ox_session *s = dmi_ox_session_new(&settings, world_known);
    for (int j = 0; j < 2; j++) {
      assert_true(dmi_ox_session_next(s, &action));
      assert_int_equal(action.act, DMI_OX_SEND);
      assert_int_equal(action.bytes.len, 1);
      assert_int_equal(action.bytes.at[0], i == 3 ? 0 : 1);
      dmi_ox_action_free(&action);
    }
    static const unsigned char orders[] = {0, 0, 0xff, 1};
    if (i > 0) dmi_ox_bytes_put(&bytes, &orders[i], 1);
    dmi_ox_encode_command(&bytes, false, 0, DMI_OX_SHUTDOWN);
    for (size_t at = 0; at < bytes.len; at++)
      dmi_ox_session_bytes(s, DMI_OX_CONTROL, bytes.at + at, 1);
    while (dmi_ox_session_next(s, &action))
      ended = action.act == DMI_OX_END;
    assert_true(ended);
    dmi_ox_bytes_free(&bytes);
    dmi_ox_session_free(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stack),         cmocka_unit_test(test_mathcap),
      cmocka_unit_test(test_texts),         cmocka_unit_test(test_functions),
      cmocka_unit_test(test_errors),        cmocka_unit_test(test_full),
      cmocka_unit_test(test_reset),         cmocka_unit_test(test_interrupt),
      cmocka_unit_test(test_ends),          cmocka_unit_test(test_order),
      cmocka_unit_test(test_many_resets),   cmocka_unit_test(test_early_reset),
      cmocka_unit_test(test_reset_of_text), cmocka_unit_test(test_text_account),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
