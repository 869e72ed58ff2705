/*
 * trace_dmi.c - a program whose processes join, leave and are killed while it works: what trace.t
 * runs.
 *
 *   dmirun --survive --trace FILE trace_dmi OPENS CLOSES LOSSES [ROUNDS]
 *
 * Each welcomed process gets a thread, which adds to a counter behind a mutex and then fetches and
 * writes pages of its neighbours, so many rounds (60), and then waits, until so many have joined,
 * left and were lost.  Then it says `over`, and ends.  The page of the mutex is of the first
 * process, which is not killed.
 */
#include "dmi_ext.h"
#include "multi.h"

#define PAGE 4096
#define PAGES 8

struct shared {
  DMI_mutex_t mutex;
  int64_t counter, rounds;
  int64_t stop; /* dmi_id of a process whose thread is to end, plus 1; -1: all */
};

#define FIELD(base, name) ((base) + (int64_t)offsetof(struct shared, name))

/* Work goes on while others are lost: a page, or the mutex, may be lost with them. */
static void add(int64_t base) {
  int64_t old;
  if (!DMI_mutex_lock(FIELD(base, mutex)) && DMI_errno() != DMI_EOWNERDEAD) return;
  (void)DMI_fad(FIELD(base, counter), 1, &old, DMI_PUT_ATOMIC, NULL);
  (void)DMI_mutex_consistent(FIELD(base, mutex));
  (void)DMI_mutex_unlock(FIELD(base, mutex));
}

int64_t DMI_thread(int64_t base) {
  int64_t stop = 0, old, rounds = get_int64(FIELD(base, rounds));
  int32_t me;
  MUST(DMI_rank(&me));
  for (int64_t round = 0; stop != -1 && stop != me + 1; round++) {
    int64_t page = base + (1 + (me + round) % (PAGES - 1)) * PAGE, value;
    if (round == rounds) say("has worked %d", me);
    if (round >= rounds) { /* so that the trace stays small */
      old = stop;
      MUST(DMI_watch(FIELD(base, stop), sizeof(stop), &old, &stop, NULL));
      continue;
    }
    add(base);
    (void)DMI_read(page, sizeof(value), &value, DMI_INVALIDATE_READ, NULL);
    (void)DMI_write(page, sizeof(round), &round, DMI_EXCLUSIVE_WRITE, NULL);
    if (round == 20) say("works %d", me);
    MUST(DMI_read(FIELD(base, stop), sizeof(stop), &stop, DMI_GET_READ, NULL));
  }
  return 0;
}

/* The thread of each process. */
static DMI_thread_t threads[64];
static bool has[64];

static void ends(int32_t id, int64_t base, int64_t stop) {
  if (stop > 0) put_int64(FIELD(base, stop), stop);
  if (has[id]) (void)DMI_join(threads[id], NULL, NULL); /* it may be lost with its process */
  has[id] = false;
}

void DMI_main(int argc, char **argv) {
  int opens = argc > 1 ? atoi(argv[1]) : 1, closes = argc > 2 ? atoi(argv[2]) : 0;
  int losses = argc > 3 ? atoi(argv[3]) : 0;
  DMI_node_t node;
  int64_t base;
  MUST(DMI_mmap(&base, PAGE, PAGES, NULL));
  MUST(DMI_mutex_init(FIELD(base, mutex)));
  put_int64(FIELD(base, rounds), argc > 4 ? atoi(argv[4]) : 60);
  while (opens > 0 || closes > 0 || losses > 0) {
    MUST(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      opens--;
      MUST(DMI_welcome(node.dmi_id));
      has[node.dmi_id] = DMI_create(&threads[node.dmi_id], node.dmi_id, base, NULL) == DMI_TRUE;
    } else if (node.state == DMI_CLOSE) {
      closes--;
      ends(node.dmi_id, base, node.dmi_id + 1);
      MUST(DMI_goodbye(node.dmi_id));
    } else if (node.state == DMI_LOST) {
      losses--;
      has[node.dmi_id] = false;
    }
  }
  put_int64(FIELD(base, stop), -1);
  for (int32_t id = 0; id < 64; id++)
    ends(id, base, 0);
  say("over %" PRId64, get_int64(FIELD(base, counter)));
}
