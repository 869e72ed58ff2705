/*
 * book_place.c - sends calls to servers (docs/remote.md, "Placing", rules 2, 3 and 17).
 *
 * Asked are the servers where inputs are or will be, and the one with the least to do, which the
 * heap knows: so a call does not look at all servers.
 */
#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote/book_int.h"
#include "remote/bytes.h"

/* ---- Where ---------------------------------------------------------------------------------- */

static void add_candidate(struct dmi_remote_book *book, struct dmi_remote_host *host) {
  if (!host || !host->open || host->mark == book->mark) return;
  host->mark = book->mark;
  if (book->candidate_num == book->candidate_capacity) {
    book->candidate_capacity = book->candidate_capacity ? 2 * book->candidate_capacity : 8;
    book->candidates =
        dmi_xalloc_again(book->candidates, book->candidate_capacity, sizeof(*book->candidates));
    book->candidate_hosts = dmi_xalloc_again(book->candidate_hosts, book->candidate_capacity,
                                             sizeof(struct dmi_remote_host *));
  }
  book->candidate_hosts[book->candidate_num++] = host;
}

/* What it costs to have an input elsewhere.  One that is changed costs twice: what is made of it
 * will be there, too, and move all that needs it; others only leave a copy. */
static uint64_t weight(const struct dmi_remote_need *need) {
  return need->value->at.size << (need->takes && need->value->at.size < UINT64_MAX / 4);
}

/* Where the inputs are. */
static void ask_inputs(struct dmi_remote_book *book, const struct dmi_remote_entry *entry) {
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    const struct dmi_remote_item *item = entry->needs[i].value;
    add_candidate(book, item->server ? dmi_remote_host_of(book, item->server) : NULL);
  }
}

/* The call goes on with this value: it changes it, or needs no other.  One that needs several is
 * not bound to any of them: calls that need the same ones could run at the same time. */
static bool goes_on(const struct dmi_remote_entry *entry, uint32_t i) {
  return entry->needs[i].takes || entry->call.input_num == 1;
}

/* Bytes of inputs that this server has, or will have, as it makes them or another call there needs
 * them.  `made`: of those that the call goes on with, bytes that it makes. */
static uint64_t bytes_there(const struct dmi_remote_host *host,
                            const struct dmi_remote_entry *entry, uint64_t *made) {
  uint64_t there = 0;
  *made = 0;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    const struct dmi_remote_item *item = entry->needs[i].value;
    const bool here = item->server == host->about.uid;
    if (here || (item->copies & host->bit)) there = dmi_remote_sum(there, weight(&entry->needs[i]));
    if (here && goes_on(entry, i)) *made = dmi_remote_sum(*made, item->at.size);
  }
  return there;
}

static uint64_t bytes_needed(const struct dmi_remote_entry *entry) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < entry->call.input_num; i++)
    bytes = dmi_remote_sum(bytes, weight(&entry->needs[i]));
  return bytes;
}

static struct dmi_remote_host *choose(struct dmi_remote_book *book,
                                      const struct dmi_remote_entry *entry) {
  const struct dmi_remote_demand demand = {.inputs = bytes_needed(entry),
                                           .memory = entry->memory,
                                           .took = dmi_remote_book_time(book, entry->kind)};
  size_t best;
  for (size_t i = 0; i < book->candidate_num; i++) {
    const struct dmi_remote_host *host = book->candidate_hosts[i];
    struct dmi_remote_candidate *at = &book->candidates[i];
    *at = (struct dmi_remote_candidate){.load = dmi_remote_host_work(host),
                                        .rate = dmi_remote_host_rate(book, host),
                                        .cores = host->about.cores,
                                        .limit = host->about.limit,
                                        .last = host->last};
    at->there = bytes_there(host, entry, &at->made);
  }
  best = dmi_remote_place_choose(book->candidates, book->candidate_num, &demand);
  return best == DMI_REMOTE_NOWHERE ? NULL : book->candidate_hosts[best];
}

static bool fits(const struct dmi_remote_host *host, const struct dmi_remote_entry *entry) {
  return !host->about.limit || entry->memory <= host->about.limit;
}

/* The server that it was issued for, or stolen for, if it can have it. */
static struct dmi_remote_host *asked_for(const struct dmi_remote_book *book,
                                         const struct dmi_remote_entry *entry, dmi_uid_t uid) {
  struct dmi_remote_host *host = uid ? dmi_remote_host_of(book, uid) : NULL;
  return host && host->open && fits(host, entry) ? host : NULL;
}

