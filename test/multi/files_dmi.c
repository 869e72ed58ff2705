/*
 * files_dmi.c - a program whose process was told to write files.
 *
 *   dmirun files_dmi run                one thread after the other, and pages written, so that
 * there is something to tell dmirun files_dmi own FILE           the program writes a file itself,
 * which becomes too large dmirun files_dmi handler FILE       the same with a handler of its own
 * for SIGXFSZ dmirun files_dmi child FILE         a program that it starts, and a process that it
 * forks, do dmirun files_dmi wait               until it is asked to leave dmirun files_dmi stay
 * for ever
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi.h"

#define PAGES 64
#define PAGE 256
#define THREADS 20

static volatile sig_atomic_t handled;

static void on_limit(int number) {
  (void)number;
  handled++;
}

/* Before DMI begins. */
__attribute__((constructor)) static void set_handler(void) {
  if (getenv("FILES_HANDLER")) (void)signal(SIGXFSZ, on_limit);
}

int64_t DMI_thread(int64_t addr) {
  char bytes[PAGE] = {0};
  for (int i = 0; i < PAGES; i++)
    OK(DMI_write(addr + i * PAGE, PAGE, bytes, DMI_EXCLUSIVE_WRITE, NULL));
  return 0;
}

static void run(void) {
  DMI_thread_t thread;
  int64_t addr, value;
  MUST(DMI_mmap(&addr, PAGE, PAGES, NULL));
  for (int i = 0; i < THREADS; i++) {
    MUST(DMI_create(&thread, 0, addr, NULL));
    MUST(DMI_join(thread, &value, NULL));
  }
  MUST(DMI_munmap(addr, NULL));
}

/* Writes until that fails; returns its error. */
static int fill(const char *path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  char bytes[256] = {0};
  int error;
  if (fd < 0) return errno;
  while (write(fd, bytes, sizeof(bytes)) >= 0)
    continue;
  error = errno;
  close(fd);
  return error;
}

static void child(const char *path) {
  char command[4200];
  int status;
  snprintf(command, sizeof(command), "exec dd if=/dev/zero of=%s bs=256 count=100 2> /dev/null",
           path);
  status = system(command);
  IS(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
#ifndef __SANITIZE_THREAD__ /* in which a signal that a handler raises does not end a child of fork */
  const pid_t pid = fork();
  if (pid == 0) _exit(fill(path) == EFBIG ? 1 : 2);
  IS(pid > 0 && waitpid(pid, &status, 0) == pid);
  IS(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
#endif
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "run";
  DMI_node_t node;
  say("begins");
  MUST(DMI_poll(&node));
  MUST(DMI_welcome(node.dmi_id));
  if (strcmp(what, "run") == 0) run();
  if (strcmp(what, "own") == 0) {
    EQ(fill(argv[2]), EFBIG);
    EQ(fill(argv[2]), EFBIG);
  }
  if (strcmp(what, "handler") == 0) {
    EQ(fill(argv[2]), EFBIG);
    EQ(handled, 1);
  }
  if (strcmp(what, "child") == 0) child(argv[2]);
  while (strcmp(what, "stay") == 0)
    MUST(DMI_poll(&node)); /* and no answer */
  if (strcmp(what, "wait") == 0) {
    MUST(DMI_poll(&node));
    EQ(node.state, DMI_CLOSE);
    MUST(DMI_goodbye(node.dmi_id));
  }
  IS(true);
  verdict("files", 0);
}
