/*
 * told_dmi.c - calls that fail and nobody asks: what told.t runs with --on-error.
 *
 *   dmirun told_dmi [late|wait|function]        none: all that print; the others: one that aborts
 *
 * Each call that must have a line of its own says so on stdout, `want LINE FUNCTION text`; all
 * others must be silent.  What DMI_error_reason then tells is said, too, `reason LINE text`.
 */
#include <pthread.h>

#include "dmi_ext.h"
#include "multi.h"

static int64_t addr, gone, report;
static int64_t of_program = 1; /* no global address is that of a variable */
static int32_t me;

/* The line of the call, in this function, must have this text behind the place. */
#define TELLS(call, text) (say("want %d %s %s", __LINE__, __func__, text), (call))
#define REFUSED(call, text)             \
  do {                                  \
    IS(TELLS(call, text) == DMI_FALSE); \
    say_reason(__LINE__);               \
  } while (0)

static void say_reason(int line) {
  say("reason %d %s", line, DMI_error_reason());
}

/* The end of a line about an address that is in `addr`. */
#define IN_PAGE(number) \
  " \\[page " number " of the mapping at 0x[0-9a-f]+ \\(3 pages of 100 bytes\\)\\]$"

/* Also in another thread, and in a function of it. */
int64_t DMI_thread(int64_t arg) {
  const char bytes[28] = "more than a number";
  DMI_thread_t self;
  int64_t value;
  if (arg == 1) {
    REFUSED(DMI_read(addr, 8, &value, 99, NULL), "DMI_read\\(0x");
    REFUSED(DMI_mutex_lock(gone),
            "DMI_EADDR: the mapping at 0x[0-9a-f]+ \\(1 page of 8 bytes\\) was unmapped by "
            "DMI_munmap at .*told_dmi.*, in the thread of DMI_main$");
    MUST(DMI_self(&self));
    OK(DMI_wake_with(self, bytes, sizeof(bytes), NULL));
    REFUSED(DMI_suspend_with(&value, sizeof(value), NULL),
            "DMI_suspend_with failed with DMI_ESIZE: there are 28 bytes, but room for 8$");
  }
  for (int64_t looks = 0; arg == 2 && get_int64(report + 16) == 0; looks++)
    look_again(looks);
  return arg;
}

/* Not on stdout: that may be in use by the thread that asked for it. */
void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)page_ptr, (void)size, (void)out1_ptr, (void)out1_size, (void)out2_ptr, (void)out2_size;
  (void)in_ptr, (void)in_size, (void)tag;
  (void)DMI_rank(&me);
}

__attribute__((noinline)) static void addresses(void) {
  int64_t value = 0;
  REFUSED(DMI_read(addr + 304, 8, &value, DMI_GET_READ, NULL),
          "it is 4 bytes beyond the end of the mapping at 0x[0-9a-f]+ \\(3 pages of 100 bytes\\), "
          "the nearest one");
  REFUSED(DMI_write(addr - 7, 1, &value, DMI_PUT_WRITE, NULL),
          "1 byte\\) failed with DMI_EADDR: it is 7 bytes before the mapping at 0x");
  REFUSED(DMI_read(DMI_NULL, 8, &value, DMI_GET_READ, NULL), "the address is DMI_NULL");
  REFUSED(DMI_read(-1, 8, &value, DMI_GET_READ, NULL), "DMI never gives out such an address");
  REFUSED(DMI_read(123, 8, &value, DMI_GET_READ, NULL),
          "addresses of DMI begin at 0x100000000: is");
  REFUSED(DMI_read((int64_t)(intptr_t)&value, 8, &value, DMI_GET_READ, NULL),
          "DMI_EADDR: it is a pointer of C.*; global addresses come from DMI_mmap and DMI_malloc$");
  REFUSED(DMI_write((int64_t)(intptr_t)&of_program, 8, &value, DMI_PUT_WRITE, NULL),
          "it is a pointer of C, into .*told_dmi.*; global addresses come from");
  REFUSED(DMI_munmap(addr + 8, NULL), "8 bytes after the start of the mapping .*: pass the start");
  REFUSED(DMI_free(addr), "DMI_EADDR: no object of DMI_malloc begins there, in the mapping at");
  REFUSED(DMI_read(addr + 296, 8, &value, DMI_GET_READ, NULL),
          "DMI_ERANGE: 4 of the 8 bytes are beyond the end of the mapping at");
  REFUSED(DMI_read(addr + 293, 8, &value, DMI_GET_READ, NULL),
          "DMI_ERANGE: 1 of the 8 bytes is beyond the end of the mapping at");
  REFUSED(
      DMI_fad(addr + 196, 1, &value, DMI_PUT_ATOMIC, NULL),
      "4 of the 8 bytes are beyond the end of the page, number 1 of the mapping at .* must lie");
}

