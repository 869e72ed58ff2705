/*
 * spill.h - a file without a name for the bytes of pages that fit into no pool: dmirun
 * --spill (docs/replacement.md, "Spilling").
 *
 * Which page has which place in the file is kept here, by the address of the page's record.  Any
 * thread; dmi_spill_drop waits for nothing, the others for the disk.
 */
#ifndef DMI_MEM_SPILL_H
#define DMI_MEM_SPILL_H

#include <stdbool.h>
#include <stdint.h>

struct dmi_spill;

/* Makes the file in `dir`.  NULL: errno says why not. */
struct dmi_spill *dmi_spill_open(const char *dir);
/* NULL: nothing to do. */
void dmi_spill_close(struct dmi_spill *spill);

/* Writes the bytes of a page that has none in the file. False: the disk is full, or failed (errno).
 */
bool dmi_spill_put(struct dmi_spill *spill, const void *page, const void *bytes, uint64_t size);
/* Reads them.  False: there are none, or the disk failed. */
bool dmi_spill_get(struct dmi_spill *spill, const void *page, void *bytes, uint64_t size);
/* They are not needed any more; none: nothing to do. */
void dmi_spill_drop(struct dmi_spill *spill, const void *page);

uint64_t dmi_spill_bytes(const struct dmi_spill *spill); /* of pages in the file */

#endif
