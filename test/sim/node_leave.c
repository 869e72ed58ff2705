/*
 * node_leave.c - handing over homes and pages (R8), and the promises of room for them.
 */
#include <stdlib.h>
#include <string.h>

#include "node_sim.h"

struct sim_leave {
  uint32_t heir;
  uint32_t waits; /* heir of a leave that waits for promises, 0: none does */
  bool runs;      /* the handover has begun, and dmi_member_drained was not called */
  uint64_t homes_out;
};

static struct sim_leave *leave_of(struct node *node) {
  if (!node->leave) node->leave = calloc(1, sizeof(*node->leave));
  if (!node->leave) abort();
  return node->leave;
}

uint32_t node_leave_heir(const struct node *node) {
  return node->leave ? node->leave->heir : 0;
}

static struct dmi_msg about(const struct node *node, uint64_t base, enum dmi_msg_type type) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = node->uid;
  msg.map = base;
  return msg;
}

/* ---- The leaver
 * ----------------------------------------------------------------------------------- */

static void home_over(struct node *node, struct sim_pmap *pmap, uint32_t heir) {
  struct dmi_msg msg = about(node, pmap->map.base, DMI_MSG_HOME_BEGIN);
  struct dmi_tail tails[SIM_PAGES];
  uint32_t num = 0, sent = 0;
  msg.home = (struct dmi_msg_home){
      .page_size = pmap->map.page_size, .page_num = pmap->map.page_num, .word = pmap->map.word};
  node_send(node, heir, &msg);
  atomic_store(&pmap->map.home, heir);
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    if (!pmap->page[p]) continue;
    tails[num++] = (struct dmi_tail){p, dmi_page_tail(&node->core, pmap->page[p]), 0};
  }
  while (sent < num) {
    uint32_t some = rng_range(&node->sim->rng, 1, num - sent);
    msg = about(node, pmap->map.base, DMI_MSG_HOME_TAILS);
    msg.list = dmi_slice_copy(&tails[sent], some * sizeof(tails[0]));
    sent += some;
    node_send(node, heir, &msg);
  }
  msg = about(node, pmap->map.base, DMI_MSG_HOME_END);
  node_send(node, heir, &msg);
  node->leave->homes_out++;
}

static void offer_page(struct node *node, uint32_t map, uint32_t p) {
  struct dmi_page *page = node->pmap[map].page[p];
  uint32_t to = atomic_load(&node->core.heir);
  struct dmi_out out;
  if (!page || node->pmap[map].known != SIM_KNOWN || page->role != DMI_ROLE_OWNER) return;
  if (page->frame || (page->flags & DMI_PAGE_SPILLED))
    to = dmi_room_give(node->rooms, page->map->page_size);
  dmi_out_init(&out);
  dmi_page_give(&node->core, node_page(node, map, p), to, &out);
  node_act(node, map, p, &out);
}

static void promised(struct node *node, uint32_t heir) {
  struct sim_leave *leave = leave_of(node);
  leave->heir = heir;
  leave->runs = true;
  sim_log(node->sim, "p%u hands over to p%u", node->uid, heir);
  if (rng_once_in(&node->sim->rng, 3)) sim_net_slow(node, heir);
  if (heir) {
    atomic_store(&node->core.heir, heir);
    for (uint32_t m = 0; m < SIM_MAPS; m++) {
      struct sim_pmap *pmap = &node->pmap[m];
      if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == node->uid)
        home_over(node, pmap, heir);
    }
    for (uint32_t m = 0; m < SIM_MAPS; m++) {
      for (uint32_t p = 0; p < SIM_PAGES; p++)
        offer_page(node, m, p);
    }
  }
  (void)node_leave_look(node);
}

static bool copies_gone(struct node *node) {
  bool all = true;
  for (uint32_t m = 0; m < SIM_MAPS; m++) {
    for (uint32_t p = 0; p < SIM_PAGES; p++) {
      struct dmi_page *page = node->pmap[m].page[p];
      if (!page || node->pmap[m].known != SIM_KNOWN || (!page->copy && !page->busy)) continue;
      if (!dmi_page_depart(&node->core, page)) all = false;
    }
  }
  return all;
}

