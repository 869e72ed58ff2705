/*
 * book_time.c - how long calls take, by function, and so how much servers have to do; how fast
 * bytes reach them (docs/remote.md, "Placing").
 *
 * What a placed call counts is fixed until the time of its function is known to be another one: at
 * least twice as long, or half.  Then all placed calls are looked at, which is seldom.  So is what
 * a call of others counts, by the time of all calls.
 */
#include "base/xalloc.h"
#include "remote/book_int.h"

#define FIRST 100000 /* ns: of a call, before one is done */
#define BESIDE 1000  /* ns: of each call, beside its function */
#define CALLS 8      /* the last so many count most in a mean */
#define MORE 4       /* so often the mean a call counts at most */
#define BY_CALL 125  /* bytes per microsecond, before any were seen to move: 1 Gbit/s */

static struct dmi_remote_pace *kind_of(struct dmi_remote_book *book, uint32_t kind) {
  while (kind >= book->kind_num) {
    DMI_XALLOC_GROW(book->kinds, book->kind_num, book->kind_room);
    book->kinds[book->kind_num++] = (struct dmi_remote_pace){0, 0};
  }
  return &book->kinds[kind];
}

uint64_t dmi_remote_book_time(struct dmi_remote_book *book, uint32_t kind) {
  const struct dmi_remote_pace *at = kind_of(book, kind);
  if (at->counts) return at->counts;
  return (book->took ? book->took : FIRST) + BESIDE;
}

/* One call that was interrupted for long counts as a somewhat longer one: else all placed calls
 * would be looked at, again and again until it is forgotten. */
static uint64_t mean(uint64_t before, uint64_t now) {
  if (!before) return now;
  if (now / MORE > before) now = before * MORE;
  return (before * (CALLS - 1) + now) / CALLS;
}

bool dmi_remote_is_steady(uint64_t before, uint64_t now) {
  return before && now / 2 < before && before / 2 < now;
}

/* The placed calls of this kind count anew. */
static void count(struct dmi_remote_book *book, uint32_t kind, uint64_t counts) {
  struct dmi_remote_host *host;
  struct dmi_remote_entry *entry;
  DL_FOREACH(book->hosts, host) {
    DL_FOREACH(host->calls, entry) {
      if (entry->kind != kind) continue;
      host->work += counts - entry->counts;
      entry->counts = counts;
    }
    dmi_remote_host_moved(book, host);
  }
}

static void count_kind(struct dmi_remote_book *book, uint32_t kind, struct dmi_remote_pace *at) {
  const uint64_t counts = at->took + BESIDE;
  if (dmi_remote_is_steady(at->counts, counts)) return;
  at->counts = counts;
  count(book, kind, counts);
  dmi_remote_book_unrefuse(book);
}

static void count_foreign(struct dmi_remote_book *book) {
  const uint64_t counts = book->took + BESIDE;
  struct dmi_remote_host *host;
  if (dmi_remote_is_steady(book->counts, counts)) return;
  book->counts = counts;
  DL_FOREACH(book->hosts, host) {
    dmi_remote_host_foreign(book, host, host->foreign);
  }
}

void dmi_remote_book_took(struct dmi_remote_book *book, uint32_t kind, uint64_t ns) {
  struct dmi_remote_pace *at = kind_of(book, kind);
  at->took = mean(at->took, ns);
  book->took = mean(book->took, ns);
  count_kind(book, kind, at);
  count_foreign(book);
}

void dmi_remote_host_foreign(struct dmi_remote_book *book, struct dmi_remote_host *host,
                             uint32_t num) {
  host->foreign = num;
  host->others = num * (book->counts ? book->counts : FIRST + BESIDE);
  dmi_remote_host_moved(book, host);
}

uint64_t dmi_remote_host_work(const struct dmi_remote_host *host) {
  return host->work + host->others;
}

uint64_t dmi_remote_host_rate(const struct dmi_remote_book *book,
                              const struct dmi_remote_host *host) {
  if (host->rate) return host->rate;
  return book->rate ? book->rate : book->config.rate ? book->config.rate : BY_CALL;
}
