/*
 * stays.c - see stays.h.
 *
 * Whoever has sent that request (Ctrl+C, `timeout`, `kill`) may not know that the program decides
 * when a process leaves.  One timer runs once, SOON behind the request.  A launcher hears of it by
 * the event, and says it of all its processes in one line; else this process writes a line.
 */
#include "node/stays.h"

#include <ev.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "core/member.h"

#define SOON 5. /* seconds */

struct dmi_stays {
  struct dmi_process *process;
  struct ev_timer timer;
};

const char *dmi_stays_ends(const struct dmi_process *process) {
  if (dmi_member_losable(process->member))
    return "only this process, at once: the program goes on without it";
  if (dmi_member_settings(process->member).survive)
    return "this process at once: for the others it is lost then (--survive)";
  return "this process at once, and the whole program with it";
}

static void on_soon(struct ev_loop *loop, struct ev_timer *timer, int events) {
  struct dmi_stays *stays = timer->data;
  struct dmi_process *process = stays->process;
  const char *why = dmi_member_waits_for(process->member);
  (void)loop;
  (void)events;
  if (process->signals > 1) return; /* the second Ctrl+C has said it */
  dmi_emit(&process->stream, stays, .why = why);
  if (process->config.control_fd >= 0) return;
  dmi_say(&process->stream, DMI_LOG_WARN, "member",
          "this process was asked to leave, and waits: %s; a second Ctrl+C (kill -INT %ld) writes "
          "what its threads are doing to a file, kill -KILL %ld ends %s",
          why, (long)getpid(), (long)getpid(), dmi_stays_ends(process));
}

void dmi_stays_begin(struct dmi_process *process) {
  struct dmi_stays *stays = dmi_xalloc(1, sizeof(*stays));
  stays->process = process;
  ev_timer_init(&stays->timer, on_soon, SOON, 0.);
  stays->timer.data = stays;
  ev_timer_start(dmi_net_loop(process->access.net), &stays->timer);
  process->stays = stays;
}

void dmi_stays_end(struct dmi_process *process) {
  struct dmi_stays *stays = process->stays;
  if (!stays) return;
  ev_timer_stop(dmi_net_loop(process->access.net), &stays->timer);
  free(stays);
  process->stays = NULL;
}
