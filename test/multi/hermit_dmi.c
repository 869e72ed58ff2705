/*
 * hermit_dmi.c - a program for mw.t that nothing but SIGKILL ends: it says its process number, and
 * then does what its argument says.
 *   deaf       admits nobody and lets nobody go
 *   ignoring   likewise, and ignores SIGTERM
 *   dismissed  lets its process go, but DMI_main never returns
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "dmi_api.h"

static void serve(void) {
  DMI_node_t node;
  do {
    DMI_poll(&node);
    if (node.state == DMI_OPEN) DMI_welcome(node.dmi_id);
  } while (node.state == DMI_OPEN);
  DMI_goodbye(node.dmi_id);
}

void DMI_main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("process %d\n", (int)getpid());
  if (strcmp(how, "ignoring") == 0) {
    signal(SIGTERM, SIG_IGN);
    printf("deaf by now\n");
  }
  if (strcmp(how, "dismissed") == 0) serve();
  for (;;)
    pause();
}
