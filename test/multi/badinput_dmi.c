/*
 * badinput_dmi.c - what a program may do wrong: each call refuses it, for the right reason, and
 * changes nothing.
 *
 *   dmirun badinput_dmi         three processes; a fourth joins when it prints "join now" and is
 *                               told to leave when it prints "leave now"
 */
#include "multi.h"

#define PROCESSES 3
#define LOOPERS 2 /* threads in each process */

enum what { LOOP, TOUCH, GATE, RETURN, CREATE };

struct job {
  int64_t what;
  int64_t addr, size;
  int64_t number;
  int64_t gate; /* 64-bit number: threads that have begun; 1000 more: go on */
  int64_t report;
};

static int32_t ids[PROCESSES + 1];
static int64_t report;

/* ---- Before and after the program ---------------------------------------------------------- */

static int32_t early_ret = 77, early_errno, early_ok;

__attribute__((constructor)) static void before(void) {
  int32_t id;
  early_ok = DMI_errno();
  early_ret = DMI_rank(&id);
  early_errno = DMI_errno();
}

static void after(void) {
  int32_t id, ret = DMI_rank(&id);
  int64_t addr = 0;
  bool good = ret == DMI_FALSE && DMI_errno() == DMI_EINACTIVE;
  good &= DMI_mmap(&addr, 8, 1, NULL) == DMI_FALSE && DMI_errno() == DMI_EINACTIVE;
  good &= DMI_read(4294967296, 8, &addr, DMI_GET_READ, NULL) == DMI_FALSE &&
          DMI_errno() == DMI_EINACTIVE;
  say("after the end: %s", good ? "DMI_EINACTIVE" : "wrong");
}

/* ---- Addresses ----------------------------------------------------------------------------- */

/* Every kind of access to [addr, addr + 8) fails with this error. */
static void all_fail(int64_t addr, int32_t error) {
  int64_t value = 1, other = 2, guard = 3;
  int8_t flag = 99;
  for (int i = 0; i < 3; i++) {
    FAILS(DMI_read(addr, 8, &guard, read_modes[i], NULL), error);
    EQ(guard, 3);
  }
  for (int i = 0; i < 2; i++) {
    FAILS(DMI_write(addr, 8, &value, write_modes[i], NULL), error);
    FAILS(DMI_cas(addr, 8, &value, &other, &flag, atomic_modes[i], NULL), error);
    FAILS(DMI_fas(addr, 8, &value, &guard, atomic_modes[i], NULL), error);
    FAILS(DMI_fad(addr, 1, &guard, atomic_modes[i], NULL), error);
    FAILS(DMI_fad(addr, 1, NULL, atomic_modes[i], NULL), error);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 0, &guard, 8, 0, atomic_modes[i], NULL), error);
    EQ(guard, 3);
    EQ(flag, 99);
  }
}

/* A call that is refused at once says so by its status, too. */
static void test_refused_status(int64_t addr) {
  for (int i = 0; i < 4; i++) {
    DMI_local_status_t status;
    int64_t value = 1;
    int8_t flag;
    int32_t ret;
    memset(&status, 0xff, sizeof(status)); /* otherwise a wait for it would never end */
    ret = i == 0   ? DMI_cas(addr, 8, NULL, &value, &flag, DMI_PUT_ATOMIC, &status)
          : i == 1 ? DMI_fas(addr, 8, NULL, &value, DMI_PUT_ATOMIC, &status)
          : i == 2 ? DMI_atomic(addr, 8, NULL, 1, NULL, 0, NULL, 0, 0, DMI_PUT_ATOMIC, &status)
                   : DMI_watch(addr, 8, NULL, &value, &status);
    EQ(ret, DMI_FALSE);
    ret = DMI_TRUE;
    DMI_wait(&status, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_EINVAL);
  }
}

/* all_fail for asynchronous calls: by the call itself or by its status. */
static void all_fail_later(int64_t addr, int32_t error) {
  DMI_local_status_t status;
  int64_t value = 1;
  for (int i = 0; i < 4; i++) {
    int32_t ret = i < 2 ? DMI_read(addr, 8, &value, read_modes[i], &status)
                        : DMI_write(addr, 8, &value, write_modes[i % 2], &status);
    if (ret == DMI_TRUE) DMI_wait(&status, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), error);
  }
}

