/*
 * heap_sim.c - the allocator of docs/allocator.md, many processes at once, one step at a time.
 *
 *   heap_sim [--seed N] [--runs N] [--break KIND|all] [-v]
 *
 * The threads of all processes are contexts of one thread: after each step on global memory the
 * next one is chosen at random.  So a seed replays exactly.  Processes end between two calls and
 * others, with new uids, take their places; any process may free an object.  Checked: no object
 * overlaps another one or leaves its arena; none reaches over a page if it fits into one; each can
 * be freed once; and, whenever all are between two calls, no slot is lost and there are not too
 * many arenas.  In runs with odd seeds processes are lost in the middle of a call, and with them
 * pages of the allocator, and answers: objects still do not overlap, each call succeeds, and what
 * is left over may be lost.  `--break` switches off a rule and expects that a check fails.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <uthash.h>

#include "core/heap.h"
#include "dmi_api.h"
#include "rng.h"

#define PROCESSES 4
#define THREADS 2 /* of a process */
#define ALL (PROCESSES * THREADS)
#define OBJECTS 400 /* live ones, about, at most */
#define ROUNDS 30   /* of a run */
#define CALLS 60    /* of a thread in a round */

/* ---- The world ------------------------------------------------------------------------------ */

struct page { /* of the system mapping */
  UT_hash_handle hh;
  uint64_t index;
  bool lost;
  unsigned char bytes[DMI_SYSTEM_PAGE];
};

struct mapping {
  uint64_t base, page_size, page_num, tag;
  uint64_t live; /* objects, as the model counts them */
  bool gone;
  bool left; /* was a current arena of a process when that ended */
};

struct object {
  uint64_t addr, size, page_size;
  struct mapping *mapping;
};

struct process {
  struct dmi_heap_env env;
  struct dmi_heap *heap;
  bool lost; /* its threads end at their next step */
};

static struct {
  struct rng rng;
  struct page *pages;
  struct mapping **mapping; /* by base */
  uint32_t mappings, mappings_capacity, mapped;
  uint64_t next_base;
  struct object **object; /* live, in no order */
  uint32_t objects;
  void *tree; /* the same, by address */
  struct process process[PROCESSES];
  uint32_t uids;
  uint64_t steps, allocated, ended;
  bool loses;      /* processes may be lost */
  bool hole;       /* and a page that nobody has used is LOST, too */
  uint32_t losses; /* so many so far */
  const char *failed;
} world;

static void fail(const char *why) {
  if (!world.failed) world.failed = why;
}

/* ---- One thread at a time ------------------------------------------------------------------- */

#define STACK (256u << 10) /* bytes */

static ucontext_t main_context;
static struct {
  ucontext_t context;
  bool runs;
  char *stack;
} thread[ALL];
static int me = -1; /* -1: the main context */
static uint32_t running;

/* One that is not drawn for a while, so that much happens between two of its steps. */
static int frozen = -1;
static uint32_t frozen_for;

static int draw(void) {
  int can[ALL];
  uint32_t num = 0;
  if (!frozen_for--) {
    frozen = rng_below(&world.rng, 2) ? (int)rng_below(&world.rng, ALL) : -1;
    frozen_for = rng_below(&world.rng, 400);
  }
  for (int i = 0; i < ALL; i++) {
    if (thread[i].runs && (i != frozen || running == 1)) can[num++] = i;
  }
  return can[rng_below(&world.rng, num)];
}

/* Somebody else may be next; returns when it is our turn again. */
static void yield(void) {
  int from = me;
  if (from < 0) return;
  me = draw();
  if (me != from) swapcontext(&thread[from].context, &thread[me].context);
}

/* ---- Losses --------------------------------------------------------------------------------- */

#define LOSSES 12u           /* of a run, at most */
#define STEPS_MOST 20000000u /* of a run: far more than it needs */

/* A process is lost, and some of the pages with it: few or all of them. */
static void lose(const struct process *but) {
  struct process *process = &world.process[rng_below(&world.rng, PROCESSES)];
  uint32_t part = rng_range(&world.rng, 1, 8);
  struct page *page, *next;
  if (process == but || process->lost) return;
  process->lost = true;
  world.losses++;
  if (rng_once_in(&world.rng, 3)) world.hole = true;
  HASH_ITER(hh, world.pages, page, next) {
    if (rng_below(&world.rng, 8) < part) page->lost = true;
  }
}

