/*
 * net_fuzz.c - a process among hostile connections: it stays alive, serves a good peer meanwhile,
 * and neither its memory nor its descriptors grow.
 *
 * A child process makes thousands of connections that send random bytes, halves of handshakes,
 * wrong proofs, valid HELLOs and then garbage, lengths that are too large or never come, other
 * versions, or nothing. It says the same in each run (fixed seed), but for the keys of each
 * connection; what is timing is not.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "../unit/net_raw.h"
#include "msg/packed.h"

#define QUICK 8000 /* connections */
#define SOAK 400000
#define OPEN 200 /* silent ones kept open, more than a process holds for strangers */
#ifdef __SANITIZE_ADDRESS__
#define GROWTH_KB (512 << 10) /* it keeps freed memory for a while */
#else
#define GROWTH_KB 4096
#endif

static void fail(const char *what, long a, long b) {
  fprintf(stderr, "net_fuzz: %s: %ld, %ld\n", what, a, b);
  exit(1);
}

/* ---- The hostile side ------------------------------------------------------------------------ */

static uint64_t state = 88172645463325252u;

static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * UINT64_C(0x2545f4914f6cdd1d) >> 7;
}

static int dial(uint16_t port) {
  int fd = raw_connect_to(port);
  if (fd < 0) fail("connect", errno, 0);
  return fd;
}

/* It may have closed already, and that is all right. */
static void say(int fd, const void *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes = (const char *)bytes + sent;
    size -= (size_t)sent;
  }
}

static void say_garbage(int fd, size_t size) {
  unsigned char bytes[4096];
  if (size > sizeof bytes) size = sizeof bytes;
  for (size_t i = 0; i < size; i++)
    bytes[i] = (unsigned char)any();
  say(fd, bytes, size);
}

/* The first `size` bytes of a CALL; `version` is not what its proof says if it is not ours. */
static void say_call(int fd, uint16_t version, bool right_key, size_t size) {
  static const uint8_t other[DMI_KEY_BYTES] = "other";
  struct dmi_proof proof;
  unsigned char bytes[DMI_CALL_BYTES];
  dmi_proof_call(&proof, right_key ? node_key : other, (uint8_t)any(), bytes);
  dmi_hello_put_first(bytes, DMI_HELLO_CALL, version);
  say(fd, bytes, size);
}

/* The whole handshake, as far as `size` bytes of PROOF and HELLO; with some of them changed, unless
 * `right`. */
static void say_hello(int fd, uint32_t uid, bool right, size_t size) {
  struct dmi_hello hello = raw_hello(uid);
  unsigned char said[RAW_SAID];
  if (uid == 0) memset(hello.program, 0, sizeof hello.program);
  if (!raw_call(fd, &hello, said)) return; /* it made room for others */
  if (!right) said[any() % sizeof said] ^= (unsigned char)(1u << any() % 8);
  say(fd, said, size);
}

/* A HELLO of a correct process, sealed correctly, with any bytes in it. */
static void say_strange_hello(int fd) {
  struct dmi_hello hello = raw_hello(0);
  unsigned char said[RAW_SAID], bytes[DMI_HELLO_BYTES];
  if (!raw_call(fd, &hello, said)) return;
  dmi_hello_put(bytes, &hello);
  for (uint64_t i = 0; i < any() % 4; i++)
    bytes[any() % sizeof bytes] = (unsigned char)any();
  dmi_seal_put_first(raws[fd].keys.out, said + DMI_PROOF_BYTES, bytes, sizeof bytes);
  say(fd, said, sizeof said);
}

/* A header whose lengths are not what follows, or not allowed. */
static void say_header(int fd, uint32_t uid) {
  static const uint8_t types[] = {DMI_MSG_GET,
                                  DMI_MSG_PUT,
                                  DMI_MSG_GRANT,
                                  DMI_MSG_DATA,
                                  DMI_MSG_TAKE,
                                  DMI_MSG_HOME_TAILS,
                                  DMI_CTL_JOIN,
                                  DMI_CTL_VIEW,
                                  DMI_MSG_FIN,
                                  DMI_MSG_ATOMIC,
                                  DMI_MSG_REFUSE_PAGE,
                                  DMI_SVC_CAPACITY_ASK,
                                  DMI_SVC_CAPACITY_REPORT,
                                  DMI_SVC_CAPACITY_RETURN,
                                  127,
                                  200};
  static const uint64_t lengths[] = {0,
                                     1,
                                     8,
                                     24,
                                     4096,
                                     1 << 20,
                                     (1 << 20) + 1,
                                     64 << 20,
                                     UINT32_MAX,
                                     UINT64_C(1) << 62,
                                     (UINT64_C(1) << 62) + 1,
                                     UINT64_MAX};
  struct dmi_msg msg = {.type = types[any() % sizeof types], .word = {any()}};
  unsigned char bytes[DMI_WIRE_HEADER];
  msg.list.len = any() % 2 ? 0 : lengths[any() % 9];
  msg.body.len = any() % 2 ? 0 : lengths[any() % 12];
  /* A member may take leave and still listen: its connection is rightly kept. */
  if (uid != 0 && msg.type == DMI_MSG_FIN && msg.list.len == 0) msg.body.len = 1;
  dmi_wire_put(bytes, &msg);
  if (any() % 4 == 0) dmi_packed_set_behind(bytes, (uint32_t)lengths[any() % 12]);
  say(fd, bytes, sizeof bytes);
  say_garbage(fd, any() % 3000);
}

