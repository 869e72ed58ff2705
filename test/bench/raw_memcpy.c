/*
 * raw_memcpy.c - copying 4 KiB that are in the cache, and 1 MiB, from one buffer to another; and
 * how far apart the two cores are, on which the other programs run.
 *
 * raw_cores: a word in memory is changed by one core, then by the other, and so on: time for both.
 * A virtual machine's cores may be two threads of one core at one moment, and far apart at another,
 * and nothing else shows that.
 */
#include "raw_tcp.h" /* first: it asks for what the C library has beyond POSIX */

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Copies per batch times `size` stay at 1 GiB and 2 GiB: tens of milliseconds. */
static void measure(figure_t *figure, char *to, char *from, size_t size, int64_t copies) {
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int64_t i = 0; i < copies; i++) {
      memcpy(to, from, size);
      /* The compiler must neither merge nor drop copies of bytes that nobody looks at. */
      __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
    }
    const int64_t ns = now_ns() - start;
    if (batch >= 0) figure->values[batch] = (double)ns / (double)copies;
  }
}

#define TURNS 20000 /* per batch */

/* Waits for each odd number, and adds one. */
static void answer(_Atomic int *word) {
  raw_bind(1);
  alarm(60); /* the one that asks may have failed */
  const int end = 2 * TURNS * (batches() + 1);
  for (int i = 1; i < end; i += 2) {
    while (atomic_load(word) != i) {
    }
    atomic_store(word, i + 1);
  }
}

static void ask(_Atomic int *word, figure_t *figure) {
  int next = 1;
  raw_bind(0);
  for (int batch = -1; batch < batches(); batch++) {
    const int64_t start = now_ns();
    for (int i = 0; i < TURNS; i++, next += 2) {
      atomic_store(word, next);
      while (atomic_load(word) != next + 1) {
      }
    }
    if (batch >= 0) figure->values[batch] = (double)(now_ns() - start) / TURNS;
  }
}

static void measure_cores(void) {
  figure_t figure = {.name = "raw_cores", .unit = "ns"};
  const cpu_set_t allowed = raw_allowed();
  int status;
  if (CPU_COUNT(&allowed) < 2) return;
  _Atomic int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (word == MAP_FAILED) raw_fail("mmap");
  const pid_t child = fork();
  if (child < 0) raw_fail("fork");
  if (child == 0) {
    answer(word);
    _exit(EXIT_SUCCESS);
  }
  ask(word, &figure);
  if (waitpid(child, &status, 0) != child || status != 0) raw_fail("the other process");
  figure_print(&figure);
}

int main(void) {
  enum { SMALL = 4096, LARGE = 1024 * 1024 };
  char *from = malloc(LARGE), *to = malloc(LARGE);
  if (from == NULL || to == NULL) {
    perror("malloc");
    return EXIT_FAILURE;
  }
  memset(from, 1, LARGE);
  memset(to, 2, LARGE);

  figure_t small = {.name = "memcpy_4k", .unit = "ns"};
  measure(&small, to, from, SMALL, 500000);
  figure_print(&small);

  figure_t large = {.name = "memcpy_1m", .unit = "MB/s"};
  measure(&large, to, from, LARGE, 1000);
  for (int i = 0; i < batches(); i++)
    large.values[i] = LARGE * 1000.0 / large.values[i];
  figure_print(&large);
  free(to);
  free(from);
  measure_cores();
  return EXIT_SUCCESS;
}
