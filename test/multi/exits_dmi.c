/*
 * exits_dmi.c - threads and processes that a program ends by itself while it runs.
 *
 *   dmirun exits_dmi threads       pthread_exit in DMI threads here and in another process, which
 *                                  leaves then; pthread_cancel
 *   dmirun exits_dmi main          pthread_exit in DMI_main: a thread goes on
 *   dmirun exits_dmi function      ... in DMI_function,
 *   dmirun exits_dmi far           in DMI_function that another process runs for this one,
 *   dmirun exits_dmi own           in DMI_function that a thread of the program itself runs,
 *   dmirun exits_dmi remote        in a remote function,
 *   dmirun exits_dmi task          in a task of a farm,
 *   dmirun exits_dmi event         in the function that a farm tells of events,
 *   dmirun exits_dmi scale         in DMI_scaleunit,
 *   dmirun exits_dmi init          in DMI_init: none of these can be
 *   dmirun exits_dmi exit|quick|_exit    so ends a thread of the second process
 *   dmirun exits_dmi exit0|_exit0  likewise, and the program goes on
 *   dmirun exits_dmi alone         exit(0) in DMI_main, and there is no other process
 *   dmirun exits_dmi wait          waits until the second process is lost
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "dmi_farm.h"
#include "dmi_remote.h"
#include "multi.h"

#define THREADS 30

/* What a thread is to do, by its argument. */
enum {
  DEEP = 1,
  CLEANUP,
  CANCEL,
  CANCELLED,
  LOCK,
  RETURN,
  SLOW,
  SAYS,
  EXIT,
  QUICK,
  NOW,
  LONG,
  EXIT0,
  NOW0
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int destroyed;

static void destroy(void *value) {
  (void)value;
  for (int i = 0; i < 30; i++)
    sched_yield();
  destroyed++;
}

static void make_key(void) {
  (void)pthread_key_create(&key, destroy);
}

__attribute__((noinline)) static void deep(int64_t value, int depth) {
  char frame[200];
  snprintf(frame, sizeof(frame), "%d", depth);
  if (atoi(frame)) deep(value, depth - 1);
  pthread_exit((void *)(intptr_t)value);
}

static void store(void *addr) {
  const int64_t value = 4711;
  OK(DMI_write((int64_t)(intptr_t)addr, 8, &value, DMI_PUT_WRITE, NULL));
}

/* Global memory is used from handlers, too. */
static void clean_up(int64_t addr) {
  pthread_cleanup_push(store, (void *)(intptr_t)addr);
  pthread_exit((void *)5);
  pthread_cleanup_pop(0);
}

static int64_t cancelled(bool allowed) {
  if (allowed) pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  pthread_cancel(pthread_self());
  pthread_testcancel();
  return 6; /* it is not allowed */
}

int64_t DMI_thread(int64_t addr) {
  int64_t what;
  MUST(DMI_read(addr, 8, &what, DMI_GET_READ, NULL));
  switch (what) {
    case DEEP:
      deep(-4711, 20);
      return 0;
    case CLEANUP:
      clean_up(addr);
      return 0;
    case CANCEL:
      return cancelled(false);
    case CANCELLED:
      return cancelled(true);
    case LOCK:
      OK(DMI_mutex_lock(addr + 8));
      pthread_exit((void *)7);
    case SLOW:
      (void)pthread_once(&once, make_key);
      (void)pthread_setspecific(key, &key);
      pthread_exit((void *)8);
    case SAYS:
      say("a thread goes on");
      return 0;
    case EXIT:
      exit(3);
    case QUICK:
      quick_exit(4);
    case NOW:
      _exit(5);
    case EXIT0:
      exit(0);
    case NOW0:
      _exit(0);
    case LONG:
      say("waits");
      for (;;)
        OK(DMI_suspend());
    default:
      return 1;
  }
}

static int64_t run(int32_t id, int64_t addr, int64_t what) {
  DMI_thread_t thread;
  int64_t value = 0;
  MUST(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, id, addr, NULL));
  MUST(DMI_join(thread, &value, NULL));
  return value;
}

