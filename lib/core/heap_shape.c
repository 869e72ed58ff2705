/*
 * heap_shape.c - how objects are placed: classes, arenas, slots and offsets.
 */
#include "core/heap.h"

#define UNIT 16u                        /* bytes; the sizes of small classes are multiples of it */
#define STEPS 128u                      /* most classes of each kind */
#define FIRST_BYTES (UINT64_C(1) << 16) /* bytes of a bin's first arenas */
#define DOUBLINGS 8u                    /* how often the size of arenas doubles */
#define AT_ONE_SIZE 4u                  /* arenas of a size before the next doubling */
#define LEAST_SLOTS 4u

/* 1 .. 8, then four steps between powers of two. */
static uint64_t step_value(uint32_t step) {
  if (step < 8) return step + 1;
  return (uint64_t)(5 + (step - 8) % 4) << ((step - 8) / 4 + 1);
}

/* The first step whose value is at least this; STEPS: none. */
static uint32_t step_for(uint64_t value) {
  uint32_t low = 0, high = STEPS;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (step_value(middle) < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool dmi_heap_class(uint64_t size, uint64_t page_size, uint8_t *cls) {
  uint32_t step = step_for(size / UNIT + (size % UNIT != 0));
  if (step < STEPS && step_value(step) * UNIT <= page_size / 2) {
    *cls = (uint8_t)step;
    return true;
  }
  step = step_for(size / page_size + (size % page_size != 0));
  if (step == STEPS || step_value(step) > DMI_HEAP_RUN_MOST / page_size) return false;
  *cls = (uint8_t)(step | DMI_HEAP_RUN);
  return true;
}

bool dmi_heap_number_good(uint64_t number, uint64_t page_size) {
  uint8_t cls = dmi_heap_class_of(number);
  uint64_t value = step_value(cls & ~DMI_HEAP_RUN & 0xffu);
  if (!page_size || !(number & 0xffu)) return false;
  if (cls & DMI_HEAP_RUN) return value <= DMI_HEAP_RUN_MOST / page_size;
  return value * UNIT <= page_size / 2;
}

struct dmi_heap_shape dmi_heap_shape(uint64_t number, uint64_t page_size) {
  uint8_t cls = dmi_heap_class_of(number);
  uint64_t value = step_value(cls & ~DMI_HEAP_RUN & 0xffu);
  uint64_t before = ((number >> 8) & 0xffffu) * DMI_HEAP_ENTRIES + (number & 0xffu) - 1;
  uint64_t doublings = before / AT_ONE_SIZE < DOUBLINGS ? before / AT_ONE_SIZE : DOUBLINGS;
  struct dmi_heap_shape shape = {.page_size = page_size};
  uint64_t slots;
  shape.stride = value * (cls & DMI_HEAP_RUN ? page_size : UNIT);
  slots = (FIRST_BYTES << doublings) / shape.stride;
  if (slots < LEAST_SLOTS) slots = LEAST_SLOTS;
  if (slots > DMI_HEAP_SLOTS) slots = DMI_HEAP_SLOTS;
  if (cls & DMI_HEAP_RUN) {
    shape.page_num = slots * value;
  } else {
    /* Rounded up to whole pages, and the last page is filled with slots. */
    shape.per_page = page_size / shape.stride;
    shape.page_num = (slots + shape.per_page - 1) / shape.per_page;
    if (shape.per_page < DMI_HEAP_SLOTS && shape.page_num * shape.per_page <= DMI_HEAP_SLOTS) {
      slots = shape.page_num * shape.per_page;
    } else {
      slots = DMI_HEAP_SLOTS;
    }
  }
  shape.slots = (uint32_t)slots;
  return shape;
}

uint64_t dmi_heap_offset(const struct dmi_heap_shape *shape, uint32_t slot) {
  if (!shape->per_page) return slot * shape->stride;
  return slot / shape->per_page * shape->page_size + slot % shape->per_page * shape->stride;
}

bool dmi_heap_slot(const struct dmi_heap_shape *shape, uint64_t offset, uint32_t *slot) {
  uint64_t in_page, number;
  if (shape->per_page) {
    in_page = offset % shape->page_size;
    if (in_page / shape->stride >= shape->per_page) return false;
    number = offset / shape->page_size * shape->per_page + in_page / shape->stride;
  } else {
    in_page = offset;
    number = offset / shape->stride;
  }
  if (in_page % shape->stride || number >= shape->slots) return false;
  *slot = (uint32_t)number;
  return true;
}
