/*
 * large.c - memory for large frames: slots of a few sizes, cut from spans of address space.
 *
 * There are eight size classes between a power of two and the next, so a slot is at most an eighth
 * larger than the size asked for; powers of two fit exactly. A span has slots of one class. The
 * slot that was freed last is used first, because it is likely to be in the caches. Slots that were
 * never used are zero. A span whose slots are all free is returned to the kernel, except for SPARE
 * bytes of such spans, so that a program that drops a copy and fetches it again does not need fresh
 * memory each time. An allocation above LARGEST gets its own span; the last of these that were
 * freed are kept as well, up to KEPT bytes, but the kernel may take their memory when it needs
 * some.
 *
 * dmi_large_ahead touches slots that were never used, before they are wanted.
 *
 * Independent of what the memory is used for.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/large.h"

#include <glob.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define SMALLEST_LOG 17 /* log2 of the smallest class: DMI_LARGE_MIN */
#define LARGEST_LOG 25
#define LARGEST ((size_t)1 << LARGEST_LOG)
#define STEPS 8 /* classes between powers of two */
#define CLASSES ((LARGEST_LOG - SMALLEST_LOG + 1) * STEPS)
#define SMALL_PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define SPAN ((size_t)16 << 20)   /* bytes of a span, if SPAN_SLOTS slots fit */
#define SPAN_SLOTS 4              /* fewest slots of a span */
#define SPARE ((size_t)64 << 20)  /* bytes of empty spans that are not returned to the kernel */
#define PIECE ((size_t)256 << 10) /* bytes that dmi_large_ahead touches in one call */
#define KEPT \
  ((size_t)144 << 20) /* bytes of spans with one slot that are kept: two pages of 64 MiB */

struct span {
  struct span *next, **link; /* in the list `open` of its class, while it has a free slot */
  struct slot *free;         /* free slots, the one freed last first */
  unsigned char *base;
  size_t bytes;   /* bytes mapped from base */
  size_t stride;  /* bytes from slot to slot */
  size_t touched; /* dmi_large_ahead need not touch the first bytes, so many */
  uint32_t class; /* CLASSES: a span with one slot */
  uint32_t slots;
  uint32_t begun; /* the first `begun` slots have been used */
  uint32_t live;
  bool used; /* it was kept, so its memory may not be zero */
};

/* The DMI_LARGE_HEAD bytes before the memory; some of them are the caller's. */
struct slot {
  struct span *span;
  struct slot *next; /* while it is free */
  unsigned char pad[DMI_LARGE_HEAD - DMI_LARGE_OWN - 2 * sizeof(void *)];
};

static pthread_once_t chosen = PTHREAD_ONCE_INIT;
static bool use_huge;                                    /* set by choose_huge */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static struct span *open_spans[CLASSES];
static struct span *touching;   /* dmi_large_ahead is at it, so it must not be freed; or NULL */
static struct span *kept_spans; /* with one slot, empty; the one freed last first */
static size_t kept;             /* bytes of them */
static size_t spare;            /* bytes of the other empty spans */
static size_t mapped;           /* bytes of all spans */

/* ---- Classes -------------------------------------------------------------------------------- */

/* The smallest class for `size` bytes; *holds is the size of its slots. */
static uint32_t class_of(size_t size, size_t *holds) {
  unsigned log = SMALLEST_LOG;
  size_t step;
  uint32_t steps;
  if (size > LARGEST) {
    *holds = size;
    return CLASSES;
  }
  if (size <= (size_t)1 << SMALLEST_LOG) {
    *holds = (size_t)1 << SMALLEST_LOG;
    return 0;
  }
  while (size > (size_t)2 << log)
    log++; /* 2^log < size <= 2^(log+1) */
  step = ((size_t)1 << log) / STEPS;
  steps = (uint32_t)((size - ((size_t)1 << log) + step - 1) / step); /* 1 .. STEPS */
  *holds = ((size_t)1 << log) + steps * step;
  return (log - SMALLEST_LOG) * STEPS + steps;
}

/* ---- Huge pages ----------------------------------------------------------------------------- */

#define BALLOONS "/sys/bus/virtio/drivers/virtio_balloon/virtio*/features"
#define F_REPORTING 5 /* the feature's bit; the file has a digit for each bit, from bit 0 on */

/* Fresh memory costs a fifth to a seventh as much in huge pages. But it costs many times as much
 * in a virtual machine that reports free memory to its host: there the host must allocate each
 * huge page again, while small pages are mostly parts of memory that it gave before. */
