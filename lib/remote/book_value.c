/*
 * book_value.c - the values of a client: where they are, who needs them, and when they go
 * (docs/remote.md, rule 1).
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "remote/book_int.h"

struct dmi_remote_item *dmi_remote_item_of(const struct dmi_remote_book *book, uint64_t number) {
  return dmi_remote_table_find(&book->values, book->config.client, number);
}

struct dmi_remote_item *dmi_remote_item_new(struct dmi_remote_book *book) {
  struct dmi_remote_item *item = dmi_xalloc(1, sizeof(*item));
  item->number = ++book->last;
  item->handles = 1;
  dmi_remote_table_put(&book->values, book->config.client, item->number, item);
  return item;
}

/* ---- They are made, or not ------------------------------------------------------------------ */

static void wake(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  if (!item->watched) return;
  item->watched = false;
  dmi_remote_book_act(book, DMI_REMOTE_WAKE, 0)->number = item->number;
}

void dmi_remote_item_made(struct dmi_remote_book *book, struct dmi_remote_item *item,
                          const struct dmi_remote_result *at, dmi_uid_t server) {
  item->at =
      (struct dmi_remote_result){.state = DMI_REMOTE_DONE, .addr = at->addr, .size = at->size};
  item->server = server;
  wake(book, item);
  if (!DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_DROP)) dmi_remote_item_less(book, item);
}

void dmi_remote_need_tell(struct dmi_remote_book *book, struct dmi_remote_need *need) {
  const struct dmi_remote_item *item = need->value;
  dmi_uid_t to = need->call->server->about.uid;
  struct dmi_remote_book_action *action;
  if (item->at.state == DMI_REMOTE_PENDING) {
    if (!item->server || item->server == to) return; /* it is told when its call is placed */
    action = dmi_remote_book_act(book, DMI_REMOTE_SEND_WANT, item->server);
    action->reader = to;
    need->asked = item->server;
  } else {
    action = dmi_remote_book_act(book, DMI_REMOTE_TELL_HAVE, to);
    action->result = item->at;
    action->gen = item->gen;
    need->asked = 0;
  }
  action->number = item->number;
  action->seq = need->call->call.seq;
}

void dmi_remote_item_failed(struct dmi_remote_book *book, struct dmi_remote_item *item,
                            struct dmi_remote_why *why, bool tell) {
  struct dmi_remote_need *need;
  item->at =
      (struct dmi_remote_result){.state = DMI_REMOTE_FAILED, .why = dmi_remote_why_hold(why)};
  item->freed = false;
  wake(book, item);
  DL_FOREACH(item->needs, need) {
    if (need->call->where == DMI_REMOTE_UNPLACED)
      dmi_remote_entry_fail(book, need->call, why);
    else if (tell && need->call->where == DMI_REMOTE_PLACED && need->pending)
      dmi_remote_need_tell(book, need);
  }
  dmi_remote_item_less(book, item);
}

/* ---- They go -------------------------------------------------------------------------------- */

void dmi_remote_item_less(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  if (item->settling) return;
  item->settling = true;
  item->next = book->settling;
  book->settling = item;
}

void dmi_remote_item_free_bytes(struct dmi_remote_book *book, struct dmi_remote_item *item,
                                bool lost) {
  struct dmi_remote_book_action *action;
  if (item->put)
    action = dmi_remote_book_act(book, DMI_REMOTE_FREE_PUT, 0);
  else if (dmi_remote_host_of(book, item->server))
    action = dmi_remote_book_act(book, DMI_REMOTE_SEND_DROP, item->server);
  else
    action = dmi_remote_book_act(book, DMI_REMOTE_GONE, item->server);
  action->number = item->number;
  action->lost = lost;
  action->result = item->at;
  item->at = (struct dmi_remote_result){.state = DMI_REMOTE_PENDING, .size = item->at.size};
  item->freed = true;
  item->server = 0;
}

/* A failure that a server told is kept there, too. */
static void free_failure(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  if (item->server && dmi_remote_host_of(book, item->server))
    dmi_remote_book_act(book, DMI_REMOTE_SEND_DROP, item->server)->number = item->number;
  item->server = 0;
}

/* A value that was put is nowhere else, and no call makes it: its bytes stay for lineage, and count
 * there. */
static bool stays(struct dmi_remote_book *book, struct dmi_remote_item *item, bool needed) {
  bool counts = !needed && item->put && item->lineage && item->at.state == DMI_REMOTE_DONE;
  book->lineage -= item->weight;
  item->weight = counts ? item->at.size : 0;
  book->lineage += item->weight;
  return needed || counts;
}

static void settle(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  bool needed = item->handles || (item->needs && !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_NEEDS));
  if (stays(book, item, needed)) return;
  if (item->at.state == DMI_REMOTE_PENDING && !item->freed) return; /* when it is made */
  if (item->at.state == DMI_REMOTE_DONE) dmi_remote_item_free_bytes(book, item, false);
  if (item->at.state == DMI_REMOTE_FAILED) free_failure(book, item);
  if (item->lineage || item->needs) return;
  dmi_remote_table_remove(&book->values, book->config.client, item->number);
  if (item->maker) dmi_remote_entry_less(book, item->maker, item->index);
  item->next = book->old_items;
  book->old_items = item;
}

void dmi_remote_book_settle(struct dmi_remote_book *book) {
  while (book->settling) {
    struct dmi_remote_item *item = book->settling;
    book->settling = item->next;
    item->settling = false;
    settle(book, item);
  }
}

/* ---- The program ---------------------------------------------------------------------------- */

uint64_t dmi_remote_book_put(struct dmi_remote_book *book, int64_t addr, uint64_t size) {
  struct dmi_remote_item *item;
  dmi_remote_book_begin(book);
  item = dmi_remote_item_new(book);
  item->put = true;
  item->gen = 1;
  item->at = (struct dmi_remote_result){.state = DMI_REMOTE_DONE, .addr = addr, .size = size};
  item->server = book->config.client.process;
  return item->number;
}

static struct dmi_remote_item *with_handle(const struct dmi_remote_book *book, uint64_t number) {
  struct dmi_remote_item *item = dmi_remote_item_of(book, number);
  return item && item->handles ? item : NULL;
}

bool dmi_remote_book_hold(struct dmi_remote_book *book, uint64_t number) {
  struct dmi_remote_item *item = with_handle(book, number);
  if (!item) return false;
  item->handles++;
  return true;
}

bool dmi_remote_book_drop(struct dmi_remote_book *book, uint64_t number) {
  struct dmi_remote_item *item = with_handle(book, number);
  if (!item) return false;
  dmi_remote_book_begin(book);
  if (!--item->handles) dmi_remote_item_less(book, item);
  dmi_remote_book_end(book);
  return true;
}

bool dmi_remote_book_look(struct dmi_remote_book *book, uint64_t number, bool watch,
                          struct dmi_remote_result *result) {
  struct dmi_remote_item *item = with_handle(book, number);
  if (!item) return false;
  *result = item->at;
  if (watch && item->at.state == DMI_REMOTE_PENDING) item->watched = true;
  return true;
}

void dmi_remote_book_unreadable(struct dmi_remote_book *book, uint64_t number, int64_t addr) {
  struct dmi_remote_item *item;
  dmi_remote_book_begin(book);
  item = dmi_remote_item_of(book, number);
  if (item && item->at.state == DMI_REMOTE_DONE && item->at.addr == addr)
    dmi_remote_item_lost(book, item);
  dmi_remote_book_end(book);
}
