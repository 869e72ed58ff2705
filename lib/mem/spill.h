/*
 * spill.h - a file without a name for pages for which no process has memory: dmirun --spill
 * (docs/replacement.md, "Spilling").
 *
 * It remembers the place of each page in the file, by the address of the page's record. Any thread;
 * dmi_spill_drop does not wait, the other functions wait for the disk.
 */
#ifndef DMI_MEM_SPILL_H
#define DMI_MEM_SPILL_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_spill;

/* Makes the file in `dir`.  NULL: errno says why not. */
struct dmi_spill *dmi_spill_open(const char *dir);
/* Closes the file; NULL does nothing. */
void dmi_spill_close(struct dmi_spill *spill);

/* Writes the bytes of a page that has no place in the file. False: the disk is full, or failed
 * (errno). */
bool dmi_spill_put(struct dmi_spill *spill, const void *page, const void *bytes, uint64_t size);
/* Reads the bytes of a page. False: they are not in the file, or the disk failed. */
bool dmi_spill_get(struct dmi_spill *spill, const void *page, void *bytes, uint64_t size);
/* Frees the place of a page; does nothing if it has none. */
void dmi_spill_drop(struct dmi_spill *spill, const void *page);

uint64_t dmi_spill_bytes(const struct dmi_spill *spill); /* bytes of pages in the file */

#endif