static bool goes_on(const struct process *process) {
  return !process || (!process->lost && !world.failed);
}

static bool env_losses(void *arg) {
  (void)arg;
  return world.losses > 0;
}

/* ---- The surroundings ----------------------------------------------------------------------- */

static struct page *page_get(uint64_t index) {
  struct page *page;
  HASH_FIND(hh, world.pages, &index, sizeof(index), page);
  if (page) return page;
  page = calloc(1, sizeof(*page));
  page->index = index;
  page->lost = world.hole;
  HASH_ADD(hh, world.pages, index, sizeof(index), page);
  return page;
}

static int32_t env_revive(void *arg, uint64_t index) {
  struct page *page;
  yield();
  if (!goes_on(arg)) return DMI_EINACTIVE;
  page = page_get(index);
  if (page->lost) memset(page->bytes, 0, sizeof(page->bytes));
  page->lost = false;
  yield();
  return DMI_OK;
}

static int32_t env_step(void *arg, uint64_t index, uint64_t off, uint64_t len,
                        const struct dmi_heap_in *in, void *answer, uint64_t answer_size,
                        bool here) {
  unsigned char bytes[DMI_SYSTEM_PAGE];
  uint32_t losses = world.losses;
  struct page *page;
  (void)here;
  yield();
  if (world.steps++ > STEPS_MOST) fail("it does not end");
  if (me >= 0 && world.loses && world.losses < LOSSES && rng_once_in(&world.rng, 2000)) lose(arg);
  if (!goes_on(arg)) return DMI_EINACTIVE;
  page = page_get(index);
  /* It was on its way to a process that is lost. */
  if (page->lost || (losses != world.losses && rng_once_in(&world.rng, 2))) return DMI_ELOST;
  if (off + len > DMI_SYSTEM_PAGE || !dmi_heap_step_valid(len, sizeof(*in), answer_size)) {
    fail("a step outside of its page");
    return DMI_EINVAL;
  }
  memcpy(bytes, page->bytes + off, len);
  memset(answer, 0, answer_size);
  dmi_heap_step(bytes, len, (const unsigned char *)in, answer, answer_size);
  memcpy(page->bytes + off, bytes, len);
  losses = world.losses;
  yield();
  if (!goes_on(arg)) return DMI_EINACTIVE;
  /* So was its answer. */
  return losses != world.losses && rng_once_in(&world.rng, 2) ? DMI_ELOST : DMI_OK;
}

static int32_t env_map(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag,
                       uint64_t *base) {
  struct mapping *mapping;
  yield();
  if (!goes_on(arg)) return DMI_EINACTIVE;
  if (rng_once_in(&world.rng, 20)) return DMI_ENOMEM;
  mapping = calloc(1, sizeof(*mapping));
  if (world.mappings == world.mappings_capacity) {
    world.mappings_capacity = 2 * world.mappings_capacity + 64;
    world.mapping = realloc(world.mapping, world.mappings_capacity * sizeof(struct mapping *));
  }
  *mapping = (struct mapping){world.next_base, page_size, page_num, tag, 0, false, false};
  world.next_base += (page_size * page_num + 4095) / 4096 * 4096 + 65536;
  world.mapping[world.mappings++] = mapping;
  world.mapped++;
  *base = mapping->base;
  yield();
  return DMI_OK;
}

static struct mapping *mapping_of(uint64_t addr) {
  uint32_t low = 0, high = world.mappings;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (world.mapping[middle]->base <= addr) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (!low) return NULL;
  struct mapping *mapping = world.mapping[low - 1];
  return addr - mapping->base < mapping->page_size * mapping->page_num ? mapping : NULL;
}

static bool env_is_mapping(void *arg, uint64_t base, uint64_t tag, uint64_t page_size) {
  const struct mapping *mapping = mapping_of(base);
  (void)arg;
  return mapping && mapping->base == base && !mapping->gone && mapping->tag == tag &&
         mapping->page_size == page_size;
}

static void env_unmap(void *arg, uint64_t base, uint64_t tag) {
  struct mapping *mapping = mapping_of(base);
  yield();
  if (!goes_on(arg)) return;
  if (!mapping || mapping->base != base || mapping->gone || mapping->tag != tag) {
    fail("an arena is unmapped that is none");
  } else if (mapping->live) {
    fail("an arena with objects is unmapped");
  } else {
    mapping->gone = true;
    world.mapped--;
  }
}

