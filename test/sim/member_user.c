/*
 * member_user.c - the world of member_sim: how processes start, and what users of them do.
 */
#include "member_world.h"
#include "msg/wire.h"

#include <stdio.h>
#include <stdlib.h>

void act_leave(int slot) {
  struct dmi_mout out;
  dmi_mout_init(&out);
  say("%d: asked to leave", slot);
  dmi_member_leave_asked(w->proc[slot].m, &out);
  world_run(slot, &out);
  world_watch(slot);
}

/* Somebody tells it that he has more room than when it asked. */
void act_room(int slot) {
  struct dmi_mout out;
  struct proc *p = &w->proc[slot];
  dmi_mout_init(&out);
  say("%d: hears of room", slot);
  if (p->m->no_room && (p->m->phase == DMI_PHASE_JOINED || p->m->phase == DMI_PHASE_LEFT)) {
    p->room_at = w->event;
  }
  dmi_member_room(p->m, &out);
  world_run(slot, &out);
  world_watch(slot);
}

static void start_call(int slot, const struct call *call, uint64_t a, uint64_t b) {
  struct dmi_member *m = w->proc[slot].m;
  struct dmi_mout out;
  dmi_mout_init(&out);
  switch (call->type) {
    case DMI_CTL_POLL:
      dmi_member_poll(m, call->op, &out);
      break;
    case DMI_CTL_PEEK:
      dmi_member_peek(m, call->op, &out);
      break;
    case DMI_CTL_NODES:
      dmi_member_nodes(m, call->op, &out);
      break;
    case DMI_CTL_WELCOME:
      dmi_member_welcome(m, call->op, (uint32_t)a, &out);
      break;
    case DMI_CTL_GOODBYE:
      dmi_member_goodbye(m, call->op, (uint32_t)a, &out);
      break;
    case DMI_CTL_MMAP:
      dmi_member_mmap(m, call->op, a, b, &out);
      break;
    case DMI_CTL_LOOKUP:
      dmi_member_lookup(m, call->op, a, &out);
      break;
    case DMI_CTL_MUNMAP:
      dmi_member_munmap(m, call->op, a, &out);
      break;
    default:
      dmi_member_thread(m, call->op, (uint32_t)a, b, &out);
      break;
  }
  world_run(slot, &out);
  world_watch(slot);
}

void act_call(int slot, enum dmi_msg_type type, uint64_t a, uint64_t b, int about) {
  struct call call = {0};
  call.op = ++w->next_op;
  call.type = type;
  call.slot = about;
  call.arg = type == DMI_CTL_THREAD ? b : a;
  call.uid = type == DMI_CTL_THREAD ? (uint32_t)a : 0;
  if (type == DMI_CTL_WELCOME || type == DMI_CTL_GOODBYE) {
    if (about < 0) w->random_used[type == DMI_CTL_WELCOME][a] = true;
    for (int i = 0; i < w->slots; i++) {
      struct proc *p = &w->proc[i];
      if (p->dmi_id != a || (!p->alive && i != about)) continue;
      call.sole = (type == DMI_CTL_WELCOME ? p->welcomes++ : p->goodbyes++) == 0 && i == about;
    }
  }
  say("%d: calls %s %llx (%d)", slot, dmi_wire_name((uint8_t)type), (unsigned long long)a, about);
  *DMI_LIST_ADD(&w->proc[slot].calls) = call;
  start_call(slot, &call, a, b);
}

void act_create(int slot, uint32_t uid, bool must) {
  struct proc *p = &w->proc[slot];
  struct dmi_msg msg = {0};
  struct dmi_mout out;
  if (uid == p->uid || !dmi_uid_set_has(&p->view, uid) || dmi_uid_set_has(&p->away, uid)) return;
  p->own_creates++;
  dmi_mout_init(&out);
  dmi_member_busy(p->m, 0, &out);
  world_run(slot, &out);
  msg.type = SIM_CREATE;
  msg.member.op = ++w->next_op;
  msg.flags = must;
  world_send(slot, uid, &msg);
}

void act_request(int slot, uint32_t uid) {
  struct proc *p = &w->proc[slot];
  if (dmi_uid_set_has(&p->away, uid)) return;
  p->ops++;
  world_send_sim(slot, uid, SIM_REQUEST, ++w->next_op, p->uid, rnd(4));
}

void act_end_thread(int slot, bool main) {
  struct proc *p = &w->proc[slot];
  struct dmi_mout out;
  say("%d: %s ends", slot, main ? "main" : "a thread");
  if (main) {
    p->main_runs = false;
  } else {
    p->threads--;
    if (rnd(2)) {
      struct dmi_ended *ended = DMI_LIST_ADD(&p->ended);
      ended->seq = ++p->next_seq;
      ended->value = ended->seq * 1000 + p->uid;
    }
  }
  dmi_mout_init(&out);
  dmi_member_idle(p->m, &out);
  world_run(slot, &out);
  world_watch(slot);
}

int world_spawn(int seed_slot) {
  static const uint8_t program_id[16] = {1, 2, 3};
  int slot = w->slots++;
  struct proc *p = &w->proc[slot];
  struct dmi_addr own = {.port = (uint16_t)(1000 + slot)};
  struct dmi_member_env env = {(void *)(intptr_t)slot, world_connected, world_addrs};
  struct dmi_node_info info;
  struct dmi_mout out;
  memset(&info, 0, sizeof(info));
  snprintf(info.host, sizeof(info.host), "h%d", slot);
  info.cores = (uint32_t)slot;
  p->host = (int)rnd(HOSTS);
  p->alive = true;
  p->seed = seed_slot;
  p->m = dmi_member_new(&env, &info, &own);
  dmi_member_set_break(p->m, w->broken);
  dmi_mout_init(&out);
  if (seed_slot < 0) {
    p->main_runs = true;
    dmi_member_start_first(p->m, program_id, &out);
  } else {
    say("%d: joins by %d", slot, seed_slot);
    dmi_member_start_join(p->m, &out);
  }
  world_run(slot, &out);
  world_watch(slot);
  return slot;
}

void world_free(void) {
  for (int i = 0; i < w->slots; i++) {
    struct proc *p = &w->proc[i];
    dmi_member_free(p->m);
    free(p->ended.at);
    free(p->pend.at);
    free(p->calls.at);
    free(p->creating.at);
    free(p->maps.at);
    free(p->addrs.at);
    dmi_uid_set_free(&p->view);
    dmi_uid_set_free(&p->away);
    dmi_uid_set_free(&p->known);
  }
  for (int i = 0; i < CONNS; i++) {
    dmi_keep_free(&w->conn[i].queue[0]);
    dmi_keep_free(&w->conn[i].queue[1]);
  }
  free(w->map_dead.at);
  free(w->departed.at);
}
