/*
 * serve_dmi.c - a program with functions for OpenXM clients (dmirun --ox): what ox_program.t calls.
 *
 *   serve_dmi         until it is asked to leave
 *   serve_dmi once    DMI_main returns as soon as a function of `begin` runs
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dmi_ext.h"
#include "dmi_ox.h"
#include "dmi_remote.h"

static atomic_int begun;
static _Atomic int64_t page; /* in the first process: its address */

static void say(const char *line) {
  printf("%s\n", line);
  fflush(stdout);
}

/* twice(n) */
static DMI_ox_value_t *twice(DMI_ox_value_t *const *args, int64_t num) {
  int64_t n;
  if (num != 1 || !DMI_ox_to_int64(args[0], &n)) return DMI_ox_error("twice(n): a number");
  return DMI_ox_from_int64(2 * n);
}

/* leave(): not by return. */
static DMI_ox_value_t *leave(DMI_ox_value_t *const *args, int64_t num) {
  (void)args, (void)num;
  pthread_exit(NULL);
}

/* where(): the id of this process. */
static DMI_ox_value_t *where(DMI_ox_value_t *const *args, int64_t num) {
  int32_t id;
  (void)args, (void)num;
  return DMI_rank(&id) ? DMI_ox_from_int64(id) : DMI_ox_error(DMI_strerror(DMI_errno()));
}

/* VALUE, OUT: the square, and where. */
DMI_REMOTE(square) {
  int64_t n = DMI_REMOTE_VALUE(call, 0, int64_t);
  int64_t *out = DMI_remote_out(call, 1, NULL);
  int32_t id = -1;
  (void)DMI_rank(&id);
  out[0] = n * n;
  out[1] = id;
}

/* squares(n): the sum of the first ones, each computed by some process. */
static DMI_ox_value_t *squares(DMI_ox_value_t *const *args, int64_t num) {
  const DMI_client_options_t options = {.own_poll = 1};
  DMI_client_t *client;
  int64_t n, sum = 0, out[2];
  if (num != 1 || !DMI_ox_to_int64(args[0], &n)) return DMI_ox_error("squares(n): a number");
  if (!DMI_client_open(&client, &options)) return DMI_ox_error(DMI_strerror(DMI_errno()));
  for (int64_t i = 1; i <= n; i++) {
    DMI_data_t data;
    if (!DMI_call(client, square, DMI_VALUE(i), DMI_OUT(&data, sizeof out)) ||
        !DMI_data_read(client, data, out, 0, sizeof out, NULL))
      return DMI_ox_error(DMI_strerror(DMI_errno()));
    (void)DMI_data_drop(client, data);
    sum += out[0];
  }
  (void)DMI_client_close(client);
  return DMI_ox_from_int64(sum);
}

/* wait_for_end(): until its client does not want it any more. */
static DMI_ox_value_t *wait_for_end(DMI_ox_value_t *const *args, int64_t num) {
  (void)args, (void)num;
  say("waits");
  while (!DMI_ox_interrupted())
    usleep(1000);
  say("interrupted");
  return NULL;
}

/* begin(): DMI_main returns, and then this uses memory for a while. */
static DMI_ox_value_t *begin(DMI_ox_value_t *const *args, int64_t num) {
  int64_t value = 0, addr = atomic_load(&page);
  (void)args, (void)num;
  atomic_store(&begun, 1);
  (void)DMI_notify(1);
  for (int i = 0; i < 300; i++) {
    int64_t one = 0;
    if (!DMI_read(addr, 8, &one, DMI_GET_READ, NULL)) say("a read has failed");
    one++;
    if (!DMI_write(addr, 8, &one, DMI_PUT_WRITE, NULL)) say("a write has failed");
    value = one;
    usleep(1000);
  }
  if (value == 300) say("worked to the end");
  return NULL;
}

/* end(status) */
static DMI_ox_value_t *end(DMI_ox_value_t *const *args, int64_t num) {
  int64_t status = 0;
  if (num == 1) (void)DMI_ox_to_int64(args[0], &status);
  return DMI_exit((int32_t)status) ? NULL : DMI_ox_error(DMI_strerror(DMI_errno()));
}

void DMI_init(int argc, char **argv) {
  (void)argc, (void)argv;
  (void)DMI_ox_function("twice", twice);
  (void)DMI_ox_function("where", where);
  (void)DMI_ox_function("leave", leave);
  (void)DMI_ox_function("squares", squares);
  (void)DMI_ox_function("wait_for_end", wait_for_end);
  (void)DMI_ox_function("begin", begin);
  (void)DMI_ox_function("end", end);
}

void DMI_main(int argc, char **argv) {
  DMI_node_t node;
  int64_t addr = 0;
  int32_t me = 0;
  (void)DMI_rank(&me);
  if (!DMI_mmap(&addr, 8, 1, NULL)) say("no memory");
  atomic_store(&page, addr);
  say("ready");
  while (DMI_poll(&node)) {
    if (node.state == DMI_OPEN) (void)DMI_welcome(node.dmi_id);
    if (node.state == DMI_CLOSE) {
      if (!DMI_goodbye(node.dmi_id)) say(DMI_strerror(DMI_errno()));
      say("dismissed");
      if (node.dmi_id == me) break;
    }
    if (argc > 1 && strcmp(argv[1], "once") == 0 && atomic_load(&begun)) break;
  }
  say("main returns");
}
