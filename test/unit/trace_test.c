/*
 * trace_test.c - parts of traces: rings that are full, or whose threads have ended; items that are
 * none; waits that go on; clocks that are ahead, drift, or answer late; lines of JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "base/trace_clock.h"
#include "base/trace_json.h"
#include "base/trace_open.h"
#include "base/trace_piece.h"

/* ---- Rings ----------------------------------------------------------------------------------- */

/* What was taken. */
struct taken {
  uint64_t threads, is_new, records, lost, last, most;
};

static bool take_thread(void *arg, const struct dmi_trace_thread *thread) {
  struct taken *taken = arg;
  taken->threads++;
  taken->is_new += thread->is_new;
  taken->lost += thread->lost;
  return true;
}

static bool take_record(void *arg, const struct dmi_trace_record *record) {
  struct taken *taken = arg;
  if (taken->records == taken->most) return false;
  taken->records++;
  taken->last = record->id;
  return true;
}

static struct taken take(struct dmi_trace *trace, uint64_t most) {
  struct taken taken = {.most = most};
  const struct dmi_trace_taker taker = {&taken, take_thread, take_record};
  dmi_trace_take(trace, &taker);
  return taken;
}

static void put(struct dmi_trace *trace, uint64_t num) {
  for (uint64_t i = 1; i <= num; i++)
    dmi_trace_step(trace, "step", 1, i);
}

static void *put_some(void *trace) {
  put(trace, 10);
  return NULL;
}

static void test_rings(void **state) {
  struct dmi_trace trace = {0};
  struct taken taken;
  pthread_t thread;
  (void)state;
  assert_false(dmi_trace_on(&trace));
  dmi_trace_begin(&trace);
  assert_true(dmi_trace_on(&trace));
  put(&trace, 5);
  taken = take(&trace, 3);
  assert_int_equal(taken.last, 3);
  taken = take(&trace, 100); /* the others are still there */
  assert_int_equal(taken.records, 2);
  assert_int_equal(taken.last, 5);
  assert_int_equal(taken.is_new, 0);
  taken = take(&trace, 100);
  assert_int_equal(taken.threads, 0);

  put(&trace, 3000); /* more than a ring has */
  taken = take(&trace, 10000);
  assert_int_equal(taken.records, 2048);
  assert_int_equal(taken.last, 2048);
  assert_int_equal(taken.lost, 3000 - 2048);
  put(&trace, 1);
  taken = take(&trace, 10000);
  assert_int_equal(taken.lost, 0); /* told once */
  assert_int_equal(taken.records, 1);

  /* A thread that has ended: its records are taken, and its ring is freed (a sanitizer looks). */
  assert_int_equal(pthread_create(&thread, NULL, put_some, &trace), 0);
  pthread_join(thread, NULL);
  taken = take(&trace, 100);
  assert_int_equal(taken.records, 10);
  assert_int_equal(taken.is_new, 1);
  dmi_trace_end(&trace);
  assert_false(dmi_trace_on(&trace));

  /* Once more, by a thread that has a ring of the first time. */
  dmi_trace_begin(&trace);
  put(&trace, 2);
  taken = take(&trace, 100);
  assert_int_equal(taken.is_new, 1);
  assert_int_equal(taken.records, 2);
  dmi_trace_end(&trace);
}

/* A busy thread does not keep others from being taken. */
static void test_turns(void **state) {
  struct dmi_trace trace = {0};
  struct taken taken;
  pthread_t thread;
  (void)state;
  dmi_trace_begin(&trace);
  assert_int_equal(pthread_create(&thread, NULL, put_some, &trace), 0);
  pthread_join(thread, NULL);
  put(&trace, 100);
  taken = take(&trace, 100); /* all of the busy one, which is the first */
  assert_int_equal(taken.last, 100);
  put(&trace, 100);
  taken = take(&trace, 10); /* now it is the other's turn, which has ten */
  assert_int_equal(taken.last, 10);
  assert_int_equal(taken.is_new, 0);
  taken = take(&trace, 1000);
  assert_int_equal(taken.records, 100);
  dmi_trace_end(&trace);
}

