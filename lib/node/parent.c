/*
 * parent.c - see parent.h.
 *
 * Happy path: a thread sleeps as long as the parent lives, which is longer than this process.
 *
 * When the parent ends, the kernel sends SIGTERM, which asks to leave like any other SIGTERM, and
 * SIGCONT, in case this process is stopped.  The thread wakes through a descriptor of the parent
 * (pidfd) and starts the grace period: a kernel timer whose signal is SIGKILL.  So the program
 * cannot prevent its end by blocking or handling signals, by a DMI_main that goes on after the
 * daemon has ended, or by threads that hang.  Kernels before 5.3 have no such descriptors; there
 * the daemon learns of the parent's end from the SIGTERM only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/parent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/xalloc.h"

struct dmi_parent {
  struct dmi_stream *stream;
  int pid, grace;
  int fd;        /* readable when the parent has ended; -1: the kernel has none */
  int over;      /* an eventfd that ends the thread */
  bool threaded; /* the thread must be joined */
  pthread_t thread;
  _Atomic bool ended; /* the parent's end was noticed */
};

static int open_pidfd(int pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, pid, 0);
#else
  (void)pid;
  return -1;
#endif
}

/* Starts the grace period. */
static void begin_grace(struct dmi_parent *parent) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {.it_value.tv_sec = parent->grace};
  timer_t timer;
  if (atomic_exchange(&parent->ended, true)) return;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
      timer_settime(timer, 0, &when, NULL) == 0) {
    return;
  }
  dmi_say(parent->stream, DMI_LOG_ERROR, "start",
          "no timer for --grace (%s): this process ends at once", strerror(errno));
  kill(getpid(), SIGKILL);
}

static void *watch(void *arg) {
  struct dmi_parent *parent = arg;
  struct pollfd fds[2] = {{.fd = parent->fd, .events = POLLIN},
                          {.fd = parent->over, .events = POLLIN}};
  pthread_setname_np(pthread_self(), "dmi-parent");
  prctl(PR_SET_PDEATHSIG, SIGCONT); /* each thread asks for its own signal: the main thread for
                                       SIGTERM, this one for SIGCONT */
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  if (fds[0].revents) begin_grace(parent);
  return NULL;
}

static bool start_thread(struct dmi_parent *parent) {
  sigset_t all, before;
  parent->over = eventfd(0, EFD_CLOEXEC);
  if (parent->over < 0) return false;
  sigfillset(&all); /* signals go to the daemon thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  parent->threaded = pthread_create(&parent->thread, NULL, watch, parent) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return parent->threaded;
}

struct dmi_parent *dmi_parent_new(int pid, int grace_seconds, struct dmi_stream *stream,
                                  bool *good) {
  struct dmi_parent *parent;
  *good = true;
  if (!pid) return NULL;
  parent = dmi_xalloc(1, sizeof(*parent));
  parent->stream = stream;
  parent->pid = pid;
  parent->grace = grace_seconds;
  parent->over = -1;
  parent->fd = open_pidfd(pid);
  /* getppid() comes last: while the process is still our parent, no other can have its pid. */
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != pid) {
    dmi_say(parent->stream, DMI_LOG_ERROR, "start",
            "process %d, which started this one, has ended (dmirun --with-parent)", pid);
  } else if (start_thread(parent)) {
    return parent;
  } else {
    dmi_say(parent->stream, DMI_LOG_ERROR, "start",
            "the system allows no more threads (ulimit -u)");
  }
  dmi_parent_free(parent);
  *good = false;
  return NULL;
}

void dmi_parent_look(struct dmi_parent *parent) {
  if (parent && getppid() != parent->pid) begin_grace(parent);
}

void dmi_parent_free(struct dmi_parent *parent) {
  uint64_t one = 1;
  if (!parent) return;
  if (parent->threaded && write(parent->over, &one, sizeof(one)) == sizeof(one)) {
    pthread_join(parent->thread, NULL);
  }
  if (parent->over >= 0) close(parent->over);
  if (parent->fd >= 0) close(parent->fd);
  free(parent);
}
