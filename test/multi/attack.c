/*
 * attack.c - makes hostile connections to a process of a program, for hostile.t.
 *
 *   attack PORT KEYFILE BUILD          BUILD: the program's build id, in hex
 *
 * Reads commands from stdin and answers each with a line.
 *
 *   talk AT HELLO SAY   the true handshake, with the key, but HELLO has these bytes (in hex; - for
 *                       none) at AT; then SAY; then it goes away.  Answers the kind that came
 *                       back: 5 HELLO_OK, 3 REFUSE, 0 nothing.
 *   raw COUNT SAY       so many connections, one after the other, that say this and go away
 *   hold COUNT SAY      so many that say it and stay
 *   drop                these go away
 *   wrong COUNT         so many that have another key
 *   replay COUNT        a true connection, and so many that repeat what was said on it
 *   flood KIND RATE SOURCES FIRST
 *                       RATE connections a second, without waiting for any, from so many addresses
 *                       of 127.0.0.0/8; answers when FIRST are under way.  KIND: close (they go
 *                       away at once), silent (they stay), garbage, wrong (a CALL with another
 *                       key), replay (one CALL with the key, again and again), replays (8,192
 *                       different ones in turn)
 *   stop                ends it; answers how many were begun, came about and failed, and how many
 *                       milliseconds it took
 *   look COUNT OF       the true handshake, then so many questions about a member (0: the one that
 *                       is asked) of one who looks at the program, who says of each answer that it
 *                       has come, and reads none; answers how many could be sent before it was
 *                       closed
 *   program             the id of the running program, in hex
 *
 * raw, hold, drop, wrong and replay answer how many connections came about.  Half of those that go
 * away do so politely, half with a reset.
 */
#include <errno.h>
#include <sodium.h>
#include <sys/resource.h>

#include "../unit/net_raw.h"
#include "msg/wire.h"
#include "attack_flood.h"

#define HELD 900
#define BYTES 70000
#define CALLS 8192 /* more than a process remembers */

static uint16_t port;
static uint8_t build[16];
static int held[HELD];
static int held_num;

