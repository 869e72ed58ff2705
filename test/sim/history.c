/*
 * history.c - records operations on one page, knows what they mean, and prints them.
 *
 * Does not judge: see checker.c.
 */
#include "history.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *ptr, uint32_t num, uint32_t more, uint32_t *capacity, size_t each) {
  if (num + more <= *capacity) return ptr;
  while (num + more > *capacity)
    *capacity = *capacity ? *capacity * 2 : 64;
  ptr = realloc(ptr, *capacity * each);
  if (!ptr) abort();
  return ptr;
}

void hist_init(struct hist *hist, uint32_t page_size) {
  memset(hist, 0, sizeof(*hist));
  hist->page_size = page_size;
}

void hist_fini(struct hist *hist) {
  free(hist->op);
  free(hist->bytes);
  memset(hist, 0, sizeof(*hist));
}

void hist_copy(struct hist *to, const struct hist *from) {
  hist_init(to, from->page_size);
  to->op = grow(NULL, 0, from->num, &to->capacity, sizeof(*to->op));
  to->bytes = grow(NULL, 0, from->bytes_num, &to->bytes_capacity, 1);
  if (from->num) memcpy(to->op, from->op, from->num * sizeof(*to->op));
  if (from->bytes_num) memcpy(to->bytes, from->bytes, from->bytes_num);
  to->num = from->num;
  to->bytes_num = from->bytes_num;
}

static uint32_t capacity_for(struct hist *hist, uint32_t len) {
  uint32_t at = hist->bytes_num;
  hist->bytes = grow(hist->bytes, hist->bytes_num, len, &hist->bytes_capacity, 1);
  hist->bytes_num += len;
  return at;
}

uint32_t hist_call(struct hist *hist, const struct hist_op *op, const void *in) {
  uint32_t num = hist->num;
  hist->op = grow(hist->op, num, 1, &hist->capacity, sizeof(*hist->op));
  struct hist_op *mine = &hist->op[num];
  *mine = *op;
  mine->back = HIST_OPEN;
  mine->in = capacity_for(hist, op->in_len);
  mine->out = capacity_for(hist, op->out_len);
  if (op->in_len) memcpy(hist->bytes + mine->in, in, op->in_len);
  if (op->out_len) memset(hist->bytes + mine->out, 0, op->out_len);
  hist->num++;
  return num;
}

void hist_back(struct hist *hist, uint32_t num, uint64_t time, const void *answer) {
  struct hist_op *op = &hist->op[num];
  op->back = time;
  if (op->out_len) memcpy(hist->bytes + op->out, answer, op->out_len);
}

void hist_failed(struct hist *hist, uint32_t num) {
  /* a read that never returned fits anywhere, and changes nothing */
  hist->op[num].kind = HIST_READ;
  hist->op[num].back = HIST_OPEN;
}

void hist_add(struct hist *hist, uint64_t call, uint64_t back, uint32_t uid, enum hist_kind kind,
              uint8_t off, uint8_t len, const void *in, uint16_t in_len, const void *out,
              uint16_t out_len) {
  struct hist_op op = {.call = call,
                       .uid = uid,
                       .kind = (uint8_t)kind,
                       .off = off,
                       .len = len,
                       .in_len = in_len,
                       .out_len = out_len,
                       .mode = ""};
  uint32_t num = hist_call(hist, &op, in);
  if (back != HIST_OPEN) hist_back(hist, num, back, out);
}

void hist_user_function(void *page, int64_t size, void *out1, int64_t out1_size, void *out2,
                        int64_t out2_size, void *in, int64_t in_size, int8_t tag) {
  unsigned char *bytes = page, *answer = in;
  const unsigned char *a = out1, *b = out2;
  for (int64_t i = 0; i < in_size; i++) {
    answer[i] = size ? (unsigned char)(bytes[i % size] ^ (tag + i)) : 0;
  }
  if (tag % 4 == 0) return; /* a function may also only read */
  for (int64_t i = 0; i < size; i++) {
    unsigned char x = out1_size ? a[i % out1_size] : 1;
    unsigned char y = out2_size ? b[i % out2_size] : 0;
    bytes[i] = (unsigned char)(bytes[i] + x) ^ y;
  }
}

