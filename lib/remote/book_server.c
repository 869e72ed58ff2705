/*
 * book_server.c - the servers of a client: they come, have more and less to do, leave, are lost;
 * and who gets calls of others (docs/remote.md, rules 3, 4, 14).
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "remote/book_int.h"

static dmi_remote_client_t name(dmi_uid_t uid) {
  return (dmi_remote_client_t){.process = uid};
}

struct dmi_remote_host *dmi_remote_host_of(const struct dmi_remote_book *book, dmi_uid_t uid) {
  return dmi_remote_table_find(&book->by_uid, name(uid), 0);
}

bool dmi_remote_book_awaits(const struct dmi_remote_book *book, dmi_uid_t server) {
  const struct dmi_remote_host *host = dmi_remote_host_of(book, server);
  return host && host->calls_num > 0;
}

void dmi_remote_book_each(const struct dmi_remote_book *book, dmi_uid_t server,
                          void (*visit)(void *arg, const struct dmi_remote_call *call), void *arg) {
  const struct dmi_remote_host *host = dmi_remote_host_of(book, server);
  const struct dmi_remote_entry *entry = host ? host->calls : NULL;
  for (; entry; entry = entry->next)
    visit(arg, &entry->call);
}

/* ---- The heap: whoever has the least to do -------------------------------------------------- */

uint64_t dmi_remote_host_load(const struct dmi_remote_host *host) {
  return (uint64_t)host->calls_num + host->foreign;
}

/* Less to do per core; of equal ones, who came first. */
static bool is_less(const struct dmi_remote_host *a, const struct dmi_remote_host *b) {
  const uint64_t left = dmi_remote_host_work(a) / a->about.cores;
  const uint64_t right = dmi_remote_host_work(b) / b->about.cores;
  return left != right ? left < right : a->about.uid < b->about.uid;
}

static void set(struct dmi_remote_book *book, size_t at, struct dmi_remote_host *host) {
  book->heap[at] = host;
  host->at = at;
}

