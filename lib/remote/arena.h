/*
 * arena.h - where the values of a client lie that were made in this process: arenas, mappings of
 * this process whose pages have a size of a class, each page for one value.
 *
 * A value's page is used again after it was freed; that write takes the copies of the old value
 * away.  An arena whose values are all free is unmapped, if it is large or the class has another.
 */
#ifndef DMI_REMOTE_ARENA_H
#define DMI_REMOTE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_process;
struct dmi_remote_store;

struct dmi_remote_store *dmi_remote_store_new(struct dmi_process *process);
/* Unmaps all arenas, without waiting.  Nobody may make a value any more. */
void dmi_remote_store_free(struct dmi_remote_store *store);

/* At the end of the process: only frees what it keeps itself. */
void dmi_remote_store_forget(struct dmi_remote_store *store);

/* A page for a value of `size` bytes; a value of 0 bytes has none, and the address 0.  May wait.
 * DMI_OK or DMI_E*. */
int32_t dmi_remote_page_make(struct dmi_remote_store *store, uint64_t size, int64_t *addr);
/* Bytes of such a page. */
uint64_t dmi_remote_page_size(uint64_t size);
/* An arena that was mapped since the last call; 0: none. */
uint64_t dmi_remote_store_new_arena(struct dmi_remote_store *store);
/* Frees it.  `retire`: the page is never used again.  An address that is not of this store is
 * ignored. */
void dmi_remote_page_free(struct dmi_remote_store *store, int64_t addr, uint64_t size, bool retire);
/* This process leaves: unmaps arenas without values. */
void dmi_remote_store_trim(struct dmi_remote_store *store);

#endif
