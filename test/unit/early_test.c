/*
 * early_test.c - bytes of a page that are copied to the caller while the page is arriving: they
 * count as delivered only if all of them came this way and the read still waited.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "access/early.h"

#define BASE (UINT64_C(1) << 20)
#define PAGE ((uint64_t)1000)
#define OFF ((uint64_t)100)
#define LEN ((uint64_t)500)

static struct dmi_ops *ops;
static struct dmi_mapping *mapping;
static struct dmi_page page;
static struct dmi_op op;
static unsigned char body[PAGE], buf[LEN];
static struct dmi_msg msg;

static int begin(void **state) {
  (void)state;
  ops = dmi_ops_new();
  mapping = dmi_mapping_new(BASE, PAGE, 4, 1);
  memset(&page, 0, sizeof page);
  page.index = 2;
  page.map = &mapping->map;
  memset(&op, 0, sizeof op);
  op.mapping = mapping;
  op.page = &page;
  op.req.off = OFF;
  op.req.len = LEN;
  op.req.dst = buf;
  dmi_ops_add(ops, &op);
  for (uint64_t i = 0; i < PAGE; i++)
    body[i] = (unsigned char)(i * 7);
  memset(buf, 0, sizeof buf);
  msg = (struct dmi_msg){.type = DMI_MSG_DATA, .map = BASE, .page = 2};
  msg.data.fetch.n = 1;
  msg.body.len = PAGE;
  dmi_early_begin(&op);
  return 0;
}

static int finish(void **state) {
  (void)state;
  dmi_ops_free(ops);
  free(mapping);
  return 0;
}

/* Bytes from..to, in pieces of 130. */
static void arrive(uint64_t from, uint64_t to) {
  for (uint64_t off = from; off < to; off += 130)
    dmi_early_arrived(ops, &msg, body, off, off + 130 < to ? 130 : to - off);
}

static void test_whole(void **state) {
  (void)state;
  arrive(0, PAGE);
  dmi_early_step(ops, &page, &msg);
  assert_true(op.req.filled);
  assert_memory_equal(buf, body + OFF, LEN);
  dmi_ops_remove(ops, &op);
  dmi_early_stepped();
  assert_false(op.req.filled);
  dmi_early_end();
}

/* Some pieces were received by the daemon: the core has to copy. */
static void test_parts(void **state) {
  (void)state;
  arrive(130, PAGE);
  dmi_early_step(ops, &page, &msg);
  assert_false(op.req.filled);
  dmi_early_stepped();
  dmi_ops_remove(ops, &op);
  dmi_early_end();
}

/* If a message does not complete the read, its bytes do not count for the next one. */
static void test_next_message(void **state) {
  (void)state;
  arrive(0, PAGE);
  dmi_early_step(ops, &page, &msg);
  dmi_early_stepped();
  assert_false(op.req.filled);
  arrive(390, PAGE);
  dmi_early_step(ops, &page, &msg);
  assert_false(op.req.filled);
  dmi_early_stepped();
  arrive(0, 260); /* given up, and begun again */
  arrive(0, PAGE);
  dmi_early_step(ops, &page, &msg);
  assert_true(op.req.filled);
  dmi_early_stepped();
  dmi_early_end();
}

/* The read is completed in another way while pieces arrive: then its buffer must not be touched.
 */
static void test_completed(void **state) {
  unsigned char before[LEN];
  (void)state;
  arrive(0, 260);
  memcpy(before, buf, LEN);
  assert_memory_equal(buf, body + OFF, 160);
  assert_int_equal(buf[161], 0);
  dmi_ops_remove(ops, &op);
  arrive(260, PAGE);
  assert_memory_equal(buf, before, LEN);
  dmi_early_step(ops, &page, &msg);
  assert_false(op.req.filled);
  dmi_early_stepped();
  dmi_early_end();
}

/* Messages about other pages, of other kinds, or when no read waits, touch nothing. */
static void test_others(void **state) {
  static const unsigned char zeros[LEN];
  (void)state;
  msg.page = 1;
  arrive(0, PAGE);
  msg.page = 2;
  msg.map = BASE + 1;
  arrive(0, PAGE);
  msg.map = BASE;
  msg.type = DMI_MSG_GOT;
  arrive(0, PAGE);
  msg.type = DMI_MSG_DATA;
  dmi_early_step(ops, &page, &msg);
  assert_false(op.req.filled);
  dmi_early_end();
  arrive(0, PAGE);
  assert_memory_equal(buf, zeros, LEN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_whole, begin, finish),
      cmocka_unit_test_setup_teardown(test_parts, begin, finish),
      cmocka_unit_test_setup_teardown(test_next_message, begin, finish),
      cmocka_unit_test_setup_teardown(test_completed, begin, finish),
      cmocka_unit_test_setup_teardown(test_others, begin, finish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
