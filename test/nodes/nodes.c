/*
 * nodes.c - several nodes of DMI programs in one OS process: what test scripts start in place of
 * many processes (test/multi/lib/DMINodes.pm).
 *
 * A program is a module, made of the same source as the program that runs as a process.  Every node
 * loads a copy of its own, so that each has its own variables, as processes have.
 *
 *   nodes memory      they talk over a network in memory (test/lib/memory_net.h), each at a machine
 *                     of its own: node K is at 10.0.0.K
 *   nodes tcp         over loopback
 *
 * Commands on stdin, one line each, fields between tabs:
 *   start K MODULE OUT ERR EVENTS NAME=VALUE ... -- ARGUMENT ...
 *                        node K begins; its stdout, stderr and events go to these files, its
 *                        environment is what is given here
 *   signal K NUMBER      as if it had got this signal
 * Answer on stdout: "ended K STATUS".  At the end of stdin it waits for nodes that run, and ends.
 *
 * What no node survives ends all: a crash, exit() in a program, a node that is to be cut off.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "../lib/memory_net.h"
#include "elastic/elastic.h"
#include "remote/remote.h"
#include "team/team.h"
#include "node/runtime.h"

#define WORDS 64 /* fields of a command */

struct node {
  struct node *next;
  int number;
  char *line;                /* the command; what follows points into it */
  char *word[WORDS];         /* fields, NULL behind the last */
  char **environment, **end; /* in `word` */
  char **args;
  int argc;
  struct dmi_program program;
  struct dmi_process *process; /* NULL: it did not begin, or has ended; guarded by tell_lock */
  FILE *out;
  int err, events;
  pthread_t thread;
};

static struct node *nodes;
static struct memory_net *memory;                             /* NULL: TCP */
static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER; /* also: a line at a time */

__attribute__((noreturn)) static void die(const char *what, const char *name) {
  fprintf(stderr, "nodes: %s %s: %s\n", what, name, strerror(errno));
  _exit(3);
}

/* ---- Modules ------------------------------------------------------------------------------------
 */

static void copy_file(const char *from, const char *to) {
  char bytes[65536];
  ssize_t got;
  int in = open(from, O_RDONLY | O_CLOEXEC);
  int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  if (in < 0 || out < 0) die("cannot copy", from);
  while ((got = read(in, bytes, sizeof bytes)) > 0) {
    if (write(out, bytes, (size_t)got) != got) die("cannot write", to);
  }
  if (got < 0) die("cannot read", from);
  close(in);
  close(out);
}

/* What a program may define, and where struct dmi_program has it. */
static const struct {
  const char *name;
  size_t at;
} functions[] = {
    {"DMI_main", offsetof(struct dmi_program, main)},
    {"DMI_thread", offsetof(struct dmi_program, thread)},
    {"DMI_function", offsetof(struct dmi_program, function)},
    {"DMI_init", offsetof(struct dmi_program, init)},
    {"DMI_recover", offsetof(struct dmi_program, recover)},
    {"DMI_farm_task", offsetof(struct dmi_program, farm_task)},
    {"DMI_scaleunit", offsetof(struct dmi_program, scaleunit)},
    {"DMI_start_scale", offsetof(struct dmi_program, start_scale)},
    {"DMI_judge_rescale", offsetof(struct dmi_program, judge_rescale)},
};

/* A copy has a file of its own, or it would be the module that is loaded already.  It stays loaded:
 * sanitizers name its functions at the end. */
static void load(struct node *node, const char *module, const char *out) {
  char name[4096];
  void *loaded, *symbol;
  snprintf(name, sizeof name, "%s.so", out);
  copy_file(module, name);
  loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!loaded) {
    fprintf(stderr, "nodes: %s\n", dlerror());
    _exit(3);
  }
  unlink(name);
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    symbol = dlsym(loaded, functions[i].name); /* NULL: the program has none */
    memcpy((char *)&node->program + functions[i].at, &symbol, sizeof symbol);
  }
  dmi_elastic_use(&node->program);
  dmi_remote_use(&node->program);
  dmi_team_use(&node->program);
  *(FILE **)dlsym(loaded, "nodes_out") = node->out;
}

__attribute__((noreturn)) static void end_all(int status) {
  fprintf(stderr, "nodes: a node ends this process, with status %d\n", status);
  _exit(4);
}

/* ---- Nodes --------------------------------------------------------------------------------------
 */

static const char *get(void *arg, const char *name) {
  const struct node *node = arg;
  size_t length = strlen(name);
  for (char **entry = node->environment; entry < node->end; entry++) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return NULL;
}

/* Each node is on a machine of its own. */
static struct dmi_transport *machine(void *node) {
  return memory_net_open(memory, (uint32_t)((struct node *)node)->number);
}

/* NULL: it cannot, which its stderr says. */
static struct dmi_process *open_node(struct node *node) {
  const struct dmi_host host = {
      .err = node->err, .end = end_all, .transport = memory ? machine : NULL, .arg = node};
  struct dmi_process *process = dmi_runtime_new(&node->program, &host);
  struct dmi_config config = {0};
  char wrong[DMI_CONFIG_WRONG];
  bool good = dmi_config_read(&config, get, node, wrong), opened;
  config.event_fd = node->events; /* it is closed with the process */
  opened = dmi_runtime_configure(process, &config);
  if (config.on_error != DMI_ON_ERROR_RETURN) dmi_on_error = config.on_error;
  if (!good) dmi_say(&process->stream, DMI_LOG_ERROR, "start", "%s", wrong);
  if (good && opened && dmi_runtime_open(process, node->word[2])) return process;
  dmi_runtime_free(process);
  return NULL;
}

