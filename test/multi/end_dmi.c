/*
 * end_dmi.c - ways in which a program ends.
 *
 *   dmirun end_dmi wait           says goodbye to itself when asked to leave
 *   dmirun end_dmi return N       DMI_main returns when N others have asked to join, unwelcomed
 *   dmirun end_dmi unwelcome      one asks to join and to leave, another to join: none is answered
 *   dmirun end_dmi first          the first process leaves, a thread elsewhere goes on: it
 *                                 welcomes the next process and runs a thread there
 *   dmirun end_dmi last           one process: asked to leave, dismissed, DMI_main goes on
 *   dmirun end_dmi stuck          a thread elsewhere does not end when its process is to leave
 *   dmirun end_dmi early          a process asks to leave that was never welcomed
 *   dmirun end_dmi exit N         DMI_main calls exit(N)
 *   dmirun end_dmi lost N         a thread in each of N others, and all wait for ever
 *   dmirun end_dmi all            all ask to leave at once; each is dismissed
 */
#include "multi.h"

static void await(int32_t state, int32_t *id) {
  DMI_node_t node;
  MUST(DMI_poll(&node));
  EQ(node.state, state);
  *id = node.dmi_id;
}

/* ---- What threads do ----------------------------------------------------------------------- */

/* A number in global memory tells the thread what to do: its first word. */
enum { HANDLE = 1, HELLO = 2, STUCK = 3 };

/* Takes over from DMI_main, in the second process: the first one leaves, another joins. */
static int64_t handle(int64_t addr) {
  DMI_thread_t thread;
  int32_t id, me;
  int64_t what = HELLO, value;
  OK(DMI_rank(&me));
  await(DMI_CLOSE, &id);
  IS(id != me);
  OK(DMI_goodbye(id));
  say("first one gone");
  OK(DMI_read(addr + 8, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 4711); /* what it wrote has stayed */
  await(DMI_OPEN, &id);
  OK(DMI_welcome(id));
  OK(DMI_write(addr, 8, &what, DMI_PUT_WRITE, NULL));
  OK(DMI_create(&thread, id, addr, NULL));
  OK(DMI_join(thread, &value, NULL));
  EQ(value, 4712);
  OK(DMI_munmap(addr, NULL));
  verdict("end", 0);
  return 0; /* nothing runs any more: the program is over */
}

int64_t DMI_thread(int64_t addr) {
  int64_t what, value;
  MUST(DMI_read(addr, 8, &what, DMI_GET_READ, NULL));
  switch (what) {
    case HANDLE:
      return handle(addr);
    case HELLO:
      say("a thread goes on");
      MUST(DMI_fad(addr + 8, 1, &value, DMI_PUT_ATOMIC, NULL));
      return value + 1;
    default:
      say("stuck");
      wait_for(addr + 8, INT64_MAX); /* never */
      return 0;
  }
}

/* ---- What DMI_main does -------------------------------------------------------------------- */

/* Welcomes the next process and starts a thread there. */
static void start_elsewhere(int64_t what) {
  int64_t addr, words[2] = {what, 4711};
  DMI_thread_t thread;
  int32_t id;
  MUST(DMI_mmap(&addr, 16, 1, NULL));
  MUST(DMI_write(addr, 16, words, DMI_EXCLUSIVE_WRITE, NULL));
  await(DMI_OPEN, &id);
  MUST(DMI_welcome(id));
  MUST(DMI_create(&thread, id, addr, NULL));
  MUST(DMI_detach(thread, NULL));
}

static void last(int32_t me) {
  int64_t addr, value = 5;
  int32_t id, num;
  DMI_node_t node;
  MUST(DMI_mmap(&addr, 8, 1, NULL));
  MUST(DMI_write(addr, 8, &value, DMI_EXCLUSIVE_WRITE, NULL));
  say("waiting");
  await(DMI_CLOSE, &id);
  EQ(id, me);
  OK(DMI_goodbye(id));
  say("dismissed"); /* but DMI_main goes on, and may use everything */
  value = 0;
  OK(DMI_read(addr, 8, &value, DMI_GET_READ, NULL));
  EQ(value, 5);
  OK(DMI_fad(addr, 1, &value, DMI_EXCLUSIVE_ATOMIC, NULL));
  EQ(value, 5);
  OK(DMI_nodes(&node, &num, 1));
  EQ(num, 0); /* a dismissed process is no member */
  FAILS(DMI_create(&(DMI_thread_t){{0}}, me, addr, NULL), DMI_ELEAVING);
  OK(DMI_munmap(addr, NULL));
  verdict("end", 0);
}

static void early(void) {
  int32_t joiner, id;
  await(DMI_OPEN, &joiner);
  say("asked to join");
  await(DMI_CLOSE, &id);
  EQ(id, joiner);
  OK(DMI_goodbye(id));
  verdict("end", 0);
}

static void all(int32_t others, int32_t me) {
  int32_t id;
  for (int32_t i = 0; i < others; i++) {
    await(DMI_OPEN, &id);
    OK(DMI_welcome(id));
  }
  say("all there");
  for (int32_t i = 0; i <= others; i++) {
    await(DMI_CLOSE, &id);
    OK(DMI_goodbye(id));
    say(id == me ? "dismissed myself" : "dismissed another");
  }
  verdict("end", 0);
}

void DMI_main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "";
  int32_t number = argc > 2 ? atoi(argv[2]) : 0, me, id;
  MUST(DMI_rank(&me));
  await(DMI_OPEN, &id);
  EQ(id, me);
  MUST(DMI_welcome(me));
  if (strcmp(way, "wait") == 0) {
    say("waiting");
    await(DMI_CLOSE, &id);
    MUST(DMI_goodbye(id));
  } else if (strcmp(way, "return") == 0) {
    for (int32_t i = 0; i < number; i++)
      await(DMI_OPEN, &id);
    say("returning");
  } else if (strcmp(way, "unwelcome") == 0) {
    await(DMI_OPEN, &id);
    await(DMI_CLOSE, &id);
    say("not answered");
    await(DMI_OPEN, &id);
  } else if (strcmp(way, "first") == 0) {
    start_elsewhere(HANDLE);
    say("returning");
  } else if (strcmp(way, "stuck") == 0) {
    start_elsewhere(STUCK);
    await(DMI_CLOSE, &id);
    FAILS(DMI_goodbye(id), DMI_EBUSY);
    say("busy");
    DMI_poll(&(DMI_node_t){0}); /* for ever */
  } else if (strcmp(way, "lost") == 0) {
    for (int32_t i = 0; i < number; i++)
      start_elsewhere(STUCK);
    getchar(); /* for ever, in user code */
  } else if (strcmp(way, "last") == 0) {
    last(me);
  } else if (strcmp(way, "early") == 0) {
    early();
  } else if (strcmp(way, "all") == 0) {
    all(number, me);
  } else if (strcmp(way, "exit") == 0) {
    exit(number);
  }
}
