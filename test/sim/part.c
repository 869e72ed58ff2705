/*
 * part.c - a DATA or BLOCK that arrives part by part.
 */
#include <string.h>

#include "simulator.h"

void sim_part_begins(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                     struct dmi_msg *msg) {
  struct dmi_slice sent = msg->body;
  unsigned char *place = NULL;
  if (page && msg->type == DMI_MSG_BLOCK) place = dmi_page_block_body(core, page, from, msg);
  if (place) {
    memcpy(place, sent.ptr, sent.len);
    msg->body.ptr = place;
  } else {
    msg->body = dmi_slice_copy(sent.ptr, sent.len);
  }
  dmi_slice_drop(&sent);
}