static void *run(void *arg) {
  struct node *node = arg;
  struct dmi_process *process = node->process;
  int status = process ? dmi_runtime_run(process, node->argc, node->args) : 1;
  pthread_mutex_lock(&tell_lock);
  node->process = NULL;
  pthread_mutex_unlock(&tell_lock);
  if (process) dmi_runtime_free(process);
  fclose(node->out);
  close(node->err);
  pthread_mutex_lock(&tell_lock);
  printf("ended %d %d\n", node->number, status);
  fflush(stdout);
  pthread_mutex_unlock(&tell_lock);
  return NULL;
}

/* One that has ended meanwhile gets none, as a process. */
static void signal_node(int number, int signo) {
  struct node *node = nodes;
  while (node && node->number != number)
    node = node->next;
  pthread_mutex_lock(&tell_lock);
  if (node && node->process) dmi_runtime_signal(node->process, signo);
  pthread_mutex_unlock(&tell_lock);
}

static void start(char *line) {
  struct node *node = calloc(1, sizeof *node);
  char **word;
  if (!node) abort();
  node->line = line;
  word = node->word;
  for (char *rest = line, *field; (field = strsep(&rest, "\t"));) {
    if (word == &node->word[WORDS - 1]) die("too many fields", line);
    *word++ = field;
  }
  node->number = atoi(node->word[1]);
  node->environment = &node->word[6];
  for (node->args = node->environment; *node->args && strcmp(*node->args, "--") != 0;)
    node->args++;
  if (!*node->args) die("no --", line);
  node->end = node->args;
  *node->args = node->word[2]; /* the program's name */
  while (node->args[node->argc])
    node->argc++;
  node->out = fopen(node->word[3], "we");
  node->err = open(node->word[4], O_WRONLY | O_CLOEXEC);
  node->events = open(node->word[5], O_WRONLY | O_CLOEXEC);
  if (!node->out || node->err < 0 || node->events < 0) die("cannot open", node->word[3]);
  load(node, node->word[2], node->word[3]);
  node->next = nodes;
  nodes = node;
  node->process = open_node(node);
  if (pthread_create(&node->thread, NULL, run, node) != 0) die("no thread for", node->word[2]);
}

int main(int argc, char **argv) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length;
  int number, signo;
  signal(SIGPIPE, SIG_IGN);
  if (sodium_init() < 0) return 3;
  if (argc > 1 && strcmp(argv[1], "memory") == 0) memory = memory_net_new();
  while ((length = getline(&line, &capacity, stdin)) > 0) {
    line[length - 1] = '\0';
    if (strncmp(line, "start\t", 6) == 0) {
      start(line); /* which keeps it */
      line = NULL;
    } else if (sscanf(line, "signal\t%d\t%d", &number, &signo) == 2) {
      signal_node(number, signo);
    } else {
      die("no command", line);
    }
  }
  free(line);
  while (nodes) {
    struct node *node = nodes;
    nodes = node->next;
    pthread_join(node->thread, NULL);
    free(node->line);
    free(node);
  }
  if (memory) memory_net_free(memory);
  return 0;
}

/* ---- For modules --------------------------------------------------------------------------------
 */

struct body {
  struct dmi_process *process;
  void *(*body)(void *arg);
  void *arg;
};

static void *enter(void *arg) {
  struct body body = *(struct body *)arg;
  free(arg);
  dmi_runtime_enter(body.process);
  return body.body(body.arg);
}

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int nodes_raise(int number);
EXPORTED int nodes_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                  void *(*body)(void *arg), void *arg);
EXPORTED struct dmi_access *nodes_runtime_access(void);
EXPORTED uint64_t nodes_access_sent(const struct dmi_access *access, int type);
EXPORTED uint64_t nodes_access_messages(const struct dmi_access *access, uint32_t to);
EXPORTED uint64_t nodes_access_bytes(const struct dmi_access *access, int type, uint64_t *num);
EXPORTED uint64_t nodes_access_tables(const struct dmi_access *access);
EXPORTED uint64_t nodes_access_waiting(struct dmi_access *access, int64_t addr);

struct dmi_access *nodes_runtime_access(void) {
  return dmi_runtime_access();
}

uint64_t nodes_access_sent(const struct dmi_access *access, int type) {
  return dmi_access_sent(access, (enum dmi_msg_type)type);
}

uint64_t nodes_access_messages(const struct dmi_access *access, uint32_t to) {
  return dmi_access_messages(access, to);
}

uint64_t nodes_access_waiting(struct dmi_access *access, int64_t addr) {
  return dmi_access_waiting(access, addr);
}

uint64_t nodes_access_bytes(const struct dmi_access *access, int type, uint64_t *num) {
  return dmi_access_bytes(access, (enum dmi_msg_type)type, num);
}

uint64_t nodes_access_tables(const struct dmi_access *access) {
  return dmi_access_tables(access);
}

int nodes_raise(int number) {
  dmi_runtime_signal(dmi_runtime_process(), number);
  return 0;
}

int nodes_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *arg),
                         void *arg) {
  struct body *begun = malloc(sizeof *begun);
  if (!begun) return EAGAIN;
  *begun = (struct body){dmi_runtime_process(), body, arg};
  return pthread_create(thread, attr, enter, begun);
}
