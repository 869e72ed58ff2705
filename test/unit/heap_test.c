/*
 * heap_test.c - the allocator's layout and its single steps (docs/allocator.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sim/rng.h"
#include "core/heap.h"
#include "dmi_api.h"

/* ---- Shapes --------------------------------------------------------------------------------- */

static void check_shape(uint64_t number, uint64_t page_size, uint64_t size) {
  struct dmi_heap_shape shape = dmi_heap_shape(number, page_size);
  uint64_t before = 0;
  assert_true(shape.stride >= size);
  assert_in_range(shape.slots, 1, DMI_HEAP_SLOTS);
  assert_true(dmi_heap_control_size(shape.slots) <= DMI_SYSTEM_PAGE);
  assert_true(page_size < (UINT64_C(1) << 62) / shape.page_num);
  for (uint32_t slot = 0; slot < shape.slots; slot += slot < 300 ? 1 : 97) {
    uint64_t at = dmi_heap_offset(&shape, slot), in_page = at % page_size;
    uint32_t found = ~0u;
    assert_true(slot == 0 || at >= before);
    before = at + shape.stride;
    assert_true(before <= shape.page_num * page_size);
    if (size <= page_size) assert_true(in_page + size <= page_size);
    if (page_size % 16 == 0) assert_int_equal(at % 16, 0);
    if (size > page_size / 2) assert_int_equal(in_page, 0);
    assert_true(dmi_heap_slot(&shape, at, &found));
    assert_int_equal(found, slot);
    if (shape.stride > 1) assert_false(dmi_heap_slot(&shape, at + 1, &found));
    if (shape.stride > 16) assert_false(dmi_heap_slot(&shape, at + 16, &found));
  }
  {
    uint32_t found;
    assert_false(dmi_heap_slot(&shape, shape.page_num * page_size, &found));
    if (shape.per_page) {
      assert_false(dmi_heap_slot(&shape, shape.per_page * shape.stride, &found) &&
                   shape.per_page * shape.stride < page_size);
    } else {
      assert_false(dmi_heap_slot(&shape, shape.slots * shape.stride, &found));
    }
  }
}

static void test_shapes(void **state) {
  static const uint64_t pages[] = {1,
                                   2,
                                   7,
                                   8,
                                   16,
                                   31,
                                   32,
                                   33,
                                   64,
                                   100,
                                   1000,
                                   1024,
                                   4095,
                                   4096,
                                   4097,
                                   8192,
                                   65536,
                                   99999,
                                   1 << 20,
                                   64 << 20,
                                   UINT64_C(1) << 40,
                                   (UINT64_C(1) << 62) - 1};
  (void)state;
  for (size_t p = 0; p < sizeof(pages) / sizeof(pages[0]); p++) {
    uint64_t page_size = pages[p];
    for (uint64_t size = 1; size < 20000000; size += 1 + size / 13) {
      uint8_t cls;
      uint64_t bin;
      struct dmi_heap_shape shape;
      if (!dmi_heap_class(size, page_size, &cls)) {
        assert_true(size > page_size / 2); /* a small one never needs its own mapping */
        assert_true(size > DMI_HEAP_RUN_MOST / 4 || page_size > DMI_HEAP_RUN_MOST);
        continue;
      }
      bin = dmi_heap_bin(1 + (uint32_t)p, cls);
      shape = dmi_heap_shape(bin + 1, page_size);
      /* little is wasted: a quarter, or up to a unit or a page */
      assert_true(shape.stride <= size + size / 4 + (cls & DMI_HEAP_RUN ? page_size : 16));
      assert_int_equal(dmi_heap_class_of(bin + 77), cls);
      check_shape(bin + 1, page_size, size);
      check_shape(bin + 20, page_size, size);
      check_shape(bin + (3 << 8) + 255, page_size, size);
    }
  }
}

/* ---- A control page ------------------------------------------------------------------------- */

static struct dmi_heap_out step(unsigned char *page, uint64_t len, uint32_t op, uint64_t base,
                                uint32_t a) {
  struct dmi_heap_in in = {.op = op, .self = 5, .base = base, .a = a};
  struct dmi_heap_out out = {0};
  assert_true(dmi_heap_step_valid(len, sizeof(in), sizeof(out)));
  dmi_heap_step(page, len, (const unsigned char *)&in, (unsigned char *)&out, sizeof(out));
  return out;
}

