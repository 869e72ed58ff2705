/*
 * heap_step.c - one step on a page of the allocator, at the page's owner (docs/allocator.md).
 *
 * The bytes may come from a faulty peer, so nothing is read or written outside of them.
 */
#include <string.h>

#include "base/mutation.h"
#include "core/heap.h"

#ifdef DMI_MUTATIONS
enum dmi_heap_break dmi_heap_broken;
#endif

/* The start of a control page; a bit for each slot follows. */
struct control {
  uint64_t base; /* 0: no arena */
  uint32_t slots, used;
  uint32_t version; /* number of times it was reopened */
  uint32_t closed;  /* bool: full when last seen; TAKE fails until it is reopened */
  uint32_t next;    /* the first word of bits to search; earlier ones have no free slot */
  uint32_t pad;
};

#define EIGHTH 8u

uint64_t dmi_heap_control_size(uint32_t slots) {
  return sizeof(struct control) + ((uint64_t)slots + 63) / 64 * 8;
}

bool dmi_heap_step_valid(uint64_t len, uint64_t input, uint64_t answer) {
  return len >= sizeof(struct dmi_heap_entry) && len <= DMI_SYSTEM_PAGE &&
         input == sizeof(struct dmi_heap_in) && answer >= sizeof(struct dmi_heap_out) &&
         answer <= DMI_SYSTEM_PAGE;
}

/* ---- Control pages -------------------------------------------------------------------------- */

static uint64_t bits_get(const unsigned char *bits, uint32_t word) {
  uint64_t value;
  memcpy(&value, bits + 8u * word, sizeof(value));
  return value;
}

static void bits_set(unsigned char *bits, uint32_t word, uint64_t value) {
  memcpy(bits + 8u * word, &value, sizeof(value));
}

static void take(struct control *control, unsigned char *bits, struct dmi_heap_out *out) {
  uint32_t words = (control->slots + 63u) / 64u;
  out->result = DMI_HEAP_FULL;
  out->a = control->version;
  if (control->closed) return;
  for (uint32_t i = control->next; i < words; i++) {
    uint64_t value = bits_get(bits, i);
    uint32_t slot;
    if (value == UINT64_MAX) continue;
    slot = 64 * i + (uint32_t)__builtin_ctzll(~value);
    if (slot >= control->slots) break;
    bits_set(bits, i, value | UINT64_C(1) << (slot % 64));
    control->next = i;
    control->used++;
    out->result = DMI_HEAP_OK;
    out->a = slot;
    return;
  }
  control->closed = 1;
}

static void give(struct control *control, unsigned char *bits, uint32_t slot,
                 struct dmi_heap_out *out) {
  uint64_t value, bit = UINT64_C(1) << (slot % 64);
  uint32_t enough = control->slots / EIGHTH ? control->slots / EIGHTH : 1;
  out->result = DMI_HEAP_NOT;
  if (slot >= control->slots) return;
  value = bits_get(bits, slot / 64);
  if (!(value & bit)) return;
  bits_set(bits, slot / 64, value & ~bit);
  control->used--;
  if (slot / 64 < control->next) control->next = slot / 64;
  out->result = DMI_HEAP_OK;
  if (control->used == 0) out->flags |= DMI_HEAP_EMPTY;
  if (!control->closed || control->slots - control->used < enough) return;
  control->closed = 0;
  out->a = ++control->version;
  out->flags |= DMI_HEAP_REOPENED;
}

static void control_step(unsigned char *bytes, uint64_t len, const struct dmi_heap_in *in,
                         struct dmi_heap_out *out) {
  struct control control;
  unsigned char *bits = bytes + sizeof(control);
  if (len < sizeof(control)) return;
  memcpy(&control, bytes, sizeof(control));
  if (in->op == DMI_HEAP_INIT) {
    if (dmi_heap_control_size(in->a) != len) return;
    memset(bytes, 0, len);
    control = (struct control){.base = in->base, .slots = in->a};
    out->result = DMI_HEAP_OK;
  } else if (control.base == 0 ||
             (control.base != in->base && !DMI_HEAP_BROKEN(DMI_HEAP_BREAK_BASE)) ||
             dmi_heap_control_size(control.slots) != len) {
    out->result = DMI_HEAP_GONE;
    return;
  } else if (in->op == DMI_HEAP_TAKE) {
    take(&control, bits, out);
  } else if (in->op == DMI_HEAP_GIVE) {
    give(&control, bits, in->a, out);
  } else if (in->op == DMI_HEAP_HAS) {
    if (in->a >= control.slots) return;
    out->result = bits_get(bits, in->a / 64) >> (in->a % 64) & 1 ? DMI_HEAP_OK : DMI_HEAP_NOT;
  } else if (in->op == DMI_HEAP_COUNT) {
    out->result = DMI_HEAP_OK;
    out->a = control.used;
    return;
  } else if (control.used == 0 || DMI_HEAP_BROKEN(DMI_HEAP_BREAK_KILL)) {
    control.base = 0;
    out->result = DMI_HEAP_OK;
  }
  memcpy(bytes, &control, sizeof(control));
}

