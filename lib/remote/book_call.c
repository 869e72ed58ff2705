/*
 * book_call.c - the calls of a client: they are issued, done, fail, come back, and are kept for
 * lineage (docs/remote.md, "The book").
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "dmi_api.h"
#include "remote/book_int.h"
#include "remote/bytes.h"

/* ---- Issue ---------------------------------------------------------------------------------- */

/* A call in one block: the entry, needs, pointers, inputs, outputs, arguments. */
static struct dmi_remote_entry *new_entry(const struct dmi_remote_issue *issue) {
  size_t inputs = issue->input_num, outputs = issue->output_num;
  size_t head = dmi_remote_round_up(sizeof(struct dmi_remote_entry));
  size_t needs = dmi_remote_round_up(inputs * sizeof(struct dmi_remote_need));
  size_t made = dmi_remote_round_up(outputs * sizeof(struct dmi_remote_item *));
  size_t in = dmi_remote_round_up(inputs * sizeof(struct dmi_remote_input));
  size_t out = dmi_remote_round_up(outputs * sizeof(struct dmi_remote_output));
  size_t all = head + needs + made + in + out + issue->arg_size;
  char *at = dmi_xalloc(1, all);
  struct dmi_remote_entry *entry = (struct dmi_remote_entry *)(void *)at;
  entry->bytes = all;
  entry->needs = (struct dmi_remote_need *)(void *)(at += head);
  entry->outputs = (struct dmi_remote_item **)(void *)(at += needs);
  entry->call.inputs = (struct dmi_remote_input *)(void *)(at += made);
  entry->call.outputs = (struct dmi_remote_output *)(void *)(at += in);
  entry->call.args = at += out;
  if (issue->arg_size) memcpy(at, issue->args, issue->arg_size);
  entry->call.input_num = issue->input_num;
  entry->call.output_num = issue->output_num;
  entry->call.arg_size = issue->arg_size;
  entry->call.function = issue->function;
  entry->call.flags = issue->late ? DMI_REMOTE_LATE : 0;
  entry->call.gen = 1;
  entry->on = issue->on;
  entry->kind = issue->kind;
  entry->name = issue->name;
  return entry;
}

static void fill(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                 const struct dmi_remote_issue *issue, uint64_t *outputs) {
  entry->call.client = book->config.client;
  entry->call.number = ++book->last;
  for (uint32_t i = 0; i < issue->input_num; i++) {
    struct dmi_remote_item *item = dmi_remote_item_of(book, issue->inputs[i]);
    entry->needs[i] = (struct dmi_remote_need){
        .call = entry, .value = item, .takes = issue->takes && issue->takes[i]};
    entry->call.inputs[i].number = item->number;
  }
  for (uint32_t i = 0; i < issue->output_num; i++) {
    struct dmi_remote_item *item = dmi_remote_item_new(book);
    item->at.size = issue->sizes[i];
    item->gen = 1;
    item->index = i;
    item->maker = entry;
    entry->outputs[i] = item;
    entry->keep++;
    entry->call.outputs[i].number = outputs[i] = item->number;
    entry->call.outputs[i].at.size = issue->sizes[i];
    entry->memory = dmi_remote_sum(entry->memory, issue->sizes[i]);
  }
}

/* An input that is there twice counts once, as at the server. */
static void demand(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  book->mark++;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    struct dmi_remote_item *item = entry->needs[i].value;
    if (item->mark == book->mark) continue;
    item->mark = book->mark;
    entry->memory = dmi_remote_sum(entry->memory, item->at.size);
  }
}

void dmi_remote_entry_begin(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  dmi_remote_table_put(&book->calls, book->config.client, entry->call.number, entry);
  book->undone++;
  book->bytes += entry->bytes;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    struct dmi_remote_need *need = &entry->needs[i];
    need->pending = false;
    DL_APPEND(need->value->needs, need);
  }
}