static void rooms_said(struct node *node, struct dmi_room_out *out);

bool node_leave_look(struct node *node) {
  struct sim_leave *leave = node->leave;
  if (!leave || !leave->runs) return false;
  if (leave->heir && (leave->homes_out || atomic_load(&node->core.owned))) return false;
  if (leave->heir && !copies_gone(node)) return false;
  leave->runs = false;
  if (leave->heir) {
    struct dmi_room_out out;
    dmi_room_out_init(&out);
    dmi_room_leave_end(node->rooms, &out);
    rooms_said(node, &out);
  }
  sim_log(node->sim, "p%u is drained", node->uid);
  dmi_member_drained(node->m, node->ended.at, node->ended.num, &node->out);
  node_carry(node);
  return true;
}

void node_leave_removed(struct node *node, uint32_t uid, uint32_t heir) {
  for (uint32_t m = 0; heir && m < SIM_MAPS; m++) {
    struct sim_pmap *pmap = &node->pmap[m];
    if (pmap->known == SIM_KNOWN && atomic_load(&pmap->map.home) == uid)
      atomic_store(&pmap->map.home, heir);
  }
  if (atomic_load(&node->core.heir) == uid && heir) atomic_store(&node->core.heir, heir);
}

void node_leave_fini(struct node *node) {
  free(node->leave);
  node->leave = NULL;
}

/* ---- Promises
 * --------------------------------------------------------------------------------------- */

static void rooms_said(struct node *node, struct dmi_room_out *out) {
  for (uint64_t i = 0; i < out->num; i++) {
    struct dmi_msg msg = dmi_room_to_msg(&out->send[i].msg, node->uid);
    node_send(node, out->send[i].to, &msg);
  }
  dmi_room_out_free(out);
}

static void ask_promises(struct node *node) {
  struct dmi_room_lot lot[SIM_MAPS];
  struct dmi_room_out out;
  uint64_t lots = 0;
  for (uint32_t m = 0; m < SIM_MAPS; m++) {
    const struct sim_pmap *pmap = &node->pmap[m];
    uint64_t pages = 0, at = 0;
    for (uint32_t p = 0; pmap->known == SIM_KNOWN && p < SIM_PAGES; p++) {
      const struct dmi_page *page = pmap->page[p];
      pages +=
          page &&
          (page->role == DMI_ROLE_PENDING ||
           (page->role == DMI_ROLE_OWNER && (page->frame || (page->flags & DMI_PAGE_SPILLED))));
    }
    if (!pages) continue;
    while (at < lots && lot[at].size != pmap->map.page_size)
      at++;
    if (at == lots) lot[lots++] = (struct dmi_room_lot){pmap->map.page_size, 0};
    lot[at].num += pages;
  }
  dmi_room_out_init(&out);
  dmi_room_leave(node->rooms, node->leave->waits, lot, lots, &out);
  rooms_said(node, &out);
}

static void look_promises(struct node *node) {
  struct sim_leave *leave = node->leave;
  if (!leave || !leave->waits) return;
  switch (dmi_room_leave_state(node->rooms)) {
    case DMI_ROOM_NO_LEAVE:
      if (dmi_room_promised(node->rooms)) return;
      ask_promises(node);
      look_promises(node);
      break;
    case DMI_ROOM_LEAVE_READY: {
      uint32_t heir = leave->waits;
      leave->waits = 0;
      promised(node, heir);
      break;
    }
    case DMI_ROOM_LEAVE_FAILED: {
      struct dmi_room_out out;
      leave->waits = 0;
      dmi_room_out_init(&out);
      dmi_room_leave_end(node->rooms, &out);
      rooms_said(node, &out);
      sim_judge_refused(node);
      if (!node->left) node->creates = node->opened; /* as before */
      dmi_member_no_room(node->m, &node->out);
      node_carry(node);
      break;
    }
    default:
      break;
  }
}

void node_leave_start(struct node *node, uint32_t heir) {
  if (!heir) {
    promised(node, 0);
    return;
  }
  leave_of(node)->waits = heir;
  look_promises(node);
}