static void all_ends(int32_t id, int64_t addr) {
  int64_t value = 0;
  EQ(run(id, addr, DEEP), -4711);
  EQ(run(id, addr, CLEANUP), 5);
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 4711);
  EQ(run(id, addr, CANCEL), 6);
  EQ(run(id, addr, CANCELLED), -1); /* PTHREAD_CANCELED */
  EQ(run(id, addr, SLOW), 8);
  EQ(run(id, addr, RETURN), 1);
}

static void await(int32_t state, int32_t *id) {
  DMI_node_t node;
  MUST(DMI_poll(&node));
  EQ(node.state, state);
  *id = node.dmi_id;
}

/* Many at once, each second one detached: who knows when it has read what to do. */
static void many(int32_t id, int64_t addr) {
  static DMI_thread_t thread[THREADS];
  const int64_t what = DEEP;
  int64_t value;
  MUST(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  for (int i = 0; i < THREADS; i++)
    MUST(DMI_create(&thread[i], id, addr, NULL));
  for (int i = 0; i < THREADS; i++) {
    value = 0;
    if (i % 2) OK(DMI_detach(thread[i], NULL));
    if (i % 2) continue;
    OK(DMI_join(thread[i], &value, NULL));
    EQ(value, -4711);
  }
}

static void case_threads(int64_t addr) {
  DMI_thread_t kept;
  const int64_t what = DEEP;
  int64_t value = 0;
  int32_t id, me, taken = DMI_TRUE;
  OK(DMI_rank(&me));
  await(DMI_OPEN, &id);
  OK(DMI_welcome(id));
  all_ends(me, addr);
  EQ(destroyed, 1); /* before it counts as ended */
  all_ends(id, addr);
  many(me, addr + 16);
  many(id, addr + 16);
  /* A lock stays locked, as with a thread that returns. */
  OK(DMI_mutex_init(addr + 8));
  EQ(run(id, addr, LOCK), 7);
  OK(DMI_mutex_trylock(addr + 8, &taken));
  EQ(taken, DMI_FALSE);
  /* A result is kept when its process leaves. */
  MUST(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&kept, id, addr, NULL));
  say("leave now");
  await(DMI_CLOSE, &id);
  while (!DMI_goodbye(id)) /* the thread may still run */
    EQ(DMI_errno(), DMI_EBUSY);
  OK(DMI_join(kept, &value, NULL));
  EQ(value, -4711);
  verdict("exits", 0);
}

/* ---- DMI_main -------------------------------------------------------------------------------- */

static void at_end(void) {
  say("handlers of atexit run");
}

static void case_main(int64_t addr) {
  DMI_thread_t thread;
  int32_t me;
  const int64_t what = SAYS;
  (void)atexit(at_end);
  OK(DMI_rank(&me));
  MUST(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, me, addr, NULL));
  MUST(DMI_detach(thread, NULL));
  say("DMI_main ends");
  pthread_exit(NULL);
}

/* ---- What has to return ---------------------------------------------------------------------- */

void DMI_function(void *page_ptr, int64_t size, void *out1_ptr, int64_t out1_size, void *out2_ptr,
                  int64_t out2_size, void *in_ptr, int64_t in_size, int8_t tag) {
  (void)page_ptr, (void)size, (void)out1_ptr, (void)out1_size, (void)out2_ptr, (void)out2_size;
  (void)in_ptr, (void)in_size, (void)tag;
  pthread_exit(NULL);
}

DMI_REMOTE(leaves) {
  (void)call;
  pthread_exit(NULL);
}

static void case_remote(void) {
  DMI_client_t *client;
  MUST(DMI_client_open(&client, NULL));
  OK(DMI_call(client, leaves));
  OK(DMI_client_close(client));
}

