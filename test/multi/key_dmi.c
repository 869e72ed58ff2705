/*
 * key_dmi.c - little programs for key.t.
 *
 *   dmirun key_dmi             ends at once
 *   dmirun key_dmi stdin       prints a line of its stdin
 *   dmirun key_dmi has FILE    says whether a descriptor of that file is open
 *   dmirun key_dmi host        welcomes all that come, until it is asked to leave
 */
#include <unistd.h>

#include "multi.h"

static bool has_open(const char *file) {
  char name[64], target[4096];
  for (int fd = 0; fd < 1000; fd++) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, target, sizeof target - 1);
    if (size < 0) continue;
    target[size] = '\0';
    if (strcmp(target, file) == 0) return true;
  }
  return false;
}

static void be_host(void) {
  DMI_node_t node;
  int32_t me;
  MUST(DMI_rank(&me));
  do {
    MUST(DMI_poll(&node));
    if (node.state == DMI_OPEN) {
      MUST(DMI_welcome(node.dmi_id));
    } else {
      MUST(DMI_goodbye(node.dmi_id));
    }
  } while (node.state == DMI_OPEN || node.dmi_id != me);
}

void DMI_main(int argc, char **argv) {
  char line[100] = "";
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "stdin") == 0) {
    if (fgets(line, sizeof line, stdin) == NULL) line[0] = '\0';
    say("stdin: %.*s", (int)strcspn(line, "\n"), line);
  } else if (strcmp(what, "has") == 0) {
    say("%s is %s", argv[2], has_open(argv[2]) ? "open" : "closed");
  } else if (strcmp(what, "host") == 0) {
    be_host();
  }
}
