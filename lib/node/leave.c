/*
 * leave.c - handing over homes and pages when a process leaves (docs/protocol.md R8), and
 * forgetting mappings (R10).
 *
 * Runs in the daemon thread.  Locks: a mapping's, then a page's; see docs/locking.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/lock.h"
#include "base/xalloc.h"
#include "core/member.h"
#include "node/pager.h"
#include "node/runtime.h"

#define TAILS_AT_ONCE 4096 /* entries in one HOME_TAILS: 64 KiB */

/* Bytes of pages on their way to the heir at a time.  Enough to keep the network busy; little
 * enough that what others ask for meanwhile does not wait behind all that the leaver owns. */
#define ON_THE_WAY (INT64_C(4) << 20)

/* What a leaver remembers. */
struct dmi_leave {
  uint32_t heir;
  uint64_t homes_out; /* HOME_END sent, HOME_DONE not come */
  bool said;          /* dmi_member_drained was called */
  bool parts;         /* all pages are given: `page` are those that may still have a copy */
  uint64_t num, room;
  uint64_t next; /* pages before it have been offered to the heir */
  struct dmi_page *
      *page; /* owned here when the leave began; each with a reference to its mapping */
};

struct tails {
  struct dmi_process *process;
  uint64_t base;
  uint32_t heir;
  uint64_t num;
  struct dmi_frame *frame; /* dmi_tail[TAILS_AT_ONCE] */
};

static struct dmi_msg about(struct dmi_process *process, uint64_t base, enum dmi_msg_type type) {
  struct dmi_msg msg = {0};
  msg.type = (uint8_t)type;
  msg.origin = process->access.core.self;
  msg.map = base;
  return msg;
}

static struct dmi_mapping *known(struct dmi_process *process, uint64_t base) {
  struct dmi_mapping *mapping;
  dmi_epoch_enter();
  mapping = dmi_space_find(&process->access.space, base);
  dmi_epoch_leave(); /* only this thread removes mappings */
  return mapping && mapping->map.base == base ? mapping : NULL;
}

/* ---- The leaver ----------------------------------------------------------------------------- */

static void tails_send(struct tails *tails) {
  struct dmi_msg msg = about(tails->process, tails->base, DMI_MSG_HOME_TAILS);
  if (!tails->num) return;
  msg.list =
      (struct dmi_slice){tails->frame, tails->frame->bytes, tails->num * sizeof(struct dmi_tail)};
  tails->frame = NULL;
  tails->num = 0;
  dmi_runtime_send(tails->process, tails->heir, &msg);
}

static void tails_add(struct dmi_page *page, void *arg) {
  struct tails *tails = arg;
  struct dmi_tail entry = {page->index, 0, 0};
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  entry.tail = dmi_page_tail(&tails->process->access.core, page);
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!tails->frame) {
    tails->frame = dmi_frame_new(TAILS_AT_ONCE * sizeof(entry));
    if (!tails->frame) abort();
  }
  memcpy(tails->frame->bytes + tails->num * sizeof(entry), &entry, sizeof(entry));
  if (++tails->num == TAILS_AT_ONCE) tails_send(tails);
}

static void home_over(struct dmi_mapping *mapping, void *arg) {
  struct dmi_process *process = arg;
  struct tails tails = {process, mapping->map.base, process->leave->heir, 0, NULL};
  struct dmi_msg msg;
  if (atomic_load(&mapping->map.home) != process->access.core.self) return;
  msg = about(process, mapping->map.base, DMI_MSG_HOME_BEGIN);
  msg.off = mapping->map.page_size;
  msg.version = mapping->map.page_num;
  msg.len = mapping->map.word;
  dmi_runtime_send(process, tails.heir, &msg);
  /* From here on nobody decides here as the home; then the decisions made are collected. */
  dmi_mutex_lock(&mapping->lock);
  atomic_store(&mapping->map.home, tails.heir);
  dmi_mapping_each(mapping, tails_add, &tails);
  dmi_mutex_unlock(&mapping->lock);
  tails_send(&tails);
  msg = about(process, mapping->map.base, DMI_MSG_HOME_END);
  dmi_runtime_send(process, tails.heir, &msg);
  process->leave->homes_out++;
}

