/*
 * room_msg.c - what rooms have to say (room.h) as messages, and back.
 */
#include "core/room.h"

bool dmi_room_of_msg(const struct dmi_msg *msg, struct dmi_room_msg *room) {
  uint64_t kind = 0;
  switch (msg->type) {
    case DMI_SVC_ROOM_ASK:
      kind = msg->room_ask.kind;
      *room = (struct dmi_room_msg){.type = DMI_ROOM_ASK,
                                    .number = msg->room_ask.number,
                                    .bytes = msg->room_ask.bytes,
                                    .unit = msg->room_ask.unit,
                                    .now = (msg->flags & DMI_F_URGENT) != 0};
      break;
    case DMI_SVC_ROOM_TELL:
      kind = msg->room_tell.kind;
      *room = (struct dmi_room_msg){
          .type = DMI_ROOM_TELL, .number = msg->room_tell.number, .bytes = msg->room_tell.bytes};
      break;
    case DMI_SVC_ROOM_BACK:
      *room = (struct dmi_room_msg){.type = DMI_ROOM_BACK, .bytes = msg->room_back.bytes};
      break;
    default:
      return false;
  }
  room->kind = (uint8_t)kind;
  return kind <= DMI_ROOM_PROMISE;
}

struct dmi_msg dmi_room_to_msg(const struct dmi_room_msg *room, uint32_t self) {
  struct dmi_msg msg = {.origin = self};
  switch (room->type) {
    case DMI_ROOM_ASK:
      msg.type = DMI_SVC_ROOM_ASK;
      msg.room_ask = (struct dmi_msg_room_ask){
          .number = room->number, .kind = room->kind, .bytes = room->bytes, .unit = room->unit};
      if (room->now) msg.flags = DMI_F_URGENT;
      break;
    case DMI_ROOM_TELL:
      msg.type = DMI_SVC_ROOM_TELL;
      msg.room_tell = (struct dmi_msg_room_tell){
          .number = room->number, .kind = room->kind, .bytes = room->bytes};
      break;
    default:
      msg.type = DMI_SVC_ROOM_BACK;
      msg.room_back.bytes = room->bytes;
  }
  return msg;
}
