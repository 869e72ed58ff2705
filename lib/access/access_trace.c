/*
 * access_trace.c - messages about pages as records of the trace (docs/trace.md).
 *
 * Both ends of a message must find the same number for its way, so that number is made of what both
 * know, and of nothing else.
 */
#include "access/access_int.h"
#include "msg/wire.h"

/* A step of a hash: 64 bits that all depend on all bits of both. */
static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

/* 0: none.  The network cuts a large DATA into BLOCKs, of which the first one has its way; messages
 * of HANDOVER do not come back to lib/access. */
static uint64_t way(dmi_uid_t from, dmi_uid_t to, const struct dmi_msg *msg) {
  const uint8_t type = msg->type == DMI_MSG_DATA ? DMI_MSG_BLOCK : msg->type;
  uint64_t hash = mix(type, (uint64_t)from << 32 | to);
  if (dmi_wire_class(msg) != DMI_CLASS_PAGE) return 0;
  if (msg->type == DMI_MSG_BLOCK && msg->block.off) return 0;
  hash = mix(hash, msg->origin);
  hash = mix(hash, msg->map);
  hash = mix(hash, msg->page);
  for (int i = 0; i < 4; i++)
    hash = mix(hash, msg->word[i]);
  return mix(hash, hash >> 32);
}

void dmi_access_trace_message(struct dmi_trace_record *record, dmi_uid_t from, dmi_uid_t to,
                              const struct dmi_msg *msg) {
  *record = (struct dmi_trace_record){.name = dmi_wire_name(msg->type),
                                      .begin = dmi_clock_ns(),
                                      .addr = msg->map,
                                      .page = msg->page,
                                      .size = msg->body.len,
                                      .id = way(from, to, msg)};
}
