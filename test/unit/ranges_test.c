/*
 * ranges_test.c - lists of ranges in messages: which are accepted, which are refused, and that a
 * refused one changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/page.h"
#include "core/ranges.h"

#define PAGE 100u
#define ME 1u
#define OTHER 2u

static bool is_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid == ME || uid == OTHER;
}

/* A process and a page that it owns, or of which it has an UPDATE copy. */
struct place {
  struct dmi_core core;
  struct dmi_map map;
  struct dmi_page page;
  unsigned char before[PAGE];
};

static void place_make(struct place *place, bool owner) {
  memset(place, 0, sizeof(*place));
  place->core.self = ME;
  place->core.is_member = is_member;
  place->map.base = 4096;
  place->map.page_size = PAGE;
  place->map.page_num = 1;
  atomic_store(&place->map.home, owner ? ME : OTHER);
  dmi_page_init(&place->core, &place->map, &place->page, 0);
  place->page.frame = dmi_frame_new(PAGE);
  for (unsigned i = 0; i < PAGE; i++)
    place->page.frame->bytes[i] = place->before[i] = (unsigned char)(i + 1);
  place->page.version.n = 7;
  if (!owner) place->page.copy = DMI_KIND_UPDATE;
}

/* A list, followed by `bytes` bytes. */
static struct dmi_slice body_of(const struct dmi_range *range, uint64_t num, uint64_t bytes) {
  uint64_t list = num * sizeof(*range);
  struct dmi_frame *frame = dmi_frame_new(list + bytes);
  memcpy(frame->bytes, range, list);
  memset(frame->bytes + list, 0xcc, bytes);
  return (struct dmi_slice){frame, frame->bytes, frame->size};
}

struct sent {
  bool good;
  uint32_t num;
  struct dmi_msg first;
};

/* Gives the message to a place; keeps what is sent first. */
static struct sent give(struct place *place, struct dmi_msg *msg) {
  struct dmi_out out;
  struct sent sent = {0};
  dmi_out_init(&out);
  sent.good = dmi_page_message(&place->core, &place->page, OTHER, msg, NULL, &out);
  sent.num = out.num;
  if (out.num) sent.first = out.act[0].msg;
  for (uint32_t i = 1; i < out.num; i++)
    dmi_slice_drop(&out.act[i].msg.body);
  dmi_out_free(&out);
  if (!sent.good) dmi_slice_drop(&msg->body);
  return sent;
}

static struct dmi_msg about(uint8_t type, const struct dmi_range *range, uint64_t num,
                            uint64_t len) {
  struct dmi_msg msg = {.type = type, .origin = OTHER, .map = 4096};
  if (type == DMI_MSG_UPDATE) {
    msg.update = (struct dmi_msg_update){.version = {8}, .len = len, .ranges = num};
  } else {
    msg.access = (struct dmi_msg_access){.op = {5}, .len = len, .ranges = num};
  }
  msg.body = body_of(range, num, type == DMI_MSG_GET ? 0 : len);
  return msg;
}

static uint64_t total(const struct dmi_range *range, uint64_t num) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < num; i++)
    sum += range[i].len;
  return sum;
}

/* Refused as GET, PUT and UPDATE, with nothing changed and nothing sent. */
static void refused(const struct dmi_range *range, uint64_t num, uint64_t claimed, uint64_t len,
                    uint64_t cut) {
  static const uint8_t types[] = {DMI_MSG_GET, DMI_MSG_PUT, DMI_MSG_UPDATE};
  for (size_t i = 0; i < sizeof(types); i++) {
    struct place place;
    struct dmi_msg msg;
    struct sent sent;
    place_make(&place, types[i] != DMI_MSG_UPDATE);
    msg = about(types[i], range, num, len < 4096 ? len : 0);
    if (types[i] == DMI_MSG_UPDATE) {
      msg.update.len = len;
      msg.update.ranges = claimed;
    } else {
      msg.access.len = len;
      msg.access.ranges = claimed;
    }
    msg.body.len -= cut;
    sent = give(&place, &msg);
    assert_false(sent.good);
    assert_int_equal(sent.num, 0);
    assert_memory_equal(place.page.frame->bytes, place.before, PAGE);
    assert_int_equal(place.page.version.n, 7);
    dmi_page_fini(&place.core, &place.page);
  }
}