/* An envelope of requests, one of which may be wrong: its header, its length, or that of all. */
static void say_envelope(int fd) {
  unsigned char bytes[DMI_WIRE_HEADER + 20 * (DMI_PACKED_HEADER + 16)] = {0};
  struct dmi_msg msg = {.type = DMI_MSG_GET, .origin = 1};
  struct dmi_packed_before before;
  size_t size = DMI_WIRE_HEADER;
  msg.access = (struct dmi_msg_access){.op = {1}, .len = 8};
  dmi_wire_put(bytes, &msg);
  dmi_packed_begin(&before, &msg);
  for (uint64_t i = any() % 20; i > 0; i--) {
    msg.type = any() % 30 ? DMI_MSG_PUT : (uint8_t)any();
    msg.page = any() % 5;
    msg.body.len = any() % 16;
    size += dmi_packed_put(bytes + size, &msg, &before) + msg.body.len;
  }
  const uint64_t more = any() % 4 ? 0 : any() % 100; /* than there are */
  dmi_packed_set_behind(bytes, (uint32_t)(size - DMI_WIRE_HEADER + more));
  if (any() % 2) bytes[any() % size] ^= (unsigned char)(1u << any() % 8);
  say(fd, bytes, size);
  if (any() % 2) say_garbage(fd, any() % 300);
}

/* One connection, left open if it returns true. */
static bool annoy(int fd) {
  /* few enough members that most come again, after they were lost */
  uint32_t uid = any() % 3 ? 0 : (uint32_t)(100 + any() % 150);
  switch (any() % 14) {
    case 0:
      say_garbage(fd, any() % 600);
      return false;
    case 1:
      say_call(fd, DMI_WIRE_VERSION, true, any() % DMI_CALL_BYTES);
      return any() % 2;
    case 2:
      say_call(fd, DMI_WIRE_VERSION, any() % 4 == 0, DMI_CALL_BYTES);
      say_garbage(fd, any() % 600);
      return any() % 2;
    case 3:
      say_call(fd, (uint16_t)any(), true, DMI_CALL_BYTES);
      return false;
    case 4:
      say_hello(fd, uid, true, any() % RAW_SAID);
      return any() % 2;
    case 5:
      say_hello(fd, uid, false, RAW_SAID);
      return any() % 2;
    case 6:
      say_strange_hello(fd);
      return any() % 2;
    case 7:
    case 8:
      say_hello(fd, uid, true, RAW_SAID);
      say_garbage(fd, any() % 600);
      return false;
    case 9:
    case 10:
      say_hello(fd, uid, true, RAW_SAID);
      say_envelope(fd);
      return any() % 2;
    case 11:
      say_hello(fd, uid, true, RAW_SAID);
      say_header(fd, uid);
      return any() % 2;
    case 12:
      return true; /* silent */
    default:
      say_hello(fd, uid, true, RAW_SAID);
      return any() % 2;
  }
}

static void finish(int fd) {
  struct linger hard = {.l_onoff = 1};
  char waste[1024];
  switch (any() % 3) {
    case 0: /* wait for the answer */
      shutdown(fd, SHUT_WR);
      struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
      while (poll(&poll_fd, 1, 1000) == 1 && recv(fd, waste, sizeof waste, 0) > 0)
        continue;
      break;
    case 1:
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      break;
    default:
      break;
  }
  close(fd);
}

/* Makes `count` connections for every byte read from `commands`, then writes one to `reports`. */
static void be_hostile(uint16_t port, long count, int commands, int reports) {
  int open_fds[OPEN];
  for (int i = 0; i < OPEN; i++)
    open_fds[i] = -1;
  char byte;
  while (read(commands, &byte, 1) == 1) {
    for (long i = 0; i < count; i++) {
      int fd = dial(port);
      if (annoy(fd)) {
        int *place = &open_fds[any() % OPEN];
        if (*place >= 0) finish(*place);
        *place = fd;
      } else {
        finish(fd);
      }
    }
    for (int i = 0; i < OPEN; i++) {
      if (open_fds[i] >= 0) close(open_fds[i]);
      open_fds[i] = -1;
    }
    if (write(reports, &byte, 1) != 1) break;
  }
  _exit(0);
}

/* ---- The process under test ------------------------------------------------------------------ */

static long rss_kb(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) fail("statm", 0, 0);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static long fd_count(void) {
  long count = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (dir != NULL && readdir(dir) != NULL)
    count++;
  if (dir != NULL) closedir(dir);
  return count;
}