__attribute__((noinline)) static void arguments(void) {
  const int64_t items[3] = {addr, addr + 10, addr + 20}, sizes[3] = {8, 8, 8};
  const int64_t offsets[3] = {0, 8, 16}, far[3] = {0, 8, 1000};
  DMI_local_group_t group;
  int64_t value = 0;
  REFUSED(DMI_read(addr, 8, NULL, DMI_GET_READ, NULL),
          "8 bytes\\) failed .*: the buffer is NULL" IN_PAGE("0"));
  REFUSED(DMI_read(addr, -8, &value, DMI_GET_READ, NULL),
          "-8 bytes\\) .*: the size is negative: -8" IN_PAGE("0"));
  REFUSED(DMI_write(addr, 8, &value, DMI_GET_READ, NULL),
          "the mode is not one of DMI_EXCLUSIVE_WRITE, DMI_PUT_WRITE" IN_PAGE("0"));
  REFUSED(DMI_mmap(&value, 0, 5, NULL), "DMI_ESIZE: the page size is not positive: 0$");
  REFUSED(DMI_mmap(&value, INT64_C(1) << 40, 1 << 22, NULL),
          "DMI_ESIZE: 4194304 pages of 1099511627776 bytes are 2\\^62 bytes or more$");
  REFUSED(DMI_malloc(&value, -3, 8), "DMI_ESIZE: the size is not positive: -3$");
  REFUSED(DMI_cas(addr + 100, 8, &value, &value, NULL, DMI_PUT_ATOMIC, NULL),
          "a pointer is NULL" IN_PAGE("1"));
  REFUSED(DMI_group_init(&group, items, offsets, sizes, 3), "exchanged: the order is");
  REFUSED(
      DMI_group_init(&group, items, far, sizes, 3),
      "DMI_group_init\\(0x[0-9a-f]+, 1000 bytes\\) failed with DMI_ERANGE: .* all items would be "
      "right");
  REFUSED(DMI_group_init(&group, items, far, far, 3), "720 of the 1000 bytes are beyond the end");
  memset(&group, 0, sizeof(group));
  REFUSED(DMI_group_read(&group, &value, NULL),
          "the group was never initialised \\(DMI_group_init");
  REFUSED(DMI_check(NULL, NULL), "DMI_check failed with DMI_EINVAL: the status is NULL$");
}

static void *lock_only(void *arg) {
  (void)arg;
  OK(DMI_mutex_lock(addr));
  return NULL;
}

