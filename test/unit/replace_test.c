/*
 * replace_test.c - the replacement policy on invented pages: all rules of its order, its cost, and
 * its hit rate compared with dropping pages at random.
 */
#include "core/replace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sim/rng.h"

#define MAPS 6
#define PAGES 60

struct page {
  bool there; /* has a record */
  struct dmi_look look;
  enum dmi_class was; /* before the sweep */
  bool was_used;
  uint64_t went; /* its place in the order, 0: stayed */
};

struct map {
  uint64_t page_size, hand, num;
  struct page *page;
};

struct world {
  struct map map[MAPS];
  uint64_t maps, went, made;
  uint64_t nowhere_size; /* pages of this size and class find no place */
  enum dmi_class nowhere_class;
};

static struct dmi_replace work;

static bool look_at(void *arg, void *map_arg, uint64_t from, struct dmi_look *look) {
  struct map *map = map_arg;
  (void)arg;
  for (; from < map->num; from++) {
    if (!map->page[from].there) continue;
    *look = map->page[from].look;
    return true;
  }
  return false;
}

static void spare(void *arg, void *map_arg, uint64_t index) {
  struct page *page = &((struct map *)map_arg)->page[index];
  (void)arg;
  assert_true(page->look.used);
  page->look.used = false;
}

static uint64_t go(void *arg, void *map_arg, uint64_t index, enum dmi_class class) {
  struct world *world = arg;
  struct map *map = map_arg;
  struct page *page = &map->page[index];
  assert_true(page->there && !page->went);
  assert_int_equal(class, page->was);
  assert_int_not_equal(class, DMI_CLASS_NONE);
  if (map->page_size == world->nowhere_size && class == world->nowhere_class)
    return DMI_REPLACE_NOWHERE;
  page->went = ++world->went;
  page->look.droppable = page->look.offerable = false;
  world->made += map->page_size;
  return map->page_size;
}

static uint64_t sweep(struct world *world, uint64_t need, enum dmi_class last) {
  struct dmi_replace_env env = {world, look_at, spare, go};
  struct dmi_replace_map maps[MAPS];
  for (uint64_t i = 0; i < world->maps; i++)
    maps[i] =
        (struct dmi_replace_map){&world->map[i], world->map[i].page_size, &world->map[i].hand};
  return dmi_replace_sweep(&work, &env, maps, world->maps, need, last);
}

static void free_world(struct world *world) {
  for (uint64_t i = 0; i < world->maps; i++)
    free(world->map[i].page);
}

/* ---- The order ------------------------------------------------------------------------------ */

static void random_world(struct world *world, struct rng *rng) {
  static const uint64_t sizes[] = {8, 4096, 4096, 65536, 100000, 1 << 20};
  uint32_t saved = rng_below(rng, 3) * 4, used = 1 + rng_below(rng, 4);
  memset(world, 0, sizeof(*world));
  world->maps = 1 + rng_below(rng, MAPS);
  for (uint64_t m = 0; m < world->maps; m++) {
    struct map *map = &world->map[m];
    map->page_size = sizes[rng_below(rng, 6)];
    map->num = 1 + rng_below(rng, PAGES);
    map->hand = rng_below(rng, (uint32_t)map->num + 3);
    map->page = calloc(map->num, sizeof(*map->page));
    for (uint64_t i = 0; i < map->num; i++) {
      struct page *page = &map->page[i];
      page->there = !rng_once_in(rng, 5);
      page->look.index = i;
      switch (rng_below(rng, 4)) {
        case 0:
          page->look.droppable = true;
          break;
        case 1:
          page->look.offerable = true;
          page->look.shared = rng_below(rng, 2);
          break;
        case 2:
          page->look.offerable = true;
          break;
        default: /* busy, pending, nothing here */
          page->look.shared = rng_below(rng, 2);
      }
      page->look.saved = saved && rng_once_in(rng, saved);
      page->look.used = rng_once_in(rng, used);
      page->was = dmi_replace_class(&page->look);
      page->was_used = page->look.used;
    }
  }
}

/* All pages that could leave, in the order in which they did; those that stayed are last. */
struct seen {
  const struct page *page;
  uint64_t size;
};

static int by_went(const void *a, const void *b) {
  uint64_t x = ((const struct seen *)a)->page->went, y = ((const struct seen *)b)->page->went;
  x = x ? x : UINT64_MAX;
  y = y ? y : UINT64_MAX;
  return x < y ? -1 : x > y;
}

