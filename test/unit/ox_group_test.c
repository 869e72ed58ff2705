/*
 * ox_group_test.c - groups of 1 to 9 ranks: links, broadcast and reduction from and to each root,
 * send and receive, resets in both directions, and peers that end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ox_world.h"

/* A client whose mathcap names asir: nothing is pushed after a link was made. */
static void be_asir(struct world *w, int rank) {
  DMI_ox_value_t *about = dmi_ox_value_text("ox_asir"), *list = DMI_ox_list(&about, 1);
  DMI_ox_value_t **items = malloc(sizeof items[0]);
  items[0] = DMI_ox_list(&list, 1);
  push_value(w, rank, dmi_ox_value_items(DMI_OX_MATHCAP, items, 1));
  command(w, rank, DMI_OX_SET_MATHCAP);
}

static struct world *group(int num, uint64_t seed) {
  struct world *w = world_new(num, seed);
  for (int i = 0; i < num; i++)
    be_asir(w, i);
  world_group(w);
  for (int i = 0; i < num; i++) {
    command(w, i, DMI_OX_GET_SP);
    assert_popped(w, i, "0");
  }
  return w;
}

static void test_status(void **state) {
  (void)state;
  static const char *const expected[] = {"0", "0", "0"};
  static const char *const heights[] = {"1", "1", "0"};
  for (int rule = 0; rule < 3; rule++) {
    struct world *w = world_new(2, 3);
    dmi_ox_session_free(w->at[0].session);
    w->settings.status = (enum dmi_ox_status_rule)rule;
    w->at[0].session = dmi_ox_session_new(&w->settings, world_known);
    unsigned char order = w->at[0].little;
    dmi_ox_session_bytes(w->at[0].session, DMI_OX_DATA_STREAM, &order, 1);
    w->at[0].out.len = 0;
    w->at[0].order = false;
    world_group(w);
    command(w, 0, DMI_OX_GET_SP);
    assert_popped(w, 0, heights[rule]);
    assert_popped(w, 0, expected[rule]);
    push_int(w, 0, 9);
    push_int(w, 0, 3);
    command(w, 0, DMI_OX_TCP_ACCEPT);
    world_run(w);
    dmi_ox_session_unlinked(w->at[0].session, 3, "no");
    char *text = popped(w, 0);
    assert_true(rule == DMI_OX_STATUS_RFC ? strcmp(text, "-1") == 0
                                          : strncmp(text, "error(", 6) == 0);
    free(text);
    world_free(w);
  }
}