int32_t dmi_remote_book_call(struct dmi_remote_book *book, const struct dmi_remote_issue *issue,
                             uint64_t *outputs) {
  struct dmi_remote_entry *entry;
  for (uint32_t i = 0; i < issue->input_num; i++) {
    const struct dmi_remote_item *item = dmi_remote_item_of(book, issue->inputs[i]);
    if (!item || !item->handles) return DMI_EINVAL;
  }
  dmi_remote_book_begin(book);
  entry = new_entry(issue);
  fill(book, entry, issue, outputs);
  demand(book, entry);
  dmi_remote_entry_begin(book, entry);
  for (uint32_t i = 0; i < issue->input_num; i++) { /* the call needs it still */
    struct dmi_remote_item *item = entry->needs[i].value;
    if (entry->needs[i].takes && item->handles) item->handles--;
  }
  entry->where = DMI_REMOTE_UNPLACED;
  DL_APPEND(book->unplaced, entry);
  for (uint32_t i = 0; i < issue->input_num; i++) {
    const struct dmi_remote_item *item = entry->needs[i].value;
    if (item->at.state == DMI_REMOTE_FAILED && !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_POISON))
      dmi_remote_entry_fail(book, entry, item->at.why);
  }
  dmi_remote_book_end(book);
  return DMI_OK;
}

/* ---- Over ----------------------------------------------------------------------------------- */

static void discard(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    if (entry->outputs[i]) entry->outputs[i]->maker = NULL;
  }
  for (uint32_t i = 0; entry->linked && i < entry->call.input_num; i++) {
    entry->needs[i].value->lineage--;
    dmi_remote_item_less(book, entry->needs[i].value);
  }
  entry->where = DMI_REMOTE_TRASH;
  entry->next = book->old_entries;
  book->old_entries = entry;
}

/* A call that is kept is not any more. */
static void unkeep(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  DL_DELETE(book->kept, entry);
  book->kept_num--;
  book->lineage -= entry->bytes;
  discard(book, entry);
}

static void keep_it(struct dmi_remote_book *book, struct dmi_remote_entry *entry) {
  for (uint32_t i = 0; !entry->linked && i < entry->call.input_num; i++)
    entry->needs[i].value->lineage++;
  entry->linked = true;
  entry->where = DMI_REMOTE_KEPT;
  DL_APPEND(book->kept, entry);
  book->kept_num++;
  book->lineage += entry->bytes;
}

void dmi_remote_entry_over(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                           bool keep) {
  if (entry->where == DMI_REMOTE_PLACED) dmi_remote_entry_unplace(book, entry);
  if (entry->where == DMI_REMOTE_UNPLACED) DL_DELETE(book->unplaced, entry);
  dmi_remote_table_remove(&book->calls, book->config.client, entry->call.number);
  book->undone--;
  book->bytes -= entry->bytes;
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    struct dmi_remote_need *need = &entry->needs[i];
    DL_DELETE(need->value->needs, need);
    dmi_remote_item_less(book, need->value);
  }
  if (keep && entry->keep && book->config.survive &&
      !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_LINEAGE))
    keep_it(book, entry);
  else
    discard(book, entry);
}

void dmi_remote_entry_less(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                           uint32_t index) {
  entry->outputs[index] = NULL;
  entry->keep--;
  if (!entry->keep && entry->where == DMI_REMOTE_KEPT) unkeep(book, entry);
}

void dmi_remote_book_forget(struct dmi_remote_book *book) {
  while (book->lineage > book->config.lineage && book->kept) {
    unkeep(book, book->kept);
    dmi_remote_book_settle(book);
  }
}

void dmi_remote_entry_fail(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                           struct dmi_remote_why *why) {
  if (entry->where != DMI_REMOTE_UNPLACED) return;
  DL_DELETE(book->unplaced, entry);
  entry->where = DMI_REMOTE_DOOMED;
  dmi_remote_book_count_failure(book, why);
  entry->why = dmi_remote_why_hold(why);
  DL_APPEND(book->failing, entry);
}

/* The output is still to be made by its call. */
static bool is_due(const struct dmi_remote_item *item) {
  return item && item->at.state == DMI_REMOTE_PENDING && !item->freed;
}

void dmi_remote_book_fail(struct dmi_remote_book *book) {
  struct dmi_remote_entry *entry;
  while ((entry = book->failing) != NULL) {
    DL_DELETE(book->failing, entry);
    for (uint32_t i = 0; i < entry->call.output_num; i++) {
      if (is_due(entry->outputs[i]))
        dmi_remote_item_failed(book, entry->outputs[i], entry->why, true);
    }
    dmi_remote_entry_over(book, entry, false);
  }
}

/* ---- What servers say ----------------------------------------------------------------------- */

