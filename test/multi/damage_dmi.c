/*
 * damage_dmi.c - objects in global memory that somebody has overwritten: whatever stands there,
 * calls about them end, and the library touches no memory that is not its own.
 *
 *   dmirun damage_dmi       one process
 *
 * Read-write-sets first: each field with values that are nearly right, all bytes at random, and the
 * table that the object names. Then locks, conditions and barriers, in which nothing is wrong: any
 * bytes are an object, so only the ends of the calls are asked for.
 */
#include "multi.h"

#define ELEMENTS 3000
#define WRITTEN 100
#define READ 50

static int64_t writes[WRITTEN], reads[READ];

static int64_t make_set(int64_t at) {
  MUST(DMI_rwset_init(at, ELEMENTS, 8, 2));
  for (int i = 0; i < WRITTEN; i++)
    writes[i] = 2 * i;
  for (int i = 0; i < READ; i++)
    reads[i] = 4 * i;
  MUST(DMI_rwset_decompose(at, 0, writes, WRITTEN));
  MUST(DMI_rwset_decompose(at, 1, NULL, 0)); /* writes nothing */
  return at;
}

/* Reads and writes of both domains, into buffers of exactly the right size. */
static int32_t use_set(int64_t at) {
  int64_t *values = my_malloc(WRITTEN * sizeof *values), *in = my_malloc(READ * sizeof *in);
  int32_t good = 0;
  for (int32_t domain = 0; domain < 2; domain++) {
    DMI_local_rwset_t local;
    memset(values, 1, WRITTEN * sizeof *values);
    if (!DMI_local_rwset_init(&local, at, domain, reads, READ)) continue;
    good += DMI_local_rwset_write(&local, values, NULL);
    good += DMI_local_rwset_read(&local, in, NULL);
    MUST(DMI_local_rwset_destroy(&local));
  }
  my_free(values);
  my_free(in);
  return good;
}

static const int64_t nearly[] = {0,         -1,        1,    2,         INT32_MAX,
                                 INT64_MAX, INT64_MIN, 4096, (1 << 20), 1LL << 60,
                                 16,        32,        9,    ELEMENTS,  1LL << 40};
#define NEARLY ((int)(sizeof nearly / sizeof nearly[0]))

/* Damages the object, uses it, checks that this is refused, and repairs it. */
static void each_field(int64_t at) {
  int64_t whole[8], wrong[8];
  MUST(DMI_read(at, sizeof whole, whole, DMI_GET_READ, NULL));
  for (int field = 0; field < 7; field++) {
    for (int i = 0; i < 2 * NEARLY; i++) {
      memcpy(wrong, whole, sizeof wrong);
      wrong[field] =
          i < NEARLY ? nearly[i] : (int64_t)((uint64_t)whole[field] + (uint64_t)nearly[i - NEARLY]);
      if (wrong[field] == whole[field]) continue;
      MUST(DMI_write(at, sizeof wrong, wrong, DMI_PUT_WRITE, NULL));
      EQ(use_set(at), 0);
      EQ(DMI_rwset_decompose(at, 0, writes, WRITTEN), DMI_FALSE);
      EQ(DMI_errno(), DMI_EINVAL);
      EQ(DMI_rwset_destroy(at), DMI_FALSE);
      EQ(DMI_errno(), DMI_EINVAL);
    }
  }
  MUST(DMI_write(at, sizeof whole, whole, DMI_PUT_WRITE, NULL));
  EQ(use_set(at), 4);
}