/* Threads that come and go while nobody takes what they have put in cost no more than so much. */
static void test_many(void **state) {
  struct dmi_trace trace = {0};
  struct taken taken;
  (void)state;
  dmi_trace_begin(&trace);
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_some, &trace), 0);
    pthread_join(thread, NULL);
  }
  taken = take(&trace, 10000);
  assert_int_equal(taken.records, 640);
  assert_int_equal(atomic_load(&trace.unseen), 360);
  dmi_trace_end(&trace);
}

struct ending {
  struct taken taken;
  struct dmi_trace *trace;
  pthread_t thread;
  sem_t is_full, go;
};

static void *put_too_many(void *arg) {
  struct ending *ending = arg;
  put(ending->trace, 2048);
  sem_post(&ending->is_full);
  sem_wait(&ending->go);
  put(ending->trace, 5);
  return NULL;
}

static bool ends_meanwhile(void *arg, const struct dmi_trace_record *record) {
  struct ending *ending = arg;
  if (!ending->taken.records) {
    sem_post(&ending->go);
    pthread_join(ending->thread, NULL);
  }
  return take_record(&ending->taken, record);
}

/* What a thread had to leave out while its records were taken is told, also if it has ended. */
static void test_ending(void **state) {
  struct dmi_trace trace = {0};
  struct ending ending = {.taken = {.most = 10000}, .trace = &trace};
  /* `taken` is the first of `ending`. */
  const struct dmi_trace_taker taker = {&ending, take_thread, ends_meanwhile};
  struct taken taken;
  (void)state;
  sem_init(&ending.is_full, 0, 0);
  sem_init(&ending.go, 0, 0);
  dmi_trace_begin(&trace);
  assert_int_equal(pthread_create(&ending.thread, NULL, put_too_many, &ending), 0);
  sem_wait(&ending.is_full);
  dmi_trace_take(&trace, &taker);
  assert_int_equal(ending.taken.records, 2048);
  taken = take(&trace, 10000);
  assert_int_equal(ending.taken.lost + taken.lost, 5);
  assert_int_equal(taken.records, 0);
  taken = take(&trace, 10000);
  assert_int_equal(taken.threads, 0); /* and once */
  dmi_trace_end(&trace);
  sem_destroy(&ending.is_full);
  sem_destroy(&ending.go);
}

#define MANY 200000

static void *put_many(void *trace) {
  put(trace, MANY);
  return NULL;
}

/* One thread takes while another puts in: each record comes once, in order, or is counted. */
static void test_both(void **state) {
  struct dmi_trace trace = {0};
  struct taken taken;
  uint64_t records = 0, lost = 0, last = 0;
  pthread_t thread;
  (void)state;
  dmi_trace_begin(&trace);
  assert_int_equal(pthread_create(&thread, NULL, put_many, &trace), 0);
  while (last < MANY && records + lost < MANY) {
    taken = take(&trace, 10000);
    if (taken.records) assert_true(taken.last > last);
    if (taken.records) last = taken.last;
    records += taken.records;
    lost += taken.lost;
  }
  pthread_join(thread, NULL);
  taken = take(&trace, 10000); /* what was lost last */
  assert_int_equal(records + lost + taken.lost + taken.records, MANY);
  dmi_trace_end(&trace);
}

static void test_began(void **state) {
  int call = 0, other = 0;
  int64_t began;
  uint32_t asked;
  (void)state;
  assert_int_equal(dmi_trace_began(&call, 0, &asked), 0);
  dmi_trace_asks(7, 0, 64); /* no call has begun */
  dmi_trace_begins(&call);
  dmi_trace_asks(2, 4096, 64);
  dmi_trace_asks(3, 4096, 64);
  dmi_trace_begins(&call);
  assert_int_equal(dmi_trace_began(&other, 4096, &asked), 0);
  assert_int_equal(asked, 0);
  began = dmi_trace_began(&call, 4159, &asked);
  assert_int_equal(asked, 2);  /* the first */
  dmi_trace_asks(5, 4096, 64); /* what it sends while it waits */
  assert_true(began > 0 && began <= dmi_clock_ns());
  assert_int_equal(dmi_trace_began(&call, 4159, &asked), 0);
  assert_int_equal(asked, 0);
  dmi_trace_begins(&call);
  dmi_trace_asks(2, 4096, 64);
  assert_true(dmi_trace_began(&call, 4160, &asked) > 0);
  assert_int_equal(asked, 0); /* it was for another page */
}