static void hostile_lists(void **state) {
  static const struct dmi_range good[] = {{0, 1}, {2, 3}, {99, 1}};
  static const struct dmi_range touching[] = {{0, 2}, {2, 3}};
  static const struct dmi_range overlap[] = {{0, 4}, {2, 3}};
  static const struct dmi_range back[] = {{50, 4}, {2, 3}};
  static const struct dmi_range twice[] = {{5, 1}, {5, 1}};
  static const struct dmi_range empty[] = {{5, 0}, {7, 1}};
  static const struct dmi_range outside[] = {{5, 1}, {100, 1}};
  static const struct dmi_range across[] = {{5, 1}, {99, 2}};
  static const struct dmi_range far[] = {{5, 1}, {UINT64_MAX, 1}};
  static const struct dmi_range wraps[] = {{5, 1}, {50, UINT64_MAX - 20}};
  static const struct dmi_range wraps_sum[] = {{5, UINT64_MAX}, {50, 2}};
  (void)state;
#define REFUSED(list, num) refused(list, num, num, total(list, num), 0)
  REFUSED(touching, 2);
  REFUSED(overlap, 2);
  REFUSED(back, 2);
  REFUSED(twice, 2);
  REFUSED(empty, 2);
  REFUSED(outside, 2);
  REFUSED(across, 2);
  REFUSED(far, 2);
  REFUSED(wraps, 2);
  REFUSED(wraps_sum, 2);
  REFUSED(good, 1);          /* one range is no list */
  refused(good, 3, 3, 4, 0); /* the sum is another */
  refused(good, 3, 3, 6, 0);
  refused(good, 3, 2, 5, 0); /* the number is another */
  refused(good, 3, 4, 5, 0);
  refused(good, 3, 0, 5, 0);
  refused(good, 3, UINT64_MAX, 5, 0);
  refused(good, 3, (UINT64_MAX >> 4) + 4, 5, 0); /* times 16 it is 3 x 16 */
  refused(good, 3, 3, 5, 1);                     /* cut off */
}

/* A list together with a range, and a plain request with a body that it does not need. */
static void both(void **state) {
  static const struct dmi_range range[] = {{0, 1}, {2, 3}};
  struct place place;
  (void)state;
  place_make(&place, true);
  for (uint64_t off = 0; off < 3; off++) {
    struct dmi_msg msg = about(DMI_MSG_GET, range, 2, 4);
    struct sent sent;
    msg.access.off = off;
    sent = give(&place, &msg);
    assert_int_equal(sent.good, off == 0);
    dmi_slice_drop(&sent.first.body);
  }
  struct dmi_msg msg = {.type = DMI_MSG_GET, .origin = OTHER, .map = 4096};
  msg.access.len = 4;
  msg.body = dmi_slice_copy("abcd", 4);
  assert_false(give(&place, &msg).good);
  dmi_page_fini(&place.core, &place.page);
}

static void good_lists(void **state) {
  static const struct dmi_range range[] = {{0, 1}, {2, 3}, {99, 1}};
  static const unsigned char gathered[] = {1, 3, 4, 5, 100};
  struct place place;
  struct dmi_msg msg;
  struct sent sent;
  unsigned char want[PAGE];
  (void)state;
  place_make(&place, true);
  msg = about(DMI_MSG_GET, range, 3, 5);
  sent = give(&place, &msg);
  assert_true(sent.good);
  assert_int_equal(sent.first.type, DMI_MSG_GOT);
  assert_int_equal(sent.first.body.len, 5);
  assert_memory_equal(sent.first.body.ptr, gathered, 5);
  dmi_slice_drop(&sent.first.body);

  memcpy(want, place.before, PAGE);
  want[0] = want[2] = want[3] = want[4] = want[99] = 0xcc;
  msg = about(DMI_MSG_PUT, range, 3, 5);
  sent = give(&place, &msg);
  assert_true(sent.good);
  assert_int_equal(sent.first.type, DMI_MSG_DONE);
  assert_int_equal(place.page.version.n, 8);
  assert_memory_equal(place.page.frame->bytes, want, PAGE);
  dmi_page_fini(&place.core, &place.page);

  place_make(&place, false);
  msg = about(DMI_MSG_UPDATE, range, 3, 5);
  sent = give(&place, &msg);
  assert_true(sent.good);
  assert_int_equal(sent.first.type, DMI_MSG_UPDATED);
  assert_int_equal(sent.first.flags & DMI_F_DROPPED, 0);
  assert_memory_equal(place.page.frame->bytes, want, PAGE);
  dmi_page_fini(&place.core, &place.page);
}

/* A page that was never written: zeros, without bytes for them. */
static void zero_page(void **state) {
  static const struct dmi_range range[] = {{0, 1}, {2, 3}};
  struct place place;
  struct dmi_msg msg = about(DMI_MSG_GET, range, 2, 4);
  struct sent sent;
  (void)state;
  place_make(&place, true);
  dmi_frame_unref(place.page.frame);
  place.page.frame = NULL;
  sent = give(&place, &msg);
  assert_true(sent.good);
  assert_int_equal(sent.first.flags, DMI_F_ZERO);
  assert_int_equal(sent.first.body.len, 0);
  dmi_page_fini(&place.core, &place.page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hostile_lists),
      cmocka_unit_test(both),
      cmocka_unit_test(good_lists),
      cmocka_unit_test(zero_page),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
