/*
 * bench_crash_dmi.c - how long nobody gets an answer when a process dies that owns many pages.
 *
 *   dmirun --survive ./bench_crash_dmi N PAGES    first process: DMI_main, which observes
 *   dmirun -i HOST ./bench_crash_dmi              second: owns the page that the first one adds to
 *   ...                                           others do nothing
 *   dmirun -i HOST ./bench_crash_dmi              the last of N: owns PAGES pages, and kills itself
 *
 * The first process adds to the second one's page all the time.  It prints `killed SECONDS`, when
 * (since 1970) the last process died, and figures as `name value unit`: the longest time between
 * two answers, and how long it took until DMI_poll told of the loss.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "../../examples/check.h"
#include "bench.h"

#define AFTER_NS ((int64_t)300000000) /* observed so long behind the notice */

/* DMI_thread's argument. */
typedef struct {
  int64_t addr; /* the pages to become the owner of */
  int64_t size;
  int64_t die_addr;  /* int64_t: not 0: die.  0: there is none */
  int64_t died_addr; /* int64_t: when that was, of now_ns */
} work_t;

static _Atomic int64_t told_ns; /* when DMI_poll has told of the loss */

int64_t DMI_thread(int64_t addr) {
  work_t work;
  int64_t die = 0;
  CHECK(DMI_read(addr, sizeof(work), &work, DMI_GET_READ, NULL));
  char *bytes = my_malloc((size_t)work.size);
  memset(bytes, 1, (size_t)work.size);
  CHECK(DMI_write(work.addr, work.size, bytes, DMI_EXCLUSIVE_WRITE, NULL));
  my_free(bytes);
  if (work.die_addr == DMI_NULL) return 0;
  while (!die) {
    const struct timespec little = {0, 1000000};
    CHECK(DMI_read(work.die_addr, sizeof(die), &die, DMI_UPDATE_READ, NULL));
    nanosleep(&little, NULL);
  }
  const int64_t now = now_ns();
  CHECK(DMI_write(work.died_addr, sizeof(now), &now, DMI_PUT_WRITE, NULL));
  kill(getpid(), SIGKILL);
  return 0;
}

static int64_t new_page(int64_t page_size, int64_t num) {
  int64_t addr;
  CHECK(DMI_mmap(&addr, page_size, num, NULL));
  return addr;
}

static DMI_thread_t start(int32_t dmi_id, const work_t *work) {
  DMI_thread_t thread;
  const int64_t addr = new_page(sizeof(*work), 1);
  CHECK(DMI_write(addr, sizeof(*work), work, DMI_EXCLUSIVE_WRITE, NULL));
  CHECK(DMI_create(&thread, dmi_id, addr, NULL));
  return thread;
}

static void *await_notice(void *arg) {
  DMI_node_t node;
  CHECK(DMI_poll(&node));
  if (node.state != DMI_LOST) {
    fprintf(stderr, "process %d came or went\n", node.dmi_id);
    exit(EXIT_FAILURE);
  }
  told_ns = now_ns();
  return arg;
}

static int64_t get(int64_t addr) {
  int64_t value;
  CHECK(DMI_read(addr, sizeof(value), &value, DMI_GET_READ, NULL));
  return value;
}

/* Adds until some time behind the notice; prints what was seen. */
static void observe(int64_t count_addr, const work_t *victim) {
  const int64_t one = 1;
  int64_t longest = 0, last, now;
  CHECK(DMI_write(victim->die_addr, sizeof(one), &one, DMI_PUT_WRITE, NULL));
  last = now_ns();
  do {
    CHECK(DMI_fad(count_addr, 1, NULL, DMI_PUT_ATOMIC, NULL));
    now = now_ns();
    if (now - last > longest) longest = now - last;
    last = now;
  } while (!told_ns || now < told_ns + AFTER_NS);
  const int64_t died = get(victim->died_addr);
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  printf("killed %.6f\n",
         (double)wall.tv_sec + (double)wall.tv_nsec / 1e9 - (double)(now_ns() - died) / 1e9);
  printf("crash_gap %.4g ms\n", (double)longest / 1e6);
  printf("crash_told %.4g ms\n", (double)(told_ns - died) / 1e6);
  fflush(stdout);
}

void DMI_main(int argc, char **argv) {
  const int32_t num = argc > 2 ? check_number("processes", argv[1], 2) : 2;
  const int64_t pages = argc > 2 ? check_number("pages", argv[2], 1) : 1;
  int32_t *ids = my_malloc((size_t)num * sizeof(*ids));
  pthread_t notices;
  for (int32_t i = 0; i < num; i++) {
    DMI_node_t node;
    CHECK(DMI_poll(&node));
    CHECK(DMI_welcome(node.dmi_id));
    ids[i] = node.dmi_id;
  }
  const work_t owner = {.addr = new_page(sizeof(int64_t), 1), .size = sizeof(int64_t)};
  /* With two processes there is only the first one beside the victim. */
  CHECK(DMI_join(start(ids[num > 2], &owner), NULL, NULL));
  work_t victim = {.addr = new_page(sizeof(int64_t), pages),
                   .size = pages * (int64_t)sizeof(int64_t)};
  CHECK(DMI_join(start(ids[num - 1], &victim), NULL, NULL));
  victim.size = sizeof(int64_t);
  victim.die_addr = new_page(sizeof(int64_t), 1);
  victim.died_addr = new_page(sizeof(int64_t), 1);
  CHECK(DMI_detach(start(ids[num - 1], &victim), NULL));
  if (pthread_create(&notices, NULL, await_notice, NULL) != 0) abort();
  observe(owner.addr, &victim);
  pthread_join(notices, NULL);
  my_free(ids);
}