static void choose_huge(void) {
  glob_t found;
  use_huge = true;
  if (glob(BALLOONS, 0, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    char bits[F_REPORTING + 2] = "";
    FILE *file = fopen(found.gl_pathv[i], "r");
    if (!file) continue;
    if (fgets(bits, sizeof bits, file) && strlen(bits) > F_REPORTING && bits[F_REPORTING] == '1')
      use_huge = false;
    fclose(file);
  }
  globfree(&found);
}

/* ---- Spans ---------------------------------------------------------------------------------- */

/* Maps address space, aligned so that all of it can be huge pages. */
static unsigned char *map(size_t bytes) {
  size_t more = bytes + HUGE_PAGE;
  size_t before;
  unsigned char *all =
      mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return NULL;
  before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
  if (before != 0) munmap(all, before);
  munmap(all + before + bytes, HUGE_PAGE - before);
  pthread_once(&chosen, choose_huge);
  /* fails if the kernel has no huge pages */
  if (use_huge) madvise(all + before, bytes, MADV_HUGEPAGE);
  return all + before;
}

/* Bytes of a span of this class; *stride and *slots as in the span. */
static size_t span_size(uint32_t class, size_t holds, size_t *stride, size_t *slots) {
  *stride = (holds + DMI_LARGE_HEAD + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
  *slots = class == CLASSES ? 1 : SPAN / *stride;
  if (class != CLASSES && *slots < SPAN_SLOTS) *slots = SPAN_SLOTS;
  return (*slots * *stride + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static struct span *span_new(uint32_t class, size_t holds) {
  struct span *span;
  size_t stride, slots;
  const size_t bytes = span_size(class, holds, &stride, &slots);
  span = calloc(1, sizeof(*span));
  if (!span) return NULL;
  span->base = map(bytes);
  if (!span->base) {
    free(span);
    return NULL;
  }
  span->bytes = bytes;
  span->stride = stride;
  span->class = class;
  span->slots = (uint32_t)slots;
  return span;
}

static void span_free(struct span *span) {
  munmap(span->base, span->bytes);
  free(span);
}

static void span_open(struct span *span) {
  if (span->class == CLASSES) return;
  span->link = &open_spans[span->class];
  span->next = *span->link;
  if (span->next) span->next->link = &span->next;
  *span->link = span;
}

/* At the end of the list: it is used after the others. */
static void span_open_last(struct span *span) {
  struct span **link = &open_spans[span->class];
  while (*link)
    link = &(*link)->next;
  span->link = link;
  *link = span;
}

static void span_close(struct span *span) {
  if (span->class == CLASSES) return;
  *span->link = span->next;
  if (span->next) span->next->link = span->link;
}

/* ---- Spans with one slot that are kept, with the lock held ----------------------------------- */

static void kept_remove(struct span *span) {
  *span->link = span->next;
  if (span->next) span->next->link = span->link;
  kept -= span->bytes;
}

/* Takes one of these that has space for `holds` bytes, and little more.  NULL: there is none. */
static struct span *kept_take(size_t holds) {
  struct span *span = kept_spans;
  size_t most = holds + holds / STEPS + HUGE_PAGE;
  while (span && (span->stride < holds + DMI_LARGE_HEAD || span->bytes > most))
    span = span->next;
  if (span) kept_remove(span);
  return span;
}

/* Keeps an empty span.  Returns those for which there is no place then, linked by `next`; the
 * caller frees them. */
static struct span *kept_add(struct span *span) {
  struct span *over = NULL;
  span->used = true;
  span->free = NULL;
  span->begun = 0;
  span->link = &kept_spans;
  span->next = kept_spans;
  if (span->next) span->next->link = &span->next;
  kept_spans = span;
  kept += span->bytes;
  while (kept > KEPT) {
    struct span *last = kept_spans;
    while (last->next)
      last = last->next;
    kept_remove(last);
    mapped -= last->bytes;
    last->next = over;
    over = last;
  }
  return over;
}

/* ---- Slots ---------------------------------------------------------------------------------- */

void *dmi_large_new(size_t size, bool zero) {
  struct span *span;
  struct slot *slot;
  size_t holds;
  uint32_t class = class_of(size, &holds);
  bool fresh = false;
  if (size > PTRDIFF_MAX - 2 * HUGE_PAGE) return NULL;
  pthread_mutex_lock(&lock);
  if (class < CLASSES)
    span = open_spans[class];
  else
    span =
        zero ? NULL : kept_take(holds); /* fresh memory is zero, and costs nothing until touched */
  if (!span) {
    span = span_new(class, holds);
    if (!span) {
      pthread_mutex_unlock(&lock);
      return NULL;
    }
    mapped += span->bytes;
    span_open(span);
  } else if (span->live == 0 && class < CLASSES) {
    spare -= span->bytes;
  }
  span->live++;
  slot = span->free;
  if (slot) {
    span->free = slot->next;
  } else {
    slot = (struct slot *)(void *)(span->base + span->begun++ * span->stride);
    fresh = !span->used;
  }
  if (span->live == span->slots) span_close(span);
  pthread_mutex_unlock(&lock);
  slot->span = span;
  if (zero && !fresh) memset((unsigned char *)slot + DMI_LARGE_HEAD, 0, size);
  return (unsigned char *)slot + DMI_LARGE_HEAD;
}

/* Frees the only slot of a span. */
static void free_alone(struct span *span) {
  struct span *over = span;
  bool keeps = span->bytes <= KEPT;
  /* Before others can take it.  The bytes are of no use any more, and the kernel may have them. */
  if (keeps) madvise(span->base, span->bytes, MADV_FREE);
  span->next = NULL;
  pthread_mutex_lock(&lock);
  span->live = 0;
  if (keeps)
    over = kept_add(span);
  else
    mapped -= span->bytes;
  pthread_mutex_unlock(&lock);
  while (over) {
    struct span *next = over->next;
    span_free(over);
    over = next;
  }
}

void dmi_large_free(void *ptr) {
  struct slot *slot = (struct slot *)(void *)((unsigned char *)ptr - DMI_LARGE_HEAD);
  struct span *span = slot->span;
  bool over = false;
  if (span->class == CLASSES) {
    free_alone(span);
    return;
  }
  pthread_mutex_lock(&lock);
  slot->next = span->free;
  span->free = slot;
  if (span->live-- == span->slots) span_open(span);
  if (span->live == 0) {
    over = spare + span->bytes > SPARE && span != touching;
    if (over) {
      span_close(span);
      mapped -= span->bytes;
    } else {
      spare += span->bytes;
    }
  }
  pthread_mutex_unlock(&lock);
  if (over) span_free(span);
}

/* ---- Memory that will be wanted, with the lock held ------------------------------------------ */

/* Bytes of free slots that need not be touched any more. */
static size_t ready_in(const struct span *span) {
  const size_t begun = span->begun * span->stride;
  const size_t more = span->touched > begun ? span->touched - begun : 0;
  return (span->begun - span->live) * span->stride + more;
}

/* The first span of the class with memory to touch.  NULL: there is none, or before it there are
 * `bytes` bytes that need not be touched; *ready says how many there are. */
static struct span *to_touch(uint32_t class, size_t bytes, size_t *ready) {
  struct span *span = open_spans[class];
  *ready = 0;
  for (; span; span = span->next) {
    const size_t all = span->slots * span->stride;
    *ready += ready_in(span);
    if (*ready >= bytes) return NULL;
    if (span->begun < span->slots && span->touched < all) return span;
  }
  return NULL;
}

/* Opens another span, unless it would be too much of empty ones.  NULL: it would, or there is no
 * memory. */
static struct span *span_ahead(uint32_t class, size_t holds) {
  size_t stride, slots;
  struct span *span;
  if (spare + span_size(class, holds, &stride, &slots) > SPARE) return NULL;
  span = span_new(class, holds);
  if (!span) return NULL;
  mapped += span->bytes;
  spare += span->bytes;
  span_open_last(span);
  return span;
}

/* The next piece of the span to touch: its offset, and its size in *size. */
static size_t next_piece(struct span *span, size_t *size) {
  const size_t begun = span->begun * span->stride, all = span->slots * span->stride;
  const size_t from = span->touched > begun ? span->touched : begun;
  *size = all - from < PIECE ? all - from : PIECE;
  span->touched = from + *size;
  return from;
}

/* It has been touched.  True: it is empty, and one too many; the caller frees it. */
static bool touched(struct span *span) {
  touching = NULL;
  if (span->live != 0 || spare <= SPARE) return false;
  span_close(span);
  mapped -= span->bytes;
  spare -= span->bytes;
  return true;
}

bool dmi_large_ahead(size_t size, size_t bytes) {
  size_t holds, ready, from = 0, piece = 0;
  struct span *span = NULL;
  const uint32_t class = class_of(size, &holds);
  if (class == CLASSES || size < DMI_LARGE_MIN || bytes == 0) return false;
  pthread_mutex_lock(&lock);
  if (!touching) {
    span = to_touch(class, bytes, &ready);
    if (!span && ready < bytes) span = span_ahead(class, holds);
  }
  if (span) {
    touching = span;
    from = next_piece(span, &piece);
  }
  pthread_mutex_unlock(&lock);
  if (!span) return false;
  /* this changes no byte, so others may use the slots meanwhile */
  const bool done = madvise(span->base + from, piece, MADV_POPULATE_WRITE) == 0;
  pthread_mutex_lock(&lock);
  const bool over = touched(span);
  pthread_mutex_unlock(&lock);
  if (over) span_free(span);
  return done;
}

size_t dmi_large_mapped(void) {
  size_t bytes;
  pthread_mutex_lock(&lock);
  bytes = mapped;
  pthread_mutex_unlock(&lock);
  return bytes;
}
