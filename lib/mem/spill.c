/*
 * spill.c - places in the spill file: a place that was given up is used again by the next page of
 * its size, the last one first; the file grows only when there is none.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mem/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A place, in use or free. */
struct place {
  const void *page; /* key in `used` */
  uint64_t off, size;
  struct place *next; /* free ones of a size */
};

/* Sizes of pages that ever were in the file: few. */
struct size {
  uint64_t size;
  struct place *free;
  struct size *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what is below */
static int file = -1;
static uint64_t end; /* of the file, bytes */
static void *used;   /* by tsearch */
static struct size *sizes;
static _Atomic uint64_t total;

static int compare(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  if (x->page == y->page) return 0;
  return (uintptr_t)x->page < (uintptr_t)y->page ? -1 : 1;
}

bool dmi_spill_open(const char *dir) {
  char name[4096];
  file = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return true;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return false;
  /* Not every file system has such files. */
  if (snprintf(name, sizeof(name), "%s/dmi-spill-XXXXXX", dir) >= (int)sizeof(name)) {
    errno = ENAMETOOLONG;
    return false;
  }
  file = mkostemp(name, O_CLOEXEC);
  if (file < 0) return false;
  unlink(name);
  return true;
}

static void place_free(void *place) {
  free(place);
}

void dmi_spill_close(void) {
  if (file >= 0) close(file);
  file = -1;
  tdestroy(used, place_free);
  used = NULL;
  while (sizes) {
    struct size *next = sizes->next;
    while (sizes->free) {
      struct place *place = sizes->free;
      sizes->free = place->next;
      free(place);
    }
    free(sizes);
    sizes = next;
  }
  end = 0;
  atomic_store(&total, 0);
}

bool dmi_spill_is_open(void) {
  return file >= 0;
}

static struct size *size_of(uint64_t size) {
  struct size *it = sizes;
  while (it && it->size != size)
    it = it->next;
  if (it) return it;
  it = calloc(1, sizeof(*it));
  if (!it) return NULL;
  it->size = size;
  it->next = sizes;
  sizes = it;
  return it;
}

/* A place of this size, in nobody's use.  NULL: no memory. */
static struct place *place_new(uint64_t size) {
  struct size *of = size_of(size);
  struct place *place = of ? of->free : NULL;
  if (place) {
    of->free = place->next;
    return place;
  }
  place = of ? calloc(1, sizeof(*place)) : NULL;
  if (!place) return NULL;
  place->off = end;
  place->size = size;
  end += size;
  return place;
}

static void place_back(struct place *place) {
  struct size *of = size_of(place->size); /* it is there: the place has come from it */
  place->next = of->free;
  of->free = place;
}

static bool write_all(const unsigned char *bytes, uint64_t left, uint64_t off) {
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

bool dmi_spill_put(const void *page, const void *bytes, uint64_t size) {
  struct place *place;
  bool good;
  if (file < 0) return false;
  pthread_mutex_lock(&lock);
  place = place_new(size);
  pthread_mutex_unlock(&lock);
  if (!place) {
    errno = ENOMEM;
    return false;
  }
  good = write_all(bytes, size, place->off);
  pthread_mutex_lock(&lock);
  place->page = page;
  if (good && !tsearch(place, &used, compare)) {
    good = false;
    errno = ENOMEM;
  }
  if (!good) place_back(place);
  pthread_mutex_unlock(&lock);
  if (good) atomic_fetch_add(&total, size);
  return good;
}

bool dmi_spill_get(const void *page, void *bytes, uint64_t size) {
  struct place key = {.page = page}, *place;
  unsigned char *to = bytes;
  uint64_t off;
  void *node;
  pthread_mutex_lock(&lock);
  node = tfind(&key, &used, compare);
  place = node ? *(struct place **)node : NULL;
  off = place ? place->off : 0;
  if (place && place->size != size) place = NULL;
  pthread_mutex_unlock(&lock);
  if (!place) return false;
  while (size) {
    ssize_t got = pread(file, to, size, (off_t)off);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    off += (uint64_t)got;
    size -= (uint64_t)got;
  }
  return true;
}

void dmi_spill_drop(const void *page) {
  struct place key = {.page = page}, *place;
  void *node;
  pthread_mutex_lock(&lock);
  node = tfind(&key, &used, compare);
  if (node) {
    place = *(struct place **)node;
    tdelete(&key, &used, compare);
    atomic_fetch_sub(&total, place->size);
    place_back(place);
  }
  pthread_mutex_unlock(&lock);
}

uint64_t dmi_spill_bytes(void) {
  return atomic_load(&total);
}