static void offer_page(struct dmi_process *process, struct dmi_page *page) {
  uint32_t to = atomic_load(&process->access.core.heir);
  struct dmi_out out;
  dmi_access_step_begin(page, &out);
  if (page->frame || (page->flags & DMI_PAGE_SPILLED))
    to = dmi_pager_give(process->pager, page->map->page_size);
  dmi_page_give(&process->access.core, page, to, &out);
  dmi_access_step_end(&process->access, page, &out);
}

static void collect_page(struct dmi_page *page, void *arg) {
  struct dmi_leave *leave = arg;
  bool wanted;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  wanted = leave->parts ? page->copy || page->busy : page->role == DMI_ROLE_OWNER;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  if (!wanted || !dmi_mapping_ref((struct dmi_mapping *)page->map)) return;
  DMI_XALLOC_GROW(leave->page, leave->num, leave->room);
  leave->page[leave->num++] = page;
}

static void collect_mapping(struct dmi_mapping *mapping, void *leave) {
  dmi_mapping_each(mapping, collect_page, leave);
}

/* Offers as many pages as may be on their way; the end of a step has this called again when some
 * are gone. */
static void offer_more(struct dmi_process *process) {
  struct dmi_leave *leave = process->leave;
  while (leave->next < leave->num) {
    struct dmi_page *page = leave->page[leave->next];
    int64_t out =
        (int64_t)atomic_load(&process->access.core.owned) - (int64_t)(leave->num - leave->next);
    if (out > 0 && out > ON_THE_WAY / (int64_t)page->map->page_size) return;
    leave->next++;
    offer_page(process, page);
    dmi_mapping_unref(&process->access.core, (struct dmi_mapping *)page->map);
  }
}

/* Copies go: nobody will ask for their acknowledgement once this process has left.  No operation
 * here brings one any more, but a fetch that is out may.  False: not all are gone yet. */
static bool copies_gone(struct dmi_process *process) {
  struct dmi_leave *leave = process->leave;
  uint64_t kept = 0;
  if (!leave->parts) {
    leave->parts = true;
    leave->num = leave->next = 0;
    dmi_space_each(&process->access.space, collect_mapping, leave);
  }
  for (uint64_t i = 0; i < leave->num; i++) {
    struct dmi_page *page = leave->page[i];
    bool gone;
    dmi_lock(&page->lock, DMI_RANK_PAGE); /* no step: that would have it looked at again at once */
    gone = dmi_page_depart(&process->access.core, page);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    if (gone) {
      dmi_mapping_unref(&process->access.core, (struct dmi_mapping *)page->map);
    } else {
      leave->page[kept++] = page;
    }
  }
  leave->num = kept;
  return kept == 0;
}

void dmi_leave_start(struct dmi_process *process, uint32_t heir) {
  if (heir) {
    dmi_pager_leave(process->pager, heir);
  } else {
    dmi_pager_keep(process->pager);
    dmi_leave_promised(process, 0);
  }
}

void dmi_leave_refused(struct dmi_process *process) {
  if (!process->leave) dmi_threads_go_on(process->threads); /* else it was dismissed before */
  dmi_member_no_room(process->member, dmi_events(process));
  dmi_events_carry(process);
}

void dmi_leave_room_told(struct dmi_process *process) {
  dmi_member_room(process->member, dmi_events(process));
  dmi_events_carry(process);
}

void dmi_leave_promised(struct dmi_process *process, uint32_t heir) {
  if (!process->leave) process->leave = dmi_xalloc(1, sizeof(*process->leave));
  process->leave->heir = heir;
  process->leave->said = process->leave->parts = false;
  if (heir) {
    atomic_store(&process->access.core.heir, heir);
    atomic_store(&process->access.drain, 1);
    dmi_space_each(&process->access.space, home_over, process);
    dmi_space_each(&process->access.space, collect_mapping, process->leave);
  }
  dmi_leave_look(process);
}

static void forget_pages(struct dmi_process *process) {
  struct dmi_leave *leave = process->leave;
  while (leave->next < leave->num) {
    struct dmi_page *page = leave->page[leave->next++];
    dmi_mapping_unref(&process->access.core, (struct dmi_mapping *)page->map);
  }
  free(leave->page);
  leave->page = NULL;
  leave->num = leave->room = leave->next = 0;
}

