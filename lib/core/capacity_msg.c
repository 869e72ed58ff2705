/*
 * capacity_msg.c - what rooms have to say (capacity.h) as messages, and back.
 */
#include "core/capacity.h"

bool dmi_capacity_of_msg(const struct dmi_msg *msg, struct dmi_capacity_msg *capacity) {
  uint64_t kind = 0;
  switch (msg->type) {
    case DMI_SVC_CAPACITY_ASK:
      kind = msg->capacity_ask.kind;
      *capacity = (struct dmi_capacity_msg){.type = DMI_CAPACITY_ASK,
                                            .number = msg->capacity_ask.number,
                                            .bytes = msg->capacity_ask.bytes,
                                            .unit = msg->capacity_ask.unit,
                                            .now = (msg->flags & DMI_F_URGENT) != 0};
      break;
    case DMI_SVC_CAPACITY_REPORT:
      kind = msg->capacity_tell.kind;
      *capacity = (struct dmi_capacity_msg){.type = DMI_CAPACITY_REPORT,
                                            .number = msg->capacity_tell.number,
                                            .bytes = msg->capacity_tell.bytes};
      break;
    case DMI_SVC_CAPACITY_RETURN:
      *capacity =
          (struct dmi_capacity_msg){.type = DMI_CAPACITY_RETURN, .bytes = msg->capacity_back.bytes};
      break;
    default:
      return false;
  }
  capacity->kind = (uint8_t)kind;
  return kind <= DMI_CAPACITY_PROMISE;
}

struct dmi_msg dmi_capacity_to_msg(const struct dmi_capacity_msg *capacity, uint32_t self) {
  struct dmi_msg msg = {.origin = self};
  switch (capacity->type) {
    case DMI_CAPACITY_ASK:
      msg.type = DMI_SVC_CAPACITY_ASK;
      msg.capacity_ask = (struct dmi_msg_room_ask){.number = capacity->number,
                                                   .kind = capacity->kind,
                                                   .bytes = capacity->bytes,
                                                   .unit = capacity->unit};
      if (capacity->now) msg.flags = DMI_F_URGENT;
      break;
    case DMI_CAPACITY_REPORT:
      msg.type = DMI_SVC_CAPACITY_REPORT;
      msg.capacity_tell = (struct dmi_msg_room_tell){
          .number = capacity->number, .kind = capacity->kind, .bytes = capacity->bytes};
      break;
    default:
      msg.type = DMI_SVC_CAPACITY_RETURN;
      msg.capacity_back.bytes = capacity->bytes;
  }
  return msg;
}