static void test_control(void **state) {
  static const uint32_t sizes[] = {1, 4, 63, 64, 65, 1000, DMI_HEAP_SLOTS};
  (void)state;
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    uint32_t slots = sizes[s], used = 0, version = 0;
    uint64_t len = dmi_heap_control_size(slots);
    struct rng rng = {slots};
    /* exactly as long, so that a sanitizer sees accesses beyond it */
    unsigned char *page = malloc(len);
    bool *taken = calloc(slots, sizeof(bool)), closed = false;
    memset(page, 0, len);
    assert_int_equal(step(page, len, DMI_HEAP_TAKE, 77, 0).result, DMI_HEAP_GONE);
    assert_int_equal(step(page, len, DMI_HEAP_INIT, 77, slots).result, DMI_HEAP_OK);
    for (uint32_t i = 0; i < 20000 + 4 * slots; i++) {
      bool filling = i / (slots + 10) % 2 == 0;
      struct dmi_heap_out out;
      uint32_t slot = rng_below(&rng, slots);
      if (rng_below(&rng, 10) ? filling : !filling) {
        out = step(page, len, DMI_HEAP_TAKE, 77, 0);
        if (closed || used == slots) {
          assert_int_equal(out.result, DMI_HEAP_FULL);
          assert_int_equal(out.a, version);
          closed = true;
        } else {
          assert_int_equal(out.result, DMI_HEAP_OK);
          assert_true(out.a < slots && !taken[out.a]);
          taken[out.a] = true;
          used++;
        }
        continue;
      }
      assert_int_equal(step(page, len, DMI_HEAP_HAS, 77, slot).result,
                       taken[slot] ? DMI_HEAP_OK : DMI_HEAP_NOT);
      assert_int_equal(step(page, len, DMI_HEAP_GIVE, 78, slot).result, DMI_HEAP_GONE);
      out = step(page, len, DMI_HEAP_GIVE, 77, slot);
      assert_int_equal(out.result, taken[slot] ? DMI_HEAP_OK : DMI_HEAP_NOT);
      used -= taken[slot];
      if (out.result == DMI_HEAP_OK) assert_int_equal(!!(out.flags & DMI_HEAP_EMPTY), used == 0);
      if (taken[slot] && closed && 8 * (slots - used) >= slots - slots % 8) {
        assert_true(out.flags & DMI_HEAP_REOPENED);
        assert_int_equal(out.a, ++version);
        closed = false;
      } else {
        assert_false(out.flags & DMI_HEAP_REOPENED);
      }
      taken[slot] = false;
      assert_int_equal(step(page, len, DMI_HEAP_COUNT, 77, 0).a, used);
    }
    assert_true(version > 0);
    assert_int_equal(step(page, len, DMI_HEAP_GIVE, 77, slots).result, DMI_HEAP_NOT);
    assert_int_equal(step(page, len, DMI_HEAP_KILL, 77, 0).result,
                     used ? DMI_HEAP_NOT : DMI_HEAP_OK);
    for (uint32_t slot = 0; slot < slots; slot++)
      (void)step(page, len, DMI_HEAP_GIVE, 77, slot);
    if (used) assert_int_equal(step(page, len, DMI_HEAP_KILL, 77, 0).result, DMI_HEAP_OK);
    assert_int_equal(step(page, len, DMI_HEAP_HAS, 77, 0).result, DMI_HEAP_GONE);
    free(page);
    free(taken);
  }
}

/* With any bytes, any step, and any allowed length, nothing outside is touched. */
static void test_hostile(void **state) {
  struct rng rng = {1};
  (void)state;
  for (int i = 0; i < 100000; i++) {
    uint64_t len = 16 + rng_below(&rng, i % 2 ? 100 : (uint32_t)DMI_SYSTEM_PAGE - 15);
    struct dmi_heap_in in = {.op = rng_below(&rng, DMI_HEAP_SIZE + 2),
                             .base = rng_below(&rng, 3),
                             .a = (uint32_t)rng_next(&rng) >> rng_below(&rng, 32)};
    unsigned char *page = malloc(len), answer[64];
    uint32_t head[8] = {rng_below(&rng, 3), 0, rng_below(&rng, 2) ? 64 : (uint32_t)rng_next(&rng)};
    for (uint64_t k = 0; k < len; k++)
      page[k] = (unsigned char)rng_next(&rng);
    memcpy(page, head, len < 12 ? len : 12);
    assert_true(dmi_heap_step_valid(len, sizeof(in), sizeof(answer)));
    dmi_heap_step(page, len, (const unsigned char *)&in, answer, sizeof(answer));
    free(page);
  }
  assert_false(dmi_heap_step_valid(15, sizeof(struct dmi_heap_in), 16));
  assert_false(dmi_heap_step_valid(16, 8, 16));
  assert_false(dmi_heap_step_valid(16, sizeof(struct dmi_heap_in), 15));
  assert_false(dmi_heap_step_valid(DMI_SYSTEM_PAGE + 1, sizeof(struct dmi_heap_in), 16));
}