int32_t DMI_scaleunit(int my_rank, int pnum, int64_t scaleunit_addr) {
  (void)my_rank, (void)pnum, (void)scaleunit_addr;
  pthread_exit(NULL);
}

void DMI_init(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "init") == 0) pthread_exit(NULL);
}

static void case_function(int64_t addr) {
  char byte = 0;
  OK(DMI_atomic(addr, 8, &byte, 1, &byte, 1, &byte, 1, 1, DMI_EXCLUSIVE_ATOMIC, NULL));
}

static void *asks(void *addr) {
  case_function((int64_t)(intptr_t)addr);
  return NULL;
}

static void case_own(int64_t addr) {
  pthread_t thread;
  IS(pthread_create(&thread, NULL, asks, (void *)(intptr_t)addr) == 0 &&
     pthread_join(thread, NULL) == 0);
}

int32_t DMI_farm_task(int64_t task, void *out, int64_t size, const void *job) {
  (void)task, (void)out, (void)size;
  if (job) pthread_exit(NULL);
  return 0;
}

static void on_event(const DMI_farm_event_t *event, void *arg) {
  (void)event, (void)arg;
  pthread_exit(NULL);
}

static void case_farm(bool in_task) {
  DMI_farm_t farm = {.tasks = 1};
  if (in_task) {
    farm.job = "exit";
    farm.job_size = 5;
  } else {
    farm.event = on_event;
    farm.processes = 2; /* it tells that one is missing, and begins no thread */
  }
  OK(DMI_farm_run(&farm));
}

/* The page is the other process's, and stays there. */
static void case_far(int64_t addr, int32_t id) {
  char byte = 0;
  EQ(run(id, addr, RETURN), 1);
  (void)DMI_atomic(addr + 4096, 8, &byte, 1, &byte, 1, &byte, 1, 1, DMI_PUT_ATOMIC, NULL);
}

/* The other process ends, and the program goes on. */
static void case_survived(int64_t addr, int32_t id, int64_t what) {
  DMI_thread_t thread;
  int32_t lost;
  MUST(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  MUST(DMI_create(&thread, id, addr, NULL));
  await(DMI_LOST, &lost);
  EQ(lost, id);
  say("it is lost");
}

/* ---- All ------------------------------------------------------------------------------------- */

static int64_t ending(const char *what) {
  if (strcmp(what, "exit") == 0) return EXIT;
  if (strcmp(what, "quick") == 0) return QUICK;
  return strcmp(what, "_exit") == 0 ? NOW : LONG;
}

static void with_another(const char *what, int64_t addr) {
  int32_t id;
  await(DMI_OPEN, &id);
  OK(DMI_welcome(id));
  if (strcmp(what, "far") == 0) {
    case_far(addr, id);
  } else if (strcmp(what, "exit0") == 0 || strcmp(what, "_exit0") == 0) {
    case_survived(addr, id, *what == 'e' ? EXIT0 : NOW0);
  } else {
    (void)run(id, addr, ending(what));
  }
}

void DMI_main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "threads";
  int64_t addr;
  int32_t me;
  await(DMI_OPEN, &me);
  OK(DMI_welcome(me));
  MUST(DMI_mmap(&addr, 4096, 2, NULL));
  if (strcmp(what, "threads") == 0) {
    case_threads(addr);
  } else if (strcmp(what, "main") == 0) {
    case_main(addr);
  } else if (strcmp(what, "function") == 0) {
    case_function(addr);
  } else if (strcmp(what, "own") == 0) {
    case_own(addr);
  } else if (strcmp(what, "task") == 0 || strcmp(what, "event") == 0) {
    case_farm(*what == 't');
  } else if (strcmp(what, "remote") == 0) {
    case_remote();
  } else if (strcmp(what, "alone") == 0) {
    exit(0);
  } else if (strcmp(what, "scale") == 0) {
    (void)DMI_rescale(addr, 1, 1);
  } else {
    with_another(what, addr);
  }
}