/* True if `a` must leave before `b`.  Used pages leave only if there is nothing else. */
static bool before(const struct seen *a, const struct seen *b) {
  if (a->page->was_used != b->page->was_used) return !a->page->was_used;
  if (a->size != b->size) return a->size > b->size;
  return a->page->was < b->page->was;
}

static void check_order(const struct world *world, uint64_t need, uint64_t made,
                        enum dmi_class last) {
  struct seen seen[MAPS * PAGES];
  uint64_t num = 0, records = 0, could = 0;
  for (uint64_t m = 0; m < world->maps; m++) {
    for (uint64_t i = 0; i < world->map[m].num; i++) {
      const struct page *page = &world->map[m].page[i];
      if (!page->there) continue;
      records++;
      if (page->was == DMI_CLASS_NONE || page->was > last) {
        assert_int_equal(page->went, 0);
        assert_int_equal(page->look.used, page->was_used); /* not even looked at */
        continue;
      }
      if (world->map[m].page_size == world->nowhere_size && page->was == world->nowhere_class) {
        assert_int_equal(page->went, 0);
        continue;
      }
      could += world->map[m].page_size;
      seen[num++] = (struct seen){page, world->map[m].page_size};
    }
  }
  qsort(seen, num, sizeof(seen[0]), by_went);
  for (uint64_t i = 0; i < num && seen[i].page->went; i++) {
    for (uint64_t j = i + 1; j < num; j++)
      assert_false(before(&seen[j], &seen[i]));
  }
  assert_int_equal(made, world->made);
  assert_int_equal(made >= need, could >= need);
  if (made < need) assert_int_equal(made, could);
  if (made) assert_true(made - seen[world->went - 1].size < need); /* and no more than needed */
  assert_true(work.looks <= 2 * records);
}

static void test_order(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20000; seed++) {
    struct rng rng = {seed};
    struct world world;
    uint64_t all = 0, need, made;
    enum dmi_class last = rng_once_in(&rng, 4) ? DMI_CLASS_COPY : DMI_CLASS_SOLE;
    random_world(&world, &rng);
    for (uint64_t m = 0; m < world.maps; m++)
      all += world.map[m].page_size * world.map[m].num;
    need = 1 + rng_next(&rng) % all / (1 + rng_below(&rng, 10));
    if (rng_once_in(&rng, 4)) {
      world.nowhere_size = world.map[0].page_size;
      world.nowhere_class = rng_below(&rng, 2) ? DMI_CLASS_SOLE : DMI_CLASS_COPY;
    }
    made = sweep(&world, need, last);
    check_order(&world, need, made, last);
    free_world(&world);
  }
}

static void one_map(struct world *world, uint64_t num, bool used) {
  memset(world, 0, sizeof(*world));
  world->maps = 1;
  world->map[0] = (struct map){4096, 0, num, calloc(num, sizeof(struct page))};
  for (uint64_t i = 0; i < num; i++) {
    struct page *page = &world->map[0].page[i];
    page->there = page->look.offerable = true;
    page->look.index = i;
    page->was = DMI_CLASS_SOLE;
    page->look.used = used;
  }
}

/* The hand continues where it stopped: all pages are tried once, in their order, before any is
 * tried again. */
static void test_hand(void **state) {
  struct world world;
  (void)state;
  one_map(&world, 3000, false);
  for (uint64_t i = 0; i < 300; i++) {
    assert_int_equal(sweep(&world, 10 * 4096, DMI_CLASS_SOLE), 10 * 4096);
    for (uint64_t p = 0; p < 3000; p++)
      assert_int_equal(world.map[0].page[p].went, p < (i + 1) * 10 ? p + 1 : 0);
  }
  assert_int_equal(sweep(&world, 1, DMI_CLASS_SOLE), 0);
  free_world(&world);
}

/* Used pages lose their bit when the hand passes them, those beyond keep it; pages that one sweep
 * cannot note are found by the next one. */