static int32_t no_step(void *arg, uint64_t page, uint64_t off, uint64_t len,
                       const struct dmi_heap_in *in, void *answer, uint64_t answer_size,
                       bool here) {
  struct dmi_heap_out out = {.result = DMI_HEAP_OK, .a = *(uint32_t *)arg};
  (void)page, (void)off, (void)len, (void)in, (void)here;
  memset(answer, 0, answer_size);
  memcpy(answer, &out, answer_size < sizeof out ? answer_size : sizeof out);
  return DMI_OK;
}

/* The tag of a mapping may be any number: then it is no arena. */
static void test_wrong_numbers(void **state) {
  static const uint64_t pages[] = {1, 2, 8, 31, 33, 4096, UINT64_C(1) << 40, UINT64_MAX >> 2};
  uint32_t slot = 0;
  struct dmi_heap_env env = {.arg = &slot, .self = 1, .step = no_step};
  struct dmi_heap *heap = dmi_heap_new(&env);
  struct rng rng = {7};
  int found = 0;
  (void)state;
  for (int i = 0; i < 200000; i++) {
    uint64_t number = rng_next(&rng) >> rng_below(&rng, 60);
    uint64_t page_size = pages[i % 8];
    int32_t error = dmi_heap_has(heap, number, page_size, UINT64_C(1) << 40, 0);
    assert_true(error == DMI_OK || error == DMI_EADDR);
    assert_int_equal(error == DMI_OK, dmi_heap_number_good(number, page_size));
    found += error == DMI_OK;
  }
  assert_in_range(found, 1000, 190000);
  dmi_heap_free(heap);
}

/* ---- Losses --------------------------------------------------------------------------------- */

/* The pages of the system mapping that the test uses; process 9 is lost. */
struct memory {
  uint64_t index[16], num, maps;
  uint64_t never;                  /* this page is LOST, and stays it; 0: none */
  bool lost[16], losses;           /* these pages are; one was */
  uint64_t page_size[16], tag[16]; /* of the mapping with that number */
  unsigned char bytes[16][DMI_SYSTEM_PAGE];
};

static unsigned char *page_of(struct memory *memory, uint64_t index) {
  for (uint64_t i = 0; i < memory->num; i++) {
    if (memory->index[i] == index) return memory->bytes[i];
  }
  assert_true(memory->num < 16);
  memory->index[memory->num] = index;
  return memory->bytes[memory->num++];
}

static int32_t memory_step(void *arg, uint64_t page, uint64_t off, uint64_t len,
                           const struct dmi_heap_in *in, void *answer, uint64_t answer_size,
                           bool here) {
  struct memory *memory = arg;
  (void)here;
  if (page && page == memory->never) return DMI_ELOST;
  (void)page_of(memory, page);
  for (uint64_t i = 0; i < memory->num; i++) {
    if (memory->index[i] == page && memory->lost[i]) return DMI_ELOST;
  }
  dmi_heap_step(page_of(memory, page) + off, len, (const unsigned char *)in, answer, answer_size);
  return DMI_OK;
}

static int32_t memory_map(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag,
                          uint64_t *base) {
  struct memory *memory = arg;
  (void)page_num;
  *base = ++memory->maps << 40;
  assert_true(memory->maps < 16);
  memory->page_size[memory->maps] = page_size;
  memory->tag[memory->maps] = tag;
  return DMI_OK;
}

static bool memory_losses(void *arg) {
  return ((const struct memory *)arg)->losses;
}

static int32_t memory_revive(void *arg, uint64_t page) {
  struct memory *memory = arg;
  for (uint64_t i = 0; i < memory->num; i++) {
    if (memory->index[i] != page || !memory->lost[i]) continue;
    memory->lost[i] = false;
    memset(memory->bytes[i], 0, DMI_SYSTEM_PAGE);
  }
  return DMI_OK;
}

static bool memory_is_mapping(void *arg, uint64_t base, uint64_t tag, uint64_t page_size) {
  const struct memory *memory = arg;
  return memory->tag[base >> 40] == tag && memory->page_size[base >> 40] == page_size;
}

static bool memory_member(void *arg, uint32_t uid) {
  (void)arg;
  return uid != 9;
}

static struct dmi_heap *memory_heap(struct memory *memory, dmi_uid_t self) {
  const struct dmi_heap_env env = {.arg = memory,
                                   .self = self,
                                   .step = memory_step,
                                   .map = memory_map,
                                   .is_member = memory_member,
                                   .losses = memory_losses,
                                   .revive = memory_revive,
                                   .is_mapping = memory_is_mapping};
  return dmi_heap_new(&env);
}

/* The control page is lost: objects come from another arena, and those there
 * can be freed. */