void dmi_leave_end(struct dmi_process *process) {
  if (!process->leave) return;
  forget_pages(process);
  free(process->leave);
  process->leave = NULL;
}

struct ended_list {
  uint32_t num, room;
  struct dmi_ended *ended;
};

static void ended_add(void *arg, uint64_t number, int64_t value) {
  struct ended_list *list = arg;
  DMI_XALLOC_GROW(list->ended, list->num, list->room);
  list->ended[list->num++] = (struct dmi_ended){number, (uint64_t)value};
}

void dmi_leave_look(struct dmi_process *process) {
  struct dmi_leave *leave = process->leave;
  struct ended_list list = {0, 0, NULL};
  if (!leave || leave->said) return;
  if (leave->heir && !leave->parts) offer_more(process);
  if (leave->heir && (leave->homes_out || atomic_load(&process->access.core.owned))) return;
  if (leave->heir && !copies_gone(process)) return;
  leave->said = true;
  forget_pages(process);
  if (leave->heir) dmi_pager_leave_end(process->pager);
  atomic_store(&process->access.drain, 0);
  dmi_threads_hand_over(process, ended_add, &list);
  dmi_member_drained(process->member, list.ended, list.num, dmi_events(process));
  free(list.ended);
  dmi_events_carry(process);
}

/* ---- The heir ------------------------------------------------------------------------------- */

static bool home_begin(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_mapping *mapping = known(process, msg->map);
  if (!msg->off || !msg->version || msg->off > (UINT64_C(1) << 62) / msg->version) return false;
  if (!msg->map || msg->map > INT64_MAX - msg->off * msg->version) return false;
  if (mapping) {
    if (mapping->map.page_size != msg->off || mapping->map.page_num != msg->version) return false;
    if (atomic_load(&mapping->map.home) == process->access.core.self) return false;
  } else {
    mapping = dmi_mapping_new(msg->map, msg->off, msg->version, process->access.core.self);
    if (!mapping) abort();
    mapping->map.word = msg->len;
    atomic_store(&mapping->map.arriving, from);
    dmi_space_add(&process->access.space, &process->access.core, mapping);
    return true;
  }
  dmi_mutex_lock(&mapping->lock);
  atomic_store(&mapping->map.arriving, from); /* before it is seen that the home is here */
  atomic_store(&mapping->map.home, process->access.core.self);
  dmi_mutex_unlock(&mapping->lock);
  return true;
}

static bool arrived(struct dmi_process *process, struct dmi_page *page, bool listed,
                    uint32_t tail) {
  struct dmi_out out;
  bool good;
  dmi_access_step_begin(page, &out);
  good = dmi_page_home_arrived(&process->access.core, page, listed, tail, &out);
  dmi_access_step_end(&process->access, page, &out);
  return good;
}

/* The mapping whose home `from` hands over. NULL: there is none. */
static struct dmi_mapping *arriving(struct dmi_process *process, uint64_t base, uint32_t from) {
  struct dmi_mapping *mapping = known(process, base);
  return mapping && atomic_load(&mapping->map.arriving) == from ? mapping : NULL;
}

static bool home_tails(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_mapping *mapping = arriving(process, msg->map, from);
  struct dmi_tail entry;
  int32_t error;
  if (!mapping) return false;
  for (uint64_t at = 0; at + sizeof(entry) <= msg->list.len; at += sizeof(entry)) {
    struct dmi_page *page;
    memcpy(&entry, msg->list.ptr + at, sizeof(entry));
    if (entry.page >= mapping->map.page_num) return false;
    if (!process->access.core.is_member(process->access.core.arg, entry.tail)) return false;
    page = dmi_mapping_get(&process->access.core, mapping, entry.page, &error);
    if (!page) abort();
    (void)arrived(process, page, true, entry.tail);
  }
  return true;
}

struct not_listed {
  struct dmi_process *process;
  bool good;
};

static void not_listed(struct dmi_page *page, void *arg) {
  struct not_listed *all = arg;
  if (!arrived(all->process, page, false, 0)) all->good = false;
}

/* The home has arrived, or the mapping is unmapped: nothing is parked any more; takes out what was.
 */
