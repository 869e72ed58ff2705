/*
 * member_fuzz.c - a member that has the key, was welcomed, and then sends what a correct one never
 * would: the other processes live, or end in order.
 *
 *   member_fuzz [FIRST-SEED [RUNS]]
 *
 * Each run is a program of three real processes that read, write, allocate, join and leave. One of
 * them is faulty: what it is about to send is left out, sent twice, held back, repeated later, sent
 * to the wrong process, changed in any field, list or body, or made up. It ends by itself, without
 * a word. Then each of the others must end, too, with status 0 or 1; one whose threads wait for
 * what the faulty one kept must at least hear the third SIGINT. None may die of a signal, use more
 * memory than the limit, or have a sanitizer speak. What one seed does depends on timing.
 *
 * Meanwhile somebody looks: asks a correct member about the faulty one, which answers as it does
 * everything.
 *
 * The faulty process is a correct one, too, but for what faulty.c does to its messages.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/start.h"
#include "dmi_api.h"
#include "faulty.h"

#define QUICK 40 /* runs */
#define SMALL 12 /* with sanitizers */
#define SOAK 4000
#define POOL "6000000"
#define LIMIT \
  ((rlim_t)3 << 29) /* bytes of addresses of a process; its pool and stacks fit easily */

#ifdef __SANITIZE_ADDRESS__
__attribute__((visibility("default"))) const char *__asan_default_options(void);
/* It would look at the bytes of a message when sendmsg has returned; by then the other may have had
 * them, and answered, so that their buffer was free to be freed. */
const char *__asan_default_options(void) {
  return "intercept_send=0";
}
#endif
#ifdef __SANITIZE_THREAD__
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
/* A process that ends because another was lost does not wait for its threads. */
const char *__tsan_default_options(void) {
  return "intercept_send=0:report_thread_leaks=0";
}
#endif

static uint64_t seed; /* of the run, and of the process */

/* ---- What the processes do ------------------------------------------------------------------- */

#define MAPPINGS 4
static const int64_t page_sizes[MAPPINGS] = {64, 4096, 65536, 1536 << 10};
static const int64_t page_nums[MAPPINGS] = {64, 64, 16, 3};

struct work {
  int64_t mapping[MAPPINGS];
  int64_t number;
};

void DMI_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                  int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  (void)out2, (void)out2_size, (void)tag;
  if (in_size > 0) memcpy(in, page, (size_t)(in_size < size ? in_size : size));
  if (out1_size > 0) memcpy(page, out1, (size_t)(out1_size < size ? out1_size : size));
}

/* Scattered items in all mappings. */
static void do_group(const struct work *work, uint64_t *rng, void *buf) {
  int64_t addrs[20], sizes[20], places[20];
  DMI_local_group_t group;
  for (int i = 0; i < 20; i++) {
    int m = (int)(mix(rng) % 3);
    addrs[i] =
        work->mapping[m] + (int64_t)(mix(rng) % (uint64_t)(page_sizes[m] * page_nums[m] - 40));
    sizes[i] = (int64_t)(mix(rng) % 40);
    places[i] = 40 * i;
  }
  if (!DMI_group_init(&group, addrs, sizes, places, 20)) return;
  (void)(mix(rng) % 2 ? DMI_group_read(&group, buf, NULL) : DMI_group_write(&group, buf, NULL));
  DMI_group_destroy(&group);
}

static void do_allocate(uint64_t *rng, void *buf) {
  int64_t addr;
  if (mix(rng) % 2) {
    if (!DMI_malloc(&addr, (int64_t)(1 + mix(rng) % 5000), 4096)) return;
    (void)DMI_write(addr, 1, buf, DMI_PUT_WRITE, NULL);
    (void)DMI_free(addr);
  } else {
    if (!DMI_mmap(&addr, 512, 8, NULL)) return;
    (void)DMI_write(addr + 100, 1000, buf, DMI_EXCLUSIVE_WRITE, NULL);
    (void)DMI_munmap(addr, NULL);
  }
}

