/*
 * check.c - see check.h.
 *
 * It opens the port, connects to itself by the name that others would use, and to the process to
 * join up to HELLO, with the code of a real join.  That process only sees a connection that closes
 * before JOIN.  Each line names the option that changes what it shows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "node/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "mem/spill.h"
#include "net/net.h"
#include "node/contact.h"
#include "node/key.h"
#include "node/self.h"

#define REACH_MS 3000 /* milliseconds, for a connection to ourselves */

enum verdict { GOOD, NOTE, BAD };

struct check {
  const struct dmi_config *config;
  const struct dmi_program_identity *identity;
  struct dmi_stream *stream;
  struct dmi_self self;
  struct dmi_net *net;         /* NULL: it cannot be opened */
  bool named;                  /* `self` has found a name for others */
  char host[DMI_CONTACT_HOST]; /* to join */
  uint16_t port;
  bool failed;
};

__attribute__((format(printf, 4, 5))) static void tell(struct check *check, enum verdict verdict,
                                                       const char *what, const char *format, ...) {
  static const char *const words[] = {"ok", "note", "FAILED"};
  va_list args;
  if (verdict == BAD) check->failed = true;
  printf("%-7s %-10s ", words[verdict], what);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
}

/* A check that needs something that failed. */
static void not_tried(const char *what) {
  printf("not tried: %s\n", what);
}

/* ---- The machine ---------------------------------------------------------------------------- */

static void check_cores(struct check *check, const struct dmi_machine *machine) {
  char quota[64] = "";
  if (machine->quota > 0)
    snprintf(quota, sizeof quota, "; control groups grant the time of %.2f", machine->quota);
  tell(check, GOOD, "cores", "%u of %u%s%s", machine->cores, machine->present, quota,
       check->config->bind_threads ? "; each thread stays on one processor (--bind-threads)" : "");
}

static void check_memory(struct check *check, const struct dmi_machine *machine) {
  double pool = (double)check->config->pool_bytes / (1 << 20);
  double all = (double)machine->memory / (1 << 20);
  if (machine->memory > 0 && check->config->pool_bytes > machine->memory) {
    tell(check, NOTE, "memory", "%.0f MiB for pages, but there are %.0f MiB: use a smaller -s",
         pool, all);
  } else {
    tell(check, GOOD, "memory", "%.0f MiB of %.0f MiB for pages (-s)", pool, all);
  }
}

/* ---- Files ---------------------------------------------------------------------------------- */

static void check_file(struct check *check, const char *option, const char *path,
                       bool (*can)(const char *path)) {
  char why[DMI_FILE_WHY];
  if (!path) return;
  if (can(path)) {
    tell(check, GOOD, "file", "%s can be written (%s)", path, option);
  } else {
    tell(check, BAD, "file", "cannot write %s (%s): %s", path, option,
         dmi_file_why_not_made(why, path, errno));
  }
}

static void check_spill(struct check *check) {
  const char *dir = check->config->spill_dir;
  struct dmi_spill *spill = dir ? dmi_spill_open(dir) : NULL;
  if (!dir) return;
  if (spill) {
    tell(check, GOOD, "file", "pages can be written to a file in %s (--spill)", dir);
  } else {
    tell(check, BAD, "file", "cannot make a file in %s (--spill): %s", dir, strerror(errno));
  }
  dmi_spill_close(spill);
}

static void check_files(struct check *check) {
  const struct dmi_config *config = check->config;
  check_file(check, "--trace", config->trace, dmi_file_can_write);
  check_file(check, "--events", config->events_file, dmi_file_can_write);
  check_file(check, "--profile", config->profile_file, dmi_file_can_write);
  if (!dmi_config_joins(config))
    check_file(check, "--contact", config->contact_file, dmi_file_can_replace);
  check_spill(check);
}

/* ---- How others reach this process ---------------------------------------------------------- */

