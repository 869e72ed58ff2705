/*
 * sim_pager_events.c - events of a virtual process for its pager, and their results: messages to
 * others, and progress of its leave.
 */
#include "sim_pager.h"

void sim_pager_sends(struct sim_proc *proc, uint32_t to, const struct dmi_msg *msg) {
  pager_judge_says(proc->pager->judge, to, msg);
  proc->sim->totals->capacity_messages++;
}

void sim_pager_say(struct sim_proc *proc, struct dmi_capacity_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    struct dmi_msg msg = out->send[i].msg;
    msg.origin = proc->core.self;
    sim_pager_sends(proc, out->send[i].to, &msg);
    sim_send(proc, out->send[i].to, &msg);
  }
  dmi_capacity_out_free(out);
}

void sim_pager_view(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  uint32_t uid[SIM_PROCS], num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *other = sim->proc[i];
    if (other && other != proc && !sim_has_left(proc, other->core.self))
      uid[num++] = other->core.self;
  }
  dmi_pressure_view(proc->pager->core, uid, num);
  dmi_handover_view(proc->handover, uid, num);
  proc->pager->events++;
}

void sim_pager_joined(struct sim *sim) {
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    if (sim->proc[i]) sim_pager_view(sim->proc[i]);
  }
}

void sim_pager_open(struct sim_proc *proc) {
  proc->pager->open = true;
  proc->mute = false;
  dmi_pressure_open(proc->pager->core);
  proc->pager->events++;
  sim_log(proc->sim, "p%u is welcomed", proc->core.self);
}

void sim_pager_message(struct sim_proc *proc, uint32_t from, const struct dmi_msg *msg) {
  bool report = msg->type == DMI_SVC_CAPACITY_REPORT, good = true;
  if (!sim_has_left(proc, from)) pager_judge_hears(proc->pager->judge, from, msg);
  if (report) good = dmi_handover_report(proc->handover, from, msg);
  if (!report || msg->capacity_report.kind != DMI_CAPACITY_PROMISE)
    good = dmi_pressure_message(proc->pager->core, from, msg);
  if (!good)
    sim_bad(proc->sim, "p%u rejects %s from p%u", proc->core.self, sim_msg_name(msg->type), from);
  proc->pager->events++;
}

void sim_pager_stalled(struct sim_proc *proc, struct dmi_page *page) {
  pager_judge_stalled(proc->pager->judge, page);
  proc->pager->held++;
  (void)dmi_pressure_stalled(proc->pager->core, page);
  proc->pager->events++;
}

void sim_pager_stepped(struct sim_proc *proc) {
  if (!proc->pager->armed) return;
  proc->pager->armed = false;
  proc->pager->events++;
}

void sim_pager_granted(struct sim_proc *proc) {
  if (!proc->pager->expects) return;
  proc->pager->expects = false;
  proc->pager->events++;
}

void sim_pager_kept(struct sim_proc *proc, uint32_t from) {
  pager_judge_kept(proc->pager->judge, from);
  dmi_pressure_kept(proc->pager->core, from);
  proc->pager->events++;
}

void sim_pager_forgot(struct sim_proc *proc) {
  proc->pager->events++;
}

bool sim_pager_is_open(const struct sim_proc *proc) {
  return proc->pager->open;
}

void sim_pager_taken(struct sim_proc *proc, uint32_t from, uint64_t bytes) {
  dmi_pressure_taken(proc->pager->core, from, bytes);
}

void sim_pager_leave(struct sim_proc *proc, uint32_t heir) {
  dmi_pressure_leave(proc->pager->core, heir);
}

bool sim_pager_has_promised(const struct sim_proc *proc) {
  return proc->pager && dmi_pressure_promised(proc->pager->core);
}

void sim_pager_stays(struct sim_proc *proc) {
  sim_log(proc->sim, "p%u finds no memory and stays", proc->core.self);
  dmi_pressure_stay(proc->pager->core);
  proc->pager->events++;
  proc->sim->totals->leaves_refused++;
}