static void test_second_chance(void **state) {
  struct world world;
  uint64_t spared = 0;
  (void)state;
  one_map(&world, 3000, true);
  world.map[0].page[7].look.used = false;
  world.map[0].page[9].look.used = false;
  assert_int_equal(sweep(&world, 2 * 4096, DMI_CLASS_SOLE), 2 * 4096);
  assert_true(world.map[0].page[7].went && world.map[0].page[9].went);
  for (uint64_t p = 0; p < 3000; p++)
    spared += !world.map[0].page[p].look.used;
  assert_int_equal(spared, 10); /* 0 .. 9 */
  free_world(&world);
  one_map(&world, 3000, true);
  assert_int_equal(sweep(&world, 3000 * 4096, DMI_CLASS_SOLE), DMI_REPLACE_MOST * 4096);
  assert_int_equal(work.looks, 6000);
  free_world(&world);
}

/* Pages that the hand has passed, but that stay because there were better ones, come first in the
 * next sweep. */
static void test_hand_goes_back(void **state) {
  struct world world;
  (void)state;
  one_map(&world, 40, false);
  for (int p = 20; p < 30; p++) {
    world.map[0].page[p].look.shared = true;
    world.map[0].page[p].was = DMI_CLASS_SHARED;
  }
  world.map[0].hand = 5;
  assert_int_equal(sweep(&world, 10 * 4096, DMI_CLASS_SOLE), 10 * 4096);
  assert_int_equal(world.map[0].page[20].went, 1);
  assert_int_equal(world.map[0].hand, 5);
  assert_int_equal(sweep(&world, 2 * 4096, DMI_CLASS_SOLE), 2 * 4096);
  assert_int_equal(world.map[0].page[5].went, 11);
  assert_int_equal(world.map[0].page[6].went, 12);
  free_world(&world);
}

