/*
 * group_init.c - makes a group: items are cut at page borders and sorted by page, and the bytes
 * that they name in a page become a list of ranges.
 */
#include <stdlib.h>
#include <string.h>

#include "access/group.h"

/* A part of an item, and its page. */
struct piece {
  uint64_t start;              /* global address of the page, the key for sorting */
  uint64_t number;             /* number of the item */
  uint64_t index;              /* of the page */
  struct dmi_mapping *mapping; /* one reference */
  struct dmi_part part;
};

struct pieces {
  struct piece *piece;
  uint64_t num, capacity;
};

/* A range of a page, and the position of its bytes among the bytes of all ranges. */
struct stretch {
  uint64_t off, len, at;
};

static struct piece *add(struct pieces *pieces) {
  if (pieces->num == pieces->capacity) {
    uint64_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    struct piece *more = realloc(pieces->piece, capacity * sizeof(*more));
    if (!more) return NULL;
    pieces->piece = more;
    pieces->capacity = capacity;
  }
  return &pieces->piece[pieces->num];
}

/* Cuts an item at page borders. */
static int32_t cut(struct dmi_access *access, const struct dmi_group_item *item,
                   struct pieces *pieces) {
  int32_t error = DMI_OK;
  uint64_t addr = (uint64_t)item->addr, left = (uint64_t)item->size;
  int64_t to = item->to;
  struct dmi_mapping *mapping = dmi_access_mapping(access, item->addr, item->size, &error);
  if (!mapping) return error;
  while (left && error == DMI_OK) {
    struct piece *piece = add(pieces);
    uint64_t off, index = dmi_mapping_index(mapping, addr, &off);
    uint64_t size = mapping->map.page_size - off;
    if (size > left) size = left;
    if (!piece) {
      error = DMI_ENOMEM;
    } else if (!dmi_mapping_ref(mapping)) {
      error = DMI_EADDR;
    } else {
      *piece = (struct piece){addr - off, pieces->num, index, mapping, {off, 0, size, to}};
      pieces->num++;
      addr += size;
      left -= size;
      to += (int64_t)size;
    }
  }
  dmi_mapping_unref(&access->core, mapping);
  return error;
}

