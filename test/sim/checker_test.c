/*
 * checker_test.c - hand-made histories that the checker must accept, and some that it must not.
 *
 * Prints TAP.
 */
#include <stdio.h>
#include <string.h>

#include "checker.h"

static int number, failed;

static void expect(const char *what, const struct hist *hist, bool good) {
  enum check_result result = check_page(hist, NULL);
  bool ok = (result == CHECK_OK) == good;
  printf("%sok %d - %s\n", ok ? "" : "not ", ++number, what);
  if (!ok) failed++;
}

static void expect_num(const char *what, uint32_t num, uint32_t wanted) {
  printf("%sok %d - %s\n", num == wanted ? "" : "not ", ++number, what);
  if (num != wanted) {
    failed++;
    printf("# is %u, wanted %u\n", num, wanted);
  }
}

static void wr(struct hist *h, uint64_t call, uint64_t back, uint32_t uid, uint8_t off,
               const char *bytes) {
  uint8_t len = (uint8_t)strlen(bytes);
  hist_add(h, call, back, uid, HIST_WRITE, off, len, bytes, len, NULL, 0);
}

/* '.' stands for a byte 0. */
static void rd(struct hist *h, uint64_t call, uint64_t back, uint32_t uid, uint8_t off,
               const char *bytes) {
  char seen[HIST_PAGE_MAX];
  uint8_t len = (uint8_t)strlen(bytes);
  for (uint8_t i = 0; i < len; i++)
    seen[i] = bytes[i] == '.' ? 0 : bytes[i];
  hist_add(h, call, back, uid, HIST_READ, off, len, NULL, 0, seen, len);
}

static void cas(struct hist *h, uint64_t call, uint64_t back, uint32_t uid, uint8_t off,
                const char *cmp_swap, bool flag) {
  uint16_t len = (uint16_t)strlen(cmp_swap);
  unsigned char in[HIST_PAGE_MAX], answer = flag;
  for (uint16_t i = 0; i < len; i++)
    in[i] = cmp_swap[i] == '.' ? 0 : (unsigned char)cmp_swap[i];
  hist_add(h, call, back, uid, HIST_CAS, off, (uint8_t)(len / 2), in, len, &answer, 1);
}

static void fad(struct hist *h, uint64_t call, uint64_t back, uint32_t uid, uint64_t add,
                uint64_t old) {
  hist_add(h, call, back, uid, HIST_FAD, 0, 8, &add, 8, &old, 8);
}

static void one_page(void) {
  struct hist h;
  hist_init(&h, 8);
  expect("nothing happened", &h, true);
  wr(&h, 1, 4, 1, 0, "a");
  rd(&h, 2, 3, 2, 0, ".");
  rd(&h, 5, 6, 2, 0, "a");
  expect("old value during the write, new after it", &h, true);
  rd(&h, 7, 8, 3, 0, ".");
  expect("stale read", &h, false);
  hist_fini(&h);

  hist_init(&h, 8);
  wr(&h, 1, 10, 1, 0, "a");
  rd(&h, 2, 3, 2, 0, "a");
  rd(&h, 4, 5, 3, 0, ".");
  expect("the new value, then the old one, while the write is in flight", &h, false);
  hist_fini(&h);

  hist_init(&h, 8);
  wr(&h, 1, 10, 1, 0, "aa");
  wr(&h, 2, 11, 2, 0, "bb");
  rd(&h, 12, 13, 3, 0, "ab");
  expect("torn read", &h, false);
  hist_fini(&h);

  hist_init(&h, 8);
  wr(&h, 1, 10, 1, 0, "aa");
  wr(&h, 2, 11, 2, 1, "bb");
  rd(&h, 12, 13, 3, 0, "abb");
  expect("writes that overlap, in the order that fits", &h, true);
  rd(&h, 14, 15, 3, 0, "aab");
  expect("and then in the other one", &h, false);
  hist_fini(&h);
}