/* What was taken last. */
static bool keep_record(void *arg, const struct dmi_trace_record *record) {
  *(struct dmi_trace_record *)arg = *record;
  return true;
}

static bool keep_thread(void *arg, const struct dmi_trace_thread *thread) {
  (void)arg;
  return thread->tid != 0;
}

/* A wait is a slice, from where the call has begun, if that is known; but not one that had begun
 * before the trace. */
static void test_waits(void **state) {
  struct dmi_trace trace = {0};
  struct dmi_doings doings = {0};
  struct dmi_trace_record record = {0};
  const struct dmi_trace_taker taker = {&record, keep_thread, keep_record};
  int64_t began = dmi_clock_ns();
  bool noted;
  (void)state;
  dmi_trace_watch(&trace, &doings);
  dmi_doing_enter(&doings, DMI_DOING_OTHER, 0);
  noted = dmi_doing_waits(&doings, DMI_DOING_PAGE, 1, 2, 3);
  dmi_trace_begin(&trace);
  dmi_doing_waited(noted);
  dmi_trace_take(&trace, &taker);
  assert_int_equal(record.kind, 0);
  for (int i = 0; i < 2; i++) {
    if (i == 0) dmi_trace_since(began, 2); /* for one wait only */
    dmi_doing_waited(dmi_doing_waits(&doings, DMI_DOING_PAGE, 4, 5, 6));
    dmi_trace_take(&trace, &taker);
    assert_int_equal(record.kind, DMI_TRACE_CALL);
    assert_int_equal(record.addr, 4);
    assert_int_equal(record.size, 5);
    assert_int_equal(record.id, 6);
    assert_int_equal(record.member, i == 0 ? 2 : 0);
    assert_true(i == 0 ? record.begin == began : record.begin > began);
    assert_true(record.end >= record.begin);
  }
  dmi_trace_end(&trace);
  dmi_doing_end_all(&doings);
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void test_items(void **state) {
  char piece[300];
  struct dmi_trace_item item = {.kind = DMI_TRACE_NAME, .name = 1, .text = 8}, got;
  const char *text;
  size_t length = 0, at = 0;
  (void)state;
  assert_true(dmi_trace_item_put(piece, sizeof(piece), &length, &item, "DMI_read"));
  item = (struct dmi_trace_item){.kind = DMI_TRACE_CALL, .name = 1, .begin = 5, .end = 9};
  assert_true(dmi_trace_item_put(piece, sizeof(piece), &length, &item, NULL));
  item = (struct dmi_trace_item){.kind = DMI_TRACE_THREAD, .text = 3};
  assert_true(dmi_trace_item_put(piece, sizeof(piece), &length, &item, "one"));
  assert_int_equal(length, 3 * sizeof(item) + 8 + 8);
  assert_false(dmi_trace_item_put(piece, sizeof(piece), &length, &item, "one")); /* is too much */
  assert_true(dmi_trace_piece_good(piece, length));
  assert_true(dmi_trace_item_get(piece, length, &at, &got, &text));
  assert_memory_equal(text, "DMI_read", 8);
  assert_true(dmi_trace_item_get(piece, length, &at, &got, &text));
  assert_int_equal(got.end, 9);

  /* Each cut, and each wrong kind, is noticed. */
  for (size_t cut = 1; cut < length; cut++) {
    bool whole = cut == sizeof(item) + 8 || cut == 2 * sizeof(item) + 8;
    assert_int_equal(dmi_trace_piece_good(piece, cut), whole);
  }
  piece[0] = 0;
  assert_false(dmi_trace_piece_good(piece, length));
  piece[0] = DMI_TRACE_ITEM_KINDS;
  assert_false(dmi_trace_piece_good(piece, length));
  piece[0] = DMI_TRACE_NAME;
  piece[3] = 3; /* a text of more than 512 bytes */
  assert_false(dmi_trace_piece_good(piece, length));
}

/* Records that were left out are told once, by the first piece that has room for that. */
static void test_lost(void **state) {
  char piece[sizeof(struct dmi_trace_item)];
  struct dmi_trace_item got;
  const char *text;
  size_t length = 1, at = 0;
  _Atomic uint64_t lost = 7;
  (void)state;
  dmi_trace_lost_put(piece, sizeof(piece), &length, &lost);
  assert_int_equal(length, 1);
  assert_int_equal(atomic_load(&lost), 7);
  length = 0;
  dmi_trace_lost_put(piece, sizeof(piece), &length, &lost);
  assert_int_equal(atomic_load(&lost), 0);
  assert_true(dmi_trace_item_get(piece, length, &at, &got, &text));
  assert_int_equal(got.kind, DMI_TRACE_LOST);
  assert_int_equal(got.size, 7);
  length = 0;
  dmi_trace_lost_put(piece, sizeof(piece), &length, &lost);
  assert_int_equal(length, 0);
}

/* Of what a faulty process sends nothing is read that is not there (a sanitizer looks), and each
 * item becomes a line. */
static void test_noise(void **state) {
  uint64_t random = 1, items = 0;
  (void)state;
  for (int round = 0; round < 20000; round++) {
    const size_t length = (size_t)(random >> 33) % 600 + 1;
    unsigned char *piece = malloc(length + 1); /* of this length, so that more is noticed */
    struct dmi_trace_item item;
    const char *text;
    size_t at = 0;
    assert_non_null(piece);
    for (size_t i = 0; i < length; i++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
      piece[i] = random >> 40 & 1 ? (unsigned char)(random >> 50) : 0;
      if (i % sizeof(item) == 0) piece[i] = 1 + (unsigned char)(random >> 57) % 13;
      if (i % sizeof(item) == 3) piece[i] = random >> 60 == 0; /* few long texts */
    }
    while (dmi_trace_item_get(piece, length, &at, &item, &text)) {
      char line[DMI_TRACE_LINE], end[DMI_TRACE_TEXT + 1];
      struct dmi_json json = {line, 0, sizeof(line)};
      const struct dmi_trace_line what = {.item = &item, .name = "\xff", .text = end};
      memcpy(end, text, item.text);
      end[item.text] = '\0';
      dmi_trace_json(&json, &what);
      assert_true(json.at < sizeof(line));
      items++;
    }
    free(piece);
  }
  assert_true(items > 1000);
}

/* ---- Waits that go on ------------------------------------------------------------------------ */

/* How an item of this thread is written; `begin` of the wait that is to be ended before, or 0. */
static enum dmi_trace_open_way look(struct dmi_trace_opens *opens, uint8_t kind, uint32_t tid,
                                    int64_t begin, int64_t end, int64_t lost_begin) {
  const struct dmi_trace_item item = {.kind = kind, .tid = tid, .begin = begin, .end = end};
  struct dmi_trace_open lost = {0};
  enum dmi_trace_open_way way;
  assert_int_equal(dmi_trace_open_look(opens, &item, &way, &lost), lost_begin != 0);
  assert_int_equal(lost.begin, lost_begin);
  return way;
}

static void test_open(void **state) {
  struct dmi_trace_opens opens = {0};
  struct dmi_trace_open open;
  (void)state;
  assert_false(dmi_trace_open_rest(&opens, &open));
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 1, 10, 20, 0), DMI_TRACE_WHOLE);
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 30, 40, 0), DMI_TRACE_BEGINS);
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 30, 50, 0), DMI_TRACE_GOES_ON);
  /* Calls before it come later, as do those of others, messages, and what is not about calls. */
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 1, 22, 25, 0), DMI_TRACE_WHOLE);
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 2, 28, 60, 0), DMI_TRACE_WHOLE);
  assert_int_equal(look(&opens, DMI_TRACE_SEND, 1, 45, 46, 0), DMI_TRACE_WHOLE);
  /* Its end: the call has begun with its first message. */
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 1, 28, 60, 0), DMI_TRACE_ENDS);
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 1, 61, 62, 0), DMI_TRACE_WHOLE);
  /* Its end was left out. */
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 70, 80, 0), DMI_TRACE_BEGINS);
  assert_int_equal(look(&opens, DMI_TRACE_CALL, 1, 90, 95, 70), DMI_TRACE_WHOLE);
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 100, 110, 0), DMI_TRACE_BEGINS);
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 120, 130, 100), DMI_TRACE_BEGINS);
  assert_int_equal(look(&opens, DMI_TRACE_OPEN, 1, 120, 140, 0), DMI_TRACE_GOES_ON);
  /* What is left. */
  assert_true(dmi_trace_open_rest(&opens, &open));
  assert_int_equal(open.tid, 1);
  assert_int_equal(open.begin, 120);
  assert_int_equal(open.end, 140);
  assert_false(dmi_trace_open_rest(&opens, &open));
}