static void test_lost(void **state) {
  struct memory *memory = calloc(1, sizeof(*memory));
  struct dmi_heap *heap = memory_heap(memory, 1);
  struct dmi_heap_entry entry;
  uint64_t first, second, third, bin;
  uint8_t cls;
  (void)state;
  assert_true(dmi_heap_class(64, 4096, &cls));
  bin = dmi_heap_bin(1, cls);
  assert_int_equal(dmi_heap_take(heap, 64, 4096, &first), DMI_OK);
  memory->never = bin + 1;
  assert_int_equal(dmi_heap_take(heap, 64, 4096, &second), DMI_OK);
  assert_int_equal(first >> 40, 1);
  assert_int_equal(second >> 40, 2);
  memcpy(&entry, page_of(memory, bin) + sizeof(entry), sizeof(entry));
  assert_int_equal(entry.version & 1, 0); /* no room */
  assert_int_equal(dmi_heap_has(heap, bin + 1, 4096, UINT64_C(1) << 40, 0), DMI_OK);
  assert_int_equal(dmi_heap_give(heap, bin + 1, 4096, UINT64_C(1) << 40, 0), DMI_OK);
  assert_int_equal(dmi_heap_take(heap, 64, 4096, &third), DMI_OK);
  assert_int_equal(third >> 40, 2);
  dmi_heap_free(heap);
  free(memory);
}

/* An entry that a lost process has reserved is free again; that of a living one
 * is not. */
static void test_reserved(void **state) {
  (void)state;
  for (uint32_t holder = 8; holder <= 9; holder++) {
    struct memory *memory = calloc(1, sizeof(*memory));
    struct dmi_heap *heap = memory_heap(memory, 1);
    struct dmi_heap_entry entry = {1, holder, 0};
    uint64_t addr, bin;
    uint8_t cls;
    assert_true(dmi_heap_class(64, 4096, &cls));
    bin = dmi_heap_bin(1, cls);
    memcpy(page_of(memory, bin) + sizeof(entry), &entry, sizeof(entry));
    assert_int_equal(dmi_heap_take(heap, 64, 4096, &addr), DMI_OK);
    memcpy(&entry, page_of(memory, bin) + sizeof(entry), sizeof(entry));
    assert_int_equal(entry.holder, holder == 9 ? 1 : 8);
    assert_int_equal(entry.base, holder == 9 ? addr >> 40 << 40 : 1);
    dmi_heap_free(heap);
    free(memory);
  }
}

/* All pages are lost, so page sizes get the numbers of others, and arenas, too: each process gets
 * objects that nobody has, and all that were there can be freed. */
static void test_all_lost(void **state) {
  struct memory *memory = calloc(1, sizeof(*memory));
  struct dmi_heap *old = memory_heap(memory, 1), *new = memory_heap(memory, 2);
  uint64_t small, before, after, other, bin;
  uint8_t cls;
  (void)state;
  assert_true(dmi_heap_class(64, 4096, &cls));
  bin = dmi_heap_bin(1, cls);
  assert_int_equal(dmi_heap_take(old, 64, 4096, &before), DMI_OK);
  assert_int_equal(before >> 40, 1);
  for (uint64_t i = 0; i < memory->num; i++)
    memory->lost[i] = true;
  memory->losses = true;
  assert_int_equal(dmi_heap_take(new, 64, 8192, &small), DMI_OK); /* number 1, as 4096 had */
  assert_int_equal(small >> 40, 2);
  assert_int_equal(memory->tag[2], memory->tag[1]);
  assert_int_equal(dmi_heap_take(old, 64, 4096, &after), DMI_OK); /* still takes it for number 1 */
  assert_int_equal(after >> 40, 3);
  assert_int_equal(dmi_heap_take(new, 64, 8192, &other), DMI_OK);
  assert_int_equal(other >> 40, 2);
  assert_int_not_equal(other, small);
  assert_int_equal(dmi_heap_has(new, bin + 1, 4096, UINT64_C(1) << 40, 0), DMI_OK);
  assert_int_equal(dmi_heap_give(new, bin + 1, 4096, UINT64_C(1) << 40, 0), DMI_OK);
  assert_int_equal(dmi_heap_give(old, memory->tag[2], 8192, UINT64_C(2) << 40, small & 0xfff),
                   DMI_OK);
  assert_int_equal(dmi_heap_give(new, memory->tag[3], 4096, UINT64_C(3) << 40, after & 0xfff),
                   DMI_OK);
  dmi_heap_free(old);
  dmi_heap_free(new);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),   cmocka_unit_test(test_wrong_numbers),
      cmocka_unit_test(test_control),  cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_lost),     cmocka_unit_test(test_reserved),
      cmocka_unit_test(test_all_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