static bool env_is_member(void *arg, uint32_t uid) {
  (void)arg;
  for (int i = 0; i < PROCESSES; i++) {
    if (world.process[i].env.self == uid) return !world.process[i].lost;
  }
  return false;
}

/* A process begins in this place; the one that was there has ended. */
static void process_begin(struct process *process) {
  for (uint32_t i = 0; i < world.mappings && process->heap; i++) {
    struct mapping *mapping = world.mapping[i];
    mapping->left |= dmi_heap_uses(process->heap, mapping->tag, mapping->page_size, mapping->base);
  }
  dmi_heap_free(process->heap);
  process->lost = false;
  process->env = (struct dmi_heap_env){.arg = process,
                                       .self = ++world.uids,
                                       .step = env_step,
                                       .map = env_map,
                                       .unmap = env_unmap,
                                       .is_member = env_is_member,
                                       .losses = env_losses,
                                       .revive = env_revive,
                                       .is_mapping = env_is_mapping};
  process->heap = dmi_heap_new(&process->env);
}

/* ---- The model ------------------------------------------------------------------------------ */

/* Objects that overlap are equal. */
static int by_place(const void *a, const void *b) {
  const struct object *x = a, *y = b;
  if (x->addr + x->size <= y->addr) return -1;
  return x->addr >= y->addr + y->size;
}

static void object_add(struct object *object) {
  uint64_t off;
  struct object **at;
  struct mapping *mapping = object->mapping = mapping_of(object->addr);
  if (!mapping || mapping->gone) {
    fail("an object in no arena");
    free(object);
    return;
  }
  off = object->addr - mapping->base;
  if (off + object->size > mapping->page_size * mapping->page_num)
    fail("an object leaves its arena");
  if (mapping->page_size != object->page_size) fail("an object in pages of another size");
  if (object->size <= mapping->page_size &&
      off / mapping->page_size != (off + object->size - 1) / mapping->page_size) {
    fail("an object reaches over a page although it would fit");
  }
  if (mapping->page_size % 16 == 0 && object->addr % 16) fail("an object is not aligned");
  at = tsearch(object, &world.tree, by_place);
  if (*at != object) {
    fail("two objects overlap");
    free(object);
    return;
  }
  mapping->live++;
  world.allocated++;
  world.object[world.objects++] = object;
}

/* Takes a live object out, any. */
static struct object *object_draw(void) {
  uint32_t at = rng_below(&world.rng, world.objects);
  struct object *object = world.object[at];
  world.object[at] = world.object[--world.objects];
  tdelete(object, &world.tree, by_place);
  object->mapping->live--;
  return object;
}

/* ---- What threads do ------------------------------------------------------------------------ */

/* Few bins with few slots to an arena, so that they are full, empty and shared all the time. */
static void draw_size(uint64_t *size, uint64_t *page_size) {
  static const uint64_t sizes[][2] = {{16000, 65536}, {16384, 4096}, {9000, 4096}, {4000, 8192},
                                      {60, 4096},     {5, 64},       {1000, 100}};
  const uint64_t *drawn = sizes[rng_below(&world.rng, rng_below(&world.rng, 4) ? 3 : 7)];
  *size = 1 + rng_below(&world.rng, 4) * (drawn[0] - 1) / 3;
  *page_size = drawn[1];
}

static void do_malloc(struct process *process) {
  struct object *object = calloc(1, sizeof(*object));
  int32_t error;
  draw_size(&object->size, &object->page_size);
  error = dmi_heap_take(process->heap, object->size, object->page_size, &object->addr);
  if (!goes_on(process)) {
    free(object); /* nobody hears of it */
    return;
  }
  if (error == DMI_OK) {
    object_add(object);
    return;
  }
  if (error != DMI_ENOMEM) fail("an object is refused");
  free(object);
}

static int32_t give(struct process *process, const struct mapping *mapping, uint64_t addr) {
  return dmi_heap_give(process->heap, mapping->tag, mapping->page_size, mapping->base,
                       addr - mapping->base);
}

static void do_free(struct process *process) {
  struct object *object = object_draw();
  int32_t known = dmi_heap_has(process->heap, object->mapping->tag, object->page_size,
                               object->mapping->base, object->addr - object->mapping->base);
  int32_t freed = give(process, object->mapping, object->addr);
  free(object);
  if (!goes_on(process)) return;
  if (known != DMI_OK) fail("an object is not known");
  if (freed != DMI_OK) fail("an object cannot be freed");
}

