/*
 * crash.c - a remote function ends its process, by a signal or by exit(): the process says on
 * stderr which function it was, as all that the others see is that it is lost.
 *
 * Only the call that the thread runs is looked at, and nothing is allocated: node/fatal.c calls
 * this in a handler of a signal.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/safe.h"
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
