/*
 * heap.h - the allocator in global memory (docs/allocator.md).
 *
 * Pure: it changes global memory only by read-modify-writes, which the caller's functions
 * (dmi_heap_env) carry out one at a time, so the product and the simulator run the same code.
 */
#ifndef DMI_CORE_HEAP_H
#define DMI_CORE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "msg/types.h"

/* ---- Addresses ----------------------------------------------------------------------------- */

/* The system mapping. */
#define DMI_FIRST_BASE (UINT64_C(1) << 32) /* lowest base of users' mappings */
#define DMI_SYSTEM_BASE (UINT64_C(3) << 61)
#define DMI_SYSTEM_PAGE UINT64_C(4096) /* bytes */
#define DMI_SYSTEM_NUM (UINT64_C(1) << 48)

/* A mapping's tag in the directory: an arena's number, or one of these. */
#define DMI_TAG_USER 0   /* made by DMI_mmap */
#define DMI_TAG_OBJECT 1 /* one object of DMI_malloc, at its base */
#define DMI_TAG_SYSTEM 2 /* the system mapping */

/* ---- Shapes -------------------------------------------------------------------------------- */

#define DMI_HEAP_RUN 0x80u       /* flag of a class: runs of pages */
#define DMI_HEAP_SLOTS 16384u    /* most slots of an arena */
#define DMI_HEAP_SIZES 65535u    /* most page sizes */
#define DMI_HEAP_ENTRIES 255u    /* entries in a page of entries */
#define DMI_HEAP_TABLES 65536u   /* most pages of entries of a bin */
#define DMI_HEAP_RUN_MOST 262144 /* bytes; larger objects have their own mapping */

/* Finds the class of objects of this size. False: each has its own mapping. */
bool dmi_heap_class(uint64_t size, uint64_t page_size, uint8_t *cls);

struct dmi_heap_shape {
  uint64_t page_size;
  uint64_t stride;   /* bytes of a slot */
  uint64_t per_page; /* slots that begin in a page; 0: a slot is several pages, or one */
  uint64_t page_num; /* pages of the arena */
  uint32_t slots;
};

/* The shape of the arena with this number, which contains its class and how many arenas came
 * before it. */
struct dmi_heap_shape dmi_heap_shape(uint64_t number, uint64_t page_size);

/* True if an arena can have this number and page size; only then it has a shape. */
bool dmi_heap_number_good(uint64_t number, uint64_t page_size);

/* The offset of a slot: bytes from the arena's base. */
uint64_t dmi_heap_offset(const struct dmi_heap_shape *shape, uint32_t slot);
/* Finds the slot that begins at this offset. False: none does. */
bool dmi_heap_slot(const struct dmi_heap_shape *shape, uint64_t offset, uint32_t *slot);

/* Arena numbers. */
static inline uint64_t dmi_heap_bin(uint32_t size_number, uint8_t cls) {
  return ((uint64_t)size_number << 8 | cls) << 24; /* the number of its first page of entries */
}
static inline uint8_t dmi_heap_class_of(uint64_t number) {
  return (uint8_t)(number >> 24);
}

/* ---- Steps: read-modify-writes of kind DMI_RMW_HEAP ------------------------------------------ */

enum dmi_heap_op {
  /* on the first dmi_heap_control_size bytes of a control page */
  DMI_HEAP_INIT = 1, /* base, a: slots */
  DMI_HEAP_TAKE,     /* base */
  DMI_HEAP_GIVE,     /* base, a: slot */
  DMI_HEAP_HAS,      /* base, a: slot */
  DMI_HEAP_COUNT,    /* base; answer a: slots taken */
  DMI_HEAP_KILL,     /* base */
  /* on an entry, 16 bytes */
  DMI_HEAP_LOOK,
  DMI_HEAP_RESERVE, /* self, a: 0, or the lost process that has reserved it */
  DMI_HEAP_OPEN,    /* self, base */
  DMI_HEAP_HOLD,    /* self, base, a: holder so far */
  DMI_HEAP_SEIZE,   /* self, base, a: holder so far */
  DMI_HEAP_SHUT,    /* self, base, a: version */
  DMI_HEAP_SPARE,   /* base, a: version */
  DMI_HEAP_LET,     /* self, base */
  DMI_HEAP_CLEAR,   /* self, base */
  /* on a whole page of page sizes */
  DMI_HEAP_SIZE /* base: the page size */
};

/* Results of steps. */
enum dmi_heap_result {
  DMI_HEAP_NOT,  /* the condition did not hold: nothing was changed */
  DMI_HEAP_OK,   /* TAKE: a is the slot. SIZE: a is the number of the size in the page */
  DMI_HEAP_FULL, /* TAKE: a is the version.  SIZE: no place is left */
  DMI_HEAP_GONE  /* TAKE, GIVE, HAS: the page is of another arena now, or of none */
};