/* One access; errors are what is to be expected here. */
static void do_one(const struct work *work, uint64_t *rng, unsigned char *buf) {
  int m = (int)(mix(rng) % 100 < 96 ? mix(rng) % 3 : 3);
  int64_t size = page_sizes[m], addr = work->mapping[m];
  int64_t off = (int64_t)(mix(rng) % (uint64_t)page_nums[m]) * size;
  int64_t part = (int64_t)(mix(rng) % (uint64_t)size);
  int64_t old, len = mix(rng) % 4 ? 1 + (int64_t)(mix(rng) % 64) : size - part;
  int32_t flag;
  if (len > size - part) len = size - part;
  switch (mix(rng) % 20) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      (void)DMI_read(addr + off + part, len, buf, (int8_t)(1 + mix(rng) % 3), NULL);
      break;
    case 6:
    case 7:
    case 8:
    case 9:
      (void)DMI_write(addr + off + part, len, buf, (int8_t)(4 + mix(rng) % 2), NULL);
      break;
    case 10:
      (void)DMI_write(addr + off, size, buf, (int8_t)(4 + mix(rng) % 2), NULL);
      break;
    case 11:
    case 12:
      (void)DMI_fad(addr + off + 8, 1, &old, (int8_t)(6 + mix(rng) % 2), NULL);
      break;
    case 13:
      (void)DMI_fas(addr + off + 16, 8, buf, &old, (int8_t)(6 + mix(rng) % 2), NULL);
      break;
    case 14:
      (void)DMI_atomic(addr + off, 32, buf, 16, NULL, 0, buf + 100, 16, 1,
                       (int8_t)(6 + mix(rng) % 2), NULL);
      break;
    case 15:
    case 16:
      do_group(work, rng, buf);
      break;
    case 17:
      if (DMI_mutex_trylock(work->mapping[0] + 64 * (int64_t)(mix(rng) % 4), &flag) && flag)
        (void)DMI_mutex_unlock(work->mapping[0]);
      break;
    case 18:
      do_allocate(rng, buf);
      break;
    default:
      (void)DMI_save(addr + off, 64);
      (void)DMI_unsave(addr + off, 64);
  }
}

