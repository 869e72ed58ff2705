/*
 * primes_dmi.c - counts primes, whichever of its processes die, also that of DMI_main.
 *
 *   dmirun --survive ./primes_dmi PIECES [PROCESSES]   waits for so many processes (default 1)
 *   dmirun -i HOST ./primes_dmi                        one more; at any time
 *
 * Counts the primes below PIECES times 10000.  DMI_main computes, and one thread in each other
 * process.  Kill any process while they do (kill -9): the others go on, and the result is right.
 * What makes that possible:
 *
 * - Everything that is needed to go on has a name (DMI_root_set), or is an argument of the program.
 *   So DMI_recover does what DMI_main does: it finds what is there, and makes what is not.
 * - A result is one number, written at once, and written again by whoever does not find it.
 * - All processes keep copies of the results (DMI_UPDATE_READ).  Those whose page is lost all the
 *   same are computed again: DMI_revive makes them zeros, which means "not there yet".
 *
 * Processes may join and die, but they do not leave in order; team.h and DMI_farm_run show that.
 */
#include <stdatomic.h>

#include "check.h"
#include "dmi_ext.h"

#define PIECE 10000      /* numbers in a piece */
#define PAGE_RESULTS 256 /* results in a page */

/* Where all is, in global memory. */
typedef struct {
  int64_t pieces;
  int64_t next;    /* counter: the next piece to take */
  int64_t results; /* for each piece the primes in it + 1; 0: not there yet */
} job_t;

/* ---- Global memory that may be lost ---------------------------------------------------------- */

/* A call about [addr, addr + size) has failed.  True: lost bytes are zeros now, so call again.
 * False: the mapping is gone, with the only process that knew it. */
static int mend(int64_t addr, int64_t size) {
  do {
    if (DMI_errno() == DMI_EADDR) return 0;
    if (DMI_errno() != DMI_ELOST) CHECK(DMI_FALSE); /* ends the program with a line */
  } while (!DMI_revive(addr, size, NULL));
  return 1;
}

static int get(int64_t addr, int64_t size, void *buf) {
  while (!DMI_read(addr, size, buf, DMI_UPDATE_READ, NULL))
    if (!mend(addr, size)) return 0;
  return 1;
}

static int put(int64_t addr, int64_t value) {
  while (!DMI_write(addr, sizeof(value), &value, DMI_PUT_WRITE, NULL))
    if (!mend(addr, sizeof(value))) return 0;
  return 1;
}

/* ---- Computing ------------------------------------------------------------------------------- */

static int is_prime(int64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return 0;
  for (int64_t i = 3; i * i <= n; i += 2)
    if (n % i == 0) return 0;
  return 1;
}

static int compute(const job_t *job, int64_t piece) {
  int64_t primes = 0;
  for (int64_t n = piece * PIECE; n < (piece + 1) * PIECE; n++)
    primes += is_prime(n);
  return put(job->results + piece * 8, primes + 1);
}

/* Stores a piece that has no result in *piece, or -1 if there is none: then *sum gets the primes.
 * The counter only says where to look first: after a loss it may begin again at 0. */
static int find_piece(const job_t *job, int64_t *piece, int64_t *sum) {
  int64_t *results = malloc((size_t)job->pieces * 8), first = 0;
  int there = 1;
  *piece = -1;
  *sum = 0;
  while (there && !DMI_fad(job->next, 1, &first, DMI_PUT_ATOMIC, NULL))
    there = mend(job->next, 8);
  there = there && get(job->results, job->pieces * 8, results);
  for (int64_t i = 0; there && *piece < 0 && i < job->pieces; i++) {
    int64_t at = (first + i) % job->pieces;
    if (results[at] == 0) *piece = at;
    *sum += results[at] - 1;
  }
  free(results);
  return there;
}

/* In each process but that of DMI_main one thread works; another one that is started there ends. */
static atomic_flag works = ATOMIC_FLAG_INIT;