/* Who asks is answered at once. */
static void answer_all(struct node *node) {
  struct dmi_room_asker asker;
  struct dmi_room_out out;
  dmi_room_out_init(&out);
  while (dmi_room_asker(node->rooms, &asker)) {
    uint64_t bytes = asker.bytes;
    if (asker.kind == DMI_ROOM_PROMISE) dmi_pool_reserve(node->pool, bytes, true);
    if (!dmi_room_answer(node->rooms, &asker, bytes, &out) && asker.kind == DMI_ROOM_PROMISE)
      dmi_pool_release(node->pool, bytes);
  }
  rooms_said(node, &out);
}

bool node_room_message(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_room_msg room;
  struct dmi_room_out out;
  uint64_t freed;
  bool good;
  if (!dmi_room_of_msg(msg, &room)) return false;
  dmi_room_out_init(&out);
  good = dmi_room_message(node->rooms, from, &room, &freed, &out);
  rooms_said(node, &out);
  if (freed) dmi_pool_release(node->pool, freed);
  answer_all(node);
  look_promises(node);
  return good;
}

void node_room_view(struct node *node) {
  uint32_t others[SIM_NODES], num = 0;
  struct dmi_room_out out;
  uint64_t freed;
  for (uint32_t uid = 1; uid < SIM_NODES; uid++) {
    if (node->view[uid] == 1 && uid != node->uid) others[num++] = uid;
  }
  dmi_room_out_init(&out);
  freed = dmi_room_view(node->rooms, others, num, &out);
  rooms_said(node, &out);
  if (freed) dmi_pool_release(node->pool, freed);
  look_promises(node);
}

/* ---- The heir
 * --------------------------------------------------------------------------------------- */

static bool home_begin(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim_pmap *pmap = node_pmap(node, msg->map);
  struct dmi_entry entry = {msg->map, msg->home.page_size, msg->home.page_num, node->uid,
                            msg->home.word};
  if (!pmap) {
    node_enter(node, &entry, from);
    return true;
  }
  if (pmap->map.page_size != msg->home.page_size || pmap->map.page_num != msg->home.page_num)
    return false;
  if (atomic_load(&pmap->map.home) == node->uid) return false;
  atomic_store(&pmap->map.arriving, from);
  atomic_store(&pmap->map.home, node->uid);
  return true;
}

static bool arrived(struct node *node, uint32_t map, uint32_t p, bool listed, uint32_t tail) {
  struct dmi_out out;
  bool good;
  dmi_out_init(&out);
  good = dmi_page_home_arrived(&node->core, node_page(node, map, p), listed, tail, &out);
  node_act(node, map, p, &out);
  return good;
}

static struct sim_pmap *arriving(struct node *node, uint32_t from, uint64_t base) {
  struct sim_pmap *pmap = node_pmap(node, base);
  return pmap && atomic_load(&pmap->map.arriving) == from ? pmap : NULL;
}

static bool home_tails(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  if (!arriving(node, from, msg->map)) return false;
  for (uint64_t i = 0; i < msg->list.len / sizeof(struct dmi_tail); i++) {
    struct dmi_tail entry;
    memcpy(&entry, msg->list.ptr + i * sizeof(entry), sizeof(entry));
    if (!node->core.is_member(node, entry.tail)) return false;
    (void)arrived(node, sim_map_num(msg->map), (uint32_t)entry.page, true, entry.tail);
  }
  return true;
}

static bool home_end(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim_pmap *pmap = arriving(node, from, msg->map);
  struct dmi_msg reply = about(node, msg->map, DMI_MSG_HOME_DONE);
  uint32_t map = sim_map_num(msg->map);
  bool good = true;
  if (!pmap) return false;
  for (uint32_t p = 0; p < SIM_PAGES; p++) {
    if (pmap->page[p] && !arrived(node, map, p, false, 0)) good = false;
  }
  atomic_store(&pmap->map.arriving, 0);
  node_replay(node, pmap);
  if (good) node_send(node, from, &reply);
  return good;
}

/* ---- TAKE and KEEP
 * ------------------------------------------------------------------------------------ */

