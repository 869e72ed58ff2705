/*
 * page_block.c - a page that arrives in BLOCKs, from a delegate that is still receiving it (R13).
 *
 * The assembly is the frame that will become the page's bytes. BLOCKs arrive in order, from one
 * sender: the delegate or, if that gave up, the owner.
 */
#include <stdlib.h>
#include <string.h>

#include "core/page_int.h"

struct dmi_assembly {
  struct dmi_frame *frame; /* of the page's size; the first `got` bytes are valid */
  uint64_t got;
  dmi_version_t version;
  uint32_t from;  /* uid of the sender */
  bool delegated; /* not from the owner */
};

void dmi_assembly_free(struct dmi_assembly *blocks) {
  if (!blocks) return;
  dmi_frame_unref(blocks->frame);
  free(blocks);
}

bool dmi_assembly_valid(const struct dmi_page *page) {
  const struct dmi_assembly *blocks = page->busy->blocks;
  return !blocks || (dmi_fetch_any(page->busy->fetch) && blocks->got < page->map->page_size);
}

static bool well_formed(const struct dmi_page *page, const struct dmi_msg *msg) {
  uint64_t size = page->map->page_size;
  return dmi_is_kind(msg->block.kind) && msg->body.len && msg->body.len <= size &&
         msg->block.off <= size - msg->body.len;
}

/* True if the BLOCK is of the fetch in flight. */
static bool wanted(const struct dmi_page *page, const struct dmi_msg *msg) {
  return page->busy && dmi_fetch_is(page->busy->fetch, msg->block.fetch) &&
         !(page->flags & DMI_PAGE_DEAD);
}

/* How a valid BLOCK of the fetch fits the assembly. */
enum belongs {
  BELONGS_NEXT, /* continues it */
  /* begins it, or begins it again: now the owner sends, since the delegate gave up */
  BELONGS_FIRST,
  BELONGS_NOT,  /* belongs to a stream that was given up */
  BELONGS_WRONG /* belongs to its stream but is not the next one: no correct peer sends that */
};

static enum belongs belongs(const struct dmi_assembly *blocks, uint32_t from,
                            const struct dmi_msg *msg) {
  bool delegated = (msg->flags & DMI_F_DELEGATED) != 0;
  if (!blocks) return msg->block.off == 0 ? BELONGS_FIRST : BELONGS_NOT;
  if (blocks->from == from && blocks->delegated == delegated) {
    bool next =
        blocks->got == msg->block.off && dmi_version_is(blocks->version, msg->block.version);
    return next ? BELONGS_NEXT : BELONGS_WRONG;
  }
  return blocks->delegated && !delegated && msg->block.off == 0 ? BELONGS_FIRST : BELONGS_NOT;
}

/* The assembly that this BLOCK continues or begins. NULL: neither, or no memory. */
static struct dmi_assembly *assembly_for(const struct dmi_core *core, struct dmi_page *page,
                                         uint32_t from, const struct dmi_msg *msg,
                                         enum belongs how) {
  struct dmi_assembly *blocks;
  struct dmi_frame *frame;
  if (how == BELONGS_NEXT) return page->busy->blocks;
  if (how != BELONGS_FIRST) return NULL;
  frame = dmi_frame_new(page->map->page_size);
  if (!frame) return NULL;
  blocks = dmi_xalloc(1, sizeof(*blocks));
  *blocks = (struct dmi_assembly){.frame = frame,
                                  .version = msg->block.version,
                                  .from = from,
                                  .delegated = (msg->flags & DMI_F_DELEGATED) != 0};
  dmi_assembly_free(page->busy->blocks);
  if (!DMI_BROKEN(core, DMI_BREAK_EARLY)) dmi_early_forget(page);
  page->busy->blocks = blocks;
  return blocks;
}

unsigned char *dmi_page_block_body(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                                   struct dmi_msg *msg) {
  struct dmi_assembly *blocks;
  if (!well_formed(page, msg) || !wanted(page, msg)) return NULL;
  blocks = assembly_for(core, page, from, msg, belongs(page->busy->blocks, from, msg));
  if (!blocks) return NULL;
  msg->body.frame = dmi_frame_ref(blocks->frame);
  return blocks->frame->bytes + msg->block.off;
}

struct dmi_frame *dmi_assembly_frame(const struct dmi_page *page, const struct dmi_msg *msg) {
  const struct dmi_assembly *blocks = page->busy->blocks;
  struct dmi_frame *frame = msg->body.frame;
  if (!blocks || blocks->frame != frame || msg->body.ptr != frame->bytes + msg->block.off)
    return NULL;
  return frame;
}

/* The page is complete: it becomes a copy. */
static bool finish(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                   const struct dmi_msg *last, struct dmi_out *out) {
  struct dmi_frame *frame = dmi_frame_ref(page->busy->blocks->frame);
  struct dmi_msg data = {.flags = last->flags, .origin = last->origin};
  bool good;
  data.type = DMI_MSG_DATA;
  data.map = last->map;
  data.page = last->page;
  data.data = (struct dmi_msg_data){
      .fetch = last->block.fetch, .kind = last->block.kind, .version = last->block.version};
  data.body = (struct dmi_slice){frame, frame->bytes, frame->size};
  good = dmi_data_arrives(core, page, from, &data, NULL, out);
  dmi_slice_drop(&data.body);
  return good;
}

bool dmi_block_arrives(struct dmi_core *core, struct dmi_page *page, uint32_t from,
                       struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out) {
  struct dmi_assembly *blocks;
  unsigned char *place;
  enum belongs how;
  (void)own;
  if (!well_formed(page, msg)) return false;
  if (!wanted(page, msg)) return true;
  how = belongs(page->busy->blocks, from, msg);
  if (how == BELONGS_WRONG) return false;
  if (how == BELONGS_NOT) return true;
  blocks = assembly_for(core, page, from, msg, how);
  if (!blocks || !msg->body.ptr) {
    dmi_fetch_fails(core, page, DMI_ENOMEM, out);
    return true;
  }
  place = blocks->frame->bytes + msg->block.off;
  if (msg->body.ptr != place) memcpy(place, msg->body.ptr, msg->body.len);
  blocks->got += msg->body.len;
  if (blocks->got == page->map->page_size) return finish(core, page, from, msg, out);
  dmi_delegated_part(core, page, blocks->frame, blocks->version, blocks->got, out);
  return true;
}