/* Each root, any order of the commands; data of a size that does not fit the queues. */
static void test_collectives(void **state) {
  (void)state;
  char large[600];
  memset(large, 'b', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  for (int num = 1; num <= RANKS; num++) {
    struct world *w = group(num, (uint64_t)num);
    for (int root = 0; root < num; root++) {
      char expected[100];
      int first = (int)(world_random(w) % (uint64_t)num);
      push_text(w, root, large);
      for (int i = 0; i < num; i++) {
        int rank = (first + i) % num;
        push_int(w, rank, root);
        command(w, rank, DMI_OX_BCAST);
        if (world_random(w) % 2) world_run(w);
      }
      for (int i = 0; i < num; i++)
        assert_popped(w, i, large);
      int64_t sum = 0, product = 1;
      for (int i = 0; i < num; i++) {
        int rank = (first + i) % num;
        push_value(w, rank, dmi_ox_value_int32(rank + 2));
        push_int(w, rank, root);
        push_text(w, rank, "+");
        command(w, rank, DMI_OX_REDUCE);
        snprintf(expected, sizeof expected, "ox_reduce_102(%d,\"*\",%d)", root, rank + 2);
        execute(w, rank, expected);
        sum += rank + 2;
        product *= rank + 2;
      }
      for (int i = 0; i < num; i++) {
        snprintf(expected, sizeof expected, "%ld", i == root ? (long)product : 0L);
        assert_popped(w, i, expected);
        snprintf(expected, sizeof expected, "%ld", i == root ? (long)sum : 0L);
        assert_popped(w, i, expected);
        command(w, i, DMI_OX_GET_SP);
        assert_popped(w, i, "0");
      }
    }
    world_free(w);
  }
}

/* A reduction by a function of the program: each rank that combines calls it. */
static void test_reduce_function(void **state) {
  (void)state;
  for (int num = 1; num <= 5; num++) {
    struct world *w = group(num, 7);
    int calls = 0;
    for (int i = 0; i < num; i++)
      execute(w, i, "ox_reduce_102(0,\"add\",5)");
    for (int round = 0; round < 20; round++) {
      world_run(w);
      for (int i = 0; i < num; i++) {
        int64_t a, b;
        if (w->at[i].call == 0) continue;
        assert_true(DMI_ox_to_int64(DMI_ox_item(w->at[i].args, 0), &a));
        assert_true(DMI_ox_to_int64(DMI_ox_item(w->at[i].args, 1), &b));
        uint32_t id = w->at[i].call;
        w->at[i].call = 0;
        calls++;
        dmi_ox_session_returned(w->at[i].session, id, DMI_ox_from_int64(a + b));
      }
    }
    char expected[100];
    snprintf(expected, sizeof expected, "%d", 5 * num);
    assert_popped(w, 0, expected);
    assert_int_equal(calls, num - 1);
    world_free(w);
  }
}

/* What such a function says went wrong has the serial of the rank's command. */
static void test_reduce_error(void **state) {
  (void)state;
  struct world *w = group(2, 7);
  char expected[100];
  execute(w, 1, "ox_reduce_102(0,\"add\",5)");
  snprintf(expected, sizeof expected, "error([%u,10,\"why\"])", (unsigned)w->at[0].serial + 1);
  execute(w, 0, "ox_reduce_102(0,\"add\",5)");
  world_run(w);
  dmi_ox_session_returned(w->at[0].session, w->at[0].call, DMI_ox_error("why"));
  assert_popped(w, 0, expected);
  world_free(w);
}

static void test_send_receive(void **state) {
  (void)state;
  for (int num = 2; num <= 5; num++) {
    struct world *w = group(num, 11);
    for (int i = 0; i < num; i++) {
      for (int j = 0; j < num; j++) {
        char text[100];
        if (i == j) continue;
        for (int k = 0; k < 3; k++) {
          snprintf(text, sizeof text, "ox_send_102(%d,[%d,%d,%d])", j, i, j, k);
          execute(w, i, text);
          assert_popped(w, i, "0");
        }
        for (int k = 0; k < 3; k++) {
          char expected[100];
          snprintf(text, sizeof text, "ox_recv_102(%d)", i);
          execute(w, j, text);
          snprintf(expected, sizeof expected, "[%d,%d,%d]", i, j, k);
          assert_popped(w, j, expected);
        }
      }
    }
    world_free(w);
  }
}

/* Who does not read makes the sender wait, within the limit; nothing is lost. */
static void test_waits_for_room(void **state) {
  (void)state;
  struct world *w = group(2, 13);
  for (int i = 0; i < 100; i++) {
    char text[100];
    snprintf(text, sizeof text, "ox_send_102(1,%d)", i);
    execute(w, 0, text);
  }
  for (int i = 0; i < PIPES; i++)
    w->pipes[i].held = true;
  world_run(w);
  for (int i = 0; i < PIPES; i++) {
    assert_true(w->pipes[i].bytes.len < 300 || w->pipes[i].from < 0);
    w->pipes[i].held = false;
  }
  for (int i = 0; i < 100; i++) {
    char expected[20];
    snprintf(expected, sizeof expected, "%d", i);
    execute(w, 1, "ox_recv_102(0)");
    assert_popped(w, 1, expected);
  }
  world_free(w);
}

/* ---- Resets ---------------------------------------------------------------------------------- */

/* A reset of all ranks by the master, and of their links. */
static void reset_all(struct world *w) {
  struct dmi_ox_message message;
  for (int i = 0; i < w->num; i++)
    control(w, i, DMI_OX_RESET);
  for (int i = 0; i < w->num; i++) {
    do
      assert_true(heard(w, i, &message));
    while (message.tag != DMI_OX_SYNC_BALL);
    ball(w, i);
  }
  for (int i = 0; i < w->num; i++)
    command(w, i, DMI_OX_RESET_LINKS);
  world_run(w);
}

/* Everybody sends to everybody, and receives that, and nothing that was sent before. */
static void assert_new(struct world *w) {
  char text[100];
  for (int i = 0; i < w->num; i++) {
    push_int(w, i, INT32_MAX);
    command(w, i, DMI_OX_POPS);
    for (int j = 0; j < w->num; j++) {
      if (i == j) continue;
      snprintf(text, sizeof text, "ox_send_102(%d,\"new\")", j);
      execute(w, i, text);
      assert_popped(w, i, "0");
    }
  }
  for (int i = 0; i < w->num; i++) {
    for (int j = 0; j < w->num; j++) {
      if (i == j) continue;
      snprintf(text, sizeof text, "ox_recv_102(%d)", j);
      execute(w, i, text);
      assert_popped(w, i, "new");
    }
  }
}

/*
 * Messages of before a reset are in all links, some of them half; receives, a broadcast and a
 * reduction wait. After it nothing of them is received, in either direction.
 */
static void test_reset(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    int num = 2 + (int)(seed % 5);
    struct world *w = group(num, seed);
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < num; i++) {
        for (int j = 0; j < num; j++) {
          char text[100];
          if (i == j || world_random(w) % 2) continue;
          snprintf(text, sizeof text, "ox_send_102(%d,\"old %d %d\")", j, i, j);
          execute(w, i, text);
        }
        if (world_random(w) % 2) execute(w, i, "ox_reduce_102(1,\"+\",1)");
        if (world_random(w) % 2) execute(w, i, "ox_bcast_102(0,2)");
        if (world_random(w) % 2) execute(w, i, "[1,ox_recv_102(0)]");
      }
      for (int i = 0; i < PIPES; i++)
        w->pipes[i].held = world_random(w) % 2;
      world_run(w);
      for (int i = 0; i < PIPES; i++)
        w->pipes[i].held = false;
      reset_all(w);
      assert_new(w);
    }
    world_free(w);
  }
}

