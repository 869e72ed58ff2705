/*
 * revive_dmi.c - DMI_revive: what revive.t runs.
 *
 * Three processes.  The second one has written all pages, the third one has copies of some, and
 * then the second one is killed.  Threads in both of the others make all pages usable, several at
 * the same time, and add to words of them: no addition may be missing.
 */
#include "dmi_ext.h"
#include "multi.h"

#define PAGE 64
#define PAGES 9000 /* more than one call has in flight */
#define COPIES 100 /* the first ones: the third process has read them */
#define PIECE 60   /* pages that a thread makes usable at a time */
#define THREADS 3  /* in each of the two processes */
#define OLD 1000   /* in each word, before */

enum what { WRITES, READS, REVIVES };

struct shared {
  int64_t pages;   /* address */
  int64_t revived; /* pages that were made usable */
  int64_t never;
};

#define FIELD(addr, name) ((int64_t) & ((struct shared *)(addr))->name)

/* Of the process that is killed: never returns. */
static void writes(int64_t addr, int64_t pages) {
  int64_t *words = my_malloc(PAGE * PAGES), never = 0;
  for (int64_t i = 0; i < PAGES * PAGE / 8; i++)
    words[i] = OLD;
  OK(DMI_write(pages, PAGE * PAGES, words, DMI_EXCLUSIVE_WRITE, NULL));
  say("written");
  (void)DMI_watch(FIELD(addr, never), sizeof(never), &never, &never, NULL);
}

static void reads(int64_t pages) {
  int64_t words[PAGE / 8];
  for (int64_t i = 0; i < COPIES; i++)
    OK(DMI_read(pages + i * PAGE, PAGE, words, DMI_INVALIDATE_READ, NULL));
}

/* Makes the pages usable piece by piece, and adds 1 to the first word of every fourth. */
static void revives(int64_t addr, int64_t pages) {
  int64_t num;
  for (int64_t i = 0; i < PAGES; i += PIECE) {
    OK(DMI_revive(pages + i * PAGE, PIECE * PAGE, &num));
    OK(DMI_fad(FIELD(addr, revived), num, NULL, DMI_PUT_ATOMIC, NULL));
    for (int64_t k = i; k < i + PIECE; k += 4)
      OK(DMI_fad(pages + k * PAGE, 1, NULL, DMI_PUT_ATOMIC, NULL));
  }
}

int64_t DMI_thread(int64_t arg) {
  const int64_t addr = arg & ~(int64_t)4095, pages = get_int64(FIELD(addr, pages));
  if (arg - addr == WRITES) writes(addr, pages);
  if (arg - addr == READS) reads(pages);
  if (arg - addr == REVIVES) revives(addr, pages);
  return atomic_load(&checks_failed);
}

static void run(int32_t where, enum what what, int64_t addr, DMI_thread_t *thread) {
  MUST(DMI_create(thread, where, addr + (int64_t)what, NULL));
}

static void ends(DMI_thread_t thread) {
  int64_t failed;
  MUST(DMI_join(thread, &failed, NULL));
  EQ(failed, 0);
}

static void errors(int64_t pages) {
  int64_t num = 5;
  FAILS(DMI_revive(12345, 1, &num), DMI_EADDR);
  FAILS(DMI_revive(pages, PAGE * PAGES + 1, &num), DMI_ERANGE);
  FAILS(DMI_revive(pages, -1, &num), DMI_EINVAL);
  OK(DMI_revive(pages, 0, &num));
  EQ(num, 0);
  OK(DMI_revive(pages, PAGE * PAGES, NULL));
}

/* A page is whole again whichever of its bytes are named; a second time nothing is done. */
static void some_bytes(int64_t page) {
  int64_t words[PAGE / 8], num;
  FAILS(DMI_read(page, PAGE, words, DMI_GET_READ, NULL), DMI_ELOST);
  OK(DMI_revive(page + 10, 1, &num));
  EQ(num, 1);
  OK(DMI_read(page, PAGE, words, DMI_GET_READ, NULL));
  for (int i = 0; i < PAGE / 8; i++)
    EQ(words[i], 0);
  OK(DMI_revive(page, PAGE, &num));
  EQ(num, 0);
  OK(DMI_revive(page + 2 * PAGE - 1, 2, &num)); /* of two pages */
  EQ(num, 2);
}

/* All pages: those of which there was a copy have the bytes of before. */
static void look(int64_t pages) {
  int64_t *words = my_malloc(PAGE * PAGES);
  OK(DMI_read(pages, PAGE * PAGES, words, DMI_GET_READ, NULL));
  for (int64_t i = 0; i < PAGES; i++) {
    EQ(words[i * PAGE / 8], (i < COPIES ? OLD : 0) + (i % 4 == 0 ? 2 * THREADS : 0));
    EQ(words[i * PAGE / 8 + 1], i < COPIES ? OLD : 0);
  }
  my_free(words);
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t writer, reader, threads[2 * THREADS];
  int32_t ids[3];
  int64_t addr, word = 0;
  struct shared shared = {0, 0, 0};
  (void)argc, (void)argv;
  gather(3, ids);
  MUST(DMI_mmap(&addr, 4096, 1, NULL));
  MUST(DMI_mmap(&shared.pages, PAGE, PAGES, NULL));
  MUST(DMI_write(addr, sizeof(shared), &shared, DMI_EXCLUSIVE_WRITE, NULL));
  errors(shared.pages); /* nothing is lost so far */
  run(ids[1], WRITES, addr, &writer);
  for (int64_t looks = 0; word != OLD; looks++) {
    look_again(looks);
    MUST(DMI_read(shared.pages + PAGE * PAGES - 8, 8, &word, DMI_GET_READ, NULL));
  }
  run(ids[2], READS, addr, &reader);
  ends(reader);
  say("kill");
  for (int64_t looks = 0; DMI_read(shared.pages + PAGE * COPIES, 8, &word, DMI_GET_READ, NULL);)
    look_again(looks++);
  EQ(DMI_errno(), DMI_ELOST);
  some_bytes(shared.pages + PAGE * COPIES);
  for (int i = 0; i < 2 * THREADS; i++)
    run(ids[i % 2 * 2], REVIVES, addr, &threads[i]);
  for (int i = 0; i < 2 * THREADS; i++)
    ends(threads[i]);
  EQ(get_int64(FIELD(addr, revived)), PAGES - COPIES - 3);
  look(shared.pages);
  verdict("revive", 0);
}