static void check_addresses(struct check *check) {
  char *list = NULL;
  size_t length = 0;
  struct ifaddrs *all = NULL;
  FILE *out = open_memstream(&list, &length);
  if (out == NULL) return;
  if (getifaddrs(&all) != 0) all = NULL;
  for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
    char text[NI_MAXHOST];
    int family = at->ifa_addr != NULL ? at->ifa_addr->sa_family : AF_UNSPEC;
    socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if ((family != AF_INET && family != AF_INET6) || (at->ifa_flags & IFF_LOOPBACK)) continue;
    if (getnameinfo(at->ifa_addr, size, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0) continue;
    fprintf(out, "%s%s", ftell(out) > 0 ? ", " : "", text);
  }
  if (all != NULL) freeifaddrs(all);
  fclose(out);
  if (length > 0) {
    tell(check, GOOD, "addresses", "%s", list);
  } else {
    tell(check, NOTE, "addresses",
         "only loopback: other machines cannot join this process, nor this one them");
  }
  free(list);
}

/* True if this address accepts connections.  No thread needs to call accept(): the kernel does it
 * for a port that listens. */
static bool reachable(const struct sockaddr *name, socklen_t size) {
  int error = 0;
  socklen_t length = sizeof error;
  int fd = socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool good = connect(fd, name, size) == 0;
  if (!good && errno == EINPROGRESS) {
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    good = poll(&wait, 1, REACH_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
  }
  close(fd);
  return good;
}

static bool is_loopback(const struct sockaddr *name) {
  const struct sockaddr_in *in4 = (const void *)name;
  const struct sockaddr_in6 *in6 = (const void *)name;
  return name->sa_family == AF_INET ? ntohl(in4->sin_addr.s_addr) >> 24 == 127
                                    : IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) != 0;
}

/* Checks that the name by which others know this process leads here. */
static void check_reached(struct check *check) {
  struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
  const char *host = check->self.host;
  const char *option = check->config->advertise ? "--advertise" : "this machine's own name";
  char service[8], text[NI_MAXHOST] = "?";
  enum verdict bad = check->config->advertise ? BAD : NOTE;
  snprintf(service, sizeof service, "%u", dmi_net_port(check->net));
  int error = getaddrinfo(host, service, &want, &found);
  if (error != 0) {
    tell(check, bad, "name", "%s (%s): %s; --advertise can name another", host, option,
         gai_strerror(error));
    return;
  }
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
  if (!reachable(found->ai_addr, found->ai_addrlen)) {
    tell(check, bad, "name",
         "%s (%s) is %s, which does not lead to this process; --advertise can name another", host,
         option, text);
  } else if (is_loopback(found->ai_addr)) {
    tell(check, check->config->advertise ? NOTE : GOOD, "name",
         "%s (%s) is %s here: others need one of the addresses above", host, option, text);
  } else {
    tell(check, GOOD, "name", "%s (%s) is %s, and leads here", host, option, text);
  }
  freeaddrinfo(found);
}

/* ---- The process to join -------------------------------------------------------------------- */

static void on_joined(void *arg, uint32_t temp, const char *why) {
  struct check *check = arg;
  if (why != NULL) {
    tell(check, BAD, "join", "%s", why);
  } else {
    tell(check, GOOD, "join", "%s port %u (%s): a process of the same executable and key answers",
         check->host, check->port, check->config->join_file ? "-i @FILE" : "-i, -p");
    dmi_net_close(check->net, temp);
  }
  dmi_net_stop(check->net);
}

/* The handler of a network that lets nobody in and sends no messages: these functions have nothing
 * to do. */
static void *no_body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  (void)arg, (void)from, (void)class, (void)msg;
  return NULL;
}

static bool no_message(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  (void)arg, (void)from, (void)class;
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return false;
}

static void no_lost(void *arg, uint32_t id, const char *why) {
  (void)arg, (void)id, (void)why;
}

static void no_stranger(void *arg, uint32_t temp) {
  (void)arg, (void)temp;
}

static void no_post(void *arg) {
  (void)arg;
}

static void check_join(struct check *check) {
  const struct dmi_config *config = check->config;
  char why[DMI_CONTACT_WHY];
  if (config->join_file) {
    if (!dmi_contact_read(config->join_file, check->host, &check->port, why)) {
      tell(check, BAD, "join", "%s", why);
      return;
    }
  } else if (config->join_host) {
    snprintf(check->host, sizeof check->host, "%s", config->join_host);
    check->port = config->join_port;
  } else {
    tell(check, GOOD, "join",
         "nothing: this process would start a new program (-i HOST joins one)");
    return;
  }
  dmi_net_join(check->net, check->host, check->port);
  dmi_net_run(check->net);
}