static struct dmi_parked *park_end(struct dmi_process *process, struct dmi_mapping *mapping) {
  struct dmi_parked *parked;
  dmi_mutex_lock(&process->access.park_lock);
  atomic_store(&mapping->map.arriving, 0);
  parked = mapping->parked;
  mapping->parked = NULL;
  mapping->parked_end = &mapping->parked;
  dmi_mutex_unlock(&process->access.park_lock);
  return parked;
}

static void park_replay(struct dmi_process *process, struct dmi_parked *parked) {
  while (parked) {
    struct dmi_parked *item = parked;
    parked = item->next;
    (void)dmi_access_message(&process->access, item->from, &item->msg);
    free(item);
  }
}

static bool home_end(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_mapping *mapping = arriving(process, msg->map, from);
  struct not_listed all = {process, true};
  struct dmi_parked *parked;
  struct dmi_msg reply;
  if (!mapping) return false;
  dmi_mutex_lock(&mapping->lock);
  dmi_mapping_each(mapping, not_listed, &all);
  parked = park_end(process, mapping);
  dmi_mutex_unlock(&mapping->lock);
  park_replay(process, parked);
  if (!all.good) return false;
  reply = about(process, msg->map, DMI_MSG_HOME_DONE);
  dmi_runtime_send(process, from, &reply);
  return true;
}

/* A TAKE; it may have to wait for the directory to tell of the mapping. */
struct take {
  struct dmi_wait wait;
  uint32_t from;
  bool must;
  uint64_t map;
  struct dmi_slice list;
};

/* One more page of a list of at most `most` bytes. */
static void keep_add(struct dmi_msg *keep, const struct dmi_tail *entry, uint64_t most) {
  if (!keep->list.frame) {
    keep->list.frame = dmi_frame_new(most);
    if (!keep->list.frame) abort();
    keep->list.ptr = keep->list.frame->bytes;
  }
  memcpy(keep->list.frame->bytes + keep->list.len, entry, sizeof(*entry));
  keep->list.len += sizeof(*entry);
}

/* Says KEEP for those of the list that have no room here. */
static void take_pages(struct dmi_process *process, struct dmi_mapping *mapping,
                       const struct take *take) {
  const struct dmi_slice *list = &take->list;
  struct dmi_msg keep = about(process, mapping->map.base, DMI_MSG_KEEP);
  struct dmi_tail entry;
  int32_t error;
  for (uint64_t at = 0; at + sizeof(entry) <= list->len; at += sizeof(entry)) {
    struct dmi_page *page = NULL;
    struct dmi_out out;
    bool taken;
    memcpy(&entry, list->ptr + at, sizeof(entry));
    if (entry.page < mapping->map.page_num) {
      page = dmi_mapping_get(&process->access.core, mapping, entry.page, &error);
    }
    if (!page) { /* the mapping is being unmapped, or no memory for a record */
      keep_add(&keep, &entry, list->len);
      continue;
    }
    dmi_access_step_begin(page, &out);
    taken = dmi_page_take(&process->access.core, page, take->must, entry.zero, &out);
    dmi_access_step_end(&process->access, page, &out);
    if (take->must && !entry.zero)
      dmi_pager_taken(process->pager, take->from, mapping->map.page_size);
    if (taken) {
      dmi_pager_count_taken(process->pager);
    } else {
      keep_add(&keep, &entry, list->len);
    }
  }
  if (take->must) keep.flags = DMI_F_MUST;
  if (keep.list.len) dmi_runtime_send(process, take->from, &keep);
}

static void take_looked_up(struct dmi_process *process, struct dmi_wait *wait,
                           const struct dmi_mact *result) {
  struct take *take = (struct take *)(void *)wait;
  if (result->error == DMI_OK) {
    struct dmi_mapping *mapping = dmi_enter_mapping(process, &result->mapping);
    if (!mapping) abort();
    take_pages(process, mapping, take);
  } else { /* unmapped; or this process is out and gets no answers any more: who offered must know
            */
    struct dmi_msg keep = about(process, take->map, DMI_MSG_KEEP);
    if (take->must) keep.flags = DMI_F_MUST;
    keep.list = take->list;
    take->list = (struct dmi_slice){NULL, NULL, 0};
    dmi_runtime_send(process, take->from, &keep);
  }
  dmi_slice_drop(&take->list);
  free(take);
}

