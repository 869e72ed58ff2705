/*
 * options.c - what the command line of dmifarm says.
 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

struct number {
  const char *name;
  int64_t least, most;
};

enum { N, RETRIES, TIMEOUT, COPIES, NUMBERS };

static const struct number numbers[NUMBERS] = {[N] = {"-n", 0, 65535},
                                               [RETRIES] = {"--retries", 0, UINT32_MAX - 1},
                                               [TIMEOUT] = {"--timeout", 1, INT32_MAX},
                                               [COPIES] = {"--copies", 0, UINT32_MAX}};

/* "--name VALUE" or "--name=VALUE", "-n VALUE" or "-nVALUE"; *at is moved behind it. */
static bool is_option(const char *name, int argc, char **argv, int *at, const char **value) {
  const size_t size = strlen(name);
  if (strncmp(argv[*at], name, size) != 0) return false;
  if (argv[*at][size] == '\0') {
    *value = *at + 1 < argc ? argv[++*at] : NULL;
  } else if (name[1] != '-') {
    *value = argv[*at] + size;
  } else if (argv[*at][size] == '=') {
    *value = argv[*at] + size + 1;
  } else {
    return false;
  }
  return true;
}

static char *read_number(const struct number *number, const char *text, int64_t *value) {
  char *end;
  if (!text) return farm_format("%s needs a number", number->name);
  errno = 0;
  *value = strtoll(text, &end, 10);
  if (errno || end == text || *end || *value < number->least || *value > number->most)
    return farm_format("%s %s: a whole number from %lld to %lld is needed", number->name, text,
                       (long long)number->least, (long long)number->most);
  return NULL;
}

static char *read_option(struct farm_options *options, int argc, char **argv, int *at) {
  const char *value;
  int64_t number = 0;
  char *why;
  if (is_option("-f", argc, argv, at, &value)) {
    options->nodefile = value;
    return value ? NULL : farm_strdup("-f needs the name of a node file");
  }
  for (int i = 0; i < NUMBERS; i++) {
    if (!is_option(numbers[i].name, argc, argv, at, &value)) continue;
    if ((why = read_number(&numbers[i], value, &number))) return why;
    if (i == N) options->local = (int32_t)number;
    if (i == RETRIES) options->retries = (uint32_t)number;
    if (i == TIMEOUT) options->timeout_ms = (uint64_t)number * 1000;
    if (i == COPIES) options->copies = (uint32_t)number;
    return NULL;
  }
  return farm_format("unknown option %s (dmifarm -h lists them; options of dmirun go behind --)",
                     argv[*at]);
}

char *farm_options_read(struct farm_options *options, int argc, char **argv) {
  *options = (struct farm_options){.local = -1, .copies = 2, .retries = 2, .dmirun = argv + argc};
  for (int i = 2; i < argc; i++) {
    char *why = NULL;
    if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
      options->help = true;
      return NULL;
    } else if (strcmp(argv[i], "--") == 0) {
      options->dmirun = argv + i + 1;
      break;
    } else if (argv[i][0] == '-' && argv[i][1]) {
      why = read_option(options, argc, argv, &i);
    } else if (options->job) {
      why = farm_format("%s: there is a job already, %s", argv[i], options->job);
    } else {
      options->job = argv[i];
    }
    if (why) return why;
  }
  return options->job ? NULL : farm_strdup("which job? dmifarm run JOB");
}
