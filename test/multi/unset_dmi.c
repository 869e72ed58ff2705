/*
 * unset_dmi.c - objects whose bytes nobody has set: each call about them fails at once, and nothing
 * hangs or is touched.
 *
 *   dmirun unset_dmi          and a second process, in which objects of the first one are used
 */
#include "dmi_ext.h"
#include "dmi_farm.h"
#include "dmi_remote.h"
#include "dmi_team.h"
#include "multi.h"

/* What memory may contain that nobody has set. */
enum { ONES, SMALL, TEXT, REPEATED, RANDOM, PATTERNS };

static void fill(int pattern, void *to, size_t size) {
  static const char text[] = "There is no such object in this text. ";
  unsigned char *bytes = to;
  for (size_t i = 0; i < size; i++)
    bytes[i] = pattern == ONES       ? 0xff
               : pattern == SMALL    ? i % 8 == 0
               : pattern == REPEATED ? 0xa5
                                     : (unsigned char)text[i % (sizeof(text) - 1)];
  if (pattern == RANDOM) rng_fill(7, bytes, size);
}

/* ---- In global memory ------------------------------------------------------------------------ */

/* The call must refuse these bytes, and leave them as they are. */
#define NONE(call)                                          \
  do {                                                      \
    FAILS(call, DMI_EINVAL);                                \
    MUST(DMI_read(at, sizeof(is), is, DMI_GET_READ, NULL)); \
    SAME(is, bytes, sizeof(bytes));                         \
  } while (0)

static void global(int64_t at, int pattern) {
  unsigned char bytes[64], is[64];
  DMI_local_barrier_t barrier;
  DMI_local_rwset_t set;
  DMI_local_team_t team;
  int32_t flag, id;
  fill(pattern, bytes, sizeof(bytes));
  MUST(DMI_write(at, sizeof(bytes), bytes, DMI_PUT_WRITE, NULL));
  NONE(DMI_mutex_lock(at));
  NONE(DMI_mutex_trylock(at, &flag));
  NONE(DMI_mutex_destroy(at));
  FAILS(DMI_mutex_unlock(at), DMI_EHOLDER);
  NONE(DMI_spin_lock(at));
  NONE(DMI_spin_trylock(at, &flag));
  NONE(DMI_spin_destroy(at));
  NONE(DMI_cond_signal(at));
  NONE(DMI_cond_broadcast(at));
  NONE(DMI_cond_destroy(at));
  MUST(DMI_mutex_lock(at + 64));
  NONE(DMI_cond_wait(at, at + 64));
  MUST(DMI_mutex_unlock(at + 64)); /* it is held as before */
  NONE(DMI_barrier_destroy(at));
  MUST(DMI_local_barrier_init(&barrier, at));
  NONE(DMI_local_barrier_sync(&barrier, 1));
  NONE(DMI_local_barrier_sync(&barrier, 2)); /* would wait */
  NONE(DMI_local_barrier_allreduce(&barrier, 1, NULL, 2));
  MUST(DMI_local_barrier_destroy(&barrier));
  NONE(DMI_rwset_decompose(at, 0, NULL, 0));
  NONE(DMI_rwset_destroy(at));
  NONE(DMI_local_rwset_init(&set, at, 0, NULL, 0));
  NONE(DMI_idpool_get(at, &id));
  NONE(DMI_idpool_put(at, 0));
  NONE(DMI_idpool_destroy(at));
  NONE(DMI_team_join(&team, at, 0));
  NONE(DMI_team_resize(at, 2));
  NONE(DMI_team_destroy(at));
}

/* Zeros are a mutex, a condition, a barrier and a pool; these they are not. */
static void zeros(int64_t at) {
  unsigned char bytes[64] = {0}, is[64];
  DMI_local_rwset_t set;
  DMI_local_team_t team;
  MUST(DMI_write(at, sizeof(bytes), bytes, DMI_PUT_WRITE, NULL));
  NONE(DMI_rwset_decompose(at, 0, NULL, 0));
  NONE(DMI_rwset_destroy(at));
  NONE(DMI_local_rwset_init(&set, at, 0, NULL, 0));
  NONE(DMI_team_join(&team, at, 0));
  NONE(DMI_team_resize(at, 2));
  NONE(DMI_team_destroy(at));
}

/* ---- Local ----------------------------------------------------------------------------------- */

struct locals {
  DMI_local_barrier_t barrier;
  DMI_local_group_t group;
  DMI_local_rwset_t set;
  DMI_local_team_t team;
};

