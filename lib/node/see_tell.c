/*
 * see_tell.c - what this process tells its own user about its threads: who waits for a process that
 * does not answer (node/stall.c), and at the second Ctrl+C a file with all of them, and one with
 * those of all processes.  By the thread that looks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/where.h"
#include "node/see_int.h"
#include "sync/sync.h"

#define SOME 32 /* records that are copied at a time */

static const char *who_is(const struct dmi_doing_state *state, char text[64]) {
  if (state->who == DMI_DOING_MAIN) return "DMI_main";
  snprintf(text, 64, state->thread ? "thread %" PRIu64 : "a thread of the program", state->thread);
  return text;
}

static double seconds(const struct dmi_doing_state *state) {
  return (double)(dmi_clock_ns() - state->since) / 1e9;
}

/* ---- Silent processes ------------------------------------------------------------------------ */

/* True if the thread waits for something at a page of which this process asks that one. */
static bool waits_for(struct dmi_process *process, const struct dmi_doing_state *state,
                      dmi_uid_t uid, struct dmi_see_at *at) {
  return state->call.name && dmi_doing_has_addr(state->what) && state->addr &&
         dmi_see_find(process, state->addr, at) && at->hint == uid;
}

void dmi_see_say_waits(struct dmi_process *process, dmi_uid_t uid, const char *name) {
  struct dmi_doing_state state[SOME], first = {0};
  struct dmi_see_at at, where = {0};
  char place[DMI_WHERE_SIZE], text[64], more[48] = "";
  uint32_t num, all = 0;
  for (uint64_t below = UINT64_MAX;
       (num = dmi_doing_look(&process->access.doings, below, state, SOME)) != 0;
       below = state[num - 1].number) {
    for (uint32_t i = 0; i < num; i++) {
      if (!waits_for(process, &state[i], uid, &at)) continue;
      all++;
      first = state[i];
      where = at;
    }
  }
  if (!all) return;
  dmi_where(place, sizeof(place), first.call.caller);
  if (all > 1)
    snprintf(more, sizeof(more),
             all == 2 ? "; so does 1 more thread" : "; so do %" PRIu32 " more threads", all - 1);
  dmi_say(&process->stream, DMI_LOG_WARN, "access",
          "%s has been in %s at %s for %.1f s, and waits for page %" PRIu64
          " of the mapping at 0x%" PRIx64 ", of %s%s",
          who_is(&first, text), first.call.name, place, seconds(&first), where.page, where.base,
          name, more);
}

/* ---- The dump -------------------------------------------------------------------------------- */

static const char *name_of(const struct dmi_see_names *names, dmi_uid_t uid) {
  for (uint32_t i = 0; names && i < names->num; i++) {
    if (names->of[i].uid == uid) return names->of[i].text;
  }
  return "a process that has come or gone just now";
}

static void write_thread(FILE *file, struct dmi_process *process,
                         const struct dmi_doing_state *state, const struct dmi_see_names *names) {
  char place[DMI_WHERE_SIZE], text[64];
  struct dmi_see_at at;
  fprintf(file, "%s (%d): ", who_is(state, text), state->tid);
  if (!state->call.name) {
    fprintf(file, "no call of DMI yet\n");
    return;
  }
  dmi_where(place, sizeof(place), state->call.caller);
  if (state->what == DMI_DOING_NOTHING) {
    fprintf(file, "not waiting in DMI; last call (but for hits): %s at %s\n", state->call.name,
            place);
    return;
  }
  fprintf(file, "in %s at %s, for %.1f s; waits for: %s", state->call.name, place, seconds(state),
          dmi_see_wait_name(state->what));
  if (dmi_doing_has_addr(state->what) && state->addr) fprintf(file, " 0x%" PRIx64, state->addr);
  if (dmi_doing_has_addr(state->what) && state->addr && dmi_see_find(process, state->addr, &at)) {
    fprintf(file, " (page %" PRIu64 " of the mapping at 0x%" PRIx64 ", asked of %s)", at.page,
            at.base, name_of(names, at.hint));
  }
  fputc('\n', file);
}