__attribute__((noinline)) static void objects(void) {
  const int64_t other[5] = {1, 2, 3, 4, 5}, zeros[5] = {0};
  DMI_local_barrier_t barrier;
  pthread_t holder;
  DMI_thread_t self;
  int32_t flag;
  MUST(DMI_write(addr, sizeof(other), other, DMI_PUT_WRITE, NULL));
  REFUSED(DMI_mutex_lock(addr),
          "DMI_EINVAL: there is no mutex \\(DMI_mutex_init makes one\\): its bytes are "
          "0100000000000000 0200000000000000" IN_PAGE("0"));
  REFUSED(DMI_cond_signal(addr), "there is no condition \\(DMI_cond_init makes one\\): its bytes");
  REFUSED(DMI_idpool_get(addr, &flag), "there is no pool of numbers \\(DMI_idpool_init makes one");
  OK(DMI_local_barrier_init(&barrier, addr));
  REFUSED(DMI_local_barrier_sync(&barrier, 1),
          "DMI_local_barrier_sync\\(0x[0-9a-f]+, 40 bytes\\) .*: there is no barrier "
          "\\(DMI_barrier_init makes one\\): its bytes are (?:[0-9a-f]{16} ){5}\\[page 0 of");
  OK(DMI_local_barrier_destroy(&barrier));
  REFUSED(DMI_local_barrier_sync(&barrier, 1), "the local barrier has been destroyed$");
  memset(&barrier, 0, sizeof(barrier));
  REFUSED(DMI_local_barrier_sync(&barrier, 1),
          "the local barrier was never initialised \\(DMI_local_barrier_init\\)$");
  MUST(DMI_write(addr, sizeof(zeros), zeros, DMI_PUT_WRITE, NULL));
  REFUSED(DMI_mutex_unlock(addr),
          "DMI_EHOLDER: nobody holds it: it was unlocked already, or initialised again, or never "
          "locked" IN_PAGE("0"));
  IS(pthread_create(&holder, NULL, lock_only, NULL) == 0 && pthread_join(holder, NULL) == 0);
  REFUSED(DMI_mutex_unlock(addr),
          "DMI_EHOLDER: the calling thread does not hold it, but another "
          "one of this process" IN_PAGE("0"));
  OK(DMI_mutex_init(addr));
  OK(DMI_mutex_lock(addr));
  REFUSED(DMI_mutex_lock(addr), "DMI_EHOLDER: the calling thread holds it already" IN_PAGE("0"));
  REFUSED(DMI_mutex_destroy(addr), "DMI_EBUSY: a thread holds it" IN_PAGE("0"));
  REFUSED(DMI_cond_signal(addr),
          "there is no condition \\(DMI_cond_init makes one\\), but a mutex or");
  REFUSED(DMI_cond_wait(addr + 40, addr + 60),
          "DMI_EHOLDER: the calling thread does not hold the mutex" IN_PAGE("0"));
  OK(DMI_mutex_unlock(addr));
  REFUSED(DMI_suspend(), "the calling thread was not made by DMI_create$");
  REFUSED(DMI_self(&self), "the calling thread was not made by DMI_create$");
  REFUSED(DMI_check_rescale(&flag), "DMI_ETHREAD: the calling thread does not run DMI_scaleunit$");
  OK(DMI_mutex_trylock(addr, &flag));
  OK(DMI_mutex_unlock(addr));
  REFUSED(DMI_welcome(77), "DMI_welcome\\(process 77\\) failed with DMI_EMEMBER");
  REFUSED(DMI_welcome(me), "DMI_ENOTASKED: that process was welcomed before$");
  OK(DMI_write(addr + 300, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL)); /* does not change the reason */
  IS(strcmp(DMI_error_reason(), "that process was welcomed before") == 0);
}

/* What returns DMI_FALSE and is no failure, or fails inside a call that does not. */
__attribute__((noinline)) static void silent(void) {
  DMI_local_status_t status;
  DMI_node_t node;
  int32_t flag = 7, ret = 7;
  int64_t value = 0, more = 0;
  OK(DMI_peek(&node, &flag));
  EQ(flag, DMI_FALSE);
  OK(DMI_mutex_lock(addr));
  OK(DMI_mutex_trylock(addr, &flag));
  EQ(flag, DMI_FALSE);
  OK(DMI_mutex_unlock(addr));
  OK(DMI_watch(addr + 200, 8, &value, &more, &status));
  EQ(DMI_check(&status, &ret), DMI_FALSE);
  EQ(ret, 7);
  value = 5;
  OK(DMI_write(addr + 200, 8, &value, DMI_PUT_WRITE, NULL));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, &status));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_TRUE);
  OK(DMI_write(addr + 300, 0, NULL, DMI_EXCLUSIVE_WRITE, NULL));
  IS(strcmp(DMI_error_reason(), "no error") == 0);
}

