/*
 * bench_many_dmi.c - a client that issues very many calls: does memory stay within its bounds?
 *
 *   dmirun ./bench_many_dmi CALLS N        the client, and first of N servers
 *   dmirun -i HOST ./bench_many_dmi        the others
 *
 * CHAINS chains of calls; each call makes a value of 64 bytes of the one before, which is dropped.
 * Prints calls in a second, and by how much the peak of memory of each process has grown from the
 * first quarter of the calls to the last, and how much at most in more than half of the eighths of
 * them: nothing, if calls and values are freed.  (The peak itself can grow at any time: how many
 * calls, messages and threads there are at once is up to the scheduler.)  The client may have calls
 * of BOUND bytes that are not done.
 */
#include "../../examples/remote.h"
#include "bench.h"

#include <sys/resource.h>

#define CHAINS 64
#define NUMBERS 8
#define BOUND (1 << 20)
#define PARTS 8

/* (IN numbers, OUT numbers) */
DMI_REMOTE(next) {
  const int64_t *in = DMI_remote_in(call, 0, NULL);
  int64_t *out = DMI_remote_out(call, 1, NULL);
  for (int i = 0; i < NUMBERS; i++)
    out[i] = in[i] + 1;
}

/* (OUT the most memory that this process has used so far, in bytes) */
DMI_REMOTE(peak) {
  int64_t *bytes = DMI_remote_out(call, 0, NULL);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  *bytes = (int64_t)usage.ru_maxrss << 10;
}

static void issue(DMI_client_t *client, DMI_data_t *chain, int32_t calls) {
  for (int32_t i = 0; i < calls; i++) {
    DMI_data_t *at = &chain[i % CHAINS], before = *at;
    CHECK(DMI_call(client, next, DMI_IN(before), DMI_OUT(at, NUMBERS * sizeof(int64_t))));
    CHECK(DMI_data_drop(client, before));
  }
  for (int i = 0; i < CHAINS; i++)
    await_value(client, chain[i]);
}

static void read_peaks(DMI_client_t *client, int64_t *peaks, int32_t processes) {
  for (int32_t id = 0; id < processes; id++) {
    DMI_data_t value;
    CHECK(DMI_call_on(client, id, peak, DMI_OUT(&value, sizeof(int64_t))));
    read_value(client, value, &peaks[id], sizeof(int64_t));
    CHECK(DMI_data_drop(client, value));
  }
}

static double mib(int64_t bytes) {
  return (double)bytes / (1 << 20);
}

/* `peaks` are those of all processes behind each part of the calls. */
static void print_peaks(int32_t id, const int64_t *peaks, int32_t processes) {
  const int64_t *of = peaks + id, last = of[(PARTS - 1) * processes];
  double grown[PARTS - 1];
  for (int32_t part = 1; part < PARTS; part++)
    grown[part - 1] = mib(of[part * processes] - of[(part - 1) * processes]);
  qsort(grown, PARTS - 1, sizeof(*grown), compare_doubles);
  printf("many_peak_%d %.1f MiB, of that %.2f since a quarter of the calls, %.2f in most eighths\n",
         id, mib(last), mib(last - of[(PARTS / 4 - 1) * processes]), grown[(PARTS - 1) / 2]);
}

void DMI_main(int argc, char **argv) {
  const int64_t zero[NUMBERS] = {0};
  int64_t sum = 0, numbers[NUMBERS];
  DMI_data_t chain[CHAINS];
  DMI_client_t *client;
  if (argc != 3) {
    fprintf(stderr, "usage: %s calls processes\n", argv[0]);
    exit(EXIT_FAILURE);
  }
  const int32_t calls = check_number("calls", argv[1], PARTS);
  const int32_t processes = check_number("processes", argv[2], 1);
  const DMI_client_options_t options = {.processes = processes, .call_bytes = BOUND};
  int64_t *peaks = my_malloc((size_t)processes * PARTS * sizeof(*peaks));
  CHECK(DMI_client_open(&client, &options));
  for (int i = 0; i < CHAINS; i++)
    chain[i] = DMI_data_put(client, zero, sizeof(zero));

  const int64_t begin = now_ns();
  for (int32_t part = 0; part < PARTS; part++) {
    issue(client, chain, part < PARTS - 1 ? calls / PARTS : calls - calls / PARTS * (PARTS - 1));
    read_peaks(client, peaks + part * processes, processes);
  }
  const double seconds = (double)(now_ns() - begin) / 1e9;
  printf("many_calls %.4g /s\n", calls / seconds);
  for (int32_t id = 0; id < processes; id++)
    print_peaks(id, peaks, processes);

  for (int i = 0; i < CHAINS; i++) {
    read_value(client, chain[i], numbers, sizeof(numbers));
    sum += numbers[0];
  }
  printf("sum %" PRId64 "\n", sum);
  CHECK(DMI_client_close(client));
  my_free(peaks);
}