static void atomics(void) {
  struct hist h;
  hist_init(&h, 8);
  fad(&h, 1, 10, 1, 1, 0);
  fad(&h, 2, 11, 2, 1, 1);
  fad(&h, 3, 12, 3, 1, 2);
  expect("three additions at once", &h, true);
  fad(&h, 13, 14, 3, 1, 2);
  expect("lost update", &h, false);
  hist_fini(&h);

  hist_init(&h, 8);
  cas(&h, 1, 10, 1, 0, ".a", true);
  cas(&h, 2, 11, 2, 0, ".b", true);
  expect("two winners of a compare-and-swap", &h, false);
  hist_fini(&h);

  hist_init(&h, 8);
  cas(&h, 1, 10, 1, 0, ".a", true);
  cas(&h, 2, 11, 2, 0, ".b", false);
  rd(&h, 3, 4, 3, 0, "a");
  expect("one winner", &h, true);
  cas(&h, 12, 13, 2, 0, "ab", false);
  expect("a compare-and-swap that had to succeed", &h, false);
  hist_fini(&h);
}

static void open_ops(void) {
  struct hist h;
  hist_init(&h, 8);
  wr(&h, 1, HIST_OPEN, 1, 0, "a");
  rd(&h, 5, 6, 2, 0, ".");
  expect("an operation that failed may have done nothing", &h, true);
  rd(&h, 7, 8, 2, 0, "a");
  expect("or something later", &h, true);
  rd(&h, 9, 10, 2, 0, ".");
  expect("but not for a while only", &h, false);
  hist_fini(&h);
}

/* One that was lost with its process, which can have had an effect until the others had recovered.
 */
static void open_until(void) {
  for (uint64_t late = 0; late < 2; late++) {
    struct hist h;
    hist_init(&h, 8);
    wr(&h, 1, HIST_OPEN, 1, 0, "a");
    h.op[0].until = 7;
    rd(&h, 2, 3, 2, 0, ".");
    expect("an operation that was lost may have done nothing", &h, true);
    rd(&h, 5 + 3 * late, 6 + 3 * late, 2, 0, late ? "." : "a");
    expect("or something before its deadline", &h, true);
    rd(&h, 10, 11, 3, 0, "a");
    expect("but not behind it", &h, !late);
    wr(&h, 12, 13, 3, 0, "b");
    rd(&h, 14, 15, 2, 0, "b");
    expect("and the rest goes on", &h, !late);
    hist_fini(&h);
  }
}

/* Many that were lost, of which few have taken effect: all sets of them would be too many. */
static void lost_ops(void) {
  struct hist h;
  hist_init(&h, 8);
  for (uint64_t i = 0; i < 24; i++)
    fad(&h, 1 + i, HIST_OPEN, (uint32_t)(i + 2), UINT64_C(1) << (2 * i), 0);
  fad(&h, 100, 101, 1, 0, UINT64_C(1) << 40 | UINT64_C(1) << 22 | 1);
  expect("three of 24 that never returned", &h, true);
  hist_fini(&h);
}

/* Two writers, two readers that see the writes in different orders: each page's part is checked
 * alone, in real time, and one of them must be bad wherever the reads are placed. */
static void iriw(void) {
  static const uint64_t at[3][4] = {{10, 20, 12, 22}, {10, 30, 20, 25}, {20, 30, 3, 5}};
  for (int i = 0; i < 3; i++) {
    struct hist x, y;
    hist_init(&x, 8);
    hist_init(&y, 8);
    wr(&x, 1, 100, 1, 0, "a");
    wr(&y, 2, 99, 2, 0, "b");
    uint64_t r1x = at[i][0], r1y = at[i][1], r2y = at[i][2], r2x = at[i][3];
    if (r1x < r2x) rd(&x, r1x, r1x + 1, 3, 0, "a");
    rd(&x, r2x, r2x + 1, 4, 0, ".");
    if (r1x > r2x) rd(&x, r1x, r1x + 1, 3, 0, "a");
    if (r2y < r1y) rd(&y, r2y, r2y + 1, 4, 0, "b");
    rd(&y, r1y, r1y + 1, 3, 0, ".");
    if (r2y > r1y) rd(&y, r2y, r2y + 1, 4, 0, "b");
    bool good = check_page(&x, NULL) == CHECK_OK && check_page(&y, NULL) == CHECK_OK;
    printf("%sok %d - IRIW over two pages, timing %d\n", good ? "not " : "", ++number, i);
    if (good) failed++;
    hist_fini(&x);
    hist_fini(&y);
  }
}