static void thread_body(void) {
  uint32_t most = rng_below(&world.rng, OBJECTS);
  for (int i = 0; i < CALLS; i++) {
    struct process *process = &world.process[me / THREADS];
    if (!goes_on(process)) break;
    if (world.objects && rng_below(&world.rng, most + 1) < world.objects) {
      do_free(process);
    } else {
      do_malloc(process);
    }
  }
  thread[me].runs = false;
  me = --running ? draw() : -1;
  setcontext(me < 0 ? &main_context : &thread[me].context);
}

static void thread_begin(int i) {
  if (!thread[i].stack) thread[i].stack = malloc(STACK);
  getcontext(&thread[i].context);
  thread[i].context.uc_stack.ss_sp = thread[i].stack;
  thread[i].context.uc_stack.ss_size = STACK;
  makecontext(&thread[i].context, thread_body, 0);
  thread[i].runs = true;
}

/* All threads make their calls, until none is in one. */
static void round_run(void) {
  running = ALL;
  for (int i = 0; i < ALL; i++)
    thread_begin(i);
  me = draw();
  swapcontext(&main_context, &thread[me].context);
}

/* ---- Checks between the rounds -------------------------------------------------------------- */

/* Looks into an arena, by steps: how many slots are taken, is it open, does its entry say so? */
static void check_arena(const struct mapping *mapping) {
  struct dmi_heap_shape shape = dmi_heap_shape(mapping->tag, mapping->page_size);
  struct dmi_heap_in in = {.op = DMI_HEAP_LOOK};
  uint64_t k = mapping->tag & 0xff;
  struct dmi_heap_entry entry;
  bool used = false, lives = false;
  struct {
    uint64_t base;
    uint32_t slots, used, version, closed, next, pad;
  } control;
  env_step(NULL, mapping->tag - k, k * sizeof(entry), sizeof(entry), &in, &entry, sizeof(entry),
           false);
  env_step(NULL, mapping->tag, 0, dmi_heap_control_size(shape.slots), &in, &control,
           sizeof(control), false);
  if (entry.base != mapping->base || control.base != mapping->base) {
    fail("an arena that nobody can find");
    return;
  }
  if (control.used != mapping->live) fail("slots taken and objects differ in number");
  if (!control.closed && !(entry.version & 1)) fail("spare slots that nobody can find");
  for (int i = 0; i < PROCESSES; i++) {
    used |= dmi_heap_uses(world.process[i].heap, mapping->tag, mapping->page_size, mapping->base);
    lives |= entry.holder == world.process[i].env.self;
  }
  if (!control.used && !used && !mapping->left && (lives || !entry.holder))
    fail("an empty arena that nobody uses");
  if (control.closed && (control.slots - control.used) * 8 >= control.slots) {
    fail("an arena with spare slots is closed");
  }
}

/* Each bin: an arena has an object, or somebody had or has it for a current one. */
static void check_bounds(void) {
  uint32_t empty = 0;
  for (uint32_t i = 0; i < world.mappings; i++) {
    if (!world.mapping[i]->gone && !world.mapping[i]->live) empty++;
  }
  /* 7 page sizes and stuffs with up to 4 sizes; each a bin */
  if (empty > 28 * ALL) fail("arenas that are empty become more and more");
}

/* An address is freed that was never given out, or was given back. */
static void check_wrong(struct process *process) {
  for (int i = 0; i < 20 && world.mappings; i++) {
    struct mapping *mapping = world.mapping[rng_below(&world.rng, world.mappings)];
    uint64_t bytes = mapping->page_size * mapping->page_num;
    struct object probe = {.addr = mapping->base + rng_next(&world.rng) % bytes, .size = 1};
    if (i % 2) probe.addr = probe.addr / 16 * 16;
    struct object **hit = tfind(&probe, &world.tree, by_place);
    if (hit && (*hit)->addr == probe.addr) continue;
    if (give(process, mapping, probe.addr) != DMI_EADDR) fail("what is no object can be freed");
  }
}