bool hist_is_pure(const struct hist *hist, const struct hist_op *op) {
  switch ((enum hist_kind)op->kind) {
    case HIST_READ:
    case HIST_TURN:
    case HIST_ROUND:
    case HIST_WATCH:
    case HIST_NONE:
    case HIST_DIFFERS:
      return true;
    case HIST_CAS:
    case HIST_REVIVE:
      return op->back != HIST_OPEN && !hist->bytes[op->out];
    default:
      return false;
  }
}

static uint64_t number_at(const unsigned char *bytes, uint32_t index) {
  uint64_t value;
  memcpy(&value, bytes + 8 * index, 8);
  return value;
}

static void number_put(unsigned char *bytes, uint32_t index, uint64_t value) {
  memcpy(bytes + 8 * index, &value, 8);
}

/* The step by which the core's objects count, and its inverse. */
#define UNIT UINT64_C(0x9e3779b97f4a7c15)
#define INVERSE UINT64_C(0xf1de83e19937733d)

bool hist_is_object(const unsigned char *bytes, uint32_t len) {
  uint64_t first = number_at(bytes, 0) * INVERSE, second = number_at(bytes, 1) * INVERSE;
  const uint64_t threads = UINT64_C(1) << 31, ever = UINT64_C(1) << 52;
  if (len == 16) return first < ever && first - second + threads - 1 < 2 * threads - 1;
  return second < ever && first < threads &&
         (first == 0 || (number_at(bytes, 4) & UINT32_MAX) < threads);
}

/* Tickets: [0] next, [1] serving.  Implemented a second time, since the core's own code is being
 * tested. */
static bool apply_tickets(const struct hist *hist, const struct hist_op *op, unsigned char *at) {
  const unsigned char *in = hist->bytes + op->in, *out = hist->bytes + op->out;
  bool known = op->back != HIST_OPEN;
  uint64_t next = number_at(at, 0), serving = number_at(at, 1), most, waiting;
  if (op->kind != HIST_TURN && !hist_is_object(at, 16)) return !known;
  switch ((enum hist_kind)op->kind) {
    case HIST_SIGNAL:
      most = number_at(in, 0);
      waiting = (next - serving) * INVERSE;
      number_put(at, 1, waiting < most ? next : serving + most * UNIT);
      return true;
    case HIST_TICKET:
      if (known && number_at(out, 0) != next) return false;
      number_put(at, 0, next + UNIT);
      return true;
    default: /* TURN */
      return !known || (serving - number_at(out, 0)) * INVERSE < UINT64_MAX / 2 + 1;
  }
}

/* The upper half of the last number of a round, or of the first one of an arrival, is the last loss
 * that it knows of.  Of two that are half of all numbers apart, neither is the newer one. */
static bool knows_more(uint64_t one, uint64_t other) {
  return (int32_t)((uint32_t)(one >> 32) - (uint32_t)(other >> 32)) > 0;
}