int64_t DMI_thread(int64_t pieces) {
  job_t job = {.pieces = pieces};
  int64_t piece, sum;
  int32_t own, said = 0;
  if (atomic_flag_test_and_set(&works)) return 0;
  CHECK(DMI_rank(&own));
  CHECK(DMI_root_get("next", &job.next));
  CHECK(DMI_root_get("results", &job.results));
  while (find_piece(&job, &piece, &sum) && piece >= 0) {
    if (!said++) {
      printf("process %d computes\n", own);
      fflush(stdout);
    }
    if (!compute(&job, piece)) break;
  }
  atomic_flag_clear(&works);
  return 0;
}

/* ---- DMI_main, and who takes its place ------------------------------------------------------- */

/* The mapping of this name; makes it if there is none, or if it is gone: a name stays when the only
 * process is lost that knew the mapping. */
static int64_t find_or_map(const char *name, int64_t page_size, int64_t page_num) {
  int64_t addr, first;
  CHECK(DMI_root_get(name, &addr));
  if (addr == 0 || !get(addr, sizeof(first), &first)) {
    CHECK(DMI_mmap(&addr, page_size, page_num, NULL));
    CHECK(DMI_root_set(name, addr));
  }
  return addr;
}

static void start(int32_t dmi_id, int64_t pieces) {
  DMI_thread_t thread;
  int32_t own;
  CHECK(DMI_rank(&own));
  if (dmi_id != own && CHECK_LOST(DMI_create(&thread, dmi_id, pieces, NULL)))
    CHECK_LOST(DMI_detach(thread, NULL));
}

/* What happens to other processes.  Returns how many are there. */
static int take_notice(const DMI_node_t *node, int64_t pieces) {
  static int there;
  if (node->state == DMI_OPEN && CHECK_LOST(DMI_welcome(node->dmi_id))) {
    printf("process %d joins\n", node->dmi_id);
    start(node->dmi_id, pieces);
    there++;
  } else if (node->state == DMI_LOST) {
    printf("process %d is lost\n", node->dmi_id);
  }
  fflush(stdout);
  return there;
}

/* Starts threads in all processes that were welcomed: whether DMI_main had done so is not known. */
static void start_all(int64_t pieces) {
  int32_t num = 0, capacity = 8;
  DMI_node_t *nodes = NULL;
  do {
    capacity *= 2;
    nodes = realloc(nodes, (size_t)capacity * sizeof(*nodes));
    CHECK(DMI_nodes(nodes, &num, capacity));
  } while (num == capacity);
  for (int32_t i = 0; i < num; i++)
    if (nodes[i].state == DMI_OPENED) start(nodes[i].dmi_id, pieces);
  free(nodes);
}

/* Computes until all results are there; before, waits until so many processes have joined. */
static void work(int64_t pieces, int wait_for) {
  job_t job = {.pieces = pieces};
  int64_t piece, sum;
  DMI_node_t node;
  int32_t is_one;
  job.next = find_or_map("next", sizeof(int64_t), 1);
  job.results =
      find_or_map("results", 8 * PAGE_RESULTS, (pieces + PAGE_RESULTS - 1) / PAGE_RESULTS);
  start_all(pieces);
  for (int there = 0; there < wait_for; there = take_notice(&node, pieces))
    CHECK(DMI_poll(&node));
  for (;;) {
    CHECK(DMI_peek(&node, &is_one));
    if (is_one) {
      take_notice(&node, pieces);
    } else if (!find_piece(&job, &piece, &sum) || (piece >= 0 && !compute(&job, piece))) {
      work(pieces, 0); /* a mapping is gone: once more, with another one */
      return;
    } else if (piece < 0) {
      break;
    }
  }
  printf("there are %lld primes below %lld\n", (long long)sum, (long long)pieces * PIECE);
}

void DMI_main(int argc, char **argv) {
  int32_t pieces = argc > 1 ? check_number("PIECES", argv[1], 1) : 1000;
  work(pieces, argc > 2 ? check_number("PROCESSES", argv[2], 1) : 1);
}

int32_t DMI_recover(int argc, char **argv, int32_t lost_id) {
  printf("process %d is lost, and DMI_main with it: this one goes on\n", lost_id);
  fflush(stdout);
  work(argc > 1 ? check_number("PIECES", argv[1], 1) : 1000, 0);
  return DMI_TRUE;
}