static void test_addresses(void) {
  int64_t addr, total = 5 * 10, value = 0;
  unsigned char buf[64], want[50], zeros[64] = {0};
  OK(DMI_mmap(&addr, 10, 5, NULL));
  rng_fill(1, want, 50);
  OK(DMI_write(addr, 50, want, DMI_PUT_WRITE, NULL));
  const int64_t wrong[] = {DMI_NULL,
                           1,
                           8,
                           4096,
                           -1,
                           INT64_MIN,
                           INT64_MAX,
                           addr - 1,
                           addr + total,
                           addr + total + 4096,
                           -addr,
                           addr - 50,
                           1L << 32 >> 1,
                           INT64_MAX - 7};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    all_fail(wrong[i], DMI_EADDR);
    all_fail_later(wrong[i], DMI_EADDR);
    FAILS(DMI_munmap(wrong[i], NULL), DMI_EADDR);
  }
  FAILS(DMI_munmap(addr + 1, NULL), DMI_EADDR);
  FAILS(DMI_munmap(addr + 10, NULL), DMI_EADDR);

  /* Ranges that exceed the mapping: nothing of them is read or written. */
  const int64_t off[] = {0, 0, 49, 43, 1, 10, 49};
  const int64_t size[] = {51, INT64_MAX, 2, 8, 50, (int64_t)1 << 62, INT64_MAX};
  for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
    for (int k = 0; k < 3; k++) {
      memset(buf, 0, sizeof(buf));
      FAILS(DMI_read(addr + off[i], size[i], buf, read_modes[k], NULL), DMI_ERANGE);
      SAME(buf, zeros, 64);
    }
    for (int k = 0; k < 2; k++) {
      FAILS(DMI_write(addr + off[i], size[i], zeros, write_modes[k], NULL), DMI_ERANGE);
    }
  }
  OK(DMI_read(addr, 50, buf, DMI_GET_READ, NULL));
  SAME(buf, want, 50);

  /* Read-modify-writes: in one page. */
  const int64_t rmw_off[] = {3, 8, 49, 46, 13};
  for (size_t i = 0; i < sizeof(rmw_off) / sizeof(rmw_off[0]); i++) {
    int8_t flag = 99;
    for (int k = 0; k < 2; k++) {
      int64_t at = addr + rmw_off[i];
      FAILS(DMI_fad(at, 1, &value, atomic_modes[k], NULL), DMI_ERANGE);
      FAILS(DMI_fas(at, 8, zeros, buf, atomic_modes[k], NULL), DMI_ERANGE);
      FAILS(DMI_cas(at, 8, want + rmw_off[i], zeros, &flag, atomic_modes[k], NULL), DMI_ERANGE);
      FAILS(DMI_atomic(at, 8, NULL, 0, NULL, 0, NULL, 0, 0, atomic_modes[k], NULL), DMI_ERANGE);
      FAILS(DMI_fas(at, INT64_MAX, zeros, buf, atomic_modes[k], NULL), DMI_ERANGE);
      EQ(flag, 99);
    }
  }
  OK(DMI_read(addr, 50, buf, DMI_GET_READ, NULL));
  SAME(buf, want, 50);
  OK(DMI_munmap(addr, NULL));
  FAILS(DMI_munmap(addr, NULL), DMI_EADDR);
  all_fail(addr, DMI_EADDR);
  all_fail_later(addr, DMI_EADDR);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void test_arguments(void) {
  const int64_t big = INT64_MAX;
  const int64_t sizes[][2] = {{0, 1},
                              {1, 0},
                              {0, 0},
                              {-1, 1},
                              {1, -1},
                              {-1, -1},
                              {big, 2},
                              {2, big},
                              {big, big},
                              {big, 1},
                              {1, big},
                              {INT64_MIN, 1},
                              {1L << 31, 1L << 31},
                              {1L << 62, 1},
                              {1, 1L << 62},
                              {-4, -4}};
  const int8_t modes[] = {0, 8, 127, -1, -128, 99};
  DMI_local_status_t status;
  DMI_thread_t thread;
  DMI_node_t node;
  int64_t addr, keep = 4711, value = 0;
  int32_t number = 0, ret = 77;
  int8_t flag = 0;
  memset(&thread, 0, sizeof(thread));
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    FAILS(DMI_mmap(&keep, sizes[i][0], sizes[i][1], NULL), DMI_ESIZE);
    EQ(keep, 4711);
  }
  OK(DMI_mmap(&addr, 16, 2, NULL));
  FAILS(DMI_mmap(NULL, 8, 1, NULL), DMI_EINVAL);
  FAILS(DMI_rank(NULL), DMI_EINVAL);
  FAILS(DMI_nodes(NULL, &number, 1), DMI_EINVAL);
  FAILS(DMI_nodes(&node, NULL, 1), DMI_EINVAL);
  FAILS(DMI_nodes(&node, &number, -1), DMI_EINVAL);
  FAILS(DMI_poll(NULL), DMI_EINVAL);
  FAILS(DMI_peek(NULL, &number), DMI_EINVAL);
  FAILS(DMI_peek(&node, NULL), DMI_EINVAL);
  FAILS(DMI_create(NULL, ids[0], 0, NULL), DMI_EINVAL);
  FAILS(DMI_self(NULL), DMI_EINVAL);
  FAILS(DMI_self(&thread), DMI_ETHREAD); /* this is DMI_main */
  DMI_wait(NULL, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_EINVAL);
  FAILS(DMI_check(NULL, &ret), DMI_EINVAL);
  memset(&status, 0, sizeof(status)); /* no call was given it */
  ret = DMI_TRUE;
  DMI_wait(&status, &ret);
  EQ(ret, DMI_FALSE);
  EQ(DMI_errno(), DMI_EINVAL);
  FAILS(DMI_check(&status, &ret), DMI_EINVAL);
  test_refused_status(addr);
  for (int i = 0; i < 3; i++) {
    FAILS(DMI_read(addr, 1, NULL, read_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_read(addr, -1, &value, read_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_read(addr, INT64_MIN, &value, read_modes[i], &status), DMI_EINVAL);
    FAILS(DMI_write(addr, 1, &value, read_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_fad(addr, 1, &value, read_modes[i], NULL), DMI_EINVAL);
  }
  for (int i = 0; i < 2; i++) {
    int8_t mode = atomic_modes[i];
    FAILS(DMI_write(addr, 1, NULL, write_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_write(addr, -1, &value, write_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_read(addr, 1, &value, write_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_read(addr, 1, &value, mode, NULL), DMI_EINVAL);
    FAILS(DMI_write(addr, 1, &value, mode, &status), DMI_EINVAL);
    FAILS(DMI_fas(addr, 8, &value, &value, write_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_fas(addr, 8, NULL, &value, mode, NULL), DMI_EINVAL);
    FAILS(DMI_fas(addr, 8, &value, NULL, mode, NULL), DMI_EINVAL);
    FAILS(DMI_fas(addr, -8, &value, &value, mode, NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, 8, NULL, &value, &flag, mode, NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, 8, &value, NULL, &flag, mode, NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, 8, &value, &value, NULL, mode, NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, -8, &value, &value, &flag, mode, NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, 8, &value, &value, &flag, write_modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 1, NULL, 0, NULL, 0, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 1, NULL, 0, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 0, NULL, 1, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, &value, -1, NULL, 0, NULL, 0, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, &value, -1, NULL, 0, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 0, &value, -1, 0, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 0, NULL, 0, -1, mode, NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, -8, NULL, 0, NULL, 0, NULL, 0, 0, mode, NULL), DMI_EINVAL);
  }
  for (size_t i = 0; i < sizeof(modes); i++) {
    FAILS(DMI_read(addr, 1, &value, modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_write(addr, 1, &value, modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_fad(addr, 1, &value, modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_cas(addr, 8, &value, &value, &flag, modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_fas(addr, 8, &value, &value, modes[i], NULL), DMI_EINVAL);
    FAILS(DMI_atomic(addr, 8, NULL, 0, NULL, 0, NULL, 0, 0, modes[i], NULL), DMI_EINVAL);
  }
  value = -1;
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 0); /* nothing of this has changed anything */
  OK(DMI_munmap(addr, NULL));
}

/* DMI_save: nothing moves; what it saves is tested by test/unit/range_set_test.c. */
static void test_save(void) {
  int64_t addr, huge, num = INT64_C(1) << 30, value = 7;
  OK(DMI_mmap(&addr, 64, 4, NULL));
  OK(DMI_mmap(&huge, 8, num, NULL));
  for (int i = 0; i < 2; i++) {
    int32_t (*call)(int64_t, int64_t) = i ? DMI_unsave : DMI_save;
    FAILS(call(0, 8), DMI_EADDR);
    FAILS(call(-8, 8), DMI_EADDR);
    FAILS(call(addr + 256, 8), DMI_EADDR);
    FAILS(call(INT64_MAX, 8), DMI_EADDR);
    FAILS(call(addr, 257), DMI_ERANGE);
    FAILS(call(addr + 255, 2), DMI_ERANGE);
    FAILS(call(addr, INT64_MAX), DMI_ERANGE);
    FAILS(call(addr, -1), DMI_EINVAL);
    OK(call(addr, 0));
    OK(call(addr, 256));
    OK(call(addr + 63, 2));
    OK(call(huge, 8 * num));
    OK(call(huge + 80, 8));
    for (int64_t k = 0; k < 1000; k++)
      OK(call(huge + 800 * k, 80));
  }
  OK(DMI_save(addr, 256));
  OK(DMI_write(addr, 8, &value, DMI_PUT_WRITE, NULL));
  OK(DMI_munmap(addr, NULL));
  FAILS(DMI_save(addr, 8), DMI_EADDR);
  FAILS(DMI_unsave(addr, 8), DMI_EADDR);
  OK(DMI_munmap(huge, NULL));
}

static void test_errors(void) {
  EQ(early_ok, DMI_OK);
  EQ(early_ret, DMI_FALSE);
  EQ(early_errno, DMI_EINACTIVE);
  for (int32_t i = -3; i < 40; i++) {
    const char *text = DMI_strerror(i);
    IS(text != NULL && text[0] != '\0');
    for (int32_t k = DMI_OK; k < i && i <= DMI_ERWSET; k++) {
      IS(strcmp(text, DMI_strerror(k)) != 0);
    }
  }
  IS(DMI_strerror(INT32_MIN) != NULL && DMI_strerror(INT32_MAX) != NULL);
}

/* ---- A mapping that is unmapped while it is used ----------------------------------------------
 */

static void run(struct job *job, int32_t id, DMI_thread_t *thread) {
  int64_t addr;
  job->report = report;
  MUST(DMI_mmap(&addr, sizeof(*job), 1, NULL));
  MUST(DMI_write(addr, sizeof(*job), job, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(thread, id, addr, NULL));
}

/* Reads, writes and adds until a call fails; returns how many succeeded. */
static int64_t job_loop(const struct job *job) {
  uint64_t rng = (uint64_t)job->number;
  unsigned char buf[4096];
  int64_t rounds = 0;
  int32_t ret = DMI_TRUE;
  DMI_local_status_t status;
  for (; ret == DMI_TRUE; rounds++) {
    int64_t off = (int64_t)rng_below(&rng, (uint64_t)job->size - 8);
    int64_t size = (int64_t)rng_below(&rng, (uint64_t)(job->size - off)) + 1;
    switch (rng_below(&rng, 5)) {
      case 0:
        ret = DMI_read(job->addr + off, size, buf, any_read(&rng), NULL);
        break;
      case 1:
        ret = DMI_write(job->addr + off, size, buf, any_write(&rng), NULL);
        break;
      case 2:
        ret = DMI_fad(job->addr + off / 64 * 64, 1, NULL, any_atomic(&rng), NULL);
        break;
      case 3:
        ret = DMI_write(job->addr + off, size, buf, any_write(&rng), &status);
        if (ret) DMI_wait(&status, &ret);
        break;
      default:
        ret = DMI_read(job->addr + off, size, buf, any_read(&rng), &status);
        if (ret) DMI_wait(&status, &ret);
    }
    if (rounds == 20) MUST(DMI_fad(job->gate, 1, NULL, DMI_PUT_ATOMIC, NULL));
  }
  EQ(DMI_errno(), DMI_EADDR);
  /* Until DMI_munmap has returned, one page may be gone already and another one not yet. */
  wait_for(job->gate, 1000);
  all_fail(job->addr, DMI_EADDR);
  return rounds;
}

/* Fetches a copy and says so, or finds that the mapping is gone. */
static void job_touch(const struct job *job) {
  int64_t value = -1;
  if (job->number < 3) {
    OK(DMI_read(job->addr, 8, &value, read_modes[job->number], NULL));
    EQ(value, 5);
  } else {
    all_fail(job->addr, DMI_EADDR);
    all_fail_later(job->addr, DMI_EADDR);
    FAILS(DMI_munmap(job->addr, NULL), DMI_EADDR);
  }
}

static void test_freed(void) {
  struct job job = {.what = TOUCH, .size = 4096};
  DMI_thread_t threads[PROCESSES * LOOPERS];
  int64_t five = 5, rounds = 0, value;
  for (int32_t mode = 0; mode < 3; mode++) { /* copies in the others */
    OK(DMI_mmap(&job.addr, 64, 64, NULL));
    OK(DMI_write(job.addr, 8, &five, DMI_PUT_WRITE, NULL));
    for (int32_t i = 0; i < PROCESSES; i++) {
      job.number = mode;
      run(&job, ids[i], &threads[0]);
      OK(DMI_join(threads[0], NULL, NULL));
    }
    OK(DMI_munmap(job.addr, NULL));
    all_fail(job.addr, DMI_EADDR);
    for (int32_t i = 0; i < PROCESSES; i++) {
      job.number = 3;
      run(&job, ids[i], &threads[0]);
      OK(DMI_join(threads[0], NULL, NULL));
    }
  }
  job.what = LOOP; /* threads at work everywhere */
  for (int32_t turn = 0; turn < 3 + 2 * (scaled(10) > 1); turn++) {
    OK(DMI_mmap(&job.addr, 64, 64, NULL));
    OK(DMI_mmap(&job.gate, 8, 1, NULL));
    for (int32_t i = 0; i < PROCESSES * LOOPERS; i++) {
      job.number = turn * 100 + i;
      run(&job, ids[i % PROCESSES], &threads[i]);
    }
    wait_for(job.gate, PROCESSES * LOOPERS);
    OK(DMI_munmap(job.addr, NULL));
    all_fail(job.addr, DMI_EADDR);
    OK(DMI_fad(job.gate, 1000, NULL, DMI_PUT_ATOMIC, NULL));
    for (int32_t i = 0; i < PROCESSES * LOOPERS; i++) {
      OK(DMI_join(threads[i], &value, NULL));
      rounds += value;
    }
  }
  say("freed under %" PRId64 " accesses", rounds);
}

/* ---- Processes and threads ----------------------------------------------------------------- */

static void test_threads(void) {
  struct job job = {.what = RETURN};
  DMI_thread_t thread, garbage;
  DMI_local_status_t status;
  int32_t ret;
  int64_t value = 0;
  for (int32_t i = 0; i < PROCESSES; i++) {
    run(&job, ids[i], &thread);
    OK(DMI_join(thread, &value, NULL));
    EQ(value, 42);
    value = 7;
    FAILS(DMI_join(thread, &value, NULL), DMI_ETHREAD); /* twice */
    EQ(value, 7);
    FAILS(DMI_detach(thread, NULL), DMI_ETHREAD);
    run(&job, ids[i], &thread);
    OK(DMI_detach(thread, NULL));
    FAILS(DMI_detach(thread, NULL), DMI_ETHREAD);
    FAILS(DMI_join(thread, NULL, NULL), DMI_ETHREAD); /* detached */
    ret = DMI_join(thread, NULL, &status);
    if (ret) DMI_wait(&status, &ret);
    EQ(ret, DMI_FALSE);
    EQ(DMI_errno(), DMI_ETHREAD);
  }
  for (int i = 0; i < 12; i++) { /* never was a thread */
    const unsigned char fill[] = {0, 0xff, 0x7f, 0x80, 1};
    memset(&garbage, fill[i % 5], sizeof(garbage));
    if (i >= 5) rng_fill((uint64_t)i, &garbage, sizeof(garbage));
    if (i >= 10) garbage.dmi_private[0] = i - 9; /* perhaps a process, no thread */
    FAILS(DMI_join(garbage, &value, NULL), DMI_ETHREAD);
    FAILS(DMI_detach(garbage, NULL), DMI_ETHREAD);
  }
  EQ(value, 7);
}

static void test_ids(void) {
  const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, 99};
  DMI_thread_t thread;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    FAILS(DMI_welcome(wrong[i]), DMI_EMEMBER);
    FAILS(DMI_goodbye(wrong[i]), DMI_EMEMBER);
    FAILS(DMI_create(&thread, wrong[i], 0, NULL), DMI_EMEMBER);
  }
  for (int32_t i = 0; i < PROCESSES; i++) {
    FAILS(DMI_welcome(ids[i]), DMI_ENOTASKED);
    FAILS(DMI_goodbye(ids[i]), DMI_ENOTASKED);
  }
}

/* Creates threads at a process until it is gone. */
static int64_t job_create(const struct job *job) {
  struct job inner = {.what = RETURN, .report = job->report};
  DMI_thread_t thread;
  int64_t addr, created = 0, value;
  int32_t error;
  MUST(DMI_mmap(&addr, sizeof(inner), 1, NULL));
  MUST(DMI_write(addr, sizeof(inner), &inner, DMI_PUT_WRITE, NULL));
  for (;;) {
    if (DMI_create(&thread, (int32_t)job->number, addr, NULL) == DMI_TRUE) {
      OK(DMI_join(thread, &value, NULL));
      EQ(value, 42);
      created++;
      continue;
    }
    error = DMI_errno();
    IS(error == DMI_ELEAVING || error == DMI_EMEMBER);
    if (error == DMI_EMEMBER) return created;
    if (error != DMI_ELEAVING) return -1;
    sched_yield();
  }
}

static void test_fourth(void) {
  struct job job = {.what = GATE};
  DMI_thread_t thread, creator;
  DMI_node_t node;
  int64_t value, busy = 0;
  int32_t id, flag = 77;
  say("join now");
  OK(DMI_poll(&node));
  EQ(node.state, DMI_OPEN);
  id = node.dmi_id;
  for (int32_t i = 0; i < PROCESSES; i++)
    IS(ids[i] != id);
  FAILS(DMI_create(&thread, id, 0, NULL), DMI_ELEAVING); /* not welcome yet */
  FAILS(DMI_goodbye(id), DMI_ENOTASKED);
  OK(DMI_welcome(id));
  FAILS(DMI_welcome(id), DMI_ENOTASKED);

  OK(DMI_mmap(&job.gate, 8, 1, NULL));
  run(&job, id, &thread);
  say("leave now");
  OK(DMI_poll(&node));
  EQ(node.state, DMI_CLOSE);
  EQ(node.dmi_id, id);
  for (int i = 0; i < 5; i++)
    FAILS(DMI_goodbye(id), DMI_EBUSY);
  OK(DMI_fad(job.gate, 1000, &value, DMI_PUT_ATOMIC, NULL));
  OK(DMI_join(thread, &value, NULL));
  EQ(value, 43);
  /* Threads are still created there while it is told to leave. */
  job.what = CREATE;
  job.number = id;
  run(&job, ids[1], &creator);
  while (DMI_goodbye(id) == DMI_FALSE) {
    if (!IS(DMI_errno() == DMI_EBUSY)) break;
    busy++;
    sched_yield();
  }
  OK(DMI_join(creator, &value, NULL));
  IS(value >= 0);
  say("the fourth left after %" PRId64 " more threads, busy %" PRId64 " times", value, busy);
  FAILS(DMI_goodbye(id), DMI_EMEMBER);
  FAILS(DMI_welcome(id), DMI_EMEMBER);
  FAILS(DMI_create(&thread, id, 0, NULL), DMI_EMEMBER);
  OK(DMI_peek(&node, &flag));
  EQ(flag, DMI_FALSE);
}

/* ---- The program --------------------------------------------------------------------------- */

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)out1_ptr, (void)out1_size, (void)out2_ptr, (void)out2_size, (void)in_ptr, (void)in_size;
  (void)tag;
  memset(page_ptr, 0x77, (size_t)size); /* only ever called by mistake */
}

int64_t DMI_thread(int64_t addr) {
  struct job job;
  int64_t value = 0;
  MUST(DMI_read(addr, sizeof(job), &job, DMI_GET_READ, NULL));
  switch ((enum what)job.what) {
    case LOOP:
      value = job_loop(&job);
      break;
    case TOUCH:
      job_touch(&job);
      break;
    case GATE:
      wait_for(job.gate, 1000);
      value = 43;
      break;
    case RETURN:
      return 42;
    case CREATE:
      value = job_create(&job);
      break;
  }
  check_report(job.report);
  return value;
}

void DMI_main(int argc, char **argv) {
  (void)argc, (void)argv;
  atexit(after);
  gather(PROCESSES, ids);
  MUST(DMI_mmap(&report, 16, 1, NULL));
  test_errors();
  test_save();
  test_addresses();
  test_arguments();
  test_ids();
  test_threads();
  test_freed();
  test_fourth();
  verdict("badinput", report);
}
