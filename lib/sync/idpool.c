/*
 * idpool.c - see idpool.h.
 *
 * The happy path: with the pool's mutex locked, a thread looks for the first word of the table that
 * has a zero bit, and sets that bit.  The table is an object of its own, which grows.
 *
 * Failure modes: those of reads, writes and DMI_malloc: nothing is changed then.  A process is lost
 * with the mutex: each change is one write, so the next holder finds the pool as it was before or
 * behind it.  (A table that was being replaced may never be freed.)
 */
#include "sync/idpool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "access/access.h"
#include "base/error.h"
#include "dmi_ext.h"
#include "sync/alloc.h"
#include "sync/sync.h"

#define TABLE_PAGE 4096 /* bytes of its pages */
#define FIRST_WORDS 8u
#define AT_ONCE 64u /* words that are read together */
#define MOST_WORDS (((uint32_t)INT32_MAX + 1) / 64)

/* The pool: zeros are one that has given out nothing. */
struct pool {
  DMI_mutex_t mutex;
  struct table {
    int64_t addr;   /* of the words; a bit is set when its number is given out */
    uint32_t words; /* how many; 0: there is no table yet */
    uint32_t first; /* all words before this one are full */
  } table;
};

_Static_assert(sizeof(struct pool) == sizeof(DMI_idpool_t),
               "public and private sizes are the same");

static int32_t read_at(const struct dmi_idpool *pool, int64_t addr, void *to, size_t size) {
  return dmi_access_read(pool->access, addr, (int64_t)size, to, DMI_GET_READ, NULL);
}

static int32_t write_at(const struct dmi_idpool *pool, int64_t addr, const void *from,
                        size_t size) {
  return dmi_access_write(pool->access, addr, (int64_t)size, from, DMI_PUT_WRITE, NULL);
}

static int64_t table_at(const struct dmi_idpool *pool) {
  return pool->addr + (int64_t)offsetof(struct pool, table);
}

static int64_t word_at(const struct table *table, uint32_t word) {
  return table->addr + 8 * (int64_t)word;
}

/* Could a pool have this one? */
static bool is_table(const struct table *table) {
  return table->first <= table->words && table->words <= MOST_WORDS &&
         !table->addr == !table->words;
}

static int32_t read_table(const struct dmi_idpool *pool, struct table *table) {
  if (!read_at(pool, table_at(pool), table, sizeof(*table))) return DMI_FALSE;
  return is_table(table) ? DMI_TRUE : dmi_fail(DMI_EINVAL);
}

/* Unlocks it; `ret` is what the call returns, and keeps its error. */
static int32_t unlock(const struct dmi_idpool *pool, int32_t ret) {
  int32_t error = dmi_error_of(ret);
  if (!dmi_sync_unlock(pool->sync, pool->addr) && ret) return DMI_FALSE;
  return ret ? DMI_TRUE : dmi_fail(error);
}

/* Locks it, and reads where the table is. */
static int32_t lock(const struct dmi_idpool *pool, struct table *table) {
  if (!dmi_sync_lock(pool->sync, pool->addr, false)) {
    if (dmi_error_last() != DMI_EOWNERDEAD) return DMI_FALSE;
    if (!dmi_sync_consistent(pool->sync, pool->addr)) return unlock(pool, DMI_FALSE);
  }
  return read_table(pool, table) ? DMI_TRUE : unlock(pool, DMI_FALSE);
}

/* Finds the first word with a zero bit: *word gets its number, that of the words if all are full.
 */
static int32_t find(const struct dmi_idpool *pool, const struct table *table, uint32_t *word,
                    uint64_t *bits) {
  uint64_t some[AT_ONCE];
  for (*word = table->first; *word < table->words;) {
    uint32_t num = table->words - *word < AT_ONCE ? table->words - *word : AT_ONCE;
    if (!read_at(pool, word_at(table, *word), some, num * sizeof(*some))) return DMI_FALSE;
    for (uint32_t i = 0; i < num; i++, ++*word) {
      *bits = some[i];
      if (~some[i]) return DMI_TRUE;
    }
  }
  *bits = 0;
  return DMI_TRUE;
}

