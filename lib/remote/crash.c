/*
 * crash.c - a remote function ends its process, by a signal or by exit(): the process says on
 * stderr which function it was, as all that the others see is that it is lost.  Only the call that
 * the thread runs is looked at, and nothing is allocated: node/fatal.c calls this in a handler.
 *
 * A process may end without a word (SIGKILL).  If this ends the program, its clients say which
 * calls it had.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safe.h"
#include "net/net.h"
#include "remote/call.h"

/* What can be done in a handler of a signal. */
static void say(const DMI_remote_t *call, const char *what) {
  const dmi_remote_client_t client = call->run->call->client;
  struct dmi_safe line = {.len = 0};
  dmi_safe_add(&line, "dmi: remote function ");
  dmi_safe_add(&line, call->name);
  dmi_safe_add(&line, " (call ");
  dmi_safe_number(&line, call->run->call->number);
  dmi_safe_add(&line, " of client ");
  dmi_safe_number(&line, client.process);
  dmi_safe_add(&line, ".");
  dmi_safe_number(&line, client.n);
  dmi_safe_add(&line, ") ends this process: ");
  dmi_safe_add(&line, what);
  dmi_safe_write(&line, STDERR_FILENO);
}

void dmi_remote_dies(const char *what) {
  const DMI_remote_t *call = dmi_remote_mine();
  if (call) say(call, what);
}

/* Of the OS process. */
static void exits(void) {
  dmi_remote_dies("it has called exit()");
}

static void install(void) {
  (void)atexit(exits);
}

void dmi_remote_crash_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, install);
}

/* ---- Processes that are lost ----------------------------------------------------------------- */

#define NAMED 8 /* functions that are named */

struct calls {
  struct {
    char name[DMI_REMOTE_NAME_TEXT];
    uint64_t num;
  } of[NAMED];
  uint32_t functions;
  uint64_t others; /* calls of further functions */
};

static void count(void *arg, const struct dmi_remote_call *call) {
  struct calls *calls = arg;
  char name[DMI_REMOTE_NAME_TEXT] = "";
  uint32_t i = 0;
  (void)dmi_remote_name_text(call, name);
  while (i < calls->functions && strcmp(calls->of[i].name, name) != 0)
    i++;
  if (i == NAMED) {
    calls->others++;
    return;
  }
  if (i == calls->functions) {
    memcpy(calls->of[i].name, name, sizeof(name));
    calls->functions++;
  }
  calls->of[i].num++;
}

/* With the lock. */
static void name_calls(struct dmi_remote *remote, const struct dmi_remote_served *server) {
  struct calls calls = {.functions = 0};
  char text[NAMED * (DMI_REMOTE_NAME_TEXT + 30) + 30];
  size_t len = 0;
  for (struct dmi_remote_user *user = remote->users; user; user = user->next)
    dmi_remote_book_each(user->book, server->uid, count, &calls);
  if (!calls.functions) return;
  for (uint32_t i = 0; i < calls.functions; i++)
    len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s (%llu)", i ? ", " : "",
                            calls.of[i].name, (unsigned long long)calls.of[i].num);
  if (calls.others)
    snprintf(text + len, sizeof(text) - len, ", others (%llu)", (unsigned long long)calls.others);
  dmi_say(&remote->process->stream, DMI_LOG_WARN, "remote",
          "process %u was lost with calls for this one, of remote functions: %s", server->dmi_id.n,
          text);
}

void dmi_remote_fatal(struct dmi_remote *remote) {
  dmi_remote_lock(remote);
  for (struct dmi_remote_served *server = remote->servers; server; server = server->hh.next) {
    if (server->uid != remote->self.uid &&
        !dmi_net_connected(remote->process->access.net, server->uid))
      name_calls(remote, server);
  }
  dmi_mutex_unlock(&remote->lock);
}
