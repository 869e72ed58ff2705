/*
 * event_test.c - the event stream: rows of the table, lines of JSON, a reader that is slow or gone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/event.h"
#include "base/outlet.h"

/* ---- Rows ----------------------------------------------------------------------------------- */

static bool has_field(const struct dmi_event_row *row, const char *name, size_t length) {
  for (uint32_t i = 0; i < row->fields; i++) {
    if (strlen(row->field[i].name) == length && memcmp(row->field[i].name, name, length) == 0) {
      return true;
    }
  }
  return false;
}

/* True if all names in braces in this text are fields of this row. */
static bool braces_are_fields(const struct dmi_event_row *row, const char *text) {
  for (const char *at = text; (at = strchr(at, '{')) != NULL; at++) {
    const char *end = strchr(at, '}');
    if (end == NULL || !has_field(row, at + 1, (size_t)(end - at - 1))) return false;
  }
  return true;
}

static void test_rows(void **state) {
  (void)state;
  for (uint32_t i = 0; i < DMI_EVENT_NUM; i++)
    assert_true(braces_are_fields(&dmi_event_rows[i], dmi_event_rows[i].text));
  assert_false(braces_are_fields(&dmi_event_rows[DMI_EVENT_joined], "member {membre}"));
}

static void test_text(void **state) {
  const struct dmi_event stalled = {
      .type = DMI_EVENT_stalled,
      .stalled = {.name = "process 2 (node)", .since = 3661, .effect = "this {name} waits"}};
  const struct dmi_event unmapped = {.type = DMI_EVENT_unmapped, .unmapped = {0x100000000}};
  char line[200], small[10];
  (void)state;
  dmi_event_text(&stalled, line, sizeof line);
  assert_string_equal(line,
                      "waiting for process 2 (node) since 01:01:01 UTC: it does not answer; "
                      "this {name} waits");
  dmi_event_text(&stalled, small, sizeof small);
  assert_string_equal(small, "waiting f");
  dmi_event_text(&unmapped, line, sizeof line);
  assert_string_equal(line, "mapping 0x100000000 is unmapped");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static struct dmi_stream stream;

/* The line of an event after time and pid. */
static const char *encoded(const struct dmi_event *event) {
  static char line[DMI_OUTLET_LINE];
  size_t length = dmi_outlet_encode(line, &stream, event);
  assert_int_equal(length, strlen(line));
  assert_true(length < DMI_OUTLET_LINE && line[length - 1] == '\n');
  line[length - 1] = '\0';
  const char *event_at = strstr(line, "\"event\"");
  assert_non_null(event_at);
  return event_at;
}

static void test_json(void **state) {
  struct dmi_event event = {.type = DMI_EVENT_joined,
                            .joined = {.member = 7, .id = 3, .program = "ab"}};
  (void)state;
  dmi_stream_init(&stream);
  assert_string_equal(encoded(&event),
                      "\"event\":\"joined\",\"member\":7,\"id\":3,\"program\":\"ab\"}");
  dmi_stream_is(&stream, (dmi_id_t){3});
  assert_string_equal(
      encoded(&event),
      "\"event\":\"joined\",\"process\":3,\"member\":7,\"id\":3,\"program\":\"ab\"}");
  event = (struct dmi_event){.type = DMI_EVENT_unmapped, .unmapped = {UINT64_C(1) << 62}};
  assert_string_equal(encoded(&event),
                      "\"event\":\"unmapped\",\"process\":3,\"mapping\":\"0x4000000000000000\"}");
}

static const char *escaped(const char *text) {
  struct dmi_event event = {.type = DMI_EVENT_warning, .warning = {"net", text}};
  return strstr(encoded(&event), "\"text\":") + strlen("\"text\":");
}

static void test_escapes(void **state) {
  (void)state;
  assert_string_equal(escaped("plain"), "\"plain\"}");
  assert_string_equal(escaped("a\"b\\c\nd\x7f"), "\"a\\u0022b\\u005cc\\u000ad\\u007f\"}");
  assert_string_equal(escaped("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
                      "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"}");
  /* Latin-1, cut off, too long, a surrogate, too large, a byte that never is. */
  assert_string_equal(escaped("\xe9t\xe9"), "\"\\ufffdt\\ufffd\"}");
  assert_string_equal(escaped("\xe2\x82"), "\"\\ufffd\\ufffd\"}");
  assert_string_equal(escaped("\xc0\xaf"), "\"\\ufffd\\ufffd\"}");
  assert_string_equal(escaped("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"}");
  assert_string_equal(escaped("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"}");
  assert_string_equal(escaped("\xff"), "\"\\ufffd\"}");
  assert_string_equal(escaped(NULL), "\"\"}");
}

/* The line keeps its limit with any texts. */
static void test_long(void **state) {
  char text[8000];
  struct dmi_event event = {.type = DMI_EVENT_error, .error = {text, text}};
  (void)state;
  for (int i = 0; i < 2; i++) {
    memset(text, "x\x01"[i], sizeof text - 1);
    text[sizeof text - 1] = '\0';
    size_t length = strlen(encoded(&event));
    assert_in_range(length, 1900, DMI_OUTLET_LINE - 100);
  }
}

/* ---- Readers -------------------------------------------------------------------------------- */

struct counts {
  uint64_t events, lost, told; /* lines of "joined", of "lost", and the sum of the latter */
  uint64_t last;               /* member of the last "joined" */
};

static char text[4 << 20];
static size_t length;

/* Adds what is there to `text`. */
static void collect(int fd) {
  ssize_t more;
  while ((more = read(fd, text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)more;
  text[length] = '\0';
}

/* Checks that all lines are complete, and counts. */
static struct counts count(void) {
  struct counts counts = {0};
  for (char *at = text, *end; *at; at = end + 1) {
    const char *number;
    end = strchr(at, '\n');
    assert_non_null(end);
    assert_true(*at == '{' && end[-1] == '}');
    *end = '\0';
    if ((number = strstr(at, "\"event\":\"lost\",\"count\":")) != NULL) {
      counts.lost++;
      counts.told += strtoull(number + 23, NULL, 10);
    } else {
      number = strstr(at, "\"member\":");
      assert_non_null(number);
      counts.events++;
      counts.last = strtoull(number + 9, NULL, 10);
    }
  }
  return counts;
}

static void emit(uint64_t from, uint64_t to) {
  for (uint64_t i = from; i <= to; i++)
    dmi_emit(&stream, joined, .member = i, .id = i);
}

/* One, as a line of any length. */
static void emit_long(uint64_t member) {
  char host[800];
  size_t most = member * 37 % sizeof host;
  memset(host, 'h', most);
  host[most] = '\0';
  dmi_emit(&stream, member_joined, .member = member, .host = host);
}

/* A reader that reads nothing while `num` events are emitted loses some, and learns how many: with
 * the next event, or at the end. */
static void slow_reader(int reader, int writer, uint64_t num, bool at_end) {
  struct dmi_outlet outlet;
  struct counts counts;
  length = 0;
  fcntl(reader, F_SETFL, O_NONBLOCK);
  dmi_stream_init(&stream);
  assert_true(dmi_outlet_open(&outlet, &stream, writer, DMI_LOG_INFO, NULL));
  emit(1, num);
  collect(reader);
  assert_true(length > 0);
  if (!at_end) {
    num++;
    emit(num, num);
  }
  collect(reader);
  dmi_outlet_close(&outlet, &stream);
  collect(reader);
  counts = count();
  assert_int_equal(counts.lost, 1);
  assert_in_range(counts.told, 1, num - 100);
  assert_int_equal(counts.events + counts.told, num);
  if (!at_end) assert_int_equal(counts.last, num);
  close(reader);
}

static void test_slow_reader(void **state) {
  (void)state;
  for (int at_end = 0; at_end < 2; at_end++) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    slow_reader(ends[0], ends[1], 20000, at_end);
  }
}

/* The two ends of a pseudo-terminal in raw mode, which takes lines in pieces. */
static void terminal(int ends[2]) {
  struct termios raw;
  ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
  assert_true(ends[0] >= 0);
  assert_int_equal(grantpt(ends[0]), 0);
  assert_int_equal(unlockpt(ends[0]), 0);
  ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
  assert_true(ends[1] >= 0);
  assert_int_equal(tcgetattr(ends[1], &raw), 0);
  cfmakeraw(&raw);
  assert_int_equal(tcsetattr(ends[1], TCSANOW, &raw), 0);
}

/* Bytes of a line that did not fit go first when there is room again. */
static void test_pieces(void **state) {
  struct dmi_outlet outlet;
  struct counts counts;
  uint64_t num = 0, in_pieces = 0;
  int ends[2];
  (void)state;
  terminal(ends);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  length = 0;
  dmi_stream_init(&stream);
  assert_true(dmi_outlet_open(&outlet, &stream, ends[1], DMI_LOG_INFO, NULL));
  for (int round = 0; round < 500 && in_pieces < 3; round++) {
    while (outlet.lost == 0) {
      emit_long(++num);
      if (outlet.at > 0 && outlet.at < outlet.length) in_pieces++;
    }
    while (outlet.lost) { /* until our reading has made space */
      struct pollfd wait[] = {{.fd = ends[0], .events = POLLIN},
                              {.fd = ends[1], .events = POLLOUT}};
      assert_true(poll(wait, 2, -1) > 0);
      collect(ends[0]);
      emit_long(++num);
    }
  }
  collect(ends[0]);
  fcntl(ends[1], F_SETFL, 0); /* the rest is to come */
  dmi_outlet_close(&outlet, &stream);
  fcntl(ends[0], F_SETFL, 0); /* to the end */
  collect(ends[0]);
  counts = count();
  assert_true(in_pieces > 0);
  assert_true(counts.lost > 0);
  assert_int_equal(counts.events + counts.told, num);
  close(ends[0]);
}

static void test_gone_reader(void **state) {
  struct dmi_outlet outlet;
  int ends[2];
  (void)state;
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe(ends), 0);
  dmi_stream_init(&stream);
  assert_true(dmi_outlet_open(&outlet, &stream, ends[1], DMI_LOG_INFO, NULL));
  close(ends[0]);
  dmi_emit(&stream, opened);
  assert_int_equal(outlet.fd, -1);
  dmi_emit(&stream, closed);
  dmi_outlet_close(&outlet, &stream);
  assert_false(dmi_outlet_open(&outlet, &stream, 1 << 20, DMI_LOG_INFO, NULL));
}

/* ---- Who wants what ------------------------------------------------------------------------- */

static int worked_out;

static uint64_t work_out(void) {
  return (uint64_t)++worked_out;
}

static void test_wants(void **state) {
  struct dmi_outlet outlet;
  int ends[2];
  char line[100];
  (void)state;
  dmi_stream_init(&stream);
  dmi_emit(&stream, member_gone, .member = work_out());
  assert_int_equal(worked_out, 0); /* no subscriber */
  assert_int_equal(pipe(ends), 0);
  assert_true(dmi_outlet_open(&outlet, &stream, ends[1], DMI_LOG_INFO, NULL));
  dmi_emit(&stream, unmapped, .mapping = work_out());
  assert_int_equal(worked_out, 0); /* DEBUG */
  dmi_emit(&stream, member_gone, .member = work_out());
  assert_int_equal(worked_out, 1);
  assert_true(read(ends[0], line, sizeof line) > 0);
  dmi_outlet_close(&outlet, &stream);
  dmi_emit(&stream, member_gone, .member = work_out());
  assert_int_equal(worked_out, 1);
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),   cmocka_unit_test(test_text),
      cmocka_unit_test(test_json),   cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_long),   cmocka_unit_test(test_slow_reader),
      cmocka_unit_test(test_pieces), cmocka_unit_test(test_gone_reader),
      cmocka_unit_test(test_wants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