/* 281 at all ranks, each cut short or discarded by a reset; balls are on their way meanwhile. */
static void cut_short(struct world *w) {
  struct dmi_ox_message message;
  for (int i = 0; i < PIPES; i++)
    w->pipes[i].held = world_random(w) % 2;
  for (int i = 0; i < w->num; i++) {
    bool discarded = world_random(w) % 3 == 0;
    if (discarded) control(w, i, DMI_OX_RESET);
    command(w, i, DMI_OX_RESET_LINKS);
    if (world_random(w) % 2) world_run(w);
    if (!discarded) control(w, i, DMI_OX_RESET);
  }
  for (int i = 0; i < w->num; i++) {
    do
      assert_true(heard(w, i, &message));
    while (message.tag != DMI_OX_SYNC_BALL);
    ball(w, i);
  }
}

static void test_reset_cut_short(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    struct world *w = group(2 + (int)(seed % 4), seed);
    for (uint64_t round = 0; round < 3; round++) {
      for (uint64_t cut = 0; cut < (seed + round) % 4; cut++) {
        for (int i = 0; i < w->num; i++)
          execute(w, i, i > 0 ? "ox_send_102(0,\"old\")" : "ox_send_102(1,\"old\")");
        cut_short(w);
      }
      for (int i = 0; i < PIPES; i++)
        w->pipes[i].held = false;
      reset_all(w);
      assert_new(w);
    }
    world_free(w);
  }
}

/* An object of a type that is not known is an error, and what comes behind it is received. */
static void test_unknown_type(void **state) {
  (void)state;
  struct world *w = group(2, 7);
  struct dmi_ox_bytes bytes = {0};
  DMI_ox_value_t *value = dmi_ox_value_text("behind");
  struct pipe *p = NULL;
  for (int i = 0; i < PIPES; i++)
    if (w->pipes[i].used && w->pipes[i].open && w->pipes[i].to == 1) p = &w->pipes[i];
  assert_non_null(p);
  /* Sessions announce little-endian order to each other. */
  dmi_ox_encode_word(&bytes, true, DMI_OX_DATA);
  dmi_ox_encode_word(&bytes, true, 3);
  dmi_ox_encode_word(&bytes, true, 27);
  dmi_ox_bytes_put(&bytes, "of any length", 13);
  dmi_ox_encode_data(&bytes, true, 4, value);
  dmi_ox_session_bytes(w->at[1].session, p->to_id, bytes.at, bytes.len);
  execute(w, 1, "ox_recv_102(0)");
  char *text = popped(w, 1);
  assert_non_null(strstr(text, "the type of an object is not known"));
  free(text);
  execute(w, 1, "ox_recv_102(0)");
  assert_popped(w, 1, "behind");
  DMI_ox_drop(value);
  dmi_ox_bytes_free(&bytes);
  world_free(w);
}