#define DMI_HEAP_REOPENED 0x01u /* GIVE: a is the version */
#define DMI_HEAP_EMPTY 0x02u    /* GIVE: no slot is in use any more */

struct dmi_heap_in {
  uint32_t op; /* enum dmi_heap_op */
  dmi_uid_t self;
  uint64_t base;
  uint32_t a;
  uint32_t pad;
};

struct dmi_heap_out {
  uint32_t result; /* enum dmi_heap_result */
  uint32_t flags;
  uint32_t a;
  uint32_t pad;
};

struct dmi_heap_entry {
  uint64_t base; /* 0: none, 1: reserved */
  dmi_uid_t holder;
  uint32_t version; /* 2 x version, plus 1 if it has spare slots */
};

/* Bytes of a control page that steps work on. */
uint64_t dmi_heap_control_size(uint32_t slots);

/* True if a step may run on `len` bytes, with this much input and answer. */
bool dmi_heap_step_valid(uint64_t len, uint64_t input, uint64_t answer);

/* Runs a step. The answer is a dmi_heap_out; of LOOK it is the bytes, as many as fit. */
void dmi_heap_step(unsigned char *bytes, uint64_t len, const unsigned char *input,
                   unsigned char *answer, uint64_t answer_size);

/* ---- The allocator of one process ----------------------------------------------------------- */

/* Deliberate faults for tests; 0 in the product. */
enum dmi_heap_break {
  DMI_HEAP_BREAK_NOTHING,
  DMI_HEAP_BREAK_SPARE,   /* a reopened arena is not announced */
  DMI_HEAP_BREAK_VERSION, /* SHUT does not check the version */
  DMI_HEAP_BREAK_HOLDER,  /* arenas of processes that left are not taken */
  DMI_HEAP_BREAK_KILL,    /* an arena is unmapped without a last check of its slots */
  DMI_HEAP_BREAK_BASE,    /* TAKE and GIVE do not check that the arena is still the same one */
  DMI_HEAP_BREAK_REVIVE,  /* LOST pages stay as they are */
  DMI_HEAP_BREAK_FITS,    /* behind a loss arenas of other page sizes are used */
  DMI_HEAP_BREAK_EMPTY,   /* empty arenas are kept */
  DMI_HEAP_BREAK_LAST
};
#ifdef DMI_MUTATIONS
extern enum dmi_heap_break dmi_heap_broken;
#define DMI_HEAP_BROKEN(rule) (dmi_heap_broken == (rule))
#else
#define DMI_HEAP_BROKEN(rule) false
#endif

struct dmi_heap_env {
  void *arg;
  dmi_uid_t self;
  /* Runs one step on [off, off + len) of a page of the system mapping; `here`: moves the
   * ownership of the page here first. Returns DMI_OK, or why it failed. */
  int32_t (*step)(void *arg, dmi_pageno_t page, uint64_t off, uint64_t len,
                  const struct dmi_heap_in *in, void *answer, uint64_t answer_size, bool here);
  int32_t (*map)(void *arg, uint64_t page_size, uint64_t page_num, uint64_t tag, uint64_t *base);
  /* Unmaps a mapping; need not be finished when it returns. */
  void (*unmap)(void *arg, uint64_t base, uint64_t tag);
  bool (*is_member)(void *arg, dmi_uid_t uid);
  /* Was a process ever lost?  The next two are called only then. */
  bool (*losses)(void *arg);
  /* Makes the page zeros if it is LOST.  Returns DMI_OK, or why it cannot: DMI_ELOST: perhaps it is
   * done. */
  int32_t (*revive)(void *arg, dmi_pageno_t page);
  /* True if this is a mapping with this tag and page size. */
  bool (*is_mapping)(void *arg, uint64_t base, uint64_t tag, uint64_t page_size);
};

struct dmi_heap;

/* NULL: no memory. */
struct dmi_heap *dmi_heap_new(const struct dmi_heap_env *env);
void dmi_heap_free(struct dmi_heap *heap);

/* Any thread may call these. They return DMI_OK or DMI_E*. DMI_E_OWN_MAPPING: the object needs
 * its own mapping. */
#define DMI_E_OWN_MAPPING 1001
int32_t dmi_heap_take(struct dmi_heap *heap, uint64_t size, uint64_t page_size, uint64_t *addr);
/* Frees an object; `offset` from the base of the arena. DMI_EADDR: no object begins there. */
int32_t dmi_heap_give(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                      uint64_t offset);
/* DMI_OK if an object begins there. */
int32_t dmi_heap_has(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base,
                     uint64_t offset);

/* True if this arena is a current one of this process; for tests. */
bool dmi_heap_uses(struct dmi_heap *heap, uint64_t number, uint64_t page_size, uint64_t base);

#endif
