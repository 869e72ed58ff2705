/*
 * hello.c - HELLO, HELLO_OK and REFUSE as bytes and back, and who may talk to whom.
 *
 * Must not trust any byte: names and sentences from outside are made printable here.
 */
#include "net/hello.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "net/proof.h"
#include "msg/wire.h"

static const unsigned char magic[4] = {'D', 'M', 'I', '1'};

enum {
  AT_KIND = 4,
  AT_ZERO = 5,
  AT_VERSION = 6,
  AT_BUILD = 8,
  AT_PROGRAM = 24,
  AT_UID = 40,
  AT_PORT = 44,
  AT_NARROW = 46,
  AT_BESIDE = 47,
  AT_NAME = 48,
  AT_SHM = 112,
  AT_ZERO_3 = 113
};

void dmi_hello_put_first(unsigned char out[DMI_HELLO_FIRST], uint8_t kind, uint16_t version) {
  memcpy(out, magic, sizeof magic);
  out[AT_KIND] = kind;
  out[AT_ZERO] = 0;
  memcpy(out + AT_VERSION, &version, sizeof version);
}

static void clean_text(char *text, size_t size) {
  text[size - 1] = '\0';
  dmi_log_printable(text);
}

static bool all_zero(const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

void dmi_hello_put(unsigned char out[DMI_HELLO_BYTES], const struct dmi_hello *hello) {
  memset(out, 0, DMI_HELLO_BYTES);
  dmi_hello_put_first(out, hello->kind, hello->version);
  memcpy(out + AT_BUILD, hello->build, sizeof hello->build);
  memcpy(out + AT_PROGRAM, hello->program, sizeof hello->program);
  memcpy(out + AT_UID, &hello->uid, sizeof hello->uid);
  memcpy(out + AT_PORT, &hello->port, sizeof hello->port);
  out[AT_NARROW] = hello->narrow;
  out[AT_SHM] = hello->shm;
  out[AT_BESIDE] = hello->beside;
  memcpy(out + AT_NAME, hello->name, sizeof hello->name);
}

size_t dmi_hello_size(const unsigned char *in, size_t have) {
  size_t check = have < sizeof magic ? have : sizeof magic;
  if (memcmp(in, magic, check) != 0) return 0;
  if (have <= AT_KIND) return DMI_HELLO_FIRST;
  switch (in[AT_KIND]) {
    case DMI_HELLO_CALL:
      return DMI_CALL_BYTES;
    case DMI_HELLO_ANSWER:
      return DMI_ANSWER_BYTES;
    case DMI_HELLO_HELLO:
    case DMI_HELLO_OK:
      return DMI_HELLO_BYTES;
    case DMI_HELLO_REFUSE:
      return DMI_REFUSE_BYTES;
    default:
      return 0;
  }
}

void dmi_hello_peek(struct dmi_hello *hello, const unsigned char in[DMI_HELLO_FIRST]) {
  memset(hello, 0, sizeof *hello);
  hello->kind = in[AT_KIND];
  memcpy(&hello->version, in + AT_VERSION, sizeof hello->version);
}

bool dmi_hello_get(struct dmi_hello *hello, const unsigned char in[DMI_HELLO_BYTES]) {
  if (dmi_hello_size(in, DMI_HELLO_FIRST) != DMI_HELLO_BYTES) return false;
  dmi_hello_peek(hello, in);
  if (hello->version != DMI_WIRE_VERSION) return true;
  if (!all_zero(in + AT_ZERO, 1) || !all_zero(in + AT_ZERO_3, DMI_HELLO_BYTES - AT_ZERO_3) ||
      in[AT_NARROW] > 1 || in[AT_BESIDE] > 1 || in[AT_SHM] > 1) {
    return false;
  }
  memcpy(hello->build, in + AT_BUILD, sizeof hello->build);
  memcpy(hello->program, in + AT_PROGRAM, sizeof hello->program);
  memcpy(&hello->uid, in + AT_UID, sizeof hello->uid);
  memcpy(&hello->port, in + AT_PORT, sizeof hello->port);
  hello->narrow = in[AT_NARROW] != 0;
  hello->shm = in[AT_SHM] != 0;
  hello->beside = in[AT_BESIDE] != 0;
  memcpy(hello->name, in + AT_NAME, sizeof hello->name);
  clean_text(hello->name, sizeof hello->name);
  return hello->uid < 0x80000000u; /* higher numbers are temporary ids */
}

/* The first bytes of an id or hash, enough to see that two differ. */
static void hex8(char out[17], const uint8_t *bytes) {
  for (int i = 0; i < 8; i++)
    snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Names of what interpreters run have parts, as "prog.py 1a2b3c, Python 3.11.2": the first that
 * differs, as "'prog.py 1a2b3c' here, 'prog.py 4d5e6f' there".  False: the names do not tell. */
static bool differs(char *text, size_t size, const char *mine, const char *theirs) {
  static const char between[] = ", ";
  if (!strstr(mine, between) || !strstr(theirs, between)) return false;
  for (;;) {
    const char *a = strstr(mine, between), *b = strstr(theirs, between);
    const size_t len = a ? (size_t)(a - mine) : strlen(mine);
    const size_t other = b ? (size_t)(b - theirs) : strlen(theirs);
    if (len != other || memcmp(mine, theirs, len) != 0) {
      snprintf(text, size, "'%.*s' here, '%.*s' there", (int)len, mine, (int)other, theirs);
      return true;
    }
    if (!a || !b) return false;
    mine = a + sizeof(between) - 1;
    theirs = b + sizeof(between) - 1;
  }
}

bool dmi_hello_match(const struct dmi_hello *mine, const struct dmi_hello *theirs,
                     const char *there, char why[DMI_REFUSE_TEXT]) {
  static const uint8_t none[16];
  char a[17], b[17], what[2 * sizeof mine->name + 24];
  if (mine->version != theirs->version) {
    snprintf(why, DMI_REFUSE_TEXT,
             "this process speaks wire version %u of DMI, %s version %u: link both with the same "
             "DMI",
             mine->version, there, theirs->version);
    return false;
  }
  bool votes =
      all_zero(mine->build, sizeof mine->build) || all_zero(theirs->build, sizeof theirs->build);
  if (!votes && memcmp(mine->build, theirs->build, sizeof mine->build) != 0) {
    if (differs(what, sizeof what, mine->name, theirs->name)) {
      snprintf(why, DMI_REFUSE_TEXT,
               "this process runs '%s', but %s runs '%s'; what differs first: %s: all processes "
               "must run the same script, modules, Python and DMI",
               mine->name, there, theirs->name, what);
      return false;
    }
    hex8(a, mine->build);
    hex8(b, theirs->build);
    snprintf(why, DMI_REFUSE_TEXT,
             "this process runs '%s' (build %s), but %s runs '%s' (build %s): all processes must "
             "run the same executable file or script (and modules); copy it, or compile on one "
             "machine only",
             mine->name, a, there, theirs->name, b);
    return false;
  }
  bool joining = memcmp(mine->program, none, sizeof none) == 0 ||
                 memcmp(theirs->program, none, sizeof none) == 0;
  if (!joining && memcmp(mine->program, theirs->program, sizeof none) != 0) {
    hex8(a, mine->program);
    hex8(b, theirs->program);
    snprintf(why, DMI_REFUSE_TEXT,
             "this process belongs to the running program %s ('%s'), %s to %s ('%s'): they were "
             "started apart, or one has ended",
             a, mine->name, there, b, theirs->name);
    return false;
  }
  return true;
}

void dmi_refuse_put(unsigned char out[DMI_REFUSE_BYTES], const char *why) {
  memset(out, 0, DMI_REFUSE_BYTES);
  dmi_hello_put_first(out, DMI_HELLO_REFUSE, DMI_WIRE_VERSION);
  snprintf((char *)out + DMI_HELLO_FIRST, DMI_REFUSE_TEXT, "%s", why);
}

void dmi_refuse_get(char why[DMI_REFUSE_TEXT], const unsigned char in[DMI_REFUSE_BYTES]) {
  memcpy(why, in + DMI_HELLO_FIRST, DMI_REFUSE_TEXT);
  clean_text(why, DMI_REFUSE_TEXT);
}