static void test_classes(void **state) {
  static const struct {
    struct dmi_look look;
    enum dmi_class class;
  } row[] = {
      {{.index = 1}, DMI_CLASS_NONE},
      {{.droppable = true}, DMI_CLASS_COPY},
      {{.droppable = true, .used = true}, DMI_CLASS_COPY},
      {{.offerable = true}, DMI_CLASS_SOLE},
      {{.offerable = true, .shared = true}, DMI_CLASS_SHARED},
      {{.shared = true}, DMI_CLASS_NONE},
      {{.droppable = true, .saved = true}, DMI_CLASS_NONE},
      {{.offerable = true, .saved = true}, DMI_CLASS_NONE},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
    assert_int_equal(dmi_replace_class(&row[i].look), row[i].class);
}

/* Mappings with pages of one size take turns. */
static void test_turns(void **state) {
  struct world world;
  uint64_t went[2] = {0, 0};
  (void)state;
  one_map(&world, 400, false);
  world.maps = 2;
  world.map[1] = world.map[0];
  world.map[1].page = malloc(400 * sizeof(struct page));
  memcpy(world.map[1].page, world.map[0].page, 400 * sizeof(struct page));
  for (int i = 0; i < 40; i++)
    assert_int_equal(sweep(&world, 5 * 4096, DMI_CLASS_SOLE), 5 * 4096);
  for (int m = 0; m < 2; m++) {
    for (int p = 0; p < 400; p++)
      went[m] += world.map[m].page[p].went != 0;
  }
  assert_int_equal(went[0], 100);
  assert_int_equal(went[1], 100);
  free_world(&world);
}

static void test_none(void **state) {
  struct world world;
  (void)state;
  memset(&world, 0, sizeof(world));
  assert_int_equal(sweep(&world, 1, DMI_CLASS_SOLE), 0);
  one_map(&world, 3, false);
  assert_int_equal(sweep(&world, 0, DMI_CLASS_SOLE), 0);
  assert_int_equal(work.looks, 0);
  free_world(&world);
}

/* ---- Hits ----------------------------------------------------------------------------------- */

#define TRACE_PAGES 20000
#define CAPACITY 4000 /* pages that fit */
#define LOW (CAPACITY / 16)
#define HIGH (CAPACITY / 8)
#define STEPS 400000

struct cache {
  struct world world;
  uint64_t here;
  bool random;
  struct rng rng;
};

static void drop_some(struct cache *cache, uint64_t num) {
  struct map *map = &cache->world.map[0];
  uint64_t at;
  if (!cache->random) {
    for (uint64_t i = 0; i < TRACE_PAGES; i++)
      map->page[i].went = 0;
    assert_int_equal(sweep(&cache->world, num * map->page_size, DMI_CLASS_SOLE),
                     num * map->page_size);
    cache->here -= num;
    return;
  }
  while (num) {
    at = rng_below(&cache->rng, TRACE_PAGES);
    if (!map->page[at].look.droppable) continue;
    map->page[at].look.droppable = false;
    cache->here--;
    num--;
  }
}

static bool touch(struct cache *cache, uint64_t index) {
  struct page *page = &cache->world.map[0].page[index];
  bool hit = page->look.droppable;
  if (!hit) {
    page->look.droppable = true;
    if (++cache->here > CAPACITY - LOW) drop_some(cache, HIGH - LOW);
  } else {
    page->look.used = true;
  }
  return hit;
}

static void open_cache(struct cache *cache, bool random) {
  memset(cache, 0, sizeof(*cache));
  one_map(&cache->world, TRACE_PAGES, false);
  for (uint64_t i = 0; i < TRACE_PAGES; i++) {
    cache->world.map[0].page[i].look.offerable = false;
    cache->world.map[0].page[i].was = DMI_CLASS_COPY;
  }
  cache->random = random;
  cache->rng.state = 99;
}

/* Page i with probability ~ 1 / (i + 1)^0.8, the popular ones scattered over the mapping. */
static uint64_t zipf(struct rng *rng, const double *sum) {
  double at = (double)(rng_next(rng) >> 11) / 9007199254740992.0 * sum[TRACE_PAGES - 1];
  uint64_t low = 0, high = TRACE_PAGES - 1;
  while (low < high) {
    uint64_t mid = (low + high) / 2;
    if (sum[mid] < at) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low * 7919 % TRACE_PAGES;
}

static double hits(bool random, bool loop) {
  static double sum[TRACE_PAGES];
  struct cache cache;
  struct rng rng = {1};
  uint64_t hit = 0;
  for (uint64_t i = 0; i < TRACE_PAGES; i++)
    sum[i] = (i ? sum[i - 1] : 0) + 1 / pow((double)(i + 1), 0.8);
  open_cache(&cache, random);
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t index = loop ? i % (CAPACITY / 2 * 3) : zipf(&rng, sum);
    bool was = touch(&cache, index);
    if (i >= STEPS / 4) hit += was;
  }
  free_world(&cache.world);
  return (double)hit / (STEPS - STEPS / 4);
}

static void test_hits(void **state) {
  double clock = hits(false, false), random = hits(true, false);
  (void)state;
  printf("zipf: %.3f of the accesses are hits, %.3f with pages dropped at random\n", clock, random);
  /* It has clearly fewer misses than random replacement. */
  assert_true(1 - clock < 0.93 * (1 - random));
  printf("loop over 1.5 times the memory: %.3f, %.3f at random\n", hits(false, true),
         hits(true, true));
}

/* ---- Where to ------------------------------------------------------------------------------- */

static void test_target(void **state) {
  const struct dmi_replace_member member[] = {{3, 4096}, {5, 100}, {7, 8192}, {9, 5000}};
  const uint32_t poor[] = {5}, some[] = {5, 3}, two[] = {3, 9}, stranger[] = {8}, late[] = {9};
  (void)state;
  assert_int_equal(dmi_replace_target(member, 4, NULL, 0, 100), 7);  /* the most memory */
  assert_int_equal(dmi_replace_target(member, 4, some, 2, 4096), 3); /* has a copy, and memory */
  assert_int_equal(dmi_replace_target(member, 4, two, 2, 4096), 9);  /* of those, the most memory */
  assert_int_equal(dmi_replace_target(member, 4, late, 1, 4096), 9);
  assert_int_equal(dmi_replace_target(member, 4, poor, 1, 4096), 7); /* a copy but no memory */
  assert_int_equal(dmi_replace_target(member, 4, stranger, 1, 4096), 7);
  assert_int_equal(dmi_replace_target(member, 4, two, 2, 8192), 7);
  assert_int_equal(dmi_replace_target(member, 4, NULL, 0, 8193), 0);
  assert_int_equal(dmi_replace_target(NULL, 0, NULL, 0, 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),          cmocka_unit_test(test_hand),
      cmocka_unit_test(test_hand_goes_back), cmocka_unit_test(test_classes),
      cmocka_unit_test(test_second_chance),  cmocka_unit_test(test_turns),
      cmocka_unit_test(test_none),           cmocka_unit_test(test_hits),
      cmocka_unit_test(test_target),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