/* ---- All checks ----------------------------------------------------------------------------- */

/* Reads the key as a real start does; this makes the file if there is none. */
static bool check_key(struct check *check, uint8_t key[DMI_KEY_SIZE]) {
  const struct dmi_config *config = check->config;
  const char *file = config->key_file != NULL ? config->key_file : "~/.dmi/key";
  if (!dmi_key_read(key, config->key_file, config->key_fd, check->stream)) {
    tell(check, BAD, "key", "no usable key (a line on stderr says why); --key names another file");
    return false;
  }
  if (config->key_fd >= 0) {
    tell(check, GOOD, "key", "from descriptor %d (--key-fd)", config->key_fd);
  } else {
    tell(check, GOOD, "key", "%s (--key), which only its owner can read", file);
  }
  return true;
}

static struct dmi_net *open_net(struct check *check, uint16_t port, const uint8_t key[DMI_KEY_SIZE],
                                const char **why) {
  struct dmi_net_config config = dmi_self_net(&check->self, check->config);
  struct dmi_net_handler handler = {.arg = check,
                                    .body = no_body,
                                    .message = no_message,
                                    .lost = no_lost,
                                    .stranger = no_stranger,
                                    .joined = on_joined,
                                    .posted = no_post};
  struct dmi_net *net;
  config.listen_port = port;
  memcpy(config.key, key, sizeof config.key);
  net = dmi_net_open(&config, &handler, why);
  sodium_memzero(config.key, sizeof config.key);
  return net;
}

/* If the port is not free, opens any other, since the next checks need one. */
static void check_listen(struct check *check, const uint8_t key[DMI_KEY_SIZE]) {
  const char *address = check->config->bind != NULL ? check->config->bind : "all addresses";
  const char *why = NULL;
  check->net = open_net(check, check->config->listen_port, key, &why);
  if (check->net != NULL) {
    tell(check, GOOD, "listen", "port %u on %s (-l, --bind)", dmi_net_port(check->net), address);
    return;
  }
  tell(check, BAD, "listen", "%s", why);
  check->net = open_net(check, 0, key, &why);
}

/* Finds out who this process is.  False: its executable cannot be read. */
static bool check_self(struct check *check, const char *argv0) {
  const struct dmi_self *self = &check->self;
  check->named = dmi_self_find(&check->self, check->config, argv0, check->identity);
  if (!check->named && self->host[0] == '\0') {
    tell(check, BAD, "program", "%s", self->why);
    return false;
  }
  tell(check, GOOD, "program", "%s, build %02x%02x%02x%02x", self->name, self->build[0],
       self->build[1], self->build[2], self->build[3]);
  if (!check->named) tell(check, BAD, "name", "%s", self->why);
  return true;
}

static void check_machine(struct check *check) {
  struct dmi_machine machine;
  dmi_machine_look(&machine, (uint32_t)check->config->share, (uint32_t)check->config->shares);
  check_cores(check, &machine);
  check_memory(check, &machine);
  dmi_machine_free(&machine);
  check_addresses(check);
}

bool dmi_check(const struct dmi_config *config, const char *argv0,
               const struct dmi_program_identity *identity, struct dmi_stream *stream) {
  struct check check = {.config = config, .identity = identity, .stream = stream};
  uint8_t key[DMI_KEY_SIZE];
  bool known = check_self(&check, argv0);
  bool has_key;
  check_machine(&check);
  check_files(&check);
  has_key = check_key(&check, key);
  if (!has_key) randombytes_buf(key, sizeof key); /* a random key: nobody else has it */
  check_listen(&check, key);
  sodium_memzero(key, sizeof key);
  if (check.named && check.net) check_reached(&check);
  if (known && has_key && check.net) check_join(&check);
  if (check.named && !check.net) not_tried("name");
  if (!known || !has_key || !check.net) not_tried("join");
  if (check.net) dmi_net_free(check.net);
  return !check.failed;
}