/* All numbers are given out: a table of twice the size takes the place of the one there is. */
static int32_t grow(const struct dmi_idpool *pool, struct table *table) {
  struct table more = {.words = table->words ? 2 * table->words : FIRST_WORDS,
                       .first = table->words};
  uint64_t *words;
  int32_t good;
  if (more.words > MOST_WORDS)
    return dmi_fail(dmi_because(DMI_ENOMEM, "all numbers are given out"));
  words = calloc(more.words, sizeof(*words));
  if (!words) return dmi_fail(DMI_ENOMEM);
  memset(words, 0xff, table->words * sizeof(*words));
  good =
      dmi_alloc_malloc(pool->alloc, &more.addr, (int64_t)(more.words * sizeof(*words)), TABLE_PAGE);
  if (good) {
    good = write_at(pool, more.addr, words, more.words * sizeof(*words)) &&
           write_at(pool, table_at(pool), &more, sizeof(more));
    if (!good) {
      int32_t error = dmi_error_last();
      (void)dmi_alloc_release(pool->alloc, more.addr);
      (void)dmi_fail(error);
    }
  }
  free(words);
  if (!good) return DMI_FALSE;
  if (table->words) (void)dmi_alloc_release(pool->alloc, table->addr);
  *table = more;
  return DMI_TRUE;
}

/* The first word that may not be full is another one now. */
static int32_t move_first(const struct dmi_idpool *pool, struct table *table, uint32_t first) {
  if (table->first == first) return DMI_TRUE;
  table->first = first;
  return write_at(pool, table_at(pool), table, sizeof(*table));
}

static int32_t take(const struct dmi_idpool *pool, struct table *table, int32_t *id) {
  uint32_t word;
  uint64_t bits, bit;
  if (!find(pool, table, &word, &bits)) return DMI_FALSE;
  if (word == table->words && !grow(pool, table)) return DMI_FALSE;
  if (!move_first(pool, table, word)) return DMI_FALSE;
  bit = ~bits & (bits + 1); /* the lowest that is zero */
  bits |= bit;
  if (!write_at(pool, word_at(table, word), &bits, sizeof(bits))) return DMI_FALSE;
  *id = (int32_t)(64 * word + (uint32_t)__builtin_ctzll(bit));
  return DMI_TRUE;
}

static int32_t give_back(const struct dmi_idpool *pool, struct table *table, int32_t id) {
  uint32_t word = (uint32_t)id / 64;
  uint64_t bits = 0, bit = UINT64_C(1) << ((uint32_t)id % 64);
  if (id >= 0 && word < table->words && !read_at(pool, word_at(table, word), &bits, sizeof(bits)))
    return DMI_FALSE;
  if (id < 0 || !(bits & bit))
    return dmi_fail(dmi_because_of(DMI_EINVAL, "this number is not given out", id));
  bits &= ~bit;
  if (word < table->first && !move_first(pool, table, word)) return DMI_FALSE;
  return write_at(pool, word_at(table, word), &bits, sizeof(bits));
}

int32_t dmi_idpool_init(const struct dmi_idpool *pool) {
  return dmi_sync_init(pool->sync, pool->addr, sizeof(struct pool));
}

int32_t dmi_idpool_destroy(const struct dmi_idpool *pool) {
  struct table table;
  if (!lock(pool, &table) || !unlock(pool, DMI_TRUE)) return DMI_FALSE;
  if (!dmi_sync_destroy_lock(pool->sync, pool->addr) || !dmi_idpool_init(pool)) return DMI_FALSE;
  return table.words ? dmi_alloc_release(pool->alloc, table.addr) : DMI_TRUE;
}

int32_t dmi_idpool_get(const struct dmi_idpool *pool, int32_t *id) {
  struct table table;
  return lock(pool, &table) ? unlock(pool, take(pool, &table, id)) : DMI_FALSE;
}

int32_t dmi_idpool_put(const struct dmi_idpool *pool, int32_t id) {
  struct table table;
  return lock(pool, &table) ? unlock(pool, give_back(pool, &table, id)) : DMI_FALSE;
}