static void sift(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  size_t at = host->at;
  while (at && is_less(host, book->heap[(at - 1) / 2])) {
    set(book, at, book->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (size_t child; (child = 2 * at + 1) < book->open; at = child) {
    if (child + 1 < book->open && is_less(book->heap[child + 1], book->heap[child])) child++;
    if (!is_less(book->heap[child], host)) break;
    set(book, at, book->heap[child]);
  }
  set(book, at, host);
}

void dmi_remote_host_moved(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  if (host->open) sift(book, host);
}

static void open_host(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  DMI_XALLOC_GROW(book->heap, book->open, book->heap_capacity);
  host->open = true;
  set(book, book->open++, host);
  sift(book, host);
}

static void close_host(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  struct dmi_remote_host *last;
  if (!host->open) return;
  dmi_remote_host_ready(book, host, 0);
  host->open = false;
  last = book->heap[--book->open];
  if (last == host) return;
  set(book, host->at, last);
  sift(book, last);
}

/* ---- Stealing ------------------------------------------------------------------------------- */

void dmi_remote_host_ready(struct dmi_remote_book *book, struct dmi_remote_host *host,
                           uint32_t ready) {
  if (!host->open) return;
  book->rich += (ready != 0);
  book->rich -= (host->ready != 0);
  host->ready = ready;
  if (ready <= host->refused / 2) host->refused = 0;
}

void dmi_remote_book_unrefuse(struct dmi_remote_book *book) {
  struct dmi_remote_host *host;
  DL_FOREACH(book->hosts, host) {
    host->refused = 0;
  }
}

/* The one with the least to do, but none for which calls were stolen that it could not hold: they
 * would be stolen again and again.  NULL: there is none. */
static struct dmi_remote_host *most_dry(const struct dmi_remote_book *book) {
  struct dmi_remote_host *best = NULL;
  if (book->open && !book->heap[0]->unfit) return book->heap[0];
  for (size_t i = 1; i < book->open; i++) {
    if (!book->heap[i]->unfit && (!best || is_less(book->heap[i], best))) best = book->heap[i];
  }
  return best;
}

void dmi_remote_book_steal(struct dmi_remote_book *book) {
  struct dmi_remote_host *dry = most_dry(book), *host, *from = NULL;
  struct dmi_remote_book_action *action;
  if (!dry || !book->rich || dry->robs || DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_STEAL)) return;
  if (!dmi_remote_place_dry(dmi_remote_host_load(dry), dry->about.cores)) return;
  DL_FOREACH(book->hosts, host) {
    if (host->open && host != dry && !host->thief && host->ready > host->refused &&
        host->ready > (from ? from->ready : 0))
      from = host;
  }
  if (!from) return;
  dry->robs = true;
  from->thief = dry->about.uid;
  action = dmi_remote_book_act(book, DMI_REMOTE_SEND_STEAL, from->about.uid);
  action->num = dmi_remote_place_share(from->ready);
  action->rate = dmi_remote_host_rate(book, dry);
  from->asked = from->ready;
  dmi_remote_host_ready(book, from, from->ready - action->num);
}

/* Whoever was to get calls of this one does not wait for them any more. */
static void end_steal(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  struct dmi_remote_host *thief = host->thief ? dmi_remote_host_of(book, host->thief) : NULL;
  if (thief) {
    /* It gave nothing, as nothing was worth moving: it is asked again when it has more. */
    host->refused = thief->got || thief->lacked ? 0 : host->asked;
    thief->robs = false;
    thief->unfit = thief->lacked && !thief->got;
    thief->lacked = thief->got = false;
  }
  host->thief = 0;
}

bool dmi_remote_book_stolen(struct dmi_remote_book *book, dmi_uid_t from) {
  struct dmi_remote_host *host = dmi_remote_host_of(book, from);
  if (!host || !host->thief) return false;
  dmi_remote_book_begin(book);
  end_steal(book, host);
  dmi_remote_book_steal(book);
  dmi_remote_book_end(book);
  return true;
}

/* Bytes reach it so fast. */
static void reached(struct dmi_remote_book *book, struct dmi_remote_host *host, uint64_t rate) {
  if (!rate) return;
  host->rate = rate;
  book->rate = book->rate ? (7 * book->rate + rate) / 8 : rate;
  if (dmi_remote_is_steady(host->steady, rate)) return;
  host->steady = rate;
  dmi_remote_book_unrefuse(book);
}

void dmi_remote_book_load(struct dmi_remote_book *book, dmi_uid_t from,
                          const struct dmi_remote_load *load) {
  struct dmi_remote_host *host = dmi_remote_host_of(book, from);
  dmi_remote_book_begin(book);
  if (host) {
    reached(book, host, load->rate);
    dmi_remote_host_foreign(book, host, load->foreign);
    dmi_remote_host_ready(book, host, load->ready);
    dmi_remote_book_steal(book);
  }
  dmi_remote_book_end(book);
}

/* ---- They come and go ----------------------------------------------------------------------- */

void dmi_remote_book_serves(struct dmi_remote_book *book, const struct dmi_remote_server *server) {
  struct dmi_remote_host *host = dmi_remote_host_of(book, server->uid);
  dmi_remote_book_begin(book);
  if (!host) {
    host = dmi_xalloc(1, sizeof(*host));
    host->about.uid = server->uid;
    host->bit = UINT64_C(1) << (server->uid % 64);
    dmi_remote_table_put(&book->by_uid, name(server->uid), 0, host);
    DL_APPEND(book->hosts, host);
    book->hosts_num++;
    host->about.cores = 1;
  }
  if (!host->open) open_host(book, host);
  host->about.cores = server->cores ? server->cores : 1;
  host->about.limit = server->limit;
  dmi_remote_host_moved(book, host);
  dmi_remote_book_steal(book);
  dmi_remote_book_end(book);
}

void dmi_remote_book_leaves(struct dmi_remote_book *book, dmi_uid_t server) {
  struct dmi_remote_host *host = dmi_remote_host_of(book, server);
  dmi_remote_book_begin(book);
  if (host && !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_CLOSED)) close_host(book, host);
  dmi_remote_book_end(book);
}

/* Calls elsewhere may wait for what a server that has gone was to tell them. */
static void tell(struct dmi_remote_book *book, dmi_uid_t gone) {
  struct dmi_remote_host *host;
  struct dmi_remote_entry *entry;
  if (DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_TELL)) return;
  DL_FOREACH(book->hosts, host) {
    DL_FOREACH(host->calls, entry) {
      for (uint32_t i = 0; i < entry->call.input_num; i++) {
        struct dmi_remote_need *need = &entry->needs[i];
        if (need->pending && need->asked == gone) dmi_remote_need_tell(book, need);
      }
    }
  }
}

static void gone(struct dmi_remote_book *book, dmi_uid_t server, bool lost) {
  struct dmi_remote_host *host = dmi_remote_host_of(book, server);
  dmi_remote_book_begin(book);
  if (host) {
    close_host(book, host);
    end_steal(book, host);
    dmi_remote_table_remove(&book->by_uid, name(server), 0);
    DL_DELETE(book->hosts, host);
    book->hosts_num--;
    while (host->calls) {
      struct dmi_remote_entry *entry = host->calls;
      dmi_remote_entry_unplace(book, entry);
      if (DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_REPLACE))
        DL_DELETE(book->unplaced, entry);
      else if (lost)
        dmi_remote_entry_lost(book, entry);
    }
    dmi_remote_book_end(book);
    tell(book, server);
    free(host);
  }
  dmi_remote_book_end(book);
}

void dmi_remote_book_left(struct dmi_remote_book *book, dmi_uid_t server) {
  gone(book, server, false);
}

void dmi_remote_book_lost(struct dmi_remote_book *book, dmi_uid_t server) {
  gone(book, server, true);
}
