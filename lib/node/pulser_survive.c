/*
 * pulser_survive.c - what membership tells the agreement, and asks it (struct dmi_member_survive);
 * and what the daemon's network knows of losses.  All called by the daemon.
 */
#include "core/member.h"
#include "node/pulser_int.h"
#include "node/runtime.h"

static void lock(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  dmi_pulse_out_init(out);
  dmi_mutex_lock(&pulser->lock);
}

static void carry(struct dmi_pulser *pulser, struct dmi_pulse_out *out) {
  dmi_pulser_carry(pulser, out, false, false);
}

/* Inside of the event that makes this process a member; or, with DMI_survive, later.  The network
 * and the thread begin when its first view is published; what is sent until then waits. */
static void on_start(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct dmi_process *process = arg;
  struct dmi_pulser *pulser = process->pulser;
  struct dmi_pulse_out out;
  if (pulser) {
    dmi_pulser_survives(pulser, view, ballot);
    return;
  }
  process->pulser = pulser = dmi_pulser_new(process);
  lock(pulser, &out);
  dmi_pulse_start(pulser->core, dmi_pulser_now(), view, ballot, &out);
  carry(pulser, &out);
}

static bool on_take(void *arg, const struct dmi_pulse_view *view, uint64_t ballot) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  struct dmi_pulse_out out;
  bool takes;
  lock(pulser, &out);
  takes = dmi_pulse_take(pulser->core, dmi_pulser_now(), view, ballot, &out);
  carry(pulser, &out);
  return takes;
}

/* Returns with the lock held if the answer is yes: on_change gives it up. */
static uint64_t on_may_change(void *arg) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  dmi_mutex_lock(&pulser->lock);
  if (dmi_pulse_may_change(pulser->core, dmi_pulser_now())) return dmi_pulse_promised(pulser->core);
  pulser->refused = true;
  dmi_mutex_unlock(&pulser->lock);
  return 0;
}

static void on_change(void *arg, const struct dmi_pulse_view *view) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  struct dmi_pulse_out out;
  dmi_pulse_out_init(&out);
  (void)dmi_pulse_change(pulser->core, dmi_pulser_now(), view, &out);
  carry(pulser, &out);
}

static void on_all_taken(void *arg, uint64_t number) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  struct dmi_pulse_out out;
  lock(pulser, &out);
  dmi_pulse_all_taken(pulser->core, dmi_pulser_now(), number, &out);
  carry(pulser, &out);
}

static uint32_t on_tie(void *arg) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  uint32_t tie;
  dmi_mutex_lock(&pulser->lock);
  tie = dmi_pulse_tie(pulser->core);
  dmi_mutex_unlock(&pulser->lock);
  return tie;
}

static bool on_leased(void *arg, dmi_uid_t uid) {
  struct dmi_pulser *pulser = ((struct dmi_process *)arg)->pulser;
  bool leased;
  dmi_mutex_lock(&pulser->lock);
  leased = !pulser->sends && dmi_pulse_leased(pulser->core, uid);
  pulser->awaits_lease |= !leased;
  dmi_mutex_unlock(&pulser->lock);
  return leased;
}

const struct dmi_member_survive dmi_pulser_survive = {
    .start = on_start,
    .take = on_take,
    .may_change = on_may_change,
    .change = on_change,
    .tie = on_tie,
    .all_taken = on_all_taken,
    .leased = on_leased,
};

void dmi_pulser_broken(struct dmi_process *process, dmi_uid_t uid) {
  struct dmi_pulser *pulser = process->pulser;
  struct dmi_pulse_out out;
  if (!pulser || !pulser->survive) return; /* else the daemon ends the program, or need not */
  lock(pulser, &out);
  dmi_pulse_broken(pulser->core, dmi_pulser_now(), uid, &out);
  carry(pulser, &out);
}