static void write_all(FILE *file, struct dmi_process *process, const struct dmi_see_names *names) {
  struct dmi_doing_state state[SOME];
  struct dmi_sync_held held[SOME];
  char place[DMI_WHERE_SIZE];
  uint32_t num;
  for (uint64_t below = UINT64_MAX;
       !ferror(file) && (num = dmi_doing_look(&process->access.doings, below, state, SOME)) != 0;
       below = state[num - 1].number) {
    for (uint32_t i = 0; i < num; i++)
      write_thread(file, process, &state[i], names);
  }
  for (uint64_t below = UINT64_MAX;
       !ferror(file) && (num = dmi_sync_look(process->sync, below, held, SOME)) != 0;
       below = held[num - 1].serial) {
    for (uint32_t i = 0; i < num; i++) {
      dmi_where(place, sizeof(place), held[i].call.caller);
      fprintf(file, "the lock at 0x%" PRIx64 " is held here, taken by %s at %s\n",
              (uint64_t)held[i].addr, held[i].call.name ? held[i].call.name : "a call", place);
    }
  }
}

/* Makes a new file, whose path is written.  -1: see errno. */
static int make_file(char path[PATH_MAX], const char *whose) {
  const char *dir = getenv("TMPDIR");
  snprintf(path, PATH_MAX, "%s/dmi-dump.%s%ld.XXXXXX", dir && *dir ? dir : "/tmp", whose,
           (long)getpid());
  return mkostemp(path, O_CLOEXEC);
}

static bool write_own(struct dmi_process *process, char path[PATH_MAX],
                      const struct dmi_see_names *names) {
  const int fd = make_file(path, "");
  FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
  bool good;
  int error;
  if (!file) {
    if (fd >= 0) close(fd);
    return false;
  }
  dmi_file_begin();
  errno = 0;
  write_all(file, process, names);
  good = fflush(file) == 0 && !ferror(file);
  error = errno;
  if (fclose(file) != 0 && good) {
    good = false;
    error = errno;
  }
  dmi_file_end();
  errno = error;
  return good;
}

/* In a process of its own, which is waited for by nobody: `dmirun --dump FILE ...`.  It says where
 * all is, or why not.  Ctrl+C is not for it. */
#define ASK_ALL                                                             \
  "{ if \"$@\"; then echo \"dmi: what all processes are doing is in $0\"; " \
  "else rm -f \"$0\"; fi; } >&2 < /dev/null &"

/* Lets all processes be asked, this one too, so nothing may wait for that here.  False: it cannot
 * be. */
static bool ask_all(const struct dmi_config *config, uint32_t port) {
  char path[PATH_MAX], number[16];
  const char *argv[20] = {"sh", "-c", ASK_ALL, path, config->dmirun, "--dump", path};
  int num = 7, status, fd;
  posix_spawnattr_t attr;
  sigset_t none;
  pid_t pid;
  bool good;
  if (!config->dmirun || !port || config->key_fd >= 0) return false;
  snprintf(number, sizeof(number), "%" PRIu32, port);
  argv[num++] = "-i";
  argv[num++] = config->bind ? config->bind : "localhost";
  argv[num++] = "-p";
  argv[num++] = number;
  if (config->key_file) argv[num++] = "--key";
  if (config->key_file) argv[num++] = config->key_file;
  if (config->bind) argv[num++] = "--bind";
  if (config->bind) argv[num++] = config->bind;
  fd = make_file(path, "all.");
  if (fd < 0) return false;
  close(fd);
  sigemptyset(&none);
  posix_spawnattr_init(&attr);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setpgroup(&attr, 0);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  good = posix_spawn(&pid, "/bin/sh", NULL, &attr, (char *const *)argv, environ) == 0;
  posix_spawnattr_destroy(&attr);
  if (!good) {
    unlink(path);
    return false;
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) /* not for what it has started */
    continue;
  return true;
}

void dmi_see_write_dump(struct dmi_process *process, uint32_t port,
                        const struct dmi_see_names *names) {
  char path[PATH_MAX];
  if (!write_own(process, path, names)) {
    dmi_say(&process->stream, DMI_LOG_WARN, "member", "cannot write %s: %s", path,
            dmi_file_why(errno));
    return;
  }
  dmi_say(&process->stream, DMI_LOG_WARN, "member", "what its threads are doing is in %s; %s", path,
          ask_all(&process->config, port) ? "the other processes are asked, too"
                                          : "dmirun --threads shows those of all processes");
}
