/*
 * sim_pager_events.c - events of a virtual process for its pager, and their results: messages to
 * others, and progress of its leave.
 */
#include "sim_pager.h"

static void send_capacity(struct sim_proc *proc, const struct dmi_capacity_send *send) {
  struct dmi_msg msg = dmi_capacity_to_msg(&send->msg, proc->core.self);
  sim_log(proc->sim, "p%u room %u kind %u number %llu bytes %llu unit %llu to p%u", proc->core.self,
          send->msg.type, send->msg.kind, (unsigned long long)send->msg.number,
          (unsigned long long)send->msg.bytes, (unsigned long long)send->msg.unit, send->to);
  pager_judge_says(proc->pager->judge, send->to, &send->msg);
  proc->sim->totals->capacity_messages++;
  sim_send(proc, send->to, &msg);
}

/* Counts the pages here, for a leave. */
static void count_pages(struct sim_proc *proc, struct dmi_pressure_out *out) {
  struct sim *sim = proc->sim;
  struct dmi_capacity_size sizes[SIM_MAPS];
  uint64_t size_num = 0;
  for (uint32_t m = 0; m < sim->maps; m++) {
    const struct sim_pmap *pmap = &proc->pmap[m];
    uint64_t at = 0, pages = 0;
    for (uint32_t p = 0; pmap->known == SIM_KNOWN && p < SIM_PAGES; p++)
      pages += pmap->page[p] && dmi_pressure_counts(pmap->page[p]);
    while (at < size_num && sizes[at].size != pmap->map.page_size)
      at++;
    if (!pages) continue;
    if (at == size_num) sizes[size_num++] = (struct dmi_capacity_size){pmap->map.page_size, 0};
    sizes[at].num += pages;
  }
  dmi_pressure_counted(proc->pager->core, sizes, size_num, out);
}

void sim_pager_carry(struct sim_proc *proc, struct dmi_pressure_out *out) {
  struct sim *sim = proc->sim;
  for (uint64_t i = 0; i < out->capacity.num; i++)
    send_capacity(proc, &out->capacity.send[i]);
  dmi_pressure_out_free(out);
  if (out->look) proc->pager->events++;
  if (out->promised) {
    sim_log(sim, "p%u leaves, heir p%u", proc->core.self, out->promised);
    proc->stage = SIM_LEAVES;
    sim_handover_begin(proc, out->promised);
  } else if (out->refused) {
    sim_log(sim, "p%u finds no room and stays", proc->core.self);
    sim->totals->leaves_refused++;
    proc->stage = SIM_STAYS;
  }
  if (out->count) {
    struct dmi_pressure_out more;
    dmi_pressure_out_init(&more);
    count_pages(proc, &more);
    sim_pager_carry(proc, &more);
  }
}

void sim_pager_view(struct sim_proc *proc) {
  struct sim *sim = proc->sim;
  struct dmi_pressure_out out;
  uint32_t uid[SIM_PROCS], num = 0;
  for (uint32_t i = 0; i < SIM_PROCS; i++) {
    const struct sim_proc *other = sim->proc[i];
    if (other && other != proc && !sim_has_left(proc, other->core.self))
      uid[num++] = other->core.self;
  }
  dmi_pressure_out_init(&out);
  dmi_pressure_view(proc->pager->core, uid, num, &out);
  sim_pager_carry(proc, &out);
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
  struct dmi_capacity_msg said;
  struct dmi_pressure_out out;
  if (!dmi_capacity_of_msg(msg, &said))
    sim_bad(proc->sim, "p%u rejects %s from p%u", proc->core.self, sim_msg_name(msg->type), from);
  if (!sim_has_left(proc, from)) pager_judge_hears(proc->pager->judge, from, &said);
  dmi_pressure_out_init(&out);
  if (!dmi_pressure_message(proc->pager->core, from, &said, &out))
    sim_bad(proc->sim, "p%u rejects %s from p%u", proc->core.self, sim_msg_name(msg->type), from);
  sim_pager_carry(proc, &out);
}

void sim_pager_stalled(struct sim_proc *proc, struct dmi_page *page) {
  pager_judge_stalled(proc->pager->judge, page);
  proc->pager->held++;
  dmi_pressure_stalled(proc->pager->core, page);
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
  struct dmi_pressure_out out;
  dmi_pressure_out_init(&out);
  dmi_pressure_taken(proc->pager->core, from, bytes, &out);
  sim_pager_carry(proc, &out);
}

void sim_pager_leave(struct sim_proc *proc, uint32_t heir) {
  struct dmi_pressure_out out;
  proc->stage = SIM_ASKS;
  dmi_pressure_out_init(&out);
  dmi_pressure_leave(proc->pager->core, heir, &out);
  sim_pager_carry(proc, &out);
}

uint32_t sim_pager_give(struct sim_proc *proc, uint64_t bytes) {
  return dmi_pressure_give(proc->pager->core, bytes);
}

void sim_pager_leave_end(struct sim_proc *proc) {
  struct dmi_pressure_out out;
  dmi_pressure_out_init(&out);
  dmi_pressure_leave_end(proc->pager->core, &out);
  sim_pager_carry(proc, &out);
}
