/*
 * node_pressure.c - the node's part about memory for pages: messages and views go to
 * core/pressure.h and, for a leave, to the handover.
 */
#include <stdlib.h>

#include "core/node_int.h"

void dmi_node_pressure_open(struct dmi_node *node, struct dmi_out *out) {
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_OPEN)) dmi_pressure_open(node->pressure);
  (void)dmi_out_add(out, DMI_ACT_LOOK);
}

bool dmi_node_on_capacity_ask(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                              struct dmi_out *out) {
  node->goes_on = true;
  if (!dmi_pressure_message(node->pressure, from, msg)) return false;
  (void)dmi_out_add(out, DMI_ACT_LOOK);
  return true;
}

bool dmi_node_on_capacity_return(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                                 struct dmi_out *out) {
  return dmi_node_on_capacity_ask(node, from, msg, out);
}

bool dmi_node_on_capacity_report(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                                 struct dmi_out *out) {
  const struct dmi_msg_capacity_report *report = &msg->capacity_report;
  bool promise = report->kind == DMI_CAPACITY_PROMISE;
  /* Before the other one hears of it, as that cannot tell if somebody asked. */
  if (!promise && !dmi_pressure_message(node->pressure, from, msg)) return false;
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_REPORT) && !dmi_handover_report(node->handover, from, msg))
    return false;
  node->goes_on = true;
  if (promise) return true;
  (void)dmi_out_add(out, DMI_ACT_LOOK);
  if (!report->number && !DMI_BROKEN(node, DMI_NODE_BREAK_TOLD))
    LIFE(node, out, leave_retry, &node->life);
  return true;
}

bool dmi_node_pressure_message(struct dmi_node *node, uint32_t from, const struct dmi_msg *msg,
                               struct dmi_out *out) {
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(node, from, msg, out);
    DMI_MSGS_CAPACITY(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

/* All members that may have memory for pages, except this process. */
void dmi_node_pressure_view(struct dmi_node *node, struct dmi_out *out) {
  uint32_t num, others = 0;
  const struct dmi_peer *peers = dmi_member_peers(node->member, &num);
  uint32_t *uid = dmi_xalloc(num + 1, sizeof(*uid));
  for (uint32_t i = 0; i < num; i++) {
    bool lends = !peers[i].left && !peers[i].witness;
    if (lends && peers[i].uid != node->core->self) uid[others++] = peers[i].uid;
  }
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_VIEW)) dmi_pressure_view(node->pressure, uid, others);
  if (!DMI_BROKEN(node, DMI_NODE_BREAK_MEMBERS)) dmi_handover_view(node->handover, uid, others);
  free(uid);
  (void)dmi_out_add(out, DMI_ACT_LOOK);
  node->goes_on = true;
}