/* The table: counts, and for each domain state, address and number of its values. */
static void each_word_of_table(int64_t at) {
  int64_t whole[8], table[8];
  MUST(DMI_read(at, sizeof whole, whole, DMI_GET_READ, NULL));
  MUST(DMI_read(whole[4], sizeof table, table, DMI_GET_READ, NULL));
  for (int word = 0; word < 8; word++) {
    for (int i = 0; i < NEARLY; i++) {
      int64_t wrong = (int64_t)((uint64_t)table[word] + (uint64_t)nearly[i]);
      MUST(DMI_write(whole[4] + 8 * word, 8, &wrong, DMI_PUT_WRITE, NULL));
      (void)use_set(at);
      if (word >= 3 && word != 5 && wrong != table[word]) {
        EQ(DMI_rwset_destroy(at), DMI_FALSE);
        EQ(DMI_errno(), DMI_EINVAL);
      }
    }
    MUST(DMI_write(whole[4] + 8 * word, 8, &table[word], DMI_PUT_WRITE, NULL));
  }
  EQ(use_set(at), 4);
}

/* Where the values are: any addresses. */
static void each_place(int64_t at) {
  int64_t whole[8];
  MUST(DMI_read(at, sizeof whole, whole, DMI_GET_READ, NULL));
  for (int i = 0; i < READ; i++) {
    int64_t cell = whole[5] + 8 * reads[i], place, wrong;
    MUST(DMI_read(cell, 8, &place, DMI_GET_READ, NULL));
    wrong = (int64_t)((i % 2 ? 0 : (uint64_t)place) + (uint64_t)nearly[i % NEARLY]);
    MUST(DMI_write(cell, 8, &wrong, DMI_PUT_WRITE, NULL));
    (void)use_set(at);
    MUST(DMI_write(cell, 8, &place, DMI_PUT_WRITE, NULL));
  }
  EQ(use_set(at), 4);
}

static void any_bytes(int64_t at) {
  uint64_t rng = 5;
  int64_t whole[8];
  unsigned char bytes[sizeof whole];
  MUST(DMI_read(at, sizeof whole, whole, DMI_GET_READ, NULL));
  for (int i = 0; i < scaled(3000); i++) {
    memcpy(bytes, whole, sizeof bytes);
    for (uint64_t n = 1 + rng_below(&rng, 4); n > 0; n--)
      bytes[rng_below(&rng, 56)] ^= (unsigned char)(1 + rng_below(&rng, 255));
    if (memcmp(bytes, whole, sizeof bytes) == 0) continue;
    MUST(DMI_write(at, sizeof bytes, bytes, DMI_PUT_WRITE, NULL));
    EQ(use_set(at), 0);
  }
  MUST(DMI_write(at, sizeof whole, whole, DMI_PUT_WRITE, NULL));
}

static void locks(int64_t at) {
  uint64_t rng = 6;
  unsigned char bytes[64];
  DMI_local_barrier_t barrier;
  int32_t flag;
  for (int i = 0; i < scaled(2000); i++) {
    rng_fill(rng_next(&rng), bytes, sizeof bytes);
    MUST(DMI_write(at, sizeof bytes, bytes, DMI_PUT_WRITE, NULL));
    if (DMI_mutex_trylock(at, &flag) && flag) MUST(DMI_mutex_unlock(at));
    if (DMI_spin_trylock(at, &flag) && flag) MUST(DMI_spin_unlock(at));
    (void)DMI_mutex_destroy(at);
    (void)DMI_cond_signal(at);
    (void)DMI_cond_broadcast(at);
    (void)DMI_cond_destroy(at);
    (void)DMI_barrier_destroy(at);
    MUST(DMI_barrier_init(at));
    MUST(DMI_local_barrier_init(&barrier, at));
    MUST(DMI_local_barrier_sync(&barrier, 1));
    MUST(DMI_local_barrier_destroy(&barrier));
  }
}

void DMI_main(int argc, char **argv) {
  int64_t memory, at;
  (void)argc, (void)argv;
  MUST(DMI_mmap(&memory, 4096, 4, NULL));
  at = make_set(memory + 64);
  EQ(use_set(at), 4);
  each_field(at);
  each_word_of_table(at);
  each_place(at);
  any_bytes(at);
  MUST(DMI_rwset_destroy(at));
  locks(memory + 4096);
  verdict("damage", 0);
}
