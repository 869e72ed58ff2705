/*
 * page_check.c - the invariants of a page (docs/protocol.md): they hold between any two steps.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/page_int.h"

#define REQUIRE(holds, what)   \
  do {                         \
    if (!(holds)) return what; \
  } while (0)

/* The invariants of R12. */
static const char *capacity_wrong(const struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  bool reserved = page->flags & DMI_PAGE_RESERVED, fetch = busy && dmi_fetch_any(busy->fetch);
  bool owner = page->role == DMI_ROLE_OWNER, pending = page->role == DMI_ROLE_PENDING;
  REQUIRE(!reserved || !page->frame, "a reservation although there are bytes");
  REQUIRE(!reserved || pending || fetch || (busy && busy->current),
          "a reservation, but no bytes will arrive");
  REQUIRE(reserved || page->frame || (!pending && !fetch) ||
              (pending && (page->flags & DMI_PAGE_ZEROS)),
          "bytes will arrive, and no reservation");
  REQUIRE(reserved || page->frame || !busy || !busy->current,
          "a write in progress without a reservation");
  REQUIRE(!(page->flags & DMI_PAGE_OFFERED) || owner, "offered, and not the owner");
  REQUIRE(!(page->flags & DMI_PAGE_STALLED) ||
              (owner && !page->frame && busy && busy->queue.first && !busy->current),
          "stalled, and not an idle owner without bytes and with a queue");
  REQUIRE(!(page->flags & DMI_PAGE_SPILLED) ||
              (owner && !page->frame && !(page->flags & DMI_PAGE_NODATA)),
          "spilled, and not an owner without bytes");
  REQUIRE(((page->flags & DMI_PAGE_COPY) != 0) == (page->frame && page->role == DMI_ROLE_NONE),
          "copies are counted wrongly");
  return NULL;
}

/* The invariants of the busy part. */
static const char *busy_wrong(const struct dmi_core *core, const struct dmi_page *page) {
  const struct dmi_page_busy *busy = page->busy;
  REQUIRE(busy->queue.first == NULL || page->role != DMI_ROLE_NONE,
          "operations queued at a process that is neither owner nor pending");
  REQUIRE(busy->current == NULL || page->role == DMI_ROLE_OWNER,
          "a write in progress, and not the owner");
  REQUIRE(busy->current == NULL || busy->acks > 0, "a write waits for nothing");
  REQUIRE(busy->current != NULL || busy->queue.first == NULL || page->role == DMI_ROLE_PENDING ||
              (page->flags & (DMI_PAGE_STALLED | DMI_PAGE_FROZEN)),
          "operations queued at an idle owner");
  REQUIRE(busy->holders == 0 || page->role == DMI_ROLE_OWNER, "a copyset, and not the owner");
  REQUIRE(busy->waiting_ops.first == NULL || page->role != DMI_ROLE_NONE,
          "operations wait at a process that is neither owner nor pending");
  /* One that was sent elsewhere before the page came here is begun anew when the page resumes. */
  REQUIRE(busy->waiters.first == NULL || page->role != DMI_ROLE_OWNER ||
              (page->flags & DMI_PAGE_FROZEN),
          "reads wait at the owner");
  REQUIRE(busy->delegated == NULL || dmi_fetch_any(busy->fetch),
          "delegated reads wait for no fetch");
  REQUIRE(!dmi_fetch_any(busy->fetch) || (page->role != DMI_ROLE_OWNER && !page->copy),
          "a fetch is in flight, and the bytes are here");
  REQUIRE(dmi_assembly_valid(page), "an assembly without a fetch, or of a whole page");
/* only in debug builds: it checks all copies at each message; copyset.c prevents it */
#ifdef DMI_DEBUG
  for (uint32_t i = 0; i < busy->holders; i++)
    REQUIRE(busy->holder[i].uid != core->self && busy->holder[i].depth > 0,
            "a copyset with its owner in it");
#else
  (void)core;
#endif
  return NULL;
}

const char *dmi_page_wrong(const struct dmi_core *core, const struct dmi_page *page) {
  const char *what;
  REQUIRE(page->role != DMI_ROLE_OWNER || !page->copy, "an owner has a copy");
  REQUIRE(!(page->flags & DMI_PAGE_UNRELEASED) || page->copy, "unreleased without a copy");
  REQUIRE(!(page->flags & DMI_PAGE_NODATA) || page->role == DMI_ROLE_OWNER,
          "no data, and not the owner");
  REQUIRE(!(page->flags & DMI_PAGE_LOST) || (page->role == DMI_ROLE_OWNER && !page->frame),
          "lost, and not an owner without bytes");
  REQUIRE(page->frame == NULL || page->copy || page->role == DMI_ROLE_OWNER,
          "bytes without a copy");
  REQUIRE(!page->frame || page->frame->size == page->map->page_size, "bytes of another size");
  what = capacity_wrong(page);
  return what || !page->busy ? what : busy_wrong(core, page);
}

void dmi_page_check(const struct dmi_core *core, const struct dmi_page *page) {
  const char *what = dmi_page_wrong(core, page);
  if (!what) return;
  fprintf(stderr, "dmi: bug: page %llu of mapping %llx: %s\n", (unsigned long long)page->index,
          (unsigned long long)page->map->base, what);
  abort();
}