/* ---- Entries -------------------------------------------------------------------------------- */

/* a < b, for versions that may have wrapped around (31 bits). */
static bool older(uint32_t a, uint32_t b) {
  return a != b && ((b - a) & 0x7fffffffu) < 0x40000000u;
}

/* Changes the entry if the condition of the step holds. */
static bool entry_change(struct dmi_heap_entry *entry, const struct dmi_heap_in *in) {
  uint32_t version = entry->version >> 1, given = in->a & 0x7fffffffu;
  bool same = entry->base == in->base, mine = entry->holder == in->self;
  switch ((enum dmi_heap_op)in->op) {
    case DMI_HEAP_RESERVE:
      if (entry->base != 0 && !(entry->base == 1 && in->a && entry->holder == in->a)) return false;
      *entry = (struct dmi_heap_entry){1, in->self, 0};
      return true;
    case DMI_HEAP_OPEN:
      if (entry->base != 1 || !mine) return false;
      *entry = (struct dmi_heap_entry){in->base, in->self, 1};
      return true;
    case DMI_HEAP_HOLD:
      if (!(entry->version & 1)) return false;
      /* fall through */
    case DMI_HEAP_SEIZE:
      if (!same || entry->holder != in->a) return false;
      entry->holder = in->self;
      return true;
    case DMI_HEAP_SHUT:
      if (!same) return false;
      if (older(given, version) && !DMI_HEAP_BROKEN(DMI_HEAP_BREAK_VERSION)) return false;
      if (mine) entry->holder = 0;
      entry->version = given << 1;
      return true;
    case DMI_HEAP_SPARE:
      if (!same || !older(version, given)) return false;
      entry->version = given << 1 | 1;
      return true;
    case DMI_HEAP_LET:
      if (!same || !mine) return false;
      entry->holder = 0;
      return true;
    case DMI_HEAP_CLEAR:
      if (!same || !mine) return false;
      *entry = (struct dmi_heap_entry){0, 0, 1};
      return true;
    default:
      return false;
  }
}

/* ---- Page sizes ----------------------------------------------------------------------------- */

static void size_step(unsigned char *bytes, uint64_t len, const struct dmi_heap_in *in,
                      struct dmi_heap_out *out) {
  out->result = DMI_HEAP_FULL;
  for (uint32_t i = 0; i < len / 8; i++) {
    uint64_t value = bits_get(bytes, i);
    if (value && value != in->base) continue;
    bits_set(bytes, i, in->base);
    out->result = DMI_HEAP_OK;
    out->a = i;
    return;
  }
}

void dmi_heap_step(unsigned char *bytes, uint64_t len, const unsigned char *input,
                   unsigned char *answer, uint64_t answer_size) {
  struct dmi_heap_in in;
  struct dmi_heap_out out = {.result = DMI_HEAP_NOT};
  struct dmi_heap_entry entry;
  memcpy(&in, input, sizeof(in));
  if (in.op == DMI_HEAP_LOOK) {
    memcpy(answer, bytes, len < answer_size ? len : answer_size);
    return;
  }
  if (in.op == DMI_HEAP_SIZE) {
    size_step(bytes, len, &in, &out);
  } else if (in.op >= DMI_HEAP_INIT && in.op <= DMI_HEAP_KILL) {
    control_step(bytes, len, &in, &out);
  } else if (len == sizeof(entry)) {
    memcpy(&entry, bytes, sizeof(entry));
    if (entry_change(&entry, &in)) out.result = DMI_HEAP_OK;
    memcpy(bytes, &entry, sizeof(entry));
  }
  memcpy(answer, &out, sizeof(out));
}
