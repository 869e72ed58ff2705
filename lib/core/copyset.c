/*
 * copyset.c - at the owner: which members may have a copy of the page, and which of them sends it
 * to the next reader (R13, "The choice").
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

struct dmi_sharer *dmi_copyset_find(struct dmi_page_busy *busy, uint32_t uid) {
  for (uint32_t i = 0; i < busy->holders; i++) {
    if (busy->holder[i].uid == uid) return &busy->holder[i];
  }
  return NULL;
}

struct dmi_sharer *dmi_copyset_add(struct dmi_page_busy *busy, uint32_t uid, uint32_t kind) {
  struct dmi_sharer *sharer = dmi_copyset_find(busy, uid);
  if (!sharer) {
    DMI_XALLOC_GROW(busy->holder, busy->holders, busy->holders_capacity);
    if (busy->holders == 0) busy->children = 0;
    sharer = &busy->holder[busy->holders++];
  }
  *sharer = (struct dmi_sharer){.uid = uid, .kind = kind, .depth = 1};
  return sharer;
}

void dmi_copyset_remove(struct dmi_page_busy *busy, struct dmi_sharer *sharer) {
  *sharer = busy->holder[--busy->holders];
}

struct dmi_slice dmi_copyset_pack(const struct dmi_page_busy *busy) {
  uint64_t bytes = busy->holders * sizeof(struct dmi_holder);
  struct dmi_frame *frame = dmi_frame_new(bytes);
  if (!frame) dmi_xalloc_fail(bytes);
  for (uint32_t i = 0; i < busy->holders; i++) {
    struct dmi_holder holder = {busy->holder[i].uid, busy->holder[i].kind};
    memcpy(frame->bytes + i * sizeof(holder), &holder, sizeof(holder));
  }
  return (struct dmi_slice){frame, frame->bytes, bytes};
}

static struct dmi_holder holder_at(const struct dmi_slice *list, uint64_t i) {
  struct dmi_holder holder;
  memcpy(&holder, list->ptr + i * sizeof(holder), sizeof(holder));
  return holder;
}

bool dmi_copyset_valid(const struct dmi_slice *list) {
  if (list->len % sizeof(struct dmi_holder)) return false;
  for (uint64_t i = 0; i < list->len / sizeof(struct dmi_holder); i++) {
    if (!dmi_is_kind(holder_at(list, i).kind)) return false;
  }
  return true;
}

/* Members that have left have no copy and are not added, so the set is never larger than the
 * view, whatever arrives. */
void dmi_copyset_unpack(const struct dmi_core *core, struct dmi_page_busy *busy,
                        const struct dmi_slice *list) {
  for (uint64_t i = 0; i < list->len / sizeof(struct dmi_holder); i++) {
    struct dmi_holder holder = holder_at(list, i);
    if (holder.uid != core->self && core->is_member(core->arg, holder.uid))
      dmi_copyset_add(busy, holder.uid, holder.kind);
  }
}

/* The cost of one more transfer by a process, in bytes of a connection. */
static uint64_t cost(const struct dmi_core *core, const struct dmi_page *page, uint32_t children,
                     uint32_t depth) {
  uint64_t hop = core->hop ? core->hop : DMI_HOP;
  uint64_t sum;
  if (__builtin_mul_overflow(page->map->page_size, children, &sum) ||
      __builtin_add_overflow(sum, hop * depth, &sum)) {
    return UINT64_MAX;
  }
  return sum;
}

struct dmi_sharer *dmi_copyset_choose(const struct dmi_core *core, const struct dmi_page *page,
                                      uint32_t to) {
  struct dmi_page_busy *busy = page->busy;
  struct dmi_sharer *best = NULL;
  uint64_t least = cost(core, page, busy->children, 0);
  for (uint32_t i = 0; i < busy->holders; i++) {
    struct dmi_sharer *sharer = &busy->holder[i];
    uint64_t sum = cost(core, page, sharer->children, sharer->depth);
    if (sum > least || (sum == least && best && best->depth >= sharer->depth)) continue;
    if (sharer->uid == to || !core->is_member(core->arg, sharer->uid)) continue;
    /* it would send by the network of this host, as the owner does */
    if (dmi_is_near(core, sharer->uid)) continue;
    best = sharer;
    least = sum;
  }
  return best;
}