/* The server it was stolen for.  NULL: it has gone, or has too little memory for the call. */
static struct dmi_remote_host *for_thief(struct dmi_remote_book *book,
                                         const struct dmi_remote_entry *entry) {
  struct dmi_remote_host *thief = dmi_remote_host_of(book, entry->thief);
  struct dmi_remote_host *host = asked_for(book, entry, entry->thief);
  if (host) host->got = true;
  if (thief && !host) thief->lacked = true;
  return host;
}

/* Servers were lost that may have run it: it could cost the client, too. */
static bool is_risk(const struct dmi_remote_book *book, const struct dmi_remote_entry *entry,
                    const struct dmi_remote_host *host) {
  return entry->losses && host->about.uid == book->config.client.process;
}

/* Of all servers; of the client's own process only if there is no other one, and it is not likely
 * that this call has cost them. */
static struct dmi_remote_host *choose_of_all(struct dmi_remote_book *book,
                                             const struct dmi_remote_entry *entry) {
  struct dmi_remote_host *own = NULL, *host;
  book->mark++;
  book->candidate_num = 0;
  for (size_t i = 0; i < book->open; i++) {
    if (is_risk(book, entry, book->heap[i]))
      own = book->heap[i];
    else
      add_candidate(book, book->heap[i]);
  }
  host = choose(book, entry);
  if (host || !own || entry->losses >= DMI_REMOTE_LOSSES_AWAY) return host;
  add_candidate(book, own);
  return choose(book, entry);
}

/* NULL: no server can hold it. */
static struct dmi_remote_host *where(struct dmi_remote_book *book,
                                     const struct dmi_remote_entry *entry) {
  struct dmi_remote_host *host = asked_for(book, entry, entry->on);
  if (!host && entry->thief) host = for_thief(book, entry);
  if (host && !is_risk(book, entry, host)) return host;
  book->mark++;
  book->candidate_num = 0;
  ask_inputs(book, entry);
  add_candidate(book, book->heap[0]);
  host = choose(book, entry);
  if (host && !is_risk(book, entry, host)) return host;
  return choose_of_all(book, entry);
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void want(struct dmi_remote_book *book, struct dmi_remote_need *need, dmi_uid_t producer) {
  dmi_uid_t reader = need->call->server->about.uid;
  need->asked = producer;
  if (producer && producer != reader) {
    struct dmi_remote_book_action *action =
        dmi_remote_book_act(book, DMI_REMOTE_SEND_WANT, producer);
    action->number = need->value->number;
    action->reader = reader;
    action->seq = need->call->call.seq;
  }
}

/* An output of a call done again that nobody needs, or that is there; where its server has gone
 * that is not sure, so it is made anew. */
static bool is_spare(const struct dmi_remote_book *book, const struct dmi_remote_item *item) {
  if (DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_SPARE)) return false;
  if (!item || item->freed) return true;
  return item->at.state == DMI_REMOTE_DONE && dmi_remote_host_of(book, item->server);
}

/* Nobody else needs this input, nor will.  With lineage it may be needed again. */
static bool is_last(const struct dmi_remote_book *book, const struct dmi_remote_need *need) {
  const struct dmi_remote_item *item = need->value;
  if (!need->takes || book->config.survive) return false;
  return !item->handles && item->needs == need && !need->next;
}

static void send(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  struct dmi_remote_host *host = entry->server;
  bool known = true;
  entry->call.seq = ++host->sent;
  entry->call.flags &= ~(DMI_REMOTE_PINNED | DMI_REMOTE_SUSPECT | DMI_REMOTE_ALONE);
  if (entry->on == host->about.uid) entry->call.flags |= DMI_REMOTE_PINNED;
  if (entry->losses) entry->call.flags |= DMI_REMOTE_SUSPECT;
  if (entry->losses > 1) entry->call.flags |= DMI_REMOTE_ALONE;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    struct dmi_remote_need *need = &entry->needs[i];
    entry->call.inputs[i].gen = need->value->gen;
    entry->call.inputs[i].at = need->value->at;
    entry->call.inputs[i].last = is_last(book, need);
    need->pending = need->value->at.state == DMI_REMOTE_PENDING;
    known = known && !need->pending;
  }
  for (uint32_t i = 0; i < entry->call.output_num; i++)
    entry->call.outputs[i].spare = is_spare(book, entry->outputs[i]);
  dmi_remote_book_act(book, DMI_REMOTE_SEND_CALL, host->about.uid)->call = &entry->call;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    if (entry->needs[i].pending) want(book, &entry->needs[i], entry->needs[i].value->server);
  }
  if (known && dmi_remote_host_load(host) > host->about.cores &&
      !(entry->call.flags & DMI_REMOTE_PINNED))
    dmi_remote_host_ready(book, host, host->ready + 1);
}

