/*
 * fatal_dmi.c - ends its process by a signal, in the way that it is told: what fatal.t runs.
 *
 *   dmirun fatal_dmi WAY            in DMI_main
 *   dmirun fatal_dmi WAY OTHERS     in a thread of the last process, if so many others (0, 1) have
 * come
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "multi.h"

static int64_t page;
static int64_t number = 5;
static volatile int zero;

/* Each says the line of what ends the process. */
#define HERE say("line %d %s", __LINE__, __func__)

__attribute__((noinline)) static void null(void) {
  volatile int *volatile none = NULL;
  HERE;
  *none = 1;
}

__attribute__((noinline)) static void text(void) {
  volatile char *volatile constant = (char *)(uintptr_t) "read only";
  HERE;
  constant[0] = 'x';
}

__attribute__((noinline)) static void global(void) {
  int64_t *volatile wrong = (int64_t *)(uintptr_t)(page + 4096);
  HERE;
  *wrong = 1;
}

__attribute__((noinline)) static void inside(void) {
  void *volatile buffer = (void *)16;
  HERE;
  DMI_read(page, 8, buffer, DMI_INVALIDATE_READ, NULL);
}

__attribute__((noinline)) static void nowhere(void) {
  void (*volatile none)(void) = (void (*)(void))(uintptr_t)16;
  none();
}

__attribute__((noinline)) static int deep(const volatile char *before) {
  volatile char more[4096];
  more[0] = before[0];
  if (before[0] == 'x') return 0;
  return deep(more) + more[0];
}

__attribute__((noinline)) static void division(void) {
  HERE;
  number /= zero;
}

__attribute__((noinline)) static void instruction(void) {
  HERE;
  __builtin_trap();
}

__attribute__((noinline)) static void file(void) {
  int fd = memfd_create("short", 0);
  volatile char *at;
  MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
  at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MUST(at != MAP_FAILED && ftruncate(fd, 0) == 0);
  HERE;
  at[0] = 1;
}

__attribute__((noinline)) static void aborts(void) {
  HERE;
  abort();
}

__attribute__((noinline)) static void asserts(void) {
  HERE;
  assert(zero == 1 && "no zero");
}

/* The C library finds it. */
__attribute__((noinline)) static void frees(void) {
  void *volatile twice = malloc(24);
  free(twice);
  HERE;
  free(twice);
}

/* The C library calls the function that aborts. */
static int compare(const void *left, const void *right) {
  (void)left, (void)right;
  HERE;
  abort();
}

__attribute__((noinline)) static void sorts(void) {
  int two[2] = {2, 1};
  qsort(two, 2, sizeof(two[0]), compare);
}

__attribute__((noinline)) static void fails(void) {
  HERE;
  DMI_write(5, 8, &number, DMI_EXCLUSIVE_WRITE, NULL);
}

/* Its error is found when it is waited for. */
__attribute__((noinline)) static void fails_later(void) {
  DMI_local_status_t status;
  int64_t bytes;
  DMI_read(page + 4096 * 3 - 4, 8, &bytes, DMI_GET_READ, &status);
  HERE;
  DMI_wait(&status, NULL);
}

static void exits(void) {
  exit(3);
}

/* The kernel keeps no status of children, and the program's waits could take it. */
static void unwaited(void) {
  signal(SIGCHLD, SIG_IGN);
  aborts();
}

/* With the lock of the list of loaded files held: until this process has a child. */
static int holds(struct dl_phdr_info *info, size_t size, void *held) {
  siginfo_t child;
  (void)info, (void)size;
  sem_post(held);
  while (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD)
    sched_yield();
  return 1;
}

static void *holder(void *held) {
  dl_iterate_phdr(holds, held);
  return NULL;
}

/* The child that looks up the places never gets that lock, a second one does. */
static void locked(void) {
  pthread_t thread;
  sem_t held;
  MUST(sem_init(&held, 0, 0) == 0);
  MUST(pthread_create(&thread, NULL, holder, &held) == 0);
  MUST(sem_wait(&held) == 0);
  aborts();
}

static void own(int signo) {
  static const char said[] = "own handler\n";
  (void)signo;
  if (write(STDOUT_FILENO, said, sizeof(said) - 1) > 0) _exit(7);
}

static void handled(void) {
  signal(SIGSEGV, own);
  null();
}

/* A process that this one has made is not told about. */
static void forks(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) abort();
  MUST(waitpid(child, &status, 0) == child);
  EQ(WTERMSIG(status), SIGABRT);
  verdict("fatal", 0);
  exit(0);
}

static void *plain(void *arg) {
  aborts();
  return arg;
}

static void makes(void) {
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, plain, NULL) == 0);
  pthread_join(thread, NULL);
}

static void asks(void) {
  MUST(DMI_atomic(page, 8, NULL, 0, NULL, 0, NULL, 0, 0, DMI_PUT_ATOMIC, NULL));
}

static void waits(void) {
  say("waiting");
  for (;;)
    pause();
}

static void runs_deep(void) {
  const volatile char one = 0;
  say("deep %d", deep(&one));
}

static const struct {
  const char *name;
  void (*run)(void);
} ways[] = {{"null", null},         {"text", text},         {"global", global},
            {"inside", inside},     {"nowhere", nowhere},   {"stack", runs_deep},
            {"division", division}, {"file", file},         {"instruction", instruction},
            {"abort", aborts},      {"unwaited", unwaited}, {"handled", handled},
            {"forks", forks},       {"plain", makes},       {"waits", waits},
            {"asks", asks},         {"locked", locked},     {"exits", exits},
            {"asserts", asserts},   {"fails", fails},       {"fails_later", fails_later},
            {"frees", frees},       {"sorts", sorts}};

static void run(const char *name) {
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
    if (strcmp(ways[i].name, name) == 0) ways[i].run();
}

/* The first bytes of its page are the name of a way. */
int64_t DMI_thread(int64_t arg) {
  char name[32];
  page = arg;
  MUST(DMI_read(arg, sizeof(name), name, DMI_GET_READ, NULL));
  run(name);
  return 0;
}

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)page_ptr, (void)size, (void)out1_ptr, (void)out1_size, (void)out2_ptr, (void)out2_size;
  (void)in_ptr, (void)in_size, (void)tag;
  aborts();
}

/* The last process runs it in a thread. */
static void in_thread(const char *way, int32_t id) {
  char name[32] = "";
  DMI_thread_t thread;
  snprintf(name, sizeof(name), "%s", way);
  MUST(DMI_write(page, sizeof(name), name, DMI_EXCLUSIVE_WRITE, NULL));
  MUST(DMI_create(&thread, id, page, NULL));
  MUST(DMI_join(thread, NULL, NULL));
}

void DMI_main(int argc, char **argv) {
  int32_t ids[2];
  int others = argc > 2 ? atoi(argv[2]) : -1;
  gather(others < 0 ? 1 : 1 + others, ids);
  MUST(DMI_mmap(&page, 4096, 3, NULL));
  MUST(DMI_write(page, 8, &number, DMI_EXCLUSIVE_WRITE, NULL));
  if (others < 0) {
    run(argv[1]);
  } else {
    in_thread(argv[1], ids[others]);
  }
}
