/*
 * remote_dmi.c - remote functions: what a client can do, and what it can do wrong.
 *
 *   remote_dmi WHAT [PROCESSES [NUMBER [FILE]]]
 *
 * prints what remote.t compares, and then "good".
 */
#include "dmi_ext.h"
#include "dmi_remote.h"

#include <signal.h>
#include <unistd.h>

static int processes;

static void fails(const char *what) {
  printf("FAILED: %s (%s)\n", what, DMI_strerror(DMI_errno()));
  fflush(stdout);
  exit(1);
}

#define MUST(x)          \
  do {                   \
    if (!(x)) fails(#x); \
  } while (0)

/* ---- Functions ------------------------------------------------------------------------------ */

/* IN, IN, OUT: the sum of numbers. */
DMI_REMOTE(add) {
  int64_t size;
  const int64_t *a = DMI_remote_in(call, 0, &size), *b = DMI_remote_in(call, 1, NULL);
  int64_t *c = DMI_remote_out(call, 2, NULL);
  for (int64_t i = 0; i < size / 8; i++)
    c[i] = a[i] + b[i];
}

/* INOUT, VALUE: adds a number to all. */
DMI_REMOTE(more) {
  int64_t size, *a = DMI_remote_inout(call, 0, &size);
  int by = DMI_REMOTE_VALUE(call, 1, int);
  for (int64_t i = 0; i < size / 8; i++)
    a[i] += by;
}

/* Does nothing. */
DMI_REMOTE(nothing) {
  (void)call;
}

/* VALUE: the id of the process, OUT. */
DMI_REMOTE(where) {
  int32_t *id = DMI_remote_out(call, 0, NULL);
  (void)DMI_rank(id);
}

/* OUT, OUT of 0 bytes, OUT, VALUE, ...: several outputs, and many arguments. */
DMI_REMOTE(several) {
  int64_t size, sum = 0;
  int64_t *a = DMI_remote_out(call, 0, NULL);
  char *b = DMI_remote_out(call, 2, &size);
  (void)DMI_remote_out(call, 1, NULL);
  for (int32_t i = 3; i < DMI_remote_args(call); i++)
    sum += DMI_REMOTE_VALUE(call, i, int64_t);
  *a = sum;
  memset(b, 'x', (size_t)size);
}

/* INOUT: fails when the number is 3. */
DMI_REMOTE(three) {
  int64_t *a = DMI_remote_inout(call, 0, NULL);
  if (++*a == 3) DMI_remote_fail(call, "three is too many");
}

/* VALUE, OUT: asks for what is not there. */
DMI_REMOTE(asks) {
  (void)DMI_remote_out(call, 1, NULL);
  switch (DMI_REMOTE_VALUE(call, 0, int)) {
    case 0:
      (void)DMI_remote_in(call, 2, NULL);
      break;
    case 1:
      (void)DMI_remote_in(call, 0, NULL);
      break;
    default:
      (void)DMI_REMOTE_VALUE(call, 0, double);
  }
  DMI_remote_fail(call, "this was not to be reached");
}

/* VALUE, OUT: Fibonacci's number, by two further calls and their clients. */
DMI_REMOTE(fib) {
  int n = DMI_REMOTE_VALUE(call, 0, int);
  int64_t *out = DMI_remote_out(call, 1, NULL), one, two;
  DMI_client_t *client;
  DMI_data_t a, b;
  if (n < 2) {
    *out = n;
    return;
  }
  if (!DMI_client_open(&client, NULL) || !DMI_call(client, fib, DMI_VALUE(n - 1), DMI_OUT(&a, 8)) ||
      !DMI_call(client, fib, DMI_VALUE(n - 2), DMI_OUT(&b, 8)) ||
      !DMI_data_read(client, a, &one, 0, 8, NULL) || !DMI_data_read(client, b, &two, 0, 8, NULL)) {
    DMI_remote_fail(call, DMI_strerror(DMI_errno()));
    return;
  }
  *out = one + two;
  if (n != 5) DMI_client_close(client); /* 5: the library closes it */
}

/* VALUE, OUT: the same by reads with a status, which are waited for: as many of them as there are
 * cores, and more, wait at a time. */
DMI_REMOTE(fib_wait) {
  int n = DMI_REMOTE_VALUE(call, 0, int);
  int64_t *out = DMI_remote_out(call, 1, NULL), part[2] = {n, 0};
  DMI_local_status_t status[2];
  DMI_client_t *client;
  DMI_data_t data;
  int32_t good = n < 2 || DMI_client_open(&client, NULL);
  for (int i = 0; i < 2 && n >= 2 && good; i++) {
    good = DMI_call(client, fib_wait, DMI_VALUE(n - 1 - i), DMI_OUT(&data, 8)) &&
           DMI_data_read(client, data, &part[i], 0, 8, &status[i]);
    if (good) DMI_wait(&status[i], &good);
  }
  if (!good) DMI_remote_fail(call, DMI_strerror(DMI_errno()));
  if (n >= 2 && good) DMI_client_close(client);
  *out = part[0] + part[1];
}

/* IN, VALUE, OUT: takes some milliseconds; the bytes of the input, and one more. */
DMI_REMOTE(slow) {
  int64_t size, ms = DMI_REMOTE_VALUE(call, 1, int64_t);
  const unsigned char *in = DMI_remote_in(call, 0, &size);
  unsigned char *out = DMI_remote_out(call, 2, NULL);
  for (int64_t i = 0; i < size; i++)
    out[i] = (unsigned char)(in[i] + 1);
  usleep((useconds_t)ms * 1000);
}

/* VALUE, OUT: opens clients of its own for so many milliseconds. */
DMI_REMOTE(opens) {
  int64_t *out = DMI_remote_out(call, 1, NULL), one;
  int ms = DMI_REMOTE_VALUE(call, 0, int);
  DMI_client_t *client;
  DMI_data_t a;
  printf("inside\n");
  fflush(stdout);
  for (*out = 0; *out < ms / 10; ++*out) {
    usleep(10000);
    if (!DMI_client_open(&client, NULL) || !DMI_call(client, fib, DMI_VALUE(1), DMI_OUT(&a, 8)) ||
        !DMI_data_read(client, a, &one, 0, 8, NULL) || !DMI_client_close(client)) {
      DMI_remote_fail(call, DMI_strerror(DMI_errno()));
      return;
    }
  }
}

/* OUT: says that it has begun, and does not end. */
DMI_REMOTE(endless) {
  (void)call;
  printf("fired\n");
  fflush(stdout);
  for (;;)
    pause();
}

/* VALUE, OUT: ends its process, by a signal, by exit(), or without a word. */
DMI_REMOTE(crashes) {
  const int how = DMI_REMOTE_VALUE(call, 0, int);
  if (how == 1) exit(3);
  if (how == 2) raise(SIGKILL);
  abort();
}

/* Known only in the process that has this pid. */
static void mine(DMI_remote_t *call) {
  (void)call;
}

void DMI_init(int argc, char **argv) {
  static char name[32];
  (void)argc;
  (void)argv;
  snprintf(name, sizeof(name), "mine_%d", (int)getpid());
  DMI_remote_register(name, mine);
}

/* ---- What is tried -------------------------------------------------------------------------- */

static int number;
static const char *awaited; /* a file for which chains goes on; NULL: none */

static DMI_client_t *open_client(void) {
  DMI_client_t *client;
  DMI_client_options_t options = {.processes = processes};
  MUST(DMI_client_open(&client, &options));
  return client;
}

static int64_t read_number(DMI_client_t *client, DMI_data_t data) {
  int64_t value = -1;
  MUST(DMI_data_read(client, data, &value, 0, sizeof(value), NULL));
  return value;
}

static void basic(void) {
  DMI_client_t *client = open_client();
  int64_t numbers[100], out[100];
  DMI_data_t a, b, c;
  for (int i = 0; i < 100; i++)
    numbers[i] = i;
  a = DMI_data_put(client, numbers, sizeof(numbers));
  b = DMI_data_copy(client, a);
  MUST(DMI_call(client, add, DMI_IN(a), DMI_IN(b), DMI_OUT(&c, sizeof(numbers))));
  for (int i = 0; i < 1000; i++)
    MUST(DMI_call(client, more, DMI_INOUT(&c), DMI_VALUE(3)));
  MUST(DMI_data_read(client, c, out, 0, sizeof(out), NULL));
  for (int i = 0; i < 100; i++) {
    if (out[i] != 2 * i + 3000) printf("wrong: %d is %lld\n", i, (long long)out[i]);
  }
  MUST(DMI_data_read(client, c, out, 8, 16, NULL));
  if (out[0] != 3002 || out[1] != 3004) printf("wrong: the second and third\n");
  MUST(DMI_data_drop(client, a));
  MUST(DMI_data_drop(client, b));
  MUST(DMI_client_close(client));
}

static void outputs(void) {
  DMI_client_t *client = open_client();
  DMI_data_t a, b, c;
  char out[1000];
#define TEN                                                                                       \
  DMI_VALUE(INT64_C(1)), DMI_VALUE(INT64_C(2)), DMI_VALUE(INT64_C(3)), DMI_VALUE(INT64_C(4)),     \
      DMI_VALUE(INT64_C(5)), DMI_VALUE(INT64_C(6)), DMI_VALUE(INT64_C(7)), DMI_VALUE(INT64_C(8)), \
      DMI_VALUE(INT64_C(9)), DMI_VALUE(INT64_C(10))
  MUST(DMI_call(client, several, DMI_OUT(&a, 8), DMI_OUT(&b, 0), DMI_OUT(&c, 1000), TEN, TEN));
  printf("sum %lld\n", (long long)read_number(client, a));
  MUST(DMI_data_read(client, b, NULL, 0, 0, NULL));
  MUST(DMI_data_read(client, c, out, 0, 1000, NULL));
  printf("bytes %c %c\n", out[0], out[999]);
  MUST(DMI_client_close(client));
}

static void expect(const char *what, int32_t result, int32_t error) {
  if (result || DMI_errno() != error) {
    printf("wrong: %s gives %d, %s\n", what, result, DMI_strerror(DMI_errno()));
  } else {
    printf("%s: as it should be\n", what);
  }
}
#define EXPECT(error, x) expect(#x, (x), (error))

static void nobody(DMI_remote_t *call) {
  (void)call;
}

static void badinput(void) {
  DMI_client_t *client = open_client(), *other = open_client(), *closed = open_client();
  DMI_data_t a, b, none = {{0}}, of_other, of_closed;
  DMI_client_options_t bad = {.call_bytes = -1};
  DMI_arg_t strange = {(const struct dmi_arg_kind *)77, {0, 0}};
  int64_t n = 1;
  a = DMI_data_put(client, &n, 8);
  of_other = DMI_data_put(other, &n, 8);
  of_closed = DMI_data_put(closed, &n, 8);
  MUST(DMI_client_close(closed));
  EXPECT(DMI_EINVAL, DMI_client_open(NULL, NULL));
  EXPECT(DMI_EINVAL, DMI_client_open(&closed, &bad));
  EXPECT(DMI_EINVAL, DMI_client_close(closed));
  EXPECT(DMI_EINVAL, DMI_client_close(NULL));
  EXPECT(DMI_EINVAL, DMI_call(closed, three, DMI_INOUT(&a)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(&of_closed)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(&of_other)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(&none)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(NULL)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_OUT(&b, -1)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_OUT(NULL, 1)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_BYTES(&n, -8)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_BYTES(NULL, 8)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_BYTES(&n, (INT64_C(64) << 20) + 1)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_BYTES(&n, 8), DMI_BYTES(&n, INT64_C(64) << 20)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_BYTES(&n, INT64_MAX), DMI_BYTES(&n, INT64_MAX)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(&a), DMI_INOUT(&a)));
  EXPECT(DMI_EINVAL, DMI_call(client, three, strange));
  EXPECT(DMI_ENOFUNC, DMI_call(client, NULL));
  EXPECT(DMI_ENOFUNC, DMI_call(client, nobody));
  EXPECT(DMI_EMEMBER, DMI_call_on(client, 99, three, DMI_INOUT(&a)));
  EXPECT(DMI_EMEMBER, DMI_call_on(client, -1, three, DMI_INOUT(&a)));
  EXPECT(DMI_EINVAL, (int32_t)DMI_data_put(client, &n, -1).dmi_private[0]);
  EXPECT(DMI_EINVAL, (int32_t)DMI_data_put(client, NULL, 1).dmi_private[0]);
  EXPECT(DMI_EINVAL, (int32_t)DMI_data_put(closed, &n, 8).dmi_private[0]);
  EXPECT(DMI_EINVAL, (int32_t)DMI_data_copy(client, of_other).dmi_private[0]);
  EXPECT(DMI_EINVAL, DMI_data_drop(client, none));
  EXPECT(DMI_EINVAL, DMI_data_read(client, a, &n, 0, -1, NULL));
  EXPECT(DMI_EINVAL, DMI_data_read(client, a, &n, -1, 1, NULL));
  EXPECT(DMI_EINVAL, DMI_data_read(client, a, NULL, 0, 8, NULL));
  EXPECT(DMI_EINVAL, DMI_data_read(client, of_other, &n, 0, 8, NULL));
  EXPECT(DMI_ERANGE, DMI_data_read(client, a, &n, 1, 8, NULL));
  EXPECT(DMI_EINVAL, DMI_data_failure(client, a, NULL));
  MUST(DMI_data_drop(client, a));
  EXPECT(DMI_EINVAL, DMI_data_drop(client, a));
  EXPECT(DMI_EINVAL, DMI_data_read(client, a, &n, 0, 8, NULL));
  EXPECT(DMI_EINVAL, DMI_call(client, three, DMI_INOUT(&a)));
  MUST(DMI_client_close(client));
  MUST(DMI_client_close(other));
}

static void show_failure(DMI_client_t *client, DMI_data_t data) {
  DMI_failure_t failure;
  int64_t value;
  EXPECT(DMI_EREMOTE, DMI_data_read(client, data, &value, 0, 8, NULL));
  MUST(DMI_data_failure(client, data, &failure));
  printf("%s on %s: %s\n", failure.function, failure.hostname[0] ? "a host" : "no host",
         failure.sentence);
}

static void failing(void) {
  DMI_client_t *client = open_client();
  int64_t n = 0;
  DMI_failure_t failure;
  DMI_data_t a = DMI_data_put(client, &n, 8), b, x;
  for (int i = 0; i < 10; i++) {
    MUST(DMI_call(client, three, DMI_INOUT(&a)));
    if (i == 1) b = DMI_data_copy(client, a);
  }
  show_failure(client, a);
  EXPECT(DMI_EADDR, DMI_data_failure(client, b, &failure));
  MUST(DMI_call(client, add, DMI_IN(a), DMI_IN(a), DMI_OUT(&x, 8))); /* known to have failed */
  show_failure(client, x);
  printf("before: %lld\n", (long long)read_number(client, b));
  for (int i = 0; i < 3; i++) {
    MUST(DMI_call(client, asks, DMI_VALUE(i), DMI_OUT(&x, 8)));
    show_failure(client, x);
  }
  MUST(DMI_call_on(client, processes - 1, mine));
  MUST(DMI_client_close(client));
}

static void unknown(void) {
  DMI_client_t *client = open_client();
  DMI_data_t x = {{0}};
  MUST(DMI_call_on(client, 1, mine, DMI_OUT(&x, 8)));
  show_failure(client, x);
  MUST(DMI_client_close(client));
}

static void places(void) {
  DMI_client_t *client = open_client();
  DMI_data_t at[8];
  for (int i = 0; i < 8; i++)
    MUST(DMI_call_on(client, i % processes, where, DMI_OUT(&at[i], 4)));
  for (int i = 0; i < 8; i++) {
    int32_t id = -1;
    MUST(DMI_data_read(client, at[i], &id, 0, 4, NULL));
    if (id != i % processes) printf("wrong: %d ran in process %d\n", i, id);
  }
  MUST(DMI_client_close(client));
}

/* Many values, of which few live at a time; with a status, too. */
static void freed(void) {
  DMI_client_t *client = open_client();
  const int64_t size = 200 << 10;
  unsigned char *buf = calloc(1, (size_t)size);
  DMI_data_t a = DMI_data_put(client, buf, size), b;
  DMI_local_status_t status;
  int32_t good;
  for (int i = 0; i < number; i++) {
    MUST(DMI_call(client, slow, DMI_IN(a), DMI_VALUE(INT64_C(0)), DMI_OUT(&b, size)));
    MUST(DMI_data_drop(client, a));
    a = b;
  }
  MUST(DMI_data_read(client, a, buf, 0, size, &status));
  DMI_wait(&status, &good);
  MUST(good);
  if (buf[0] != number % 256 || buf[size - 1] != number % 256) printf("wrong: %d\n", buf[0]);
  MUST(DMI_client_close(client));
  free(buf);
}

/* Large values, whose memory functions get without a copy: one that is changed while others need it
 * stays what it was, wherever that is. */
static void large(void) {
  DMI_client_t *client = open_client();
  const int64_t size = 300 << 10;
  int64_t *out = malloc((size_t)size);
  DMI_data_t kept[8], sums[8], x;
  memset(out, 0, (size_t)size);
  x = DMI_data_put(client, out, size);
  for (int i = 0; i < number; i++) {
    DMI_data_t *keep = &kept[i % 8], *sum = &sums[i % 8];
    if (i >= 8) MUST(DMI_data_drop(client, *keep));
    if (i >= 8) MUST(DMI_data_drop(client, *sum));
    *keep = DMI_data_copy(client, x); /* it has two names, so its memory is not taken */
    MUST(DMI_call_on(client, i % processes, more, DMI_INOUT(&x), DMI_VALUE(1)));
    for (int j = 0; j < 3; j++)
      MUST(DMI_call_on(client, i / 2 % processes, more, DMI_INOUT(&x), DMI_VALUE(1)));
    MUST(DMI_call(client, add, DMI_IN(*keep), DMI_IN(x), DMI_OUT(sum, size)));
  }
  for (int i = number - 8; i < number; i++) {
    MUST(DMI_data_read(client, kept[i % 8], out, 0, size, NULL));
    for (int64_t j = 0; j < size / 8; j++)
      if (out[j] != 4 * i) printf("wrong: the value before step %d\n", i);
    MUST(DMI_data_read(client, sums[i % 8], out, 0, size, NULL));
    for (int64_t j = 0; j < size / 8; j++)
      if (out[j] != 8 * i + 4) printf("wrong: the sum of step %d\n", i);
  }
  MUST(DMI_client_close(client));
  free(out);
}

/* Of this process. */
static int thread_num(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  int num = 0;
  while (file && fgets(line, sizeof(line), file)) {
    if (sscanf(line, "Threads: %d", &num) == 1) break;
  }
  if (file) fclose(file);
  return num;
}

static void nested(void) {
  DMI_client_t *client = open_client();
  DMI_data_t x;
  MUST(DMI_call(client, fib_wait, DMI_VALUE(number), DMI_OUT(&x, 8)));
  printf("fib_wait %lld\n", (long long)read_number(client, x));
  MUST(DMI_call(client, fib, DMI_VALUE(number), DMI_OUT(&x, 8)));
  printf("fib %lld\n", (long long)read_number(client, x));
  printf("threads %d\n", thread_num());
  MUST(DMI_client_close(client));
}

static int goes_on(int step) {
  return step < number || (awaited && access(awaited, F_OK) != 0);
}

/* Chains of slow calls, whose results are known; while the script has processes come and go. */
static void chains(void) {
  enum { CHAINS = 16, SIZE = 10000 };
  DMI_client_t *client = open_client();
  unsigned char *buf = calloc(1, SIZE);
  DMI_data_t at[CHAINS], next;
  int step = 0;
  for (int i = 0; i < CHAINS; i++) {
    memset(buf, i, SIZE);
    at[i] = DMI_data_put(client, buf, SIZE);
  }
  printf("begun\n");
  for (; goes_on(step); step++) {
    for (int i = 0; i < CHAINS; i++) {
      MUST(DMI_call(client, slow, DMI_IN(at[i]), DMI_VALUE((int64_t)(1 + i % 3)),
                    DMI_OUT(&next, SIZE)));
      MUST(DMI_data_drop(client, at[i]));
      at[i] = next;
    }
    /* Calls do not wait: else they would be far ahead of what has been computed. */
    if (step >= number) MUST(DMI_data_read(client, at[step % CHAINS], buf, 0, SIZE, NULL));
  }
  for (int i = 0; i < CHAINS; i++) {
    MUST(DMI_data_read(client, at[i], buf, 0, SIZE, NULL));
    for (int j = 0; j < SIZE; j++) {
      if (buf[j] != (unsigned char)(i + step)) {
        printf("wrong: chain %d has %d\n", i, buf[j]);
        break;
      }
    }
  }
  MUST(DMI_client_close(client));
  free(buf);
}

static void unclosed(void) {
  DMI_client_t *client = open_client();
  int64_t n = 0;
  DMI_data_t a = DMI_data_put(client, &n, 8);
  for (int i = 0; i < 100; i++)
    MUST(DMI_call(client, more, DMI_INOUT(&a), DMI_VALUE(1)));
}

/* Calls fail, and nobody looks. */
static void unread(void) {
  DMI_client_t *client = open_client();
  int64_t two = 2;
  DMI_data_t a = DMI_data_put(client, &two, 8);
  MUST(DMI_call(client, three, DMI_INOUT(&a)));
  MUST(DMI_call(client, three, DMI_INOUT(&a)));
  MUST(DMI_client_close(client));
}

static void ending(void) {
  DMI_client_t *client = open_client();
  unsigned char byte = 0;
  DMI_data_t a = DMI_data_put(client, &byte, 1), b;
  DMI_local_status_t status;
  int32_t good;
  MUST(DMI_call(client, slow, DMI_IN(a), DMI_VALUE(INT64_C(500)), DMI_OUT(&b, 1)));
  MUST(DMI_data_read(client, b, &byte, 0, 1, &status));
  MUST(DMI_exit(0));
  EXPECT(DMI_EEND, DMI_data_read(client, b, &byte, 0, 1, NULL));
  EXPECT(DMI_EEND, (DMI_wait(&status, &good), good));
}

static void memory(void) {
  DMI_client_t *client = open_client();
  DMI_failure_t failure;
  DMI_data_t x;
  char byte;
  MUST(DMI_call(client, several, DMI_OUT(&x, INT64_C(1) << 40)));
  EXPECT(DMI_ENOMEM, DMI_data_read(client, x, &byte, 0, 1, NULL));
  MUST(DMI_data_failure(client, x, &failure));
  printf("%s\n", failure.sentence);
  MUST(DMI_client_close(client));
}

static void empties(void) {
  DMI_client_t *client = open_client();
  DMI_data_t x;
  for (int i = 0; i < number; i++)
    MUST(DMI_call(client, nothing));
  MUST(DMI_call(client, where, DMI_OUT(&x, 4)));
  MUST(DMI_client_close(client));
}

/* The address says for how many milliseconds; 0: it has a client instead. */
int64_t DMI_thread(int64_t ms) {
  DMI_client_t *client;
  DMI_data_t x;
  int32_t id;
  if (ms) {
    usleep((useconds_t)ms * 1000);
    return 0;
  }
  client = open_client();
  MUST(DMI_call(client, where, DMI_OUT(&x, 4)));
  MUST(DMI_data_read(client, x, &id, 0, 4, NULL));
  MUST(DMI_client_close(client));
  return 1;
}

/* A client here handles notices before one in another process, which is closed first. */
static void elsewhere(void) {
  DMI_client_t *client = open_client();
  DMI_thread_t thread;
  int64_t result = 0;
  for (int i = 0; i < number; i++) {
    MUST(DMI_create(&thread, 1, 0, NULL));
    MUST(DMI_join(thread, &result, NULL));
    if (result != 1) printf("wrong: %d\n", (int)result);
  }
  MUST(DMI_client_close(client));
}

/* Of two clients that which handles notices is closed first. */
static void second(void) {
  DMI_client_options_t own = {.own_poll = 1, .processes = 2};
  DMI_client_t *one = open_client(), *two = open_client(), *waits;
  MUST(DMI_client_close(one));
  printf("begun\n");
  MUST(DMI_client_open(&waits, &own));
  MUST(DMI_client_close(waits));
  MUST(DMI_client_close(two));
}

static void opening(void) {
  DMI_client_t *client = open_client();
  DMI_data_t x;
  MUST(DMI_call_on(client, 1, opens, DMI_VALUE(number), DMI_OUT(&x, 8)));
  if (read_number(client, x) != number / 10) printf("wrong: the number of clients\n");
  MUST(DMI_client_close(client));
}

/* Process 1 is asked to leave while a function runs there, and cannot, because of a thread. */
static void refused(void) {
  DMI_client_t *client = open_client();
  DMI_thread_t thread;
  DMI_data_t x, y;
  int32_t id = -1;
  char line[8];
  MUST(DMI_call_on(client, 1, opens, DMI_VALUE(number), DMI_OUT(&x, 8)));
  if (!fgets(line, sizeof(line), stdin)) printf("wrong: no line\n");
  MUST(DMI_create(&thread, 1, 3 * number, NULL));
  if (read_number(client, x) != number / 10) printf("wrong: the number of clients\n");
  usleep(200000);
  MUST(DMI_call_on(client, 1, where, DMI_OUT(&y, 4)));
  MUST(DMI_data_read(client, y, &id, 0, 4, NULL));
  if (id != 1) printf("wrong: ran in process %d\n", id);
  MUST(DMI_join(thread, NULL, NULL));
  MUST(DMI_client_close(client));
}

/* While the client closes, a process is lost that alone could run its calls: they fail. */
static void misfit(void) {
  DMI_client_t *client = open_client();
  const int64_t size = INT64_C(32) << 20;
  DMI_data_t x;
  for (int i = 0; i < 2; i++)
    MUST(DMI_call(client, endless, DMI_OUT(&x, size)));
  printf("begun\n");
  MUST(DMI_client_close(client));
}

/* A function ends each process in which it runs, while others work. */
static void crashing(void) {
  DMI_client_t *client = open_client();
  int64_t n = 0;
  DMI_data_t a = DMI_data_put(client, &n, 8), x;
  for (int i = 0; i < 1000; i++)
    MUST(DMI_call(client, more, DMI_INOUT(&a), DMI_VALUE(1)));
  MUST(DMI_call_on(client, 1, crashes, DMI_VALUE(number), DMI_OUT(&x, 8)));
  show_failure(client, x);
  printf("others: %lld\n", (long long)read_number(client, a));
  MUST(DMI_client_close(client));
}

/* With DMI_ON_ERROR a read that has failed tells why, also if it was not waited for. */
static void async(void) {
  DMI_client_t *client = open_client();
  DMI_local_status_t status;
  int32_t good = 1;
  int64_t n = 2;
  DMI_data_t a = DMI_data_put(client, &n, 8);
  MUST(DMI_call(client, three, DMI_INOUT(&a)));
  MUST(DMI_data_read(client, a, &n, 0, 8, &status));
  DMI_wait(&status, &good);
  if (good || DMI_errno() != DMI_EREMOTE) printf("wrong: %s\n", DMI_strerror(DMI_errno()));
  MUST(DMI_client_close(client));
}

static const struct {
  const char *name;
  void (*run)(void);
} all[] = {
    {"basic", basic},       {"outputs", outputs}, {"badinput", badinput}, {"failing", failing},
    {"unknown", unknown},   {"places", places},   {"freed", freed},       {"large", large},
    {"nested", nested},     {"chains", chains},   {"unclosed", unclosed}, {"unread", unread},
    {"ending", ending},     {"memory", memory},   {"empties", empties},   {"elsewhere", elsewhere},
    {"second", second},     {"opening", opening}, {"refused", refused},   {"misfit", misfit},
    {"crashing", crashing}, {"async", async}};

void DMI_main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  processes = argc > 2 ? atoi(argv[2]) : 1;
  number = argc > 3 ? atoi(argv[3]) : 10;
  awaited = argc > 4 ? argv[4] : NULL;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (argc > 1 && strcmp(argv[1], all[i].name) == 0) {
      all[i].run();
      printf("good\n");
      return;
    }
  }
  printf("what?\n");
}
