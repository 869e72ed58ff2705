/*
 * node_pressure.c - room for pages in the node: the events of core/pressure.h, what it has to say
 * to other members, and what it asks of the handover and of membership.
 */
#include <stdlib.h>

#include "core/node_int.h"

void dmi_node_pressure_begin(struct dmi_node *node, struct dmi_pressure_out *pressure) {
  dmi_pressure_out_init(pressure);
  node->env->lock_pressure(node->env->arg);
}

/* The messages are queued, and the lock is given back. */
static void pressure_sent(struct dmi_node *node, struct dmi_pressure_out *pressure) {
  struct dmi_out sends;
  dmi_out_init(&sends);
  for (uint64_t i = 0; i < pressure->capacity.num; i++) {
    const struct dmi_capacity_send *send = &pressure->capacity.send[i];
    struct dmi_msg msg = dmi_capacity_to_msg(&send->msg, node->core->self);
    dmi_out_send(&sends, send->to, &msg);
  }
  dmi_pressure_out_free(pressure);
  node->env->unlock_pressure(node->env->arg, &sends);
}

/* What a process has to give away. */
struct count {
  struct dmi_node *node;
  struct dmi_capacity_size *sizes;
  uint64_t size_num, capacity;
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
  while (at < count->size_num && count->sizes[at].size != map->page_size)
    at++;
  DMI_XALLOC_GROW(count->sizes, at, count->capacity);
  if (at == count->size_num)
    count->sizes[count->size_num++] = (struct dmi_capacity_size){map->page_size, 0};
  count->sizes[at].num += count->pages;
}

static void count_pages(struct dmi_node *node, struct dmi_out *out) {
  struct count count = {node, NULL, 0, 0, 0};
  struct dmi_pressure_out pressure;
  node->records.each_map(node->records.arg, count_map, &count);
  dmi_node_pressure_begin(node, &pressure);
  dmi_pressure_counted(node->pressure, count.sizes, count.size_num, &pressure);
  free(count.sizes);
  dmi_node_pressure_end(node, &pressure, out);
}

/* The end of a step of the room's: what it asks of the others. */
void dmi_node_pressure_end(struct dmi_node *node, struct dmi_pressure_out *pressure,
                           struct dmi_out *out) {
  pressure_sent(node, pressure);
  if (pressure->look) (void)dmi_out_add(out, DMI_ACT_LOOK);
  if (pressure->count) count_pages(node, out);
  if (pressure->promised) dmi_node_promised(node, pressure->promised, out);
  if (pressure->refused) {
    /* Else it was dismissed before. */
    if (dmi_handover_state(node->handover) == DMI_HANDOVER_STAYS &&
        !DMI_BROKEN(node, DMI_NODE_BREAK_STAYS))
      (void)dmi_out_add(out, DMI_ACT_STAYS);
    if (!DMI_BROKEN(node, DMI_NODE_BREAK_REFUSED)) LIFE(node, out, no_capacity, &node->life);
  }
  if (pressure->told && !DMI_BROKEN(node, DMI_NODE_BREAK_TOLD))
    LIFE(node, out, leave_retry, &node->life);
}

/* dmi_handover_env.receiver; with the page locked. */
uint32_t dmi_node_receiver(void *arg, uint64_t bytes) {
  struct dmi_node *node = arg;
  struct dmi_pressure_out pressure;
  uint32_t to;
  dmi_node_pressure_begin(node, &pressure);
  to = dmi_pressure_give(node->pressure, bytes);
  pressure_sent(node, &pressure);
  return to;
}

void dmi_node_pressure_open(struct dmi_node *node, struct dmi_out *out) {
  struct dmi_pressure_out pressure;
  dmi_node_pressure_begin(node, &pressure);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_OPEN)) dmi_pressure_open(node->pressure);
  pressure.look = true;
  dmi_node_pressure_end(node, &pressure, out);
}

void dmi_node_pressure_kept(struct dmi_node *node, uint32_t from, struct dmi_out *out) {
  struct dmi_pressure_out pressure;
  dmi_node_pressure_begin(node, &pressure);
  dmi_pressure_kept(node->pressure, from);
  pressure.look = true;
  dmi_node_pressure_end(node, &pressure, out);
}

void dmi_node_pressure_taken(struct dmi_node *node, uint32_t from, uint64_t bytes,
                             struct dmi_out *out) {
  struct dmi_pressure_out pressure;
  dmi_node_pressure_begin(node, &pressure);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_TAKEN))
    dmi_pressure_taken(node->pressure, from, bytes, &pressure);
  dmi_node_pressure_end(node, &pressure, out);
}

bool dmi_node_pressure_message(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                               struct dmi_out *out) {
  struct dmi_capacity_msg what;
  struct dmi_pressure_out pressure;
  bool good;
  if (!dmi_capacity_of_msg(msg, &what)) return false;
  dmi_node_pressure_begin(node, &pressure);
  good = dmi_pressure_message(node->pressure, from, &what, &pressure);
  dmi_node_pressure_end(node, &pressure, out);
  return good;
}

/* All members but this process, and those that have left. */
void dmi_node_pressure_view(struct dmi_node *node, struct dmi_out *out) {
  uint32_t num, others = 0;
  const struct dmi_peer *peers = dmi_member_peers(node->member, &num);
  uint32_t *uid = dmi_xalloc(num + 1, sizeof(*uid));
  struct dmi_pressure_out pressure;
  for (uint32_t i = 0; i < num; i++) {
    if (!peers[i].left && peers[i].uid != node->core->self) uid[others++] = peers[i].uid;
  }
  dmi_node_pressure_begin(node, &pressure);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_VIEW))
    dmi_pressure_view(node->pressure, uid, others, &pressure);
  dmi_node_pressure_end(node, &pressure, out);
  free(uid);
}

bool dmi_node_pager(struct dmi_node *node, const struct dmi_pressure_result *result,
                    struct dmi_pressure_action *action) {
  struct dmi_pressure_out pressure;
  dmi_node_pressure_begin(node, &pressure);
  dmi_pressure_next(node->pressure, result, action, &pressure);
  pressure_sent(node, &pressure);
  return pressure.look;
}