/* Another server's serials have no mark: its balls and messages are taken as RFC-102 says. */
static void test_foreign(void **state) {
  (void)state;
  struct world *w = world_new(1, 3);
  be_asir(w, 0);
  push_int(w, 0, 3);
  push_int(w, 0, 1);
  command(w, 0, DMI_OX_SET_RANK);
  for (int peer = 0; peer <= 2; peer += 2) {
    push_text(w, 0, peer == 0 ? "5000" : "5002");
    push_int(w, 0, peer);
    command(w, 0, DMI_OX_TCP_ACCEPT);
  }
  world_run(w);
  struct dmi_ox_session *s = w->at[0].session;
  struct dmi_ox_bytes bytes = {0};
  static const unsigned char order = 1;
  for (uint32_t id = 2; id < 4; id++) {
    dmi_ox_session_linked(s, id);
    dmi_ox_session_bytes(s, id, &order, 1);
    world_run(w);
  }
  for (uint32_t i = 0; i < 3; i++) {
    DMI_ox_value_t *value = DMI_ox_from_int64(10 + i);
    if (i == 1) dmi_ox_encode_ball(&bytes, true, 4);
    dmi_ox_encode_data(&bytes, true, i, value);
    DMI_ox_drop(value);
  }
  dmi_ox_session_bytes(s, 2, bytes.at, bytes.len);
  dmi_ox_session_bytes(s, 3, bytes.at, bytes.len);
  command(w, 0, DMI_OX_RESET_LINKS);
  execute(w, 0, "[ox_recv_102(0),ox_recv_102(0)]");
  assert_popped(w, 0, "[11,12]"); /* from the lower rank: what is behind the ball */
  execute(w, 0, "[ox_recv_102(2),ox_recv_102(2),ox_recv_102(2)]");
  assert_popped(w, 0, "[10,11,12]");
  dmi_ox_bytes_free(&bytes);
  world_free(w);
}

/* A link that is being made is lost by a reset, and can be made again; one that is made replaces.
 */
static void test_links_again(void **state) {
  (void)state;
  struct world *w = world_new(2, 5);
  be_asir(w, 0);
  be_asir(w, 1);
  for (int i = 0; i < 2; i++) {
    push_int(w, i, 2);
    push_int(w, i, i);
    command(w, i, DMI_OX_SET_RANK);
  }
  push_int(w, 0, 77);
  push_int(w, 0, 1);
  command(w, 0, DMI_OX_TCP_ACCEPT);
  world_run(w);
  struct dmi_ox_message message;
  control(w, 0, DMI_OX_RESET);
  assert_true(heard(w, 0, &message));
  ball(w, 0);
  for (int i = 0; i < PIPES; i++)
    assert_false(w->pipes[i].used);
  world_group(w);
  execute(w, 0, "ox_send_102(1,\"old\")");
  world_group(w);
  execute(w, 0, "ox_send_102(1,\"new\")");
  execute(w, 1, "ox_recv_102(0)");
  assert_popped(w, 1, "new");
  world_free(w);
}

/* A rank ends in the middle of a broadcast or a reduction: the others hear of it, and go on. */
static void test_peer_ends(void **state) {
  (void)state;
  for (int num = 3; num <= RANKS; num++) {
    for (int dead = 1; dead < num; dead++) {
      for (int bcast = 0; bcast < 2; bcast++) {
        struct world *w = group(num, (uint64_t)(num + dead));
        for (int i = 0; i < num; i++)
          if (i != dead) execute(w, i, bcast ? "ox_bcast_102(0,4)" : "ox_reduce_102(0,\"+\",1)");
        world_run(w);
        for (int i = 0; i < PIPES; i++) {
          if (w->pipes[i].used && w->pipes[i].from == dead) w->pipes[i].from = -1;
          if (w->pipes[i].used && w->pipes[i].to == dead) w->pipes[i].held = true;
        }
        world_run(w);
        bool told = false;
        for (int i = 0; i < num; i++) {
          if (i == dead) continue;
          char *text = popped(w, i);
          assert_non_null(text);
          told = told || strncmp(text, "error(", 6) == 0;
          free(text);
        }
        assert_true(told || bcast);
        world_free(w);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status),          cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_send_receive),    cmocka_unit_test(test_waits_for_room),
      cmocka_unit_test(test_reset),           cmocka_unit_test(test_foreign),
      cmocka_unit_test(test_links_again),     cmocka_unit_test(test_peer_ends),
      cmocka_unit_test(test_reduce_function), cmocka_unit_test(test_reduce_error),
      cmocka_unit_test(test_reset_cut_short), cmocka_unit_test(test_unknown_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
