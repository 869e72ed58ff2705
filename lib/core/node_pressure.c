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

/* What this process has to give away: pages of each size.  Returns how many sizes. */
static uint64_t count_sizes(const struct dmi_handover_env *records,
                            struct dmi_capacity_size **sizes) {
  struct dmi_map *map = records->next_map(records->arg, 0);
  uint64_t num = 0, capacity = 0, pages, at;
  for (; map; map = records->next_map(records->arg, map->base)) {
    struct dmi_page *page = records->next_record(records->arg, map, 0);
    for (pages = 0; page; page = records->next_record(records->arg, map, page->index + 1)) {
      pages += dmi_pressure_counts(page);
      records->unlock(records->arg, page);
    }
    if (!pages) continue;
    for (at = 0; at < num && (*sizes)[at].size != map->page_size;)
      at++;
    DMI_XALLOC_GROW(*sizes, at, capacity);
    if (at == num) (*sizes)[num++] = (struct dmi_capacity_size){map->page_size, 0};
    (*sizes)[at].num += pages;
  }
  return num;
}

static void count_pages(struct dmi_node *node, struct dmi_out *out) {
  struct dmi_capacity_size *sizes = NULL;
  uint64_t num = count_sizes(&node->records, &sizes);
  struct dmi_pressure_out pressure;
  dmi_node_pressure_begin(node, &pressure);
  dmi_pressure_counted(node->pressure, sizes, num, &pressure);
  free(sizes);
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