/* Rounds: [0] arrived, [1] generation, [2] sum, [3] adding, [4] pnum and the last loss. */
static bool apply_arrive(const struct hist *hist, const struct hist_op *op, unsigned char *at) {
  const unsigned char *in = hist->bytes + op->in, *out = hist->bytes + op->out;
  bool known = op->back != HIST_OPEN;
  uint64_t arrived = number_at(at, 0) * INVERSE, num = op->in_len / 8u - 1, taken = 0;
  uint64_t head = number_at(in, 0), round = number_at(at, 4), pnum;
  double sum, value;
  if (!hist_is_object(at, 40) || (arrived && knows_more(round, head)))
    return !known || number_at(out, 0) == UINT64_MAX; /* it comes too late */
  if (knows_more(head, round)) arrived = 0;
  if (!arrived) round = head;
  pnum = round & UINT32_MAX;
  if ((head & UINT32_MAX) == pnum && arrived < pnum)
    taken = pnum - arrived < num ? pnum - arrived : num;
  if (known && number_at(out, 0) != taken) return false;
  if (!taken) return true;
  memcpy(&sum, at + 24, 8);
  if (!arrived) sum = 0;
  for (uint64_t i = 0; i < taken; i++) {
    memcpy(&value, in + 8 + 8 * i, 8);
    sum += value;
  }
  memcpy(at + 24, &sum, 8);
  number_put(at, 4, round);
  number_put(at, 0, (arrived + taken) * UNIT);
  if (arrived + taken < pnum) return true;
  if (known && memcmp(out + 8, &sum, 8) != 0) return false;
  number_put(at, 0, 0);
  number_put(at, 1, number_at(at, 1) + UNIT);
  memcpy(at + 16, &sum, 8);
  return true;
}

static bool apply_user(const struct hist *hist, const struct hist_op *op, unsigned char *page) {
  unsigned char answer[HIST_PAGE_MAX] = {0}, input[2 * HIST_PAGE_MAX];
  if (op->in_len) memcpy(input, hist->bytes + op->in, op->in_len);
  hist_user_function(page + op->off, op->len, input, op->out1_len, input + op->out1_len,
                     op->in_len - op->out1_len, answer, op->out_len, op->tag);
  return op->back == HIST_OPEN || !op->out_len ||
         memcmp(answer, hist->bytes + op->out, op->out_len) == 0;
}

static bool apply_read(const struct hist_op *op, const unsigned char *at,
                       const unsigned char *out) {
  if (!op->mask) return memcmp(at, out, op->len) == 0;
  for (int i = 0; i < op->len; i++) {
    if (hist_counts(op, i) && at[i] != out[i]) return false;
  }
  return true;
}

static void apply_write(const struct hist_op *op, unsigned char *at, const unsigned char *in) {
  for (int i = 0; i < op->len; i++) {
    if (hist_counts(op, i)) at[i] = in[i];
  }
}

bool hist_apply(const struct hist *hist, const struct hist_op *op, unsigned char *page) {
  unsigned char *at = page + op->off;
  const unsigned char *in = hist->bytes + op->in, *out = hist->bytes + op->out;
  bool known = op->back != HIST_OPEN;
  uint64_t old, add;
  bool same;
  switch ((enum hist_kind)op->kind) {
    case HIST_READ:
      return !known || apply_read(op, at, out);
    case HIST_WRITE:
      apply_write(op, at, in);
      return true;
    case HIST_CAS:
      same = memcmp(at, in, op->len) == 0;
      if (known && same != (out[0] == 1)) return false;
      if (same) memcpy(at, in + op->len, op->len);
      return true;
    case HIST_FAS:
      if (known && memcmp(at, out, op->len) != 0) return false;
      memcpy(at, in, op->len);
      return true;
    case HIST_FAD:
      if (known && memcmp(at, out, 8) != 0) return false;
      memcpy(&old, at, 8);
      memcpy(&add, in, 8);
      old += add;
      memcpy(at, &old, 8);
      return true;
    case HIST_USER:
      return apply_user(hist, op, page);
    case HIST_SIGNAL:
    case HIST_TICKET:
    case HIST_TURN:
      return apply_tickets(hist, op, at);
    case HIST_ARRIVE:
      return apply_arrive(hist, op, at);
    case HIST_ROUND:
      return !known || !number_at(out, 0) || number_at(out, 0) == UINT64_MAX ||
             memcmp(at + 16, out + 8, 8) == 0;
    case HIST_WATCH:
      return !known || (memcmp(at, out, op->len) == 0 && memcmp(in, out, op->len) != 0);
    case HIST_REVIVE:
      if (!known || number_at(out, 0)) memset(page, 0, hist->page_size);
      return true;
    case HIST_NONE:
      return !hist_is_object(at, op->len);
    case HIST_DIFFERS:
      return memcmp(at, out, op->len) != 0;
    case HIST_KINDS:
      break;
  }
  return false;
}