/* NULL: that server does not have such a call. */
static struct dmi_remote_entry *entry_at(const struct dmi_remote_book *book, dmi_uid_t from,
                                         uint64_t number) {
  struct dmi_remote_entry *entry = dmi_remote_table_find(&book->calls, book->config.client, number);
  return entry && entry->where == DMI_REMOTE_PLACED && entry->server->about.uid == from ? entry
                                                                                        : NULL;
}

/* An output that nobody needs, though it was to be made. */
static void unneeded(struct dmi_remote_book *book, const struct dmi_remote_entry *entry, uint32_t i,
                     dmi_uid_t from) {
  if (entry->call.outputs[i].spare || DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_SPARE)) return;
  dmi_remote_book_act(book, DMI_REMOTE_SEND_DROP, from)->number = entry->call.outputs[i].number;
}

/* An output of a call that is done. */
static void take(struct dmi_remote_book *book, const struct dmi_remote_entry *entry, uint32_t i,
                 dmi_uid_t from, const struct dmi_remote_result *result) {
  struct dmi_remote_item *item = entry->outputs[i];
  bool spare = entry->call.outputs[i].spare;
  if (item && item->at.state == DMI_REMOTE_DONE && !spare &&
      !DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_SPARE)) {
    /* It was there, but its server has gone: so it may be lost, too. This one is not. */
    dmi_remote_item_free_bytes(book, item, false);
    item->freed = false;
    item->gen = entry->call.gen;
  }
  if (is_due(item) && !spare)
    dmi_remote_item_made(book, item, result, from);
  else
    unneeded(book, entry, i, from);
}

bool dmi_remote_book_done(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                          const struct dmi_remote_result *results, uint32_t num, uint64_t took) {
  struct dmi_remote_entry *entry = entry_at(book, from, call);
  if (!entry || entry->call.output_num != num) return false;
  for (uint32_t i = 0; i < num; i++) {
    if (entry->call.outputs[i].spare) continue;
    if (results[i].state != DMI_REMOTE_DONE) return false;
    if (results[i].size > entry->call.outputs[i].at.size) return false;
  }
  dmi_remote_book_begin(book);
  if (took) dmi_remote_book_took(book, entry->kind, took);
  for (uint32_t i = 0; i < num; i++)
    take(book, entry, i, from, &results[i]);
  entry->losses = 0; /* it is not that which has cost them */
  dmi_remote_entry_over(book, entry, true);
  /* Outputs that have been found lost since the call was sent, and so were not made. */
  for (uint32_t i = 0; i < num; i++)
    if (is_due(entry->outputs[i])) dmi_remote_item_again(book, entry->outputs[i]);
  dmi_remote_book_end(book);
  return true;
}

bool dmi_remote_book_fired(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call) {
  struct dmi_remote_entry *entry = entry_at(book, from, call);
  if (!entry) return false;
  dmi_remote_book_begin(book);
  entry->fired = true;
  dmi_remote_book_end(book);
  return true;
}

bool dmi_remote_book_failed(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                            struct dmi_remote_why *why) {
  struct dmi_remote_entry *entry = entry_at(book, from, call);
  if (!entry || !why) return false;
  dmi_remote_book_begin(book);
  dmi_remote_book_count_failure(book, why);
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    struct dmi_remote_item *item = entry->outputs[i];
    bool spare = entry->call.outputs[i].spare;
    if (is_due(item)) {
      item->server = spare ? 0 : from;
      dmi_remote_item_failed(book, item, why, spare);
    } else {
      unneeded(book, entry, i, from);
    }
  }
  dmi_remote_entry_over(book, entry, false);
  dmi_remote_book_end(book);
  return true;
}

bool dmi_remote_book_returned(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                              uint64_t lost, int64_t addr) {
  struct dmi_remote_entry *entry = entry_at(book, from, call);
  struct dmi_remote_item *item;
  if (!entry) return false;
  dmi_remote_book_begin(book);
  if (!lost && entry->server->open) entry->thief = entry->server->thief;
  dmi_remote_entry_unplace(book, entry);
  dmi_remote_entry_needless(book, entry); /* then its inputs may not be needed, either */
  item = lost ? dmi_remote_item_of(book, lost) : NULL;
  if (item && (item->handles || item->needs) && item->at.state == DMI_REMOTE_DONE &&
      (item->at.addr == addr || DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_ADDR)))
    dmi_remote_item_lost(book, item);
  dmi_remote_book_end(book);
  return true;
}