/* Store buffering: each thread writes one page and then reads zero from the other. */
static void store_buffering(void) {
  struct hist x, y;
  hist_init(&x, 8);
  hist_init(&y, 8);
  wr(&x, 1, 3, 1, 0, "a");
  wr(&y, 2, 5, 2, 0, "b");
  rd(&y, 4, 8, 1, 0, ".");
  rd(&x, 6, 7, 2, 0, ".");
  bool good = check_page(&x, NULL) == CHECK_OK && check_page(&y, NULL) == CHECK_OK;
  printf("%sok %d - store buffering over two pages\n", good ? "not " : "", ++number);
  if (good) failed++;
  hist_fini(&x);
  hist_fini(&y);
}

static void shrinking(void) {
  struct hist h, small;
  uint64_t time = 1;
  hist_init(&h, 8);
  for (int i = 0; i < 200; i++) {
    char bytes[3] = {(char)('b' + i % 20), (char)('c' + i % 7), 0};
    wr(&h, time, time + 1, 1, (uint8_t)(2 * (i % 4)), bytes);
    rd(&h, time + 2, time + 3, 2, (uint8_t)(2 * (i % 4)), bytes);
    time += 4;
  }
  expect("many operations one after another", &h, true);
  wr(&h, time, time + 1, 1, 0, "xy");
  rd(&h, time + 2, time + 3, 3, 0, "fc");
  for (int i = 0; i < 50; i++) {
    wr(&h, time + 4, time + 5, 1, 4, "zz");
    time += 4;
  }
  expect("one stale read among them", &h, false);
  check_shrink(&h, &small);
  expect("the shrunk history", &small, false);
  printf("# shrunk from %u to %u operations\n", h.num, small.num);
  expect_num("it is short", small.num <= 24, 1);
  hist_fini(&h);
  hist_fini(&small);

  hist_init(&h, 8);
  for (time = 1; time < 400; time += 4)
    wr(&h, time, time + 1, 1, 0, time < 397 ? "p" : "q");
  wr(&h, time, time + 1, 1, 4, "v");
  wr(&h, time + 2, time + 3, 1, 4, "w");
  rd(&h, time + 4, time + 5, 2, 0, "q...v");
  check_shrink(&h, &small);
  expect_num("only the page before and the stale read remain", small.num, 2);
  hist_fini(&h);
  hist_fini(&small);
}

/* Many writes at the same time that nobody reads: there are very many orders, but few states. */
static void wide(void) {
  struct hist h;
  char bytes[2] = "a", seen[13] = "";
  hist_init(&h, 16);
  for (uint8_t i = 0; i < 12; i++) {
    bytes[0] = (char)('a' + i);
    wr(&h, 1u + i, 100u + i, i + 1u, i, bytes);
    seen[i] = bytes[0];
  }
  rd(&h, 200, 201, 1, 0, seen);
  expect("twelve writes at once", &h, true);
  seen[5] = 'z';
  rd(&h, 202, 203, 1, 0, seen);
  expect("and a value that nobody wrote", &h, false);
  hist_fini(&h);
}

int main(void) {
  one_page();
  atomics();
  open_ops();
  open_until();
  lost_ops();
  iriw();
  store_buffering();
  shrinking();
  wide();
  printf("1..%d\n", number);
  return failed != 0;
}
