/*
 * job_finish.c - `finish` of a job: a program, or lines for sh.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "environment.h"
#include "job.h"
#include "job_int.h"

/* In the new process.  It is a group of its own, so that it can be stopped with all it starts, and
 * a signal of the terminal reaches it only through dmifarm; so it must not read from there. */
static void become_finish(const struct farm_job *job, pid_t parent) {
  sigset_t none;
  int in = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  farm_clean_environment();
  if (in >= 0) dup2(in, STDIN_FILENO);
  if (getppid() == parent && fchdir(job->dir) == 0) {
    execl("./finish", "./finish", (char *)NULL);
    if (errno == EACCES || errno == ENOEXEC) execl("/bin/sh", "sh", "./finish", (char *)NULL);
  }
  fprintf(stderr, "dmifarm: %s/finish: %s\n", job->path, strerror(errno));
  _exit(127);
}

char *farm_job_finish(struct farm_job *job, pid_t *pid) {
  const pid_t parent = getpid();
  *pid = 0;
  if (!farm_job_has(job, "finish") || farm_job_has(job, FARM_FINISHED)) return NULL;
  fflush(NULL);
  if ((*pid = fork()) == 0) become_finish(job, parent);
  if (*pid < 0) return farm_job_error(job, "finish");
  setpgid(*pid, *pid); /* both do it: nobody waits for the other */
  return NULL;
}

char *farm_job_finished(struct farm_job *job, int status) {
  if (WIFSIGNALED(status))
    return farm_format("%s/finish: signal %d (%s)", job->path, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status))
    return farm_format("%s/finish: exit status %d", job->path, WEXITSTATUS(status));
  return farm_job_write(job, FARM_FINISHED, "", 0);
}