/* All calls about objects that are none. */
static void local(struct locals *l) {
  DMI_got_t got;
  int64_t value[8] = {0};
  int32_t rank, flag;
  FAILS(DMI_local_barrier_sync(&l->barrier, 2), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce(&l->barrier, 1, NULL, 2), DMI_EINVAL);
  FAILS(DMI_local_barrier_allreduce_op(&l->barrier, DMI_OP_SUM, DMI_TYPE_INT64, value, value, 1, 2),
        DMI_EINVAL);
  FAILS(DMI_local_barrier_destroy(&l->barrier), DMI_EINVAL);
  FAILS(DMI_group_read(&l->group, value, NULL), DMI_EINVAL);
  FAILS(DMI_group_write(&l->group, value, NULL), DMI_EINVAL);
  FAILS(DMI_group_destroy(&l->group), DMI_EINVAL);
  FAILS(DMI_local_rwset_read(&l->set, value, NULL), DMI_EINVAL);
  FAILS(DMI_local_rwset_write(&l->set, value, NULL), DMI_EINVAL);
  FAILS(DMI_local_rwset_destroy(&l->set), DMI_EINVAL);
  FAILS(DMI_team_rank(&l->team, &rank, NULL), DMI_EINVAL);
  FAILS(DMI_team_send(&l->team, 0, value, 8, NULL), DMI_EINVAL);
  FAILS(DMI_team_recv(&l->team, 0, value, 8, &got, NULL), DMI_EINVAL);
  FAILS(DMI_team_probe(&l->team, 0, &got, &flag), DMI_EINVAL);
  FAILS(DMI_team_barrier(&l->team), DMI_EINVAL);
  FAILS(DMI_team_bcast(&l->team, 0, value, 8), DMI_EINVAL);
  FAILS(DMI_team_reset(&l->team), DMI_EINVAL);
  FAILS(DMI_team_leave(&l->team), DMI_EINVAL);
}

/* The numbers that a team's object has, and in their middle what is no address. */
static void nearly(struct locals *l) {
  int32_t id;
  MUST(DMI_rank(&id));
  memset(l, 0, sizeof(*l));
  for (int64_t uid = 0; uid < 4; uid++) {
    l->team.dmi_private[0] = 16;
    l->team.dmi_private[1] = uid;
    l->team.dmi_private[2] = 1;
    local(l);
  }
}

static void others(int pattern) {
  DMI_local_status_t status;
  int32_t ret = 7;
  DMI_client_t *client;
  DMI_data_t data;
  DMI_thread_t thread;
  DMI_farm_t farm;
  int64_t value;
  fill(pattern, &client, sizeof(client));
  fill(pattern, &data, sizeof(data));
  fill(pattern, &thread, sizeof(thread));
  FAILS(DMI_client_close(client), DMI_EINVAL);
  FAILS(DMI_data_read(client, data, &value, 0, 8, NULL), DMI_EINVAL);
  FAILS(DMI_data_drop(client, data), DMI_EINVAL);
  FAILS(DMI_join(thread, &value, NULL), DMI_ETHREAD);
  FAILS(DMI_detach(thread, NULL), DMI_ETHREAD);
  FAILS(DMI_wake(thread, NULL), DMI_ETHREAD);
  memset(&farm, 0, sizeof(farm));
  fill(pattern, &status, sizeof(status));
  if (pattern != SMALL && pattern != RANDOM) { /* they could be a call's */
    FAILS(DMI_check(&status, &ret), DMI_EINVAL);
    DMI_wait(&status, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_EINVAL);
  }
  FAILS(DMI_farm_result(&farm, 0, &value, NULL), DMI_EADDR);
  FAILS(DMI_farm_free(&farm), DMI_EADDR);
}

/* ---- Of the other process -------------------------------------------------------------------- */

/* At `addr`: the report; behind it the first process's objects. */
int64_t DMI_thread(int64_t addr) {
  struct locals theirs;
  MUST(DMI_read(addr + 16, sizeof(theirs), &theirs, DMI_GET_READ, NULL));
  say("theirs");
  local(&theirs);
  check_report(addr);
  return 0;
}

static void make(struct locals *l, int64_t at) {
  const int64_t size = 8, place = 0, element = 0;
  MUST(DMI_barrier_init(at));
  MUST(DMI_local_barrier_init(&l->barrier, at));
  MUST(DMI_group_init(&l->group, &at, &size, &place, 1));
  MUST(DMI_rwset_init(at + 64, 8, 8, 1));
  MUST(DMI_rwset_decompose(at + 64, 0, &element, 1));
  MUST(DMI_local_rwset_init(&l->set, at + 64, 0, &element, 1));
  MUST(DMI_team_init(at + 128, 1));
  MUST(DMI_team_join(&l->team, at + 128, 0));
}

static void destroy(struct locals *l) {
  int64_t value;
  OK(DMI_group_read(&l->group, &value, NULL)); /* they are good here */
  OK(DMI_local_rwset_read(&l->set, &value, NULL));
  OK(DMI_local_barrier_sync(&l->barrier, 1));
  OK(DMI_team_barrier(&l->team));
  OK(DMI_team_leave(&l->team));
  OK(DMI_local_barrier_destroy(&l->barrier));
  OK(DMI_group_destroy(&l->group));
  OK(DMI_local_rwset_destroy(&l->set));
}

void DMI_main(int argc, char **argv) {
  struct locals l;
  DMI_thread_t thread;
  int64_t memory, report;
  int32_t ids[2];
  (void)argc, (void)argv;
  gather(2, ids);
  MUST(DMI_mmap(&memory, 4096, 2, NULL));
  MUST(DMI_mmap(&report, 4096, 1, NULL));
  for (int i = 0; i < PATTERNS; i++) {
    global(memory + 1024, i);
    fill(i, &l, sizeof(l));
    local(&l);
    others(i);
  }
  zeros(memory + 1024);
  memset(&l, 0, sizeof(l));
  local(&l);
  nearly(&l);
  make(&l, memory);
  MUST(DMI_write(report + 16, sizeof(l), &l, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, ids[1], report, NULL));
  MUST(DMI_join(thread, NULL, NULL));
  destroy(&l);
  say("destroyed");
  local(&l);
  verdict("unset", report);
}