static void keep_add(struct dmi_msg *keep, const struct dmi_tail *entry, uint64_t most) {
  if (!keep->list.frame) {
    keep->list.frame = dmi_frame_new(most);
    if (!keep->list.frame) abort();
    keep->list.ptr = keep->list.frame->bytes;
  }
  memcpy(keep->list.frame->bytes + keep->list.len, entry, sizeof(*entry));
  keep->list.len += sizeof(*entry);
}

static void take_pages(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_msg keep = about(node, msg->map, DMI_MSG_KEEP);
  bool must = msg->flags & DMI_F_MUST;
  uint32_t map = sim_map_num(msg->map);
  for (uint64_t i = 0; i < msg->list.len / sizeof(struct dmi_tail); i++) {
    struct dmi_tail entry;
    struct dmi_out out;
    bool taken;
    memcpy(&entry, msg->list.ptr + i * sizeof(entry), sizeof(entry));
    dmi_out_init(&out);
    taken = dmi_page_take(&node->core, node_page(node, map, (uint32_t)entry.page), must, entry.zero,
                          &out);
    node_act(node, map, (uint32_t)entry.page, &out);
    if (must && !entry.zero) {
      uint64_t freed = dmi_room_taken(node->rooms, from, node->pmap[map].map.page_size);
      if (freed) dmi_pool_release(node->pool, freed);
      look_promises(node);
    }
    if (taken) continue;
    node->sim->totals->kept++;
    keep_add(&keep, &entry, msg->list.len);
  }
  if (must) keep.flags = DMI_F_MUST;
  if (keep.list.len) node_send(node, from, &keep);
}

static void take(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  struct sim_call *call;
  if (node_pmap(node, msg->map)) {
    take_pages(node, from, msg);
    return;
  }
  call = DMI_LIST_ADD(&node->calls);
  call->op = ++node->sim->next_op;
  call->type = DMI_CTL_LOOKUP;
  call->take = *msg;
  call->take.list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  call->take_from = from;
  dmi_member_lookup(node->m, call->op, msg->map, &node->out);
  node_carry(node);
}

void node_leave_looked_up(struct node *node, struct sim_call *call, const struct dmi_mact *result) {
  if (result->error == DMI_OK) {
    node_enter(node, &result->mapping, 0);
    take_pages(node, call->take_from, &call->take);
  } else {
    struct dmi_msg keep = about(node, call->take.map, DMI_MSG_KEEP);
    if (call->take.flags & DMI_F_MUST) keep.flags = DMI_F_MUST;
    keep.list = call->take.list;
    memset(&call->take.list, 0, sizeof(call->take.list));
    node_send(node, call->take_from, &keep);
  }
  dmi_slice_drop(&call->take.list);
}

static void kept(struct node *node, uint32_t from, const struct dmi_msg *msg) {
  uint32_t map = sim_map_num(msg->map);
  for (uint64_t i = 0; i < msg->list.len / sizeof(struct dmi_tail); i++) {
    struct dmi_tail entry;
    struct dmi_out out;
    memcpy(&entry, msg->list.ptr + i * sizeof(entry), sizeof(entry));
    if (!node_pmap(node, msg->map) || !node->pmap[map].page[entry.page]) continue;
    dmi_out_init(&out);
    dmi_page_kept(&node->core, node_page(node, map, (uint32_t)entry.page), from,
                  msg->flags & DMI_F_MUST, &out);
    node_act(node, map, (uint32_t)entry.page, &out);
  }
  dmi_room_kept(node->rooms, from);
}

bool node_leave_message(struct node *node, uint32_t from, struct dmi_msg *msg) {
  switch (msg->type) {
    case DMI_MSG_TAKE:
      take(node, from, msg);
      return true;
    case DMI_MSG_KEEP:
      kept(node, from, msg);
      return true;
    case DMI_MSG_HOME_BEGIN:
      return home_begin(node, from, msg);
    case DMI_MSG_HOME_TAILS:
      return home_tails(node, from, msg);
    case DMI_MSG_HOME_END:
      return home_end(node, from, msg);
    default:
      if (!node->leave || !node->leave->homes_out || node->leave->heir != from) return false;
      node->leave->homes_out--;
      return true;
  }
}