/* Of a faulty process no more are kept than so many. */
static void test_open_many(void **state) {
  struct dmi_trace_opens opens = {0};
  struct dmi_trace_open open;
  uint32_t num = 0;
  (void)state;
  for (uint32_t tid = 1; tid <= 2 * DMI_TRACE_OPEN_MOST; tid++)
    num += look(&opens, DMI_TRACE_OPEN, tid, 1, 2, 0) == DMI_TRACE_BEGINS;
  assert_int_equal(num, DMI_TRACE_OPEN_MOST);
  for (; num; num--)
    assert_true(dmi_trace_open_rest(&opens, &open));
  assert_false(dmi_trace_open_rest(&opens, &open));
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* A clock that is `ahead` ns and `fast` ns per second, asked at `now` (ours); the question takes
 * `out` ns and the answer `back`. */
static void answer(struct dmi_trace_clock *clock, int64_t now, int64_t ahead, int64_t fast,
                   int64_t out, int64_t back) {
  const int64_t got = now + out;
  const struct dmi_trace_answer one = {now, got + ahead + got / 1000000000 * fast,
                                       got + ahead + got / 1000000000 * fast, got + back};
  dmi_trace_clock_answer(clock, &one);
}

static int64_t off(struct dmi_trace_clock *clock, int64_t ours, int64_t ahead, int64_t fast) {
  return dmi_trace_clock_ours(clock, ours + ahead + ours / 1000000000 * fast) - ours;
}

#define SECOND INT64_C(1000000000)

static void test_clock(void **state) {
  struct dmi_trace_clock clock = {0};
  (void)state;
  dmi_trace_clock_round(&clock); /* without an answer it is none */
  assert_false(clock.is_known);
  answer(&clock, SECOND, -70 * SECOND, 0, 900000, 10000); /* late: there were others before it */
  answer(&clock, SECOND, -70 * SECOND, 0, 20000, 30000);
  answer(&clock, SECOND, -70 * SECOND, 0, 5000, 800000);
  dmi_trace_clock_round(&clock);
  assert_true(clock.is_known);
  assert_in_range(clock.error, 25000, 25001);
  assert_true(llabs(off(&clock, 2 * SECOND, -70 * SECOND, 0)) <= 5000);

  /* One that differs by less than can be measured is the same. */
  memset(&clock, 0, sizeof(clock));
  answer(&clock, SECOND, 0, 0, 20000, 30000);
  dmi_trace_clock_round(&clock);
  assert_int_equal(dmi_trace_clock_ours(&clock, 12345), 12345);
}

/* A clock that is 100 us a second fast (100 ppm) is followed, and times never go back. */
static void test_drift(void **state) {
  struct dmi_trace_clock clock = {0};
  const int64_t ahead = 5000 * SECOND, fast = 100000;
  int64_t last = 0, worst = 0;
  (void)state;
  for (int64_t s = 1; s < 30; s++) {
    answer(&clock, s * SECOND, ahead, fast, 10000, 12000);
    dmi_trace_clock_round(&clock);
    for (int64_t i = 0; i < 100; i++) { /* events each 10 ms; that clock steps each second */
      const int64_t now = s * SECOND + i * SECOND / 100;
      const int64_t theirs = now + ahead + (int64_t)((double)now * 1e-9 * (double)fast);
      const int64_t got = dmi_trace_clock_ours(&clock, theirs);
      assert_true(got > last);
      last = got;
      if (s > 5 && llabs(got - now) > worst) worst = llabs(got - now);
    }
  }
  assert_true(worst < 20000); /* ns; without drift it would be 100 us behind */
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void check_line(const struct dmi_trace_line *line, const char *wanted) {
  char text[DMI_TRACE_LINE];
  struct dmi_json json = {text, 0, sizeof(text)};
  dmi_trace_json(&json, line);
  text[json.at] = '\0';
  assert_string_equal(text, wanted);
}

static void test_json(void **state) {
  struct dmi_trace_item item = {.kind = DMI_TRACE_CALL, .tid = 7, .addr = 0x100, .size = 8};
  struct dmi_trace_line line = {.item = &item,
                                .member = 2,
                                .name = "DMI_read",
                                .waits = "page",
                                .begin = 1234567,
                                .end = 1234568};
  (void)state;
  check_line(&line,
             ",\n{\"ph\":\"X\",\"pid\":2,\"tid\":7,\"name\":\"DMI_read\",\"cat\":\"call\","
             "\"ts\":1234.567,\"dur\":0.001,\"args\":{\"waits\":\"page\","
             "\"addr\":\"0x100\",\"size\":8}}");
  line.ends = true; /* a wait that was written as begun */
  check_line(&line,
             ",\n{\"ph\":\"E\",\"pid\":2,\"tid\":7,\"name\":\"DMI_read\",\"cat\":\"call\","
             "\"ts\":1234.568,\"args\":{}}");
  item.kind = DMI_TRACE_OPEN; /* and of which no end is known */
  check_line(&line,
             ",\n{\"ph\":\"E\",\"pid\":2,\"tid\":7,\"name\":\"DMI_read\",\"cat\":\"call\","
             "\"ts\":1234.568,\"args\":{\"unfinished\":true}}");
  line.ends = false;
  check_line(&line,
             ",\n{\"ph\":\"B\",\"pid\":2,\"tid\":7,\"name\":\"DMI_read\",\"cat\":\"call\","
             "\"ts\":1234.567,\"args\":{\"waits\":\"page\",\"addr\":\"0x100\",\"size\":8}}");
  item = (struct dmi_trace_item){.kind = DMI_TRACE_RECEIVE, .tid = 7, .member = 3, .id = 0xabc};
  line.name = "GOT";
  check_line(&line,
             ",\n{\"ph\":\"X\",\"pid\":2,\"tid\":7,\"name\":\"receive GOT\","
             "\"cat\":\"message\",\"ts\":1234.567,\"dur\":0.001,\"args\":{\"from\":3,"
             "\"mapping\":\"0x0\",\"page\":0,\"bytes\":0}},\n{\"ph\":\"f\",\"pid\":2,"
             "\"tid\":7,\"name\":\"message\",\"cat\":\"message\",\"id\":\"0xabc\","
             "\"bp\":\"e\",\"ts\":1234.567}");
  item = (struct dmi_trace_item){.kind = DMI_TRACE_SEND, .tid = 7, .member = 3};
  line.name = "\"}"; /* of a faulty process */
  check_line(&line,
             ",\n{\"ph\":\"X\",\"pid\":2,\"tid\":7,\"name\":\"send \\u0022}\","
             "\"cat\":\"message\",\"ts\":1234.567,\"dur\":0.001,\"args\":{\"to\":3,"
             "\"mapping\":\"0x0\",\"page\":0,\"bytes\":0}}");
  line.name = "GOT";
  item = (struct dmi_trace_item){.kind = DMI_TRACE_THREAD, .tid = 7};
  line.text = "a \"b\"\n";
  check_line(&line,
             ",\n{\"ph\":\"M\",\"pid\":2,\"tid\":7,\"name\":\"thread_name\","
             "\"args\":{\"name\":\"a \\u0022b\\u0022\\u000a\"}}");
  item = (struct dmi_trace_item){.kind = DMI_TRACE_LOST, .tid = 7, .size = 9};
  line.begin = -1500;
  check_line(&line,
             ",\n{\"ph\":\"i\",\"pid\":2,\"tid\":7,\"name\":\"events lost\","
             "\"cat\":\"lost\",\"s\":\"t\",\"ts\":-1.500,\"args\":{\"count\":9}}");
  item.kind = DMI_TRACE_NAME; /* is for what comes behind it */
  check_line(&line, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rings), cmocka_unit_test(test_turns),    cmocka_unit_test(test_began),
      cmocka_unit_test(test_waits), cmocka_unit_test(test_many),     cmocka_unit_test(test_both),
      cmocka_unit_test(test_ending),
      cmocka_unit_test(test_items), cmocka_unit_test(test_lost),     cmocka_unit_test(test_noise),
      cmocka_unit_test(test_clock), cmocka_unit_test(test_drift),    cmocka_unit_test(test_json),
      cmocka_unit_test(test_open),  cmocka_unit_test(test_open_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