/* Its outputs will be made there: whoever waits for them elsewhere is told from there. */
static void promise(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  dmi_uid_t uid = entry->server->about.uid;
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    struct dmi_remote_item *item = entry->outputs[i];
    struct dmi_remote_need *need;
    if (!item || item->at.state != DMI_REMOTE_PENDING || item->freed) continue;
    item->server = uid;
    if (DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_WANT)) continue;
    DL_FOREACH(item->needs, need) {
      if (need->call->where == DMI_REMOTE_PLACED && need->pending) want(book, need, uid);
    }
  }
}

bool dmi_remote_entry_needless(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  if (entry->call.gen == 1) return false;
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    const struct dmi_remote_item *item = entry->outputs[i];
    if (item && item->at.state == DMI_REMOTE_PENDING && (item->handles || item->needs))
      return false;
  }
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    struct dmi_remote_item *item = entry->outputs[i];
    if (!item || item->at.state != DMI_REMOTE_PENDING) continue;
    item->freed = true;
    dmi_remote_item_less(book, item);
  }
  dmi_remote_entry_over(book, entry, true);
  return true;
}

/* It has cost servers: it is not run again. */
static void give_up(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  struct dmi_remote_why *why = dmi_remote_why_fatal(entry->name, entry->losses, entry->call.number);
  book->given_up++;
  dmi_remote_entry_fail(book, entry, why);
  dmi_remote_why_release(why);
}

void dmi_remote_entry_lost(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  /* At first nobody knows whether it ran, afterwards its server has told. */
  if (entry->losses && !entry->fired) return;
  entry->losses++;
  if (entry->losses >= DMI_REMOTE_LOSSES && !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_FATAL))
    give_up(book, entry);
}

/* It can be placed nowhere. */
static void fail(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  const struct dmi_remote_host *own = dmi_remote_host_of(book, book->config.client.process);
  struct dmi_remote_why *why;
  if (entry->losses >= DMI_REMOTE_LOSSES_AWAY && own && own->open && fits(own, entry)) {
    give_up(book, entry);
    return;
  }
  why = dmi_remote_why_large(entry->memory);
  dmi_remote_entry_fail(book, entry, why);
  dmi_remote_why_release(why);
}

static void place(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  struct dmi_remote_host *host;
  host = where(book, entry);
  if (!host) {
    fail(book, entry);
    return;
  }
  DL_DELETE(book->unplaced, entry);
  entry->where = DMI_REMOTE_PLACED;
  entry->thief = 0;
  entry->fired = false;
  entry->server = host;
  DL_APPEND(host->calls, entry);
  host->calls_num++;
  entry->counts = dmi_remote_book_time(book, entry->kind);
  host->work += entry->counts;
  host->last = ++book->placed;
  host->unfit = false;
  for (uint32_t i = 0; i < entry->call.input_num; i++)
    entry->needs[i].value->copies |= host->bit;
  dmi_remote_host_moved(book, host);
  send(book, entry);
  promise(book, entry);
}

/* A call with a failed input fails. */
static void fail_poisoned(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    const struct dmi_remote_item *item = entry->needs[i].value;
    if (item->at.state == DMI_REMOTE_FAILED && !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_POISON))
      dmi_remote_entry_fail(book, entry, item->at.why);
  }
}

/* Ends what is to be done again for nothing: from the back, since those that are needed by others
 * are before these. */
static void prune(struct dmi_remote_book *book) {
  bool ended = true;
  while (ended && book->unplaced) {
    struct dmi_remote_entry *entry = book->unplaced->prev, *before;
    ended = false;
    for (bool first = false; !first; entry = before) {
      first = entry == book->unplaced;
      before = entry->prev;
      if (dmi_remote_entry_needless(book, entry))
        ended = true;
      else
        fail_poisoned(book, entry);
    }
  }
}

void dmi_remote_book_place(struct dmi_remote_book *book) {
  if (!book->open || !book->unplaced) return;
  prune(book);
  if (book->failing) return; /* what only those need is not to be placed */
  while (book->unplaced)
    place(book, book->unplaced);
}

void dmi_remote_entry_unplace(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  struct dmi_remote_host *host = entry->server;
  DL_DELETE(host->calls, entry);
  host->calls_num--;
  host->work -= entry->counts;
  dmi_remote_host_moved(book, host);
  entry->server = NULL;
  entry->where = DMI_REMOTE_UNPLACED;
  DL_APPEND(book->unplaced, entry);
  for (uint32_t i = 0; i < entry->call.input_num; i++)
    entry->needs[i].pending = false;
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    struct dmi_remote_item *item = entry->outputs[i];
    if (item && item->at.state == DMI_REMOTE_PENDING) item->server = 0;
  }
}
