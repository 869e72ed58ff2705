/*
 * node_room.c - room for pages in the node: the events of core/pressure.h, what it has to say to
 * other members, and what it asks of the handover and of membership.
 */
#include <stdlib.h>

#include "core/node_int.h"

void dmi_node_room_begin(struct dmi_node *node, struct dmi_pressure_out *room) {
  dmi_pressure_out_init(room);
  node->env->lock_room(node->env->arg);
}

/* The messages are in line, and the lock is given back. */
static void room_sent(struct dmi_node *node, struct dmi_pressure_out *room) {
  struct dmi_out sends;
  dmi_out_init(&sends);
  for (uint64_t i = 0; i < room->room.num; i++) {
    const struct dmi_room_send *send = &room->room.send[i];
    struct dmi_msg msg = dmi_room_to_msg(&send->msg, node->core->self);
    dmi_out_send(&sends, send->to, &msg);
  }
  dmi_pressure_out_free(room);
  node->env->unlock_room(node->env->arg, &sends);
}

/* What a process has to give away. */
struct count {
  struct dmi_node *node;
  struct dmi_room_lot *lot;
  uint64_t lots, room;
  uint64_t pages; /* of the mapping at hand */
};

static void count_page(struct dmi_page *page, void *with) {
  struct count *count = with;
  const struct dmi_handover_env *records = &count->node->records;
  records->lock(records->arg, page);
  count->pages += dmi_pressure_counts(page);
  records->unlock(records->arg, page);
}

static void count_map(struct dmi_map *map, void *with) {
  struct count *count = with;
  const struct dmi_handover_env *records = &count->node->records;
  uint64_t at = 0;
  count->pages = 0;
  records->each_record(records->arg, map, count_page, count);
  if (!count->pages) return;
  while (at < count->lots && count->lot[at].size != map->page_size)
    at++;
  DMI_XALLOC_GROW(count->lot, at, count->room);
  if (at == count->lots) count->lot[count->lots++] = (struct dmi_room_lot){map->page_size, 0};
  count->lot[at].num += count->pages;
}

static void count_pages(struct dmi_node *node, struct dmi_out *out) {
  struct count count = {node, NULL, 0, 0, 0};
  struct dmi_pressure_out room;
  node->records.each_map(node->records.arg, count_map, &count);
  dmi_node_room_begin(node, &room);
  dmi_pressure_counted(node->pressure, count.lot, count.lots, &room);
  free(count.lot);
  dmi_node_room_end(node, &room, out);
}

/* The end of a step of the room's: what it asks of the others. */
void dmi_node_room_end(struct dmi_node *node, struct dmi_pressure_out *room, struct dmi_out *out) {
  room_sent(node, room);
  if (room->look) (void)dmi_out_add(out, DMI_ACT_LOOK);
  if (room->count) count_pages(node, out);
  if (room->promised) dmi_node_promised(node, room->promised, out);
  if (room->refused) {
    /* Else it was dismissed before. */
    if (dmi_handover_state(node->handover) == DMI_HANDOVER_STAYS &&
        !DMI_BROKEN(node, DMI_NODE_BREAK_STAYS))
      (void)dmi_out_add(out, DMI_ACT_STAYS);
    if (!DMI_BROKEN(node, DMI_NODE_BREAK_REFUSED)) LIFE(node, out, no_room, &node->life);
  }
  if (room->told && !DMI_BROKEN(node, DMI_NODE_BREAK_TOLD)) LIFE(node, out, room, &node->life);
}

/* dmi_handover_env.receiver; with the page locked. */
uint32_t dmi_node_receiver(void *arg, uint64_t bytes) {
  struct dmi_node *node = arg;
  struct dmi_pressure_out room;
  uint32_t to;
  dmi_node_room_begin(node, &room);
  to = dmi_pressure_give(node->pressure, bytes);
  room_sent(node, &room);
  return to;
}

void dmi_node_room_open(struct dmi_node *node, struct dmi_out *out) {
  struct dmi_pressure_out room;
  dmi_node_room_begin(node, &room);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_OPEN)) dmi_pressure_open(node->pressure);
  room.look = true;
  dmi_node_room_end(node, &room, out);
}

void dmi_node_room_kept(struct dmi_node *node, uint32_t from, struct dmi_out *out) {
  struct dmi_pressure_out room;
  dmi_node_room_begin(node, &room);
  dmi_pressure_kept(node->pressure, from);
  room.look = true;
  dmi_node_room_end(node, &room, out);
}

void dmi_node_room_taken(struct dmi_node *node, uint32_t from, uint64_t bytes,
                         struct dmi_out *out) {
  struct dmi_pressure_out room;
  dmi_node_room_begin(node, &room);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_TAKEN))
    dmi_pressure_taken(node->pressure, from, bytes, &room);
  dmi_node_room_end(node, &room, out);
}

bool dmi_node_room_message(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                           struct dmi_out *out) {
  struct dmi_room_msg what;
  struct dmi_pressure_out room;
  bool good;
  if (!dmi_room_of_msg(msg, &what)) return false;
  dmi_node_room_begin(node, &room);
  good = dmi_pressure_message(node->pressure, from, &what, &room);
  dmi_node_room_end(node, &room, out);
  return good;
}

/* All members but this process, and those that have left. */
void dmi_node_room_view(struct dmi_node *node, struct dmi_out *out) {
  uint32_t num, others = 0;
  const struct dmi_peer *peers = dmi_member_peers(node->member, &num);
  uint32_t *uid = dmi_xalloc(num + 1, sizeof(*uid));
  struct dmi_pressure_out room;
  for (uint32_t i = 0; i < num; i++) {
    if (!peers[i].left && peers[i].uid != node->core->self) uid[others++] = peers[i].uid;
  }
  dmi_node_room_begin(node, &room);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_VIEW)) dmi_pressure_view(node->pressure, uid, others, &room);
  dmi_node_room_end(node, &room, out);
  free(uid);
}

bool dmi_node_pager(struct dmi_node *node, const struct dmi_pressure_result *result,
                    struct dmi_pressure_action *action) {
  struct dmi_pressure_out room;
  dmi_node_room_begin(node, &room);
  dmi_pressure_next(node->pressure, result, action, &room);
  room_sent(node, &room);
  return room.look;
}
