/*
 * options.c - see options.h.
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: ox_dmi --control [ADDR:]PORT [--data [ADDR:]PORT] [options]\n"
    "       dmirun ox_dmi --control [ADDR:]PORT ...   the first process of a program that serves\n"
    "       dmirun -i HOST ox_dmi                     one more, at any time: it computes\n"
    "\n"
    "Serves OpenXM clients (RFC-100, RFC-102): each pair of a control and a data connection\n"
    "is one server with a stack, and may be one rank of a group.\n"
    "\n"
    "  --control [ADDR:]PORT   where control connections come; ADDR: 127.0.0.1; PORT 0: any\n"
    "  --data [ADDR:]PORT      where data connections come; default: the same port\n"
    "  --reverse HOST          connect to these two ports of HOST instead of listening\n"
    "  --pass-file FILE        first line: what both connections begin with (and a byte 0);\n"
    "                          the server ends with its session\n"
    "  --status auto|rfc|asir  what is pushed after tcp_accept and tcp_connect:\n"
    "                          rfc: 0 or -1; asir: nothing, or an error; auto: by the client\n"
    "  --order little|network  order of bytes that is announced\n"
    "  --max-message BYTES     of one message when decoded (256 MiB)\n"
    "  --max-stack BYTES       of all values of a session (1 GiB)\n"
    "  --max-depth N           of nested lists (1000)\n"
    "  --max-sessions N        at a time (64)\n"
    "  --max-calls N           of functions, at a time (1024)\n"
    "  -h, --help              this text\n"
    "\n"
    "It prints one line when it listens, and ends with Ctrl+C.\n";

static void wrong(const char *what, const char *why) {
  fprintf(stderr, "ox_dmi: %s: %s\n", what, why);
  exit(2);
}

static int64_t number(const char *option, const char *text, int64_t most) {
  char *end;
  long long value = strtoll(text, &end, 10);
  if (*end != '\0' || value < 1 || value > most) wrong(option, "a number is needed");
  return value;
}

/* The first line of a file. */
static char *password_of(const char *name) {
  FILE *file = fopen(name, "r");
  char *line = NULL;
  size_t room = 0;
  if (file == NULL || getline(&line, &room, file) < 1) wrong(name, "cannot be read");
  fclose(file);
  line[strcspn(line, "\r\n")] = '\0';
  if (*line == '\0') wrong(name, "its first line is empty");
  return line;
}

enum { CONTROL = 256, DATA, REVERSE, PASS, STATUS, ORDER, MESSAGE, STACK, DEPTH, SESSIONS, CALLS };

static const struct option options_known[] = {{"control", 1, NULL, CONTROL},
                                              {"data", 1, NULL, DATA},
                                              {"reverse", 1, NULL, REVERSE},
                                              {"pass-file", 1, NULL, PASS},
                                              {"status", 1, NULL, STATUS},
                                              {"order", 1, NULL, ORDER},
                                              {"max-message", 1, NULL, MESSAGE},
                                              {"max-stack", 1, NULL, STACK},
                                              {"max-depth", 1, NULL, DEPTH},
                                              {"max-sessions", 1, NULL, SESSIONS},
                                              {"max-calls", 1, NULL, CALLS},
                                              {"help", 0, NULL, 'h'},
                                              {NULL, 0, NULL, 0}};

static void read_option(int option, DMI_ox_options_t *options) {
  switch (option) {
    case CONTROL:
      options->control = optarg;
      break;
    case DATA:
      options->data = optarg;
      break;
    case REVERSE:
      options->reverse = optarg;
      break;
    case PASS:
      options->password = password_of(optarg);
      break;
    case STATUS:
      options->status = optarg;
      break;
    case ORDER:
      options->order = optarg;
      break;
    case MESSAGE:
      options->max_message = number("--max-message", optarg, INT64_MAX);
      break;
    case STACK:
      options->max_stack = number("--max-stack", optarg, INT64_MAX);
      break;
    case DEPTH:
      options->max_depth = (int32_t)number("--max-depth", optarg, 10000);
      break;
    case SESSIONS:
      options->max_sessions = (int32_t)number("--max-sessions", optarg, INT32_MAX);
      break;
    case CALLS:
      options->max_calls = (int32_t)number("--max-calls", optarg, INT32_MAX);
      break;
    case 'h':
      fputs(usage, stdout);
      exit(0);
    default:
      exit(2);
  }
}

bool ox_options_read(DMI_ox_options_t *options, int argc, char **argv) {
  int option;
  while ((option = getopt_long(argc, argv, "h", options_known, NULL)) != -1)
    read_option(option, options);
  if (optind < argc) wrong(argv[optind], "is not an option");
  return options->control != NULL;
}

void ox_options_none(void) {
  wrong("--control", "is missing");
}
