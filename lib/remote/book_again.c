/*
 * book_again.c - what is lost is made again, and whatever that needs (docs/remote.md, rule 5).
 *
 * With a stack, not by recursion: lineage may be as long as the program.
 */
#include "dmi_api.h"
#include "remote/book_int.h"

/* The call, which was done, is to be done again.  Pushes those of its inputs that must be made
 * again first. */
static void again(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                  struct dmi_remote_item **stack) {
  DL_DELETE(book->kept, entry);
  book->kept_num--;
  book->lineage -= entry->bytes;
  book->again++;
  if (!DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_GEN)) entry->call.gen++;
  entry->where = DMI_REMOTE_UNPLACED;
  entry->thief = 0;
  DL_PREPEND(book->unplaced, entry); /* before those that need its outputs */
  dmi_remote_entry_begin(book, entry);
  for (uint32_t i = 0; i < entry->call.output_num; i++) {
    struct dmi_remote_item *item = entry->outputs[i];
    if (!item || item->at.state != DMI_REMOTE_PENDING) continue;
    item->freed = false;
    item->gen = entry->call.gen;
    item->server = 0;
  }
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    const struct dmi_remote_item *item = entry->needs[i].value;
    if (item->at.state == DMI_REMOTE_FAILED) dmi_remote_entry_fail(book, entry, item->at.why);
  }
  if (entry->where != DMI_REMOTE_UNPLACED) return; /* an input was lost, and given up, before */
  for (uint32_t i = 0; i < entry->call.input_num; i++) {
    struct dmi_remote_item *item = entry->needs[i].value;
    if (item->at.state != DMI_REMOTE_PENDING || !item->freed ||
        DMI_BROKEN(book, DMI_REMOTE_BOOK_BREAK_DEEP))
      continue;
    item->freed = false;
    item->remake = *stack;
    *stack = item;
  }
}

void dmi_remote_item_again(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  struct dmi_remote_item *stack = item;
  item->remake = NULL;
  while (stack) {
    struct dmi_remote_why *why;
    item = stack;
    stack = item->remake;
    if (item->maker && item->maker->where == DMI_REMOTE_KEPT) {
      again(book, item->maker, &stack);
    } else if (item->maker) {
      item->gen = item->maker->call.gen; /* it is being done again already */
      item->server = item->maker->server ? item->maker->server->about.uid : 0;
    } else {
      why = dmi_remote_why_new(DMI_ELOST, NULL, NULL,
                               "lost with its process, and the calls that made it are not kept");
      dmi_remote_item_failed(book, item, why, true);
      dmi_remote_why_release(why);
    }
  }
}

void dmi_remote_item_lost(struct dmi_remote_book *book, struct dmi_remote_item *item) {
  dmi_remote_item_free_bytes(book, item, true);
  item->freed = false;
  dmi_remote_item_again(book, item);
}
