/*
 * recover_list.c - the lists that messages of the recovery carry (docs/crashes-pages.md).
 *
 * A list that is too long for one message is sent in several; an empty one is its end.
 */
#include <stdlib.h>
#include <string.h>

#include "core/recover_int.h"

#define MOST (DMI_WIRE_LIST / 2)

struct dmi_msg dmi_recover_about(const struct dmi_recover *r, enum dmi_msg_type type,
                                 uint64_t base) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = r->core->self;
  msg.map = base;
  msg.recover.number = r->number;
  return msg;
}

static void flush(struct dmi_recover_list *list, struct dmi_out *out) {
  struct dmi_msg msg = list->msg;
  if (!list->bytes) return;
  msg.list = dmi_slice_xcopy(list->entry, list->bytes);
  dmi_out_send(out, list->to, &msg);
  list->bytes = 0;
}

void dmi_recover_add(struct dmi_recover_list *list, const void *entry, uint64_t size,
                     struct dmi_out *out) {
  if (list->bytes + size > MOST) flush(list, out);
  if (list->bytes + size > list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 8 * size;
    list->entry = dmi_xalloc_again(list->entry, list->capacity, 1);
  }
  memcpy(list->entry + list->bytes, entry, size);
  list->bytes += size;
}

void dmi_recover_send(struct dmi_recover_list *list, bool end, struct dmi_out *out) {
  flush(list, out);
  if (end) dmi_out_send(out, list->to, &list->msg);
}

void dmi_recover_list_free(struct dmi_recover_list *list) {
  free(list->entry);
  list->entry = NULL;
  list->bytes = list->capacity = 0;
}

int dmi_recover_order(const struct dmi_recover_at *a, const struct dmi_recover_at *b) {
  if (a->base != b->base) return a->base < b->base ? -1 : 1;
  if (a->page != b->page) return a->page < b->page ? -1 : 1;
  return 0;
}
