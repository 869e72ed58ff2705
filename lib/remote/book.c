/*
 * book.c - the book as a whole: its actions, what is freed when they were taken, and what happens
 * at the end of each event.
 */
#include "remote/book.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "remote/book_int.h"

struct dmi_remote_book *dmi_remote_book_new(const struct dmi_remote_book_config *config) {
  struct dmi_remote_book *book = dmi_xalloc(1, sizeof(*book));
  book->config = *config;
  if (!book->config.most) book->config.most = UINT64_MAX;
  if (!book->config.lineage) book->config.lineage = UINT64_MAX;
  return book;
}

#ifdef DMI_MUTATIONS
void dmi_remote_book_set_break(struct dmi_remote_book *book, enum dmi_remote_book_break broken) {
  book->broken = broken;
}
#endif

/* ---- Trash ---------------------------------------------------------------------------------- */

static void free_entry(struct dmi_remote_entry *entry) {
  dmi_remote_why_release(entry->why);
  free(entry);
}

static void free_item(struct dmi_remote_item *item) {
  dmi_remote_why_release(item->at.why);
  free(item);
}

static void empty_trash(struct dmi_remote_book *book) {
  while (book->old_entries) {
    struct dmi_remote_entry *entry = book->old_entries;
    book->old_entries = entry->next;
    free_entry(entry);
  }
  while (book->old_items) {
    struct dmi_remote_item *item = book->old_items;
    book->old_items = item->next;
    free_item(item);
  }
}

static void free_list(struct dmi_remote_entry *list) {
  struct dmi_remote_entry *entry, *next;
  DL_FOREACH_SAFE(list, entry, next) {
    free_entry(entry);
  }
}

void dmi_remote_book_free(struct dmi_remote_book *book) {
  struct dmi_remote_host *host, *next;
  if (!book) return;
  empty_trash(book);
  dmi_remote_why_release(book->failure);
  for (size_t i = 0; i < book->values.size; i++) {
    if (book->values.slots[i].at) free_item(book->values.slots[i].at);
  }
  DL_FOREACH_SAFE(book->hosts, host, next) {
    free_list(host->calls);
    free(host);
  }
  free_list(book->unplaced);
  free_list(book->kept);
  dmi_remote_table_free(&book->values);
  dmi_remote_table_free(&book->calls);
  dmi_remote_table_free(&book->by_uid);
  free(book->heap);
  free(book->kinds);
  free(book->candidates);
  free(book->candidate_hosts);
  free(book->actions);
  free(book);
}

/* ---- Events and actions --------------------------------------------------------------------- */

void dmi_remote_book_begin(struct dmi_remote_book *book) {
  assert(book->first == book->num);
  book->first = book->num = 0;
  empty_trash(book);
}

void dmi_remote_book_end(struct dmi_remote_book *book) {
  do {
    dmi_remote_book_fail(book);
    dmi_remote_book_settle(book);
    dmi_remote_book_forget(book);
    dmi_remote_book_place(book);
  } while (book->failing || book->settling);
  if (book->waits && !dmi_remote_book_full(book)) {
    book->waits = false;
    dmi_remote_book_act(book, DMI_REMOTE_ROOM, 0);
  }
}

struct dmi_remote_book_action *dmi_remote_book_act(struct dmi_remote_book *book,
                                                   enum dmi_remote_book_do type, dmi_uid_t to) {
  struct dmi_remote_book_action *action;
  DMI_XALLOC_GROW(book->actions, book->num, book->capacity);
  action = &book->actions[book->num++];
  memset(action, 0, sizeof(*action));
  action->type = type;
  action->to = to;
  return action;
}

const struct dmi_remote_book_action *dmi_remote_book_next(struct dmi_remote_book *book) {
  return book->first < book->num ? &book->actions[book->first++] : NULL;
}

/* ---- Questions ------------------------------------------------------------------------------ */

bool dmi_remote_book_full(struct dmi_remote_book *book) {
  bool full = book->undone && book->bytes >= book->config.most;
  if (full) book->waits = true;
  return full;
}

void dmi_remote_book_count_failure(struct dmi_remote_book *book, struct dmi_remote_why *why) {
  if (!book->failed++) book->failure = dmi_remote_why_hold(why);
}

const struct dmi_remote_why *dmi_remote_book_failure(const struct dmi_remote_book *book,
                                                     uint64_t *calls) {
  *calls = book->failed;
  return book->failure;
}

struct dmi_remote_book_counts dmi_remote_book_counts(const struct dmi_remote_book *book) {
  return (struct dmi_remote_book_counts){.values = book->values.num,
                                         .calls = book->undone + book->kept_num,
                                         .undone = book->undone,
                                         .bytes = book->bytes,
                                         .lineage = book->lineage,
                                         .again = book->again,
                                         .servers = book->hosts_num,
                                         .given_up = book->given_up};
}