static void take(struct dmi_process *process, uint32_t from, struct dmi_msg *msg) {
  struct dmi_mapping *mapping = known(process, msg->map);
  struct take now = {
      .from = from, .must = msg->flags & DMI_F_MUST, .map = msg->map, .list = msg->list};
  struct take *wait;
  if (mapping) {
    take_pages(process, mapping, &now);
    return;
  }
  /* Not in use here so far, or unmapped meanwhile: the directory knows. */
  wait = dmi_xalloc(1, sizeof(*wait));
  *wait = now;
  wait->wait.done = take_looked_up;
  wait->list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  dmi_member_lookup(process->member, dmi_wait_add(process, &wait->wait), msg->map,
                    dmi_events(process));
  dmi_events_carry(process);
}

static void kept(struct dmi_process *process, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_mapping *mapping = known(process, msg->map);
  struct dmi_tail entry;
  for (uint64_t at = 0; mapping && at + sizeof(entry) <= msg->list.len; at += sizeof(entry)) {
    struct dmi_page *page = NULL;
    struct dmi_out out;
    memcpy(&entry, msg->list.ptr + at, sizeof(entry));
    if (entry.page < mapping->map.page_num) page = dmi_mapping_find(mapping, entry.page);
    if (!page) continue;
    dmi_access_step_begin(page, &out);
    dmi_page_kept(&process->access.core, page, from, msg->flags & DMI_F_MUST, &out);
    dmi_access_step_end(&process->access, page, &out);
  }
  dmi_pager_kept(process->pager, from);
}

bool dmi_leave_message(struct dmi_process *process, uint32_t from, struct dmi_msg *msg) {
  bool good = true;
  switch (msg->type) {
    case DMI_MSG_TAKE:
      good = msg->list.len != 0;
      if (good) take(process, from, msg);
      break;
    case DMI_MSG_KEEP:
      kept(process, from, msg);
      break;
    case DMI_MSG_HOME_BEGIN:
      good = home_begin(process, from, msg);
      break;
    case DMI_MSG_HOME_TAILS:
      good = home_tails(process, from, msg);
      break;
    case DMI_MSG_HOME_END:
      good = home_end(process, from, msg);
      break;
    default: /* HOME_DONE */
      good = process->leave && process->leave->homes_out && process->leave->heir == from;
      if (good) process->leave->homes_out--;
      dmi_leave_look(process);
  }
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
  return good;
}

/* ---- Views and unmapping -------------------------------------------------------------------- */

struct removal {
  uint32_t uid, heir;
};

static void new_home(struct dmi_mapping *mapping, void *arg) {
  struct removal *removal = arg;
  if (atomic_load(&mapping->map.home) == removal->uid) {
    atomic_store(&mapping->map.home, removal->heir);
  }
}

void dmi_leave_removed(struct dmi_process *process, uint32_t uid, uint32_t heir) {
  struct removal removal = {uid, heir};
  if (heir) dmi_space_each(&process->access.space, new_home, &removal);
  if (atomic_load(&process->access.core.heir) == uid && heir)
    atomic_store(&process->access.core.heir, heir);
}

static void kill_page(struct dmi_page *page, void *arg) {
  struct dmi_process *process = arg;
  struct dmi_out out;
  dmi_access_step_begin(page, &out);
  dmi_page_kill(&process->access.core, page, &out);
  dmi_access_step_end(&process->access, page, &out);
}

void dmi_forget_mapping(struct dmi_process *process, uint64_t base) {
  struct dmi_mapping *mapping =
      known(process, base) ? dmi_space_remove(&process->access.space, base) : NULL;
  struct dmi_parked *parked;
  if (!mapping) return;
  dmi_mutex_lock(&mapping->lock);
  atomic_store(&mapping->dead, 1);
  dmi_mutex_unlock(&mapping->lock);
  dmi_mapping_each(mapping, kill_page, process);
  parked = park_end(process, mapping);
  park_replay(process, parked);
  dmi_pager_wake(process->pager); /* some of its pages may have stalled */
  dmi_mapping_unref(&process->access.core, mapping);
}