static int by_page(const void *left, const void *right) {
  const struct piece *a = left, *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static int by_offset(const void *left, const void *right) {
  const struct stretch *a = left, *b = right;
  return a->off < b->off ? -1 : a->off > b->off;
}

/* Sorts the stretches, and joins those that touch or overlap.  Returns how many are left. */
static uint64_t merge(struct stretch *stretch, uint64_t num) {
  uint64_t last = 0;
  qsort(stretch, num, sizeof(*stretch), by_offset);
  stretch[0].at = 0;
  for (uint64_t i = 1; i < num; i++) {
    struct stretch *have = &stretch[last];
    uint64_t end = stretch[i].off + stretch[i].len;
    if (stretch[i].off > have->off + have->len) {
      stretch[++last] = (struct stretch){stretch[i].off, stretch[i].len, have->at + have->len};
    } else if (end > have->off + have->len) {
      have->len = end - have->off;
    }
  }
  return last + 1;
}

/* The stretch that contains this offset. */
static const struct stretch *stretch_of(const struct stretch *stretch, uint64_t num, uint64_t off) {
  uint64_t low = 0, high = num;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (stretch[middle].off <= off) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &stretch[low];
}

static int32_t make_list(struct dmi_group_page *page, const struct stretch *stretch, uint64_t num) {
  page->list = dmi_frame_new(num * sizeof(struct dmi_range));
  if (!page->list) return DMI_ENOMEM;
  page->ranges = num;
  for (uint64_t i = 0; i < num; i++) {
    struct dmi_range range = {stretch[i].off, stretch[i].len};
    memcpy(page->list->bytes + i * sizeof(range), &range, sizeof(range));
  }
  return DMI_OK;
}

/* Makes the page of these pieces; takes over the first one's reference to the mapping. */
static int32_t make_page(struct dmi_group *group, struct piece *piece, uint64_t num,
                         struct dmi_part *part, struct stretch *stretch) {
  struct dmi_group_page *page = &group->page[group->pages++];
  int32_t error = DMI_OK;
  uint64_t stretches;
  page->mapping = piece[0].mapping;
  for (uint64_t i = 0; i < num; i++) {
    stretch[i] = (struct stretch){piece[i].part.off, piece[i].part.len, 0};
    if (i) dmi_mapping_unref(&group->access->core, piece[i].mapping);
    piece[i].mapping = NULL;
  }
  page->page = dmi_mapping_get(&group->access->core, page->mapping, piece[0].index, &error);
  if (!page->page) return error;
  stretches = merge(stretch, num);
  for (uint64_t i = 0; i < num; i++) {
    const struct stretch *in = stretch_of(stretch, stretches, piece[i].part.off);
    part[i] = piece[i].part;
    part[i].at = in->at + part[i].off - in->off;
  }
  page->part = part;
  page->parts = num;
  page->off = stretch[0].off;
  page->span = stretch[stretches - 1].off + stretch[stretches - 1].len - page->off;
  page->len = stretch[stretches - 1].at + stretch[stretches - 1].len;
  return stretches > 1 ? make_list(page, stretch, stretches) : DMI_OK;
}

/* Makes the pages of all pieces, which are sorted. */
static int32_t make_pages(struct dmi_group *group, struct pieces *pieces) {
  uint64_t pages = 0, most = 0, first = 0;
  struct stretch *stretch;
  int32_t error = DMI_OK;
  if (!pieces->num) return DMI_OK;
  for (uint64_t i = 0, run = 0; i < pieces->num; i++) {
    run = i && pieces->piece[i].start == pieces->piece[i - 1].start ? run + 1 : 1;
    if (run == 1) pages++;
    if (run > most) most = run;
  }
  group->page = calloc(pages, sizeof(*group->page));
  group->part = malloc(pieces->num * sizeof(*group->part));
  stretch = malloc(most * sizeof(*stretch));
  if (!group->page || !group->part || !stretch) error = DMI_ENOMEM;
  while (first < pieces->num && error == DMI_OK) {
    struct piece *piece = &pieces->piece[first];
    uint64_t num = 1;
    while (first + num < pieces->num && piece[num].start == piece->start)
      num++;
    error = make_page(group, piece, num, group->part + first, stretch);
    first += num;
  }
  free(stretch);
  return error;
}

int32_t dmi_group_new(struct dmi_access *access, const struct dmi_group_item *item, uint64_t num,
                      struct dmi_group **result) {
  struct dmi_group *group = calloc(1, sizeof(*group));
  struct pieces pieces = {NULL, 0, 0};
  int32_t error = group ? DMI_OK : DMI_ENOMEM;
  for (uint64_t i = 0; i < num && error == DMI_OK; i++) {
    if (item[i].size) error = cut(access, &item[i], &pieces);
  }
  if (error == DMI_OK) {
    group->access = access;
    atomic_init(&group->refs, 1);
    if (pieces.num) qsort(pieces.piece, pieces.num, sizeof(*pieces.piece), by_page);
    error = make_pages(group, &pieces);
    if (error != DMI_OK) {
      dmi_group_unref(group);
      group = NULL;
    }
  } else {
    free(group);
  }
  for (uint64_t i = 0; i < pieces.num; i++) {
    if (pieces.piece[i].mapping) dmi_mapping_unref(&access->core, pieces.piece[i].mapping);
  }
  free(pieces.piece);
  if (error == DMI_OK) *result = group;
  return error;
}

void dmi_group_unref(struct dmi_group *group) {
  if (!group || atomic_fetch_sub(&group->refs, 1) != 1) return;
  for (uint64_t i = 0; i < group->pages; i++) {
    dmi_frame_unref(group->page[i].list);
    dmi_mapping_unref(&group->access->core, group->page[i].mapping);
  }
  free(group->page);
  free(group->part);
  free(group);
}
