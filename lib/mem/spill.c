/*
 * spill.c - places in the spill file. A free place is used again by the next page of its size, the
 * one freed last first; the file grows only if there is none.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mem/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"

/* A place, in use or free. */
struct place {
  const void *page; /* key in `used` */
  uint64_t off, size;
  struct place *next; /* next free place of this size */
};

/* A page size that was ever in the file; there are few. */
struct size {
  uint64_t size;
  struct place *free;
  struct size *next;
};

struct dmi_spill {
  int file;
  _Atomic uint64_t total;
  struct dmi_mutex lock; /* guards the fields below */
  uint64_t end;          /* bytes of the file */
  void *used;            /* places in use, by page; made by tsearch */
  struct size *sizes;
};

static int compare(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  if (x->page == y->page) return 0;
  return (uintptr_t)x->page < (uintptr_t)y->page ? -1 : 1;
}

/* Makes a file without a name in `dir`. Returns its descriptor, or -1 (errno). */
static int make_file(const char *dir) {
  char name[4096];
  int file = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -1;
  /* Not every file system has files without a name: make one and unlink it. */
  if (snprintf(name, sizeof(name), "%s/dmi-spill-XXXXXX", dir) >= (int)sizeof(name)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  file = mkostemp(name, O_CLOEXEC);
  if (file >= 0) unlink(name);
  return file;
}

struct dmi_spill *dmi_spill_open(const char *dir) {
  struct dmi_spill *spill = calloc(1, sizeof(*spill));
  if (!spill) return NULL;
  spill->file = make_file(dir);
  if (spill->file < 0) {
    free(spill);
    return NULL;
  }
  dmi_mutex_init(&spill->lock, DMI_RANK_LEAF);
  return spill;
}

static void place_free(void *place) {
  free(place);
}

void dmi_spill_close(struct dmi_spill *spill) {
  if (!spill) return;
  close(spill->file);
  tdestroy(spill->used, place_free);
  while (spill->sizes) {
    struct size *next = spill->sizes->next;
    while (spill->sizes->free) {
      struct place *place = spill->sizes->free;
      spill->sizes->free = place->next;
      free(place);
    }
    free(spill->sizes);
    spill->sizes = next;
  }
  dmi_mutex_destroy(&spill->lock);
  free(spill);
}

static struct size *size_of(struct dmi_spill *spill, uint64_t size) {
  struct size *it = spill->sizes;
  while (it && it->size != size)
    it = it->next;
  if (it) return it;
  it = calloc(1, sizeof(*it));
  if (!it) return NULL;
  it->size = size;
  it->next = spill->sizes;
  spill->sizes = it;
  return it;
}

/* A free place of this size. NULL: no memory. */
static struct place *place_new(struct dmi_spill *spill, uint64_t size) {
  struct size *of = size_of(spill, size);
  struct place *place = of ? of->free : NULL;
  if (place) {
    of->free = place->next;
    return place;
  }
  place = of ? calloc(1, sizeof(*place)) : NULL;
  if (!place) return NULL;
  place->off = spill->end;
  place->size = size;
  spill->end += size;
  return place;
}

static void place_back(struct dmi_spill *spill, struct place *place) {
  struct size *of = size_of(spill, place->size); /* it exists, because the place is from it */
  place->next = of->free;
  of->free = place;
}

static bool write_all(int file, const unsigned char *bytes, uint64_t left, uint64_t off) {
  while (left) {
    ssize_t got = pwrite(file, bytes, left, (off_t)off);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    bytes += got;
    off += (uint64_t)got;
    left -= (uint64_t)got;
  }
  return true;
}

bool dmi_spill_put(struct dmi_spill *spill, const void *page, const void *bytes, uint64_t size) {
  struct place *place;
  bool good;
  dmi_mutex_lock(&spill->lock);
  place = place_new(spill, size);
  dmi_mutex_unlock(&spill->lock);
  if (!place) {
    errno = ENOMEM;
    return false;
  }
  dmi_file_begin();
  good = write_all(spill->file, bytes, size, place->off);
  dmi_file_end();
  dmi_mutex_lock(&spill->lock);
  place->page = page;
  if (good && !tsearch(place, &spill->used, compare)) {
    good = false;
    errno = ENOMEM;
  }
  if (!good) place_back(spill, place);
  dmi_mutex_unlock(&spill->lock);
  if (good) atomic_fetch_add(&spill->total, size);
  return good;
}

bool dmi_spill_get(struct dmi_spill *spill, const void *page, void *bytes, uint64_t size) {
  struct place key = {.page = page}, *place;
  unsigned char *to = bytes;
  uint64_t off;
  void *node;
  dmi_mutex_lock(&spill->lock);
  node = tfind(&key, &spill->used, compare);
  place = node ? *(struct place **)node : NULL;
  off = place ? place->off : 0;
  if (place && place->size != size) place = NULL;
  dmi_mutex_unlock(&spill->lock);
  if (!place) return false;
  while (size) {
    ssize_t got = pread(spill->file, to, size, (off_t)off);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    off += (uint64_t)got;
    size -= (uint64_t)got;
  }
  return true;
}

void dmi_spill_drop(struct dmi_spill *spill, const void *page) {
  struct place key = {.page = page}, *place;
  void *node;
  dmi_mutex_lock(&spill->lock);
  node = tfind(&key, &spill->used, compare);
  if (node) {
    place = *(struct place **)node;
    tdelete(&key, &spill->used, compare);
    atomic_fetch_sub(&spill->total, place->size);
    place_back(spill, place);
  }
  dmi_mutex_unlock(&spill->lock);
}

uint64_t dmi_spill_bytes(const struct dmi_spill *spill) {
  return atomic_load(&spill->total);
}