static void die(const char *what) {
  fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void read_key(const char *name) {
  char line[65];
  FILE *file = fopen(name, "r");
  if (file == NULL || fread(line, 1, 64, file) != 64) die(name);
  if (sodium_hex2bin(node_key, sizeof node_key, line, 64, NULL, NULL, NULL) != 0) die(name);
  fclose(file);
}

static size_t from_hex(unsigned char *out, size_t most, const char *text) {
  size_t size = 0;
  if (strcmp(text, "-") == 0) return 0;
  if (sodium_hex2bin(out, most, text, strlen(text), NULL, &size, NULL) != 0) die("hex");
  return size;
}

static void go_away(int fd, bool hard) {
  struct linger reset = {.l_onoff = 1};
  if (hard) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
}

static struct dmi_hello true_hello(void) {
  struct dmi_hello hello = raw_hello(0);
  memcpy(hello.build, build, sizeof build);
  memset(hello.program, 0, sizeof hello.program);
  return hello;
}

/* CALL and all that follows, with this HELLO; what was said behind CALL is in `said`. */
static bool handshake(int fd, const unsigned char hello[DMI_HELLO_BYTES], unsigned char *said) {
  struct dmi_hello any = true_hello();
  if (!raw_call(fd, &any, said)) return false;
  dmi_seal_put_first(raws[fd].keys.out, said + DMI_PROOF_BYTES, hello, DMI_HELLO_BYTES);
  return raw_send(fd, said, RAW_SAID);
}

static void talk(size_t at, const char *change, const char *say) {
  static unsigned char bytes[BYTES];
  unsigned char hello[DMI_HELLO_BYTES], said[RAW_SAID];
  struct dmi_hello mine = true_hello();
  dmi_hello_put(hello, &mine);
  if (from_hex(bytes, BYTES, change) + at <= sizeof hello) {
    memcpy(hello + at, bytes, from_hex(bytes, BYTES, change));
  }
  int fd = raw_connect_to(port), kind = 0;
  if (fd < 0) die("connect");
  if (handshake(fd, hello, said)) kind = raw_answer(fd);
  size_t size = from_hex(bytes, BYTES, say);
  if (kind == DMI_HELLO_OK && size != 0) (void)raw_send(fd, bytes, size);
  go_away(fd, size % 2 == 0);
  printf("%d\n", kind);
}

static void tell_program(void) {
  unsigned char sealed[RAW_HELLO], hello[DMI_HELLO_BYTES], said[RAW_SAID];
  struct dmi_hello mine = true_hello();
  char text[33];
  dmi_hello_put(hello, &mine);
  int fd = raw_connect_to(port);
  if (fd < 0 || !handshake(fd, hello, said)) die("handshake");
  if (raw_read(fd, sealed, sizeof sealed) != sizeof sealed ||
      !dmi_seal_get_first(raws[fd].keys.in, hello, sealed) || !dmi_hello_get(&mine, hello)) {
    die("HELLO_OK");
  }
  close(fd);
  puts(sodium_bin2hex(text, sizeof text, mine.program, sizeof mine.program));
}

/* Each question is true but for `heard`. */
static int look(int count, uint32_t of) {
  unsigned char hello[DMI_HELLO_BYTES], said[RAW_SAID], bytes[DMI_WIRE_HEADER];
  struct dmi_hello mine = true_hello();
  struct dmi_msg msg = {.type = DMI_SEE_ASK};
  int fd = raw_connect_to(port), done = 0;
  if (fd < 0) die("connect");
  dmi_hello_put(hello, &mine);
  if (!handshake(fd, hello, said) || raw_answer(fd) != DMI_HELLO_OK) die("handshake");
  for (; done < count; done++) {
    msg.see = (struct dmi_msg_see){
        .what = DMI_SEE_MEMBERS, .of = of, .number = (uint32_t)done + 1, .heard = (uint32_t)done};
    dmi_wire_put(bytes, &msg);
    if (!raw_send(fd, bytes, sizeof bytes)) break;
  }
  close(fd);
  return done;
}

/* Sends these bytes on `count` connections, one after the other; leaves these open if `hold`. */
static int many(int count, const unsigned char *bytes, size_t size, bool hold) {
  int done = 0;
  for (int i = 0; i < count; i++) {
    int fd = raw_connect_to(port);
    if (fd < 0) continue;
    done++;
    (void)raw_send(fd, bytes, size);
    if (hold && held_num < HELD)
      held[held_num++] = fd;
    else
      go_away(fd, i % 2 == 0);
  }
  return done;
}

static int wrong_key(int count) {
  static const uint8_t other[DMI_KEY_BYTES] = "another key";
  struct dmi_proof proof;
  unsigned char call[DMI_CALL_BYTES];
  int done = 0;
  for (int i = 0; i < count; i++) {
    dmi_proof_call(&proof, other, 0, call);
    done += many(1, call, sizeof call, false);
  }
  return done;
}

static int replay(int count) {
  unsigned char hello[DMI_HELLO_BYTES], said[RAW_SAID], answer[DMI_ANSWER_BYTES];
  struct dmi_hello mine = true_hello();
  dmi_hello_put(hello, &mine);
  int first = raw_connect_to(port), done = 0;
  if (first < 0 || !handshake(first, hello, said)) die("the true connection");
  for (int i = 0; i < count; i++) {
    int fd = raw_connect_to(port);
    if (fd < 0) continue;
    done++;
    if (raw_send(fd, raws[first].proof.said, DMI_CALL_BYTES) &&
        raw_read(fd, answer, sizeof answer) == sizeof answer) {
      (void)raw_send(fd, said, sizeof said);
    }
    go_away(fd, i % 2 == 0);
  }
  close(first);
  return done;
}

/* Different CALLs with this key. */
static void make_calls(unsigned char *texts, uint32_t num, const uint8_t *key) {
  struct dmi_proof proof;
  for (uint32_t i = 0; i < num; i++)
    dmi_proof_call(&proof, key, 0, texts + (size_t)i * DMI_CALL_BYTES);
}

static void flood(const char *kind, int rate, int sources, int begun) {
  static const uint8_t other[DMI_KEY_BYTES] = "another key";
  static unsigned char texts[CALLS * DMI_CALL_BYTES];
  struct flood_plan plan = {.port = port, .rate = (uint32_t)rate, .sources = (uint32_t)sources};
  plan.first = (uint32_t)begun;
  plan.kind = FLOOD_SAY;
  plan.texts = texts;
  plan.text_size = DMI_CALL_BYTES;
  plan.text_num = 64;
  if (strcmp(kind, "close") == 0) {
    plan.kind = FLOOD_CLOSE;
  } else if (strcmp(kind, "silent") == 0) {
    plan.kind = FLOOD_SILENT;
  } else if (strcmp(kind, "garbage") == 0) {
    randombytes_buf(texts, plan.text_num * DMI_CALL_BYTES);
  } else if (strcmp(kind, "wrong") == 0) {
    make_calls(texts, plan.text_num, other);
  } else if (strcmp(kind, "replay") == 0) {
    make_calls(texts, plan.text_num = 1, node_key);
  } else if (strcmp(kind, "replays") == 0) {
    make_calls(texts, plan.text_num = CALLS, node_key);
  } else {
    die(kind);
  }
  if (!flood_begin(&plan)) die("flood");
  puts("begun");
}

static void stop_flood(void) {
  struct flood_result was = flood_end();
  printf("%llu %llu %llu %.0f\n", (unsigned long long)was.begun, (unsigned long long)was.came,
         (unsigned long long)was.failed, was.seconds * 1000);
}

static void obey(char *line) {
  static unsigned char bytes[BYTES];
  static char first[2 * BYTES + 1], second[2 * BYTES + 1];
  int number = 0, sources = 0, begun = 0;
  if (sscanf(line, "talk %d %140000s %140000s", &number, first, second) == 3) {
    talk((size_t)number, first, second);
  } else if (sscanf(line, "raw %d %140000s", &number, first) == 2) {
    printf("%d\n", many(number, bytes, from_hex(bytes, BYTES, first), false));
  } else if (sscanf(line, "hold %d %140000s", &number, first) == 2) {
    printf("%d\n", many(number, bytes, from_hex(bytes, BYTES, first), true));
  } else if (sscanf(line, "wrong %d", &number) == 1) {
    printf("%d\n", wrong_key(number));
  } else if (sscanf(line, "replay %d", &number) == 1) {
    printf("%d\n", replay(number));
  } else if (sscanf(line, "flood %31s %d %d %d", first, &number, &sources, &begun) == 4) {
    flood(first, number, sources, begun);
  } else if (sscanf(line, "look %d %d", &number, &sources) == 2) {
    printf("%d\n", look(number, (uint32_t)sources));
  } else if (strncmp(line, "stop", 4) == 0) {
    stop_flood();
  } else if (strncmp(line, "program", 7) == 0) {
    tell_program();
  } else if (strncmp(line, "drop", 4) == 0) {
    int num = held_num;
    while (held_num > 0)
      close(held[--held_num]);
    printf("%d\n", num);
  } else {
    die(line);
  }
}

int main(int argc, char **argv) {
  static char line[3 * BYTES];
  struct rlimit files;
  if (argc != 4 || sodium_init() < 0) return 2;
  port = (uint16_t)atoi(argv[1]);
  read_key(argv[2]);
  if (from_hex(build, sizeof build, argv[3]) != sizeof build) die("build");
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL)
    obey(line);
  return 0;
}