int64_t DMI_thread(int64_t addr) {
  unsigned char *buf = calloc(1, (size_t)page_sizes[MAPPINGS - 1]);
  struct work work;
  uint64_t rng;
  if (buf && DMI_read(addr, sizeof work, &work, DMI_GET_READ, NULL)) {
    bool sane = true; /* the faulty one may have changed them, or what carried them */
    for (int i = 0; i < MAPPINGS; i++)
      sane = sane && work.mapping[i] > 0;
    rng = seed ^ (uint64_t)work.number;
    for (int i = 0; i < 60 && sane; i++)
      do_one(&work, &rng, buf);
  }
  free(buf);
  return 0;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Two threads on each member, round after round, and what the others ask for in between. */
static bool one_round(struct work *work, int64_t jobs) {
  DMI_thread_t thread[16];
  DMI_node_t node[8];
  int32_t nodes = 0, flag, threads = 0;
  while (DMI_peek(&node[0], &flag) && flag) {
    if (node[0].state == DMI_OPEN) (void)DMI_welcome(node[0].dmi_id);
    if (node[0].state == DMI_CLOSE) (void)DMI_goodbye(node[0].dmi_id);
  }
  if (!DMI_nodes(node, &nodes, 8)) return false;
  for (int32_t i = 0; i < 2 * nodes && i < 16; i++) {
    int64_t at = jobs + i * (int64_t)sizeof *work;
    work->number++;
    if (!DMI_write(at, sizeof *work, work, DMI_PUT_WRITE, NULL)) continue;
    if (DMI_create(&thread[threads], node[i / 2].dmi_id, at, NULL)) threads++;
  }
  for (int32_t i = 0; i < threads; i++)
    (void)DMI_join(thread[i], NULL, NULL);
  return threads > 0;
}

void DMI_main(int argc, char **argv) {
  struct work work = {.number = 0};
  int64_t jobs, until = now_ms() + 1500;
  (void)argc, (void)argv;
  for (int i = 0; i < MAPPINGS; i++) {
    if (!DMI_mmap(&work.mapping[i], page_sizes[i], page_nums[i], NULL)) return;
  }
  if (!DMI_mmap(&jobs, sizeof work, 16, NULL)) return;
  while (now_ms() < until && one_round(&work, jobs))
    continue;
}

/* ---- One run --------------------------------------------------------------------------------- */

struct process {
  pid_t pid;
  int end;   /* pidfd */
  int lines; /* a file: what it printed */
  bool faulty, over;
  int status;
};

static char dir[] = "/tmp/dmi-member-fuzz-XXXXXX";
static char key_file[64];
static int slow = 1;
static uint64_t waited; /* processes that only a signal ended */

static void fail(const char *what, const struct process *process) {
  char text[4096];
  ssize_t got = 0;
  if (process) got = pread(process->lines, text, sizeof text - 1, 0);
  text[got > 0 ? got : 0] = 0;
  fprintf(stderr, "member_fuzz: seed %" PRIu64 ": %s (process %d, status %x)\n%s\n", seed, what,
          process ? (int)process->pid : 0, process ? process->status : 0, text);
  exit(1);
}

static void limit_memory(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const struct rlimit limit = {LIMIT, LIMIT};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

static const struct dmi_program program = {
    .main = DMI_main, .thread = DMI_thread, .function = DMI_function, .mark = DMI_PROGRAM_MARK};

static void be_process(bool is_faulty, uint16_t join, int ready, int lines) {
  char name[] = "member_fuzz", *argv[] = {name, NULL}, text[16];
  setenv("DMI_KEY_FILE", key_file, 1);
  setenv("DMI_LISTEN_PORT", "0", 1);
  setenv("DMI_BIND", "127.0.0.1", 1);
  setenv("DMI_POOL_BYTES", POOL, 1);
  if (getenv("MEMBER_FUZZ_LOG")) setenv("DMI_LOG", "info", 1);
  snprintf(text, sizeof text, "%d", ready);
  setenv("DMI_READY_FD", text, 1);
  if (join) {
    setenv("DMI_JOIN_HOST", "127.0.0.1", 1);
    snprintf(text, sizeof text, "%u", join);
    setenv("DMI_JOIN_PORT", text, 1);
  }
  if (is_faulty)
    be_faulty(seed);
  else
    limit_memory();
  dup2(lines, STDOUT_FILENO);
  dup2(lines, STDERR_FILENO);
  exit(dmi_start(1, argv, &program));
}

/* Starts it and waits until it listens.  Returns the port, 0: it has ended before. */
static uint16_t start(struct process *process, bool is_faulty, uint16_t join) {
  char text[16] = "", name[80];
  size_t got = 0;
  int ready[2];
  snprintf(name, sizeof name, "%s/lines", dir);
  process->lines = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);
  unlink(name);
  if (process->lines < 0 || pipe(ready) != 0) fail("no pipe", NULL);
  process->faulty = is_faulty;
  process->over = false;
  process->pid = fork();
  if (process->pid < 0) fail("no process", NULL);
  if (process->pid == 0) {
    close(ready[0]);
    be_process(is_faulty, join, ready[1], process->lines);
  }
  close(ready[1]);
  process->end = (int)syscall(SYS_pidfd_open, process->pid, 0);
  if (process->end < 0) fail("no pidfd", NULL);
  while (got < sizeof text - 1 && read(ready[0], text + got, 1) == 1 && text[got] != '\n')
    got++;
  close(ready[0]);
  return (uint16_t)atoi(text);
}

/* ---- Who looks ------------------------------------------------------------------------------- */

#define LOOKERS 2
#define QUESTIONS 8 /* so many may be without an answer: WINDOW of lib/node/see.c */

struct looker {
  pid_t pid;
  int questions; /* it ends when nobody can write there any more */
};

static void be_looker(uint16_t port, int questions) {
  char name[] = "member_fuzz", *argv[] = {name, NULL}, text[16];
  int nowhere = open("/dev/null", O_WRONLY);
  setenv("DMI_KEY_FILE", key_file, 1);
  setenv("DMI_SEE", "1", 1);
  setenv("DMI_JOIN_HOST", "127.0.0.1", 1);
  snprintf(text, sizeof text, "%u", port);
  setenv("DMI_JOIN_PORT", text, 1);
  limit_memory();
  dup2(questions, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0); /* the questions of others */
  exit(dmi_start(1, argv, &program));
}

/* Asks the process at `port` about the member `of`. */
static struct looker look(uint16_t port, unsigned of, uint64_t *rng) {
  struct looker looker;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe", NULL);
  looker.questions = ends[1];
  for (int i = 0; i < QUESTIONS; i++)
    dprintf(ends[1], "%d %u 0 %" PRIu64 "\n", (int)(1 + mix(rng) % 14), of,
            UINT64_C(0x100000000) + mix(rng) % 9000);
  looker.pid = fork();
  if (looker.pid < 0) fail("no process", NULL);
  if (looker.pid == 0) {
    close(ends[1]);
    be_looker(port, ends[0]);
  }
  close(ends[0]);
  return looker;
}

static void end_look(const struct looker *looker) {
  struct process process = {.pid = looker->pid, .lines = -1};
  close(looker->questions);
  if (waitpid(looker->pid, &process.status, 0) != looker->pid) fail("no status", &process);
  if (WIFSIGNALED(process.status) || WEXITSTATUS(process.status) > 1)
    fail("who looks has not ended in order", &process);
}

/* ---- Their ends ------------------------------------------------------------------------------ */

/* Waits at most so long until all that are correct (or, with `all`, every one) have ended.  True:
 * they have. */
static bool wait_for_ends(struct process *process, bool all, int64_t ms) {
  const int64_t until = now_ms() + ms;
  for (;;) {
    struct pollfd fds[PROCESSES];
    nfds_t num = 0;
    int64_t left = until - now_ms();
    for (int i = 0; i < PROCESSES; i++) {
      if (process[i].over) continue;
      if (waitpid(process[i].pid, &process[i].status, WNOHANG) == process[i].pid) {
        process[i].over = true;
        if (process[i].faulty && !all) return false; /* the others are to end now */
      } else {
        fds[num++] = (struct pollfd){.fd = process[i].end, .events = POLLIN};
      }
    }
    if (num == 0) return true;
    if (left <= 0) return false;
    (void)poll(fds, num, (int)left);
  }
}

static void judge(struct process *process) {
  char text[65536];
  ssize_t got = pread(process->lines, text, sizeof text - 1, 0);
  text[got > 0 ? got : 0] = 0;
  if (getenv("MEMBER_FUZZ_SHOW"))
    fprintf(stderr, "%" PRIu64 ": %x %s\n", seed, process->status, text);
  if (WIFSIGNALED(process->status)) fail("a correct process died of a signal", process);
  int status = WEXITSTATUS(process->status);
  if (status != 0 && status != 1 && status != 130) fail("an unexpected status", process);
  if (strstr(text, "Sanitizer") || strstr(text, "runtime error:"))
    fail("a sanitizer spoke", process);
  if (status == 1 && !strstr(text, "lost") && !strstr(text, "dmi: "))
    fail("it ended without a word", process);
}

static void run(void) {
  struct process process[PROCESSES];
  uint64_t state = seed * 77 + 5;
  int who = (int)(mix(&state) % PROCESSES), leaves = (int)(mix(&state) % (2 * PROCESSES));
  if (attack_of(seed) >= FIRST_ATTACK_OF_COORDINATOR) who = 0;
  if (attack_of(seed) == LOST_YOURSELF || attack_of(seed) == TOO_MUCH) who = 1;
  if (attack_of(seed) == COORD_LIES) leaves = 0;
  if (attack_of(seed) == OUT_FOR_EVER) leaves = 1;
  struct looker lookers[LOOKERS];
  int looking = 0;
  uint16_t port = 0, asked = 0;
  for (int i = 0; i < PROCESSES; i++) {
    uint16_t got = start(&process[i], i == who, port);
    if (i == 0 && (port = got) == 0) fail("the first did not start", &process[0]);
    if (i != who && got) asked = got;
  }
  if (wait_for_ends(process, false, 300 * slow)) goto ended;
  while (looking < LOOKERS) /* now it is a member, of which others can be asked */
    lookers[looking++] = look(asked, (unsigned)who + 1, &state);
  if (leaves < PROCESSES && !process[leaves].over) kill(process[leaves].pid, SIGINT);
  wait_for_ends(process, false, 2500 * slow);
  if (!process[who].over) kill(process[who].pid, SIGKILL);
  wait_for_ends(process, true, 4000 * slow);
  for (int s = 0; s < 4; s++) { /* to those that wait for what will not come */
    for (int i = 0; i < PROCESSES; i++) {
      if (process[i].over) continue;
      if (s == 0) waited++;
      kill(process[i].pid, SIGINT);
    }
    if (wait_for_ends(process, true, s < 2 ? 200 * slow : 5000 * slow)) break;
  }
ended:
  for (int i = 0; i < PROCESSES; i++) {
    if (!process[i].over) {
      kill(process[i].pid, SIGABRT);
      waitpid(process[i].pid, &process[i].status, 0);
      process[i].over = true;
      if (!process[i].faulty)
        fail("a correct process does not end, and hears no signal", &process[i]);
    }
    if (!process[i].faulty) judge(&process[i]);
    close(process[i].end);
    close(process[i].lines);
  }
  while (looking > 0)
    end_look(&lookers[--looking]);
}

int main(int argc, char **argv) {
  const char *scale = getenv("DMI_TEST_SCALE"), *factor = getenv("DMI_TEST_SLOW");
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t runs = scale && strcmp(scale, "soak") == 0    ? SOAK
                  : scale && strcmp(scale, "small") == 0 ? SMALL
                                                         : QUICK;
  if (argc > 2) runs = strtoull(argv[2], NULL, 10);
  if (factor && atoi(factor) > 1) slow = atoi(factor);
  if (!mkdtemp(dir)) fail("no directory", NULL);
  snprintf(key_file, sizeof key_file, "%s/key", dir);
  int fd = open(key_file, O_WRONLY | O_CREAT, 0600);
  if (dprintf(fd, "%064d\n", 7) != 65) fail("no key", NULL);
  close(fd);
  for (seed = first; seed < first + runs; seed++)
    run();
  unlink(key_file);
  rmdir(dir);
  printf("member_fuzz: %" PRIu64 " runs, %" PRIu64 " processes waited for what never came\n", runs,
         waited);
  return 0;
}