/* A status that was given to no call, whose bytes look like those of one that has failed. */
__attribute__((noinline)) static void given_to_none(void) {
  const uint32_t bytes[] = {2, DMI_EADDR, 0, 1u << 30};
  DMI_local_status_t status;
  int32_t ret = 7;
  memset(&status, 0, sizeof(status));
  memcpy(&status, bytes, sizeof(bytes));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_FALSE);
}

/* The call that begins is named by the one that tells. */
__attribute__((noinline)) static void later(void) {
  DMI_local_status_t status;
  int64_t value = 0, more, page;
  int32_t ret = 7;
  for (int i = 0; i < 2; i++) {
    MUST(DMI_mmap(&page, 8, 1, NULL));
    OK(TELLS(DMI_watch(page, 8, &value, &more, &status), i ? "begun there, failed with DMI_EADDR, "
                                                             "as DMI_check at .*told_dmi"
                                                           : "begun there, failed with DMI_EADDR, "
                                                             "as DMI_wait at .*told_dmi"));
    OK(DMI_munmap(page, NULL));
    if (i == 0) {
      DMI_wait(&status, &ret);
    } else {
      for (int64_t looks = 0; !DMI_check(&status, &ret); looks++)
        look_again(looks);
    }
    EQ(ret, DMI_FALSE);
    say_reason(0);
  }
  /* A call that is refused at once says so itself; waiting for it says nothing more. */
  REFUSED(DMI_cas(addr, 8, &value, NULL, NULL, DMI_PUT_ATOMIC, &status),
          "a pointer is NULL" IN_PAGE("0"));
  DMI_wait(&status, &ret);
  EQ(ret, DMI_FALSE);
}

__attribute__((noinline)) static void one_that_aborts(const char *which) {
  DMI_local_status_t status;
  int64_t value = 0, more;
  if (strcmp(which, "wait") == 0) {
    OK(DMI_watch(addr, 8, &value, &more, &status));
    OK(DMI_munmap(addr, NULL));
    DMI_wait(&status, NULL);
  } else {
    DMI_read(gone, 8, &value, DMI_GET_READ, NULL);
  }
  say("still here");
}

void DMI_main(int argc, char **argv) {
  DMI_thread_t thread;
  int64_t value;
  gather(1, &me);
  MUST(DMI_mmap(&report, 24, 1, NULL));
  MUST(DMI_mmap(&gone, 8, 1, NULL));
  MUST(DMI_munmap(gone, NULL));
  MUST(DMI_mmap(&addr, 100, 3, NULL));
  if (argc > 1) {
    one_that_aborts(argv[1]);
    return;
  }
  silent();
  given_to_none();
  addresses();
  arguments();
  objects();
  later();
  MUST(DMI_create(&thread, me, 1, NULL));
  MUST(DMI_join(thread, &value, NULL));
  REFUSED(DMI_join(thread, &value, NULL),
          "DMI_join failed with DMI_ETHREAD: no such thread is left");
  REFUSED(DMI_wake(thread, NULL), "DMI_wake failed with DMI_ETHREAD: no such thread is left");
  REFUSED(DMI_goodbye(me), "DMI_ENOTASKED: that process has not asked to leave$");
  MUST(DMI_create(&thread, me, 2, NULL));
  OK(DMI_detach(thread, NULL));
  REFUSED(DMI_join(thread, NULL, NULL), "DMI_ETHREAD: that thread is detached$");
  put_int64(report + 16, 1);
  OK(DMI_atomic(addr, 8, NULL, 0, NULL, 0, NULL, 0, 0, DMI_PUT_ATOMIC, NULL));
  say("want_function");
  verdict("told", report);
}
