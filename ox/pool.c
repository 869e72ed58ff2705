/*
 * pool.c - see pool.h.
 *
 * The program ends in order when this process is asked to leave, as the clients are here, and when
 * its server has ended by itself (--reverse, --pass-file).  Processes that join compute parts
 * (parts.h); nothing else has to be done for them.
 */
#include "pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "dmi_ext.h"
#include "options.h"

static void say(const char *control, const char *data, void *arg) {
  (void)arg;
  printf("ox_dmi: listening: control %s data %s\n", control, data);
  fflush(stdout);
}

/* Whoever polls is told of the end of the server. */
static void *watch(void *server) {
  DMI_ox_wait(server);
  (void)DMI_notify(0);
  return NULL;
}

/* Welcomes and dismisses processes until this one is to end. */
static void poll_notices(void) {
  DMI_node_t node;
  int32_t id;
  if (!DMI_rank(&id)) return;
  while (DMI_poll(&node)) {
    if (node.state == DMI_OPEN) {
      (void)DMI_welcome(node.dmi_id);
    } else if (node.state == DMI_NOTE || (node.state == DMI_CLOSE && node.dmi_id == id)) {
      return;
    } else if (node.state == DMI_CLOSE) {
      (void)DMI_goodbye(node.dmi_id); /* DMI_ENOMEM, DMI_EBUSY: the notice comes again */
    }
  }
}

/* False: it cannot begin. */
static bool serve(const DMI_ox_options_t *options) {
  DMI_ox_server_t *server;
  pthread_t watcher;
  char why[400];
  if (!DMI_ox_start(&server, options, why, sizeof why)) {
    fprintf(stderr, "ox_dmi: %s\n", why);
    return false;
  }
  bool good = pthread_create(&watcher, NULL, watch, server) == 0;
  if (good) poll_notices();
  DMI_ox_stop(server);
  if (good) (void)pthread_join(watcher, NULL);
  DMI_ox_wait(server);
  DMI_ox_free(server);
  return good;
}

void ox_pool(int argc, char **argv) {
  DMI_ox_options_t options = {.listens = say};
  bool good = true;
  if (ox_options_read(&options, argc, argv))
    good = serve(&options);
  else if (getenv("DMI_OX") != NULL)
    poll_notices(); /* the library serves (dmirun --ox) */
  else
    ox_options_none();
  free((char *)options.password);
  (void)DMI_exit(good ? 0 : 1);
}