/* Bodies beyond this are a page that this process does not know. */
static void *body(void *arg, uint32_t from, enum dmi_msg_class class, struct dmi_msg *msg) {
  return msg->body.len > 100000 ? NULL : node_body(arg, from, class, msg);
}

static void echo(struct node *node, uint32_t from, struct dmi_msg *msg) {
  if (from != 2) return;
  struct dmi_msg answer = {.type = DMI_MSG_GOT};
  answer.got.op.n = msg->word[0];
  node_send(node, 2, answer);
}

/* The good peer's side of the same game. */
static void echo_from_one(struct node *node, uint32_t from, struct dmi_msg *msg) {
  (void)from;
  struct dmi_msg answer = {.type = DMI_MSG_GOT};
  answer.got.op.n = msg->word[0] + 1;
  node_send(node, 1, answer);
}

/* The good peer answers every message: it must have come further. */
static void expect_progress(struct node *good, uint64_t *before) {
  if (!node_wait(good, &good->messages, sizeof good->messages, *before + 100)) {
    fail("the good peer is not served", (long)*before, 0);
  }
  *before = NODE_NOW(good, messages);
}

static void wait_for_fds(long most) {
  for (int i = 0; fd_count() > most; i++) { /* what was closed last is noticed soon */
    if (i == 50 * node_limit()) fail("descriptors grow", most, fd_count());
    poll(NULL, 0, 20);
  }
}

static void ignore_log(void *arg, const char *line) {
  (void)arg, (void)line;
}

static void open_victim(struct node *victim) {
  const char *why;
  struct dmi_net_config config = {.patience = 3, .name = "prog", .encrypt = node_encrypt};
  struct dmi_net_handler handler = {.arg = victim,
                                    .body = body,
                                    .message = node_message,
                                    .lost = node_lost,
                                    .stranger = node_stranger,
                                    .joined = node_joined,
                                    .posted = node_posted,
                                    .log = ignore_log};
  memset(victim, 0, sizeof *victim);
  pthread_mutex_init(&victim->lock, NULL);
  pthread_cond_init(&victim->changed, NULL);
  memcpy(config.build, node_build, 16);
  memcpy(config.key, node_key, sizeof config.key);
  victim->net = dmi_net_open(&config, &handler, &why);
  if (victim->net == NULL) fail(why, 0, 0);
  victim->uid = 1;
  dmi_net_set_self(victim->net, 1, node_program);
  victim->on_message = echo;
}

/* One run; it ends the process if it fails. */
static void run(void) {
  static struct node victim, good;
  const char *scale = getenv("DMI_TEST_SCALE");
  long count = scale != NULL && strcmp(scale, "soak") == 0 ? SOAK : QUICK;
  int commands[2], reports[2];
  char byte = 'x';
  if (pipe(commands) != 0 || pipe(reports) != 0) fail("pipe", errno, 0);
  open_victim(&victim);
  uint16_t port = dmi_net_port(victim.net);
  pid_t child = fork(); /* before there are threads */
  if (child == 0) {
    close(commands[1]);
    be_hostile(port, count / 4, commands[0], reports[1]);
  }
  node_open(&good, 2);
  node_meet(&good, &victim);
  node_meet(&victim, &good);
  good.on_message = echo_from_one;
  node_run(&victim);
  node_run(&good);
  node_send(&good, 1, (struct dmi_msg){.type = DMI_MSG_GOT});
  uint64_t before = 0;
  expect_progress(&good, &before);
  long fds = fd_count(), rss = 0;
  for (int round = 0; round < 4; round++) {
    if (write(commands[1], &byte, 1) != 1) fail("write", errno, 0);
    struct pollfd poll_fd = {.fd = reports[0], .events = POLLIN};
    do {
      expect_progress(&good, &before);
    } while (poll(&poll_fd, 1, 100) == 0);
    if (read(reports[0], &byte, 1) != 1) fail("the hostile process ended", round, 0);
    wait_for_fds(fds);
    if (round == 0) rss = rss_kb(); /* caches and tables have their size now */
  }
  expect_progress(&good, &before);
  long growth = rss_kb() - rss;
  if (growth > GROWTH_KB) fail("memory grows (KiB)", rss, growth);
  if (NODE_NOW(&good, lost_num) != 0) fail("the good peer was lost", 0, 0);
  close(commands[1]);
  waitpid(child, NULL, 0);
  node_expect_close(&good);
  node_expect_close(&victim);
  node_stop(&good);
  node_stop(&victim);
  printf(
      "net_fuzz, %s: %ld connections, %llu messages of the good peer, %u strangers, growth %ld "
      "KiB\n",
      node_encrypt ? "sealed" : "in the clear", count, (unsigned long long)before, victim.strangers,
      growth);
  node_free(&good);
  node_free(&victim);
  if (dmi_frame_total() != 0) fail("frames are left", (long)dmi_frame_total(), 0);
}

/* In the clear, and sealed. */
int main(void) {
  int status = 0;
  for (int i = 0; i < 2; i++) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) fail("fork", errno, 0);
    if (child == 0) {
      node_encrypt = i == 1;
      run();
      exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