static void check_all(void) {
  if (world.losses) return; /* arenas may be abandoned, and nobody can tell their objects */
  for (uint32_t i = 0; i < world.mappings && !world.failed; i++) {
    if (!world.mapping[i]->gone) check_arena(world.mapping[i]);
  }
  if (!world.failed) check_bounds();
  if (!world.failed) check_wrong(&world.process[rng_below(&world.rng, PROCESSES)]);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static void world_begin(uint64_t seed) {
  memset(&world, 0, sizeof(world));
  rng_seed(&world.rng, seed);
  frozen = -1;
  frozen_for = 0;
  world.next_base = UINT64_C(1) << 32;
  world.object = calloc(OBJECTS + ALL * CALLS, sizeof(struct object *));
  for (int i = 0; i < PROCESSES; i++)
    process_begin(&world.process[i]);
}

static void world_end(void) {
  struct page *page, *next;
  HASH_ITER(hh, world.pages, page, next) {
    HASH_DEL(world.pages, page);
    free(page);
  }
  while (world.objects)
    free(object_draw());
  for (uint32_t i = 0; i < world.mappings; i++)
    free(world.mapping[i]);
  for (int i = 0; i < PROCESSES; i++)
    dmi_heap_free(world.process[i].heap);
  free(world.mapping);
  free(world.object);
}

/* NULL, or what failed. */
static const char *run(uint64_t seed, bool verbose) {
  const char *failed;
  world_begin(seed);
  world.loses = seed % 2;
  for (int round = 0; round < ROUNDS && !world.failed; round++) {
    round_run();
    if (!world.failed) check_all();
    /* Some end, others take their places. */
    for (int i = 0; i < PROCESSES && !world.failed; i++) {
      if (!world.process[i].lost && rng_below(&world.rng, 2)) continue;
      process_begin(&world.process[i]);
      world.ended++;
    }
  }
  while (world.objects && !world.failed)
    do_free(&world.process[rng_below(&world.rng, PROCESSES)]);
  if (!world.failed) check_all();
  if (verbose) {
    printf("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " objects, %" PRIu64
           " processes ended, %u lost, %u arenas made, %u left\n",
           seed, world.steps, world.allocated, world.ended, world.losses, world.mappings,
           world.mapped);
  }
  failed = world.failed;
  world_end();
  return failed;
}

static const char *const breaks[] = {
    [DMI_HEAP_BREAK_SPARE] = "spare",   [DMI_HEAP_BREAK_VERSION] = "version",
    [DMI_HEAP_BREAK_HOLDER] = "holder", [DMI_HEAP_BREAK_KILL] = "kill",
    [DMI_HEAP_BREAK_BASE] = "base",     [DMI_HEAP_BREAK_EMPTY] = "empty",
    [DMI_HEAP_BREAK_REVIVE] = "revive", [DMI_HEAP_BREAK_FITS] = "fits",
};

/* A broken rule is noticed within so many seeds? */
static bool noticed(int kind, uint64_t seed, uint64_t most) {
  dmi_heap_broken = (enum dmi_heap_break)kind;
  for (uint64_t i = 0; i < most; i++) {
    const char *failed = run(seed + i, false);
    if (!failed) continue;
    printf("break %s: noticed with seed %" PRIu64 ": %s\n", breaks[kind], seed + i, failed);
    dmi_heap_broken = DMI_HEAP_BREAK_NOTHING;
    return true;
  }
  dmi_heap_broken = DMI_HEAP_BREAK_NOTHING;
  printf("break %s: not noticed in %" PRIu64 " runs\n", breaks[kind], most);
  return false;
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE"), *kind = NULL;
  uint64_t seed = 1, num = 20, done = 0;
  bool verbose = false, good = true;
  if (scale && strcmp(scale, "small") == 0) num = 4;
  if (scale && strcmp(scale, "soak") == 0) num = 2000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-v") == 0) verbose = true;
    if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (i + 1 < argc && strcmp(argv[i], "--runs") == 0) num = strtoull(argv[i + 1], NULL, 10);
    if (i + 1 < argc && strcmp(argv[i], "--break") == 0) kind = argv[i + 1];
  }
  for (; !kind && done < num; done++) {
    const char *failed = run(seed + done, verbose);
    if (!failed) continue;
    printf("seed %" PRIu64 ": %s\n", seed + done, failed);
    return 1;
  }
  for (int i = 1; i < DMI_HEAP_BREAK_LAST; i++) {
    if (kind && strcmp(kind, "all") != 0 && strcmp(kind, breaks[i]) != 0) continue;
    good = noticed(i, seed, 2000) && good;
  }
  printf("heap_sim: %" PRIu64 " runs without a fault, %d broken rules noticed: %s\n", done,
         DMI_HEAP_BREAK_LAST - 1, good ? "all" : "not all");
  for (int i = 0; i < ALL; i++)
    free(thread[i].stack);
  return good ? 0 : 1;
}