static void print_bytes(FILE *file, const struct hist_op *op, const unsigned char *bytes,
                        uint32_t len) {
  for (uint32_t i = 0; i < len; i++) {
    if (op->mask && !hist_counts(op, (int)i)) {
      fprintf(file, "..");
    } else {
      fprintf(file, "%02x", bytes[i]);
    }
  }
}

static uint32_t rank_of(const uint64_t *times, uint32_t num, uint64_t time) {
  uint32_t rank = 0;
  while (rank < num && times[rank] < time)
    rank++;
  return rank;
}

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void print_op(const struct hist *hist, const struct hist_op *op, FILE *file) {
  static const char *const name[] = {"read",  "write",  "cas",    "fas",  "fad",
                                     "user",  "signal", "ticket", "turn", "arrive",
                                     "round", "watch",  "revive", "none", "not"};
  fprintf(file, "  p%u.%u %8llu ..", op->uid, op->thread, (unsigned long long)op->call);
  if (op->back == HIST_OPEN) {
    fprintf(file, "     open");
  } else {
    fprintf(file, " %8llu", (unsigned long long)op->back);
  }
  fprintf(file, "  %-5s %-13s [%2u,%2u)", name[op->kind], op->mode ? op->mode : "", op->off,
          op->off + op->len);
  if (op->in_len) fprintf(file, " ");
  print_bytes(file, op, hist->bytes + op->in, op->in_len);
  if (op->kind == HIST_USER) fprintf(file, " tag %d", op->tag);
  if (op->out_len && op->back != HIST_OPEN) fprintf(file, " -> ");
  if (op->back != HIST_OPEN) print_bytes(file, op, hist->bytes + op->out, op->out_len);
  fprintf(file, "\n");
}

/* The bars show which operations overlap; times are replaced by their ranks. */
void hist_print(const struct hist *hist, FILE *file) {
  uint32_t num = 0;
  uint64_t *times = malloc((2 * (size_t)hist->num + 1) * sizeof(*times));
  if (!times) abort();
  for (uint32_t i = 0; i < hist->num; i++) {
    times[num++] = hist->op[i].call;
    if (hist->op[i].back != HIST_OPEN) times[num++] = hist->op[i].back;
  }
  qsort(times, num, sizeof(*times), by_time);
  fprintf(file, "  page of %u bytes, %u operations (process.thread, call .. return)\n",
          hist->page_size, hist->num);
  for (uint32_t i = 0; i < hist->num; i++)
    print_op(hist, &hist->op[i], file);
  for (uint32_t i = 0; i < hist->num && num <= 90; i++) {
    const struct hist_op *op = &hist->op[i];
    uint32_t from = rank_of(times, num, op->call);
    uint32_t to = op->back == HIST_OPEN ? num : rank_of(times, num, op->back);
    char who[24];
    snprintf(who, sizeof(who), "p%u.%u", op->uid, op->thread);
    fprintf(file, "  %-6s ", who);
    for (uint32_t at = 0; at < num; at++) {
      fputc(at == from || at == to ? '|' : at > from && at < to ? '-' : ' ', file);
    }
    fprintf(file, "\n");
  }
  free(times);
}

uint64_t hist_hash(const struct hist *hist) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < hist->num; i++) {
    const struct hist_op *op = &hist->op[i];
    uint64_t words[] = {op->call, op->back, op->uid, op->thread,
                        op->kind, op->off,  op->len, op->mask};
    for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
      hash = (hash ^ words[w]) * 0x100000001b3u;
    }
  }
  for (uint32_t i = 0; i < hist->bytes_num; i++)
    hash = (hash ^ hist->bytes[i]) * 0x100000001b3u;
  return hash;
}
