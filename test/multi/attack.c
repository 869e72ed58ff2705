/*
 * attack.c - makes hostile connections to a process of a program, for hostile.t.
 *
 *   attack PORT KEYFILE EXECUTABLE
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
 *   program             the id of the running program, in hex
 *
 * All others answer how many connections came about.  Half of those that go away do so politely,
 * half with a reset.
 */
#include <errno.h>
#include <sodium.h>

#include "../unit/net_raw.h"

#define HELD 900
#define BYTES 70000

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

static void hash_program(const char *name) {
  unsigned char buf[65536];
  crypto_generichash_state state;
  size_t got;
  FILE *file = fopen(name, "rb");
  if (file == NULL) die(name);
  crypto_generichash_init(&state, NULL, 0, sizeof build);
  while ((got = fread(buf, 1, sizeof buf, file)) > 0)
    crypto_generichash_update(&state, buf, got);
  fclose(file);
  crypto_generichash_final(&state, build, sizeof build);
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
static bool shake(int fd, const unsigned char hello[DMI_HELLO_BYTES], unsigned char *said) {
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
  if (shake(fd, hello, said)) kind = raw_answer(fd);
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
  if (fd < 0 || !shake(fd, hello, said)) die("handshake");
  if (raw_read(fd, sealed, sizeof sealed) != sizeof sealed ||
      !dmi_seal_get_first(raws[fd].keys.in, hello, sealed) || !dmi_hello_get(&mine, hello)) {
    die("HELLO_OK");
  }
  close(fd);
  puts(sodium_bin2hex(text, sizeof text, mine.program, sizeof mine.program));
}

/* Says these bytes on `count` connections, one after the other; keeps them if `hold`. */
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
  if (first < 0 || !shake(first, hello, said)) die("the true connection");
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

static void obey(char *line) {
  static unsigned char bytes[BYTES];
  static char first[2 * BYTES + 1], second[2 * BYTES + 1];
  int number = 0;
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
  if (argc != 4 || sodium_init() < 0) return 2;
  port = (uint16_t)atoi(argv[1]);
  read_key(argv[2]);
  hash_program(argv[3]);
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL)
    obey(line);
  return 0;
}
