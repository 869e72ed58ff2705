/*
 * directory.c - the coordinator's directory of mappings, and results of threads whose process has
 * left.
 *
 * An address is never used for a second mapping. Independent of pages.
 */
#include "base/error.h"
#include "core/coord_int.h"

#define ALIGN 4096u                  /* bytes: ranges begin at multiples of it */
#define GAP 65536u                   /* bytes after each range that are in no mapping */
#define SIZE_END ((uint64_t)1 << 62) /* a mapping is smaller */
#define ADDRESS_END DMI_SYSTEM_BASE  /* only the system mapping is above it */
#define STEP ((uint64_t)1 << 40)     /* bytes of addresses that members are told of at once */

/* ---- The table ----------------------------------------------------------------------------- */

/* The index of the first mapping whose base is above addr. */
static uint32_t above(const struct dmi_coord *c, uint64_t addr) {
  uint32_t low = 0, high = c->mappings.num;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (c->mappings.at[middle].base <= addr) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* The mapping that contains the address, or NULL. */
struct dmi_entry *dmi_directory_find(const struct dmi_coord *c, uint64_t addr) {
  uint32_t i = above(c, addr);
  struct dmi_entry *mapping;
  if (addr >= c->system.base && addr - c->system.base < DMI_SYSTEM_PAGE * DMI_SYSTEM_NUM) {
    return (struct dmi_entry *)&c->system;
  }
  if (i == 0) return NULL;
  mapping = &c->mappings.at[i - 1];
  return addr - mapping->base < mapping->page_size * mapping->page_num ? mapping : NULL;
}

/* The bytes of addresses that such a mapping takes; 0: it is too large. */
static uint64_t capacity_of(uint64_t page_size, uint64_t page_num) {
  if (page_size == 0 || page_num == 0 || page_size >= SIZE_END || page_num >= SIZE_END ||
      page_num > (SIZE_END - 1) / page_size) {
    return 0;
  }
  return (page_size * page_num + ALIGN - 1) / ALIGN * ALIGN + GAP;
}

/* Adds a mapping at the end of the table. */
static void allocate(struct dmi_coord *c, const struct dmi_entry *what, dmi_uid_t home) {
  struct dmi_entry *mapping = DMI_LIST_ADD(&c->mappings);
  *mapping = *what;
  mapping->base = c->next_base;
  mapping->home = home;
  c->next_base += capacity_of(what->page_size, what->page_num);
}

void dmi_directory_drop(struct dmi_coord *c, uint64_t base) {
  struct dmi_entry *mapping = dmi_directory_find(c, base);
  if (mapping && mapping != &c->system && mapping->base == base)
    DMI_LIST_DROP(&c->mappings, mapping - c->mappings.at);
}

void dmi_directory_rename(struct dmi_coord *c, uint32_t uid, uint32_t heir) {
  if (c->system.home == uid) c->system.home = heir;
  for (uint32_t i = 0; i < c->mappings.num; i++) {
    if (c->mappings.at[i].home == uid) c->mappings.at[i].home = heir;
  }
}

/* ---- The limit -----------------------------------------------------------------------------
 *
 * Each member knows an address below which mappings may have been given (RESERVE, RECOVER, JOINED).
 * So a coordinator that knows nothing else gives none of them again.
 */

uint64_t dmi_directory_limit(uint64_t base) {
  return base < ADDRESS_END - STEP ? base + STEP : ADDRESS_END;
}

static void reserve(struct dmi_member *m, uint64_t end) {
  struct dmi_coord *c = m->coord;
  if (c->reserve) return;
  c->reserve = dmi_directory_limit(end);
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    struct dmi_pack body;
    if (record->life == DMI_LIFE_EXITING || record->life == DMI_LIFE_LOST) continue;
    dmi_uid_set_add(&c->reserves, record->uid);
    dmi_pack_init(&body);
    dmi_pack_u64(&body, c->reserve);
    dmi_member_send(m, record->uid, DMI_CTL_RESERVE, 0, 0, &body);
  }
}

/* RESERVED of all is here. */
static void reserved(struct dmi_member *m) {
  m->coord->limit = m->coord->reserve;
  m->coord->reserve = 0;
  m->coord->retry = true;
}

bool dmi_directory_on_reserved(struct dmi_member *m, struct dmi_record *record,
                               const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  uint64_t limit;
  if (!dmi_member_unpack_number(msg, &limit)) return false;
  if (limit != c->reserve) return true; /* asked for by the coordinator before */
  if (dmi_uid_set_drop(&c->reserves, record->uid) && !c->reserves.num) reserved(m);
  return true;
}

/* ---- Mapping ------------------------------------------------------------------------------- */

static void answer_mapping(struct dmi_member *m, struct dmi_caller *caller,
                           const struct dmi_entry *mapping) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_member_pack_mapping(&body, mapping);
  dmi_coord_answer(m, caller, DMI_OK, &body);
}

static void ask_to_adopt(struct dmi_member *m, dmi_uid_t home, const struct dmi_caller *caller) {
  struct dmi_coord *c = m->coord;
  struct dmi_adopt *adopt = DMI_LIST_ADD(&c->adopts);
  struct dmi_pack out;
  adopt->home = home;
  adopt->caller = *caller;
  adopt->mapping = c->mappings.at[c->mappings.num - 1];
  dmi_pack_init(&out);
  dmi_member_pack_mapping(&out, &adopt->mapping);
  dmi_member_pack_caller(&out, caller);
  dmi_member_send(m, home, DMI_CTL_ADOPT, 0, 0, &out);
}

/* The home is the process that asks. But a leaver that hands its homes over cannot get another
 * one: then a member that stays becomes the home, and knows it before any process knows the
 * address. */
static void map(struct dmi_member *m, struct dmi_record *record, uint64_t op,
                const struct dmi_entry *what) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, op};
  struct dmi_record *home = NULL;
  if (record->heir && !DMI_BROKEN(m, DMI_MBREAK_ADOPT)) {
    home = dmi_coord_heir(c, record->uid);
    if (!home) home = dmi_coord_keeper(c, record->uid);
  }
  allocate(c, what, home ? home->uid : record->uid);
  if (home) {
    ask_to_adopt(m, home->uid, &caller);
  } else {
    answer_mapping(m, &caller, &c->mappings.at[c->mappings.num - 1]);
  }
}

/* Its addresses would be beyond the limit: the call waits. */
static void map_later(struct dmi_member *m, const struct dmi_record *record, uint64_t op,
                      const struct dmi_entry *what) {
  struct dmi_msg msg = {.type = DMI_CTL_MMAP, .member.op = op};
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, what->page_size);
  dmi_pack_u64(&body, what->page_num);
  dmi_pack_u64(&body, what->tag);
  msg.body = dmi_pack_slice(&body);
  dmi_deferred_add(&m->coord->blocked_calls, record->uid, &msg);
  dmi_slice_drop(&msg.body);
  reserve(m, m->coord->next_base + capacity_of(what->page_size, what->page_num));
}

void dmi_directory_map(struct dmi_member *m, struct dmi_record *record, uint64_t op,
                       const struct dmi_entry *what) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, op};
  uint64_t capacity = capacity_of(what->page_size, what->page_num);
  if (capacity > ADDRESS_END - c->next_base) {
    dmi_coord_answer(m, &caller, DMI_ENOMEM, NULL);
  } else if (capacity > c->limit - c->next_base) {
    map_later(m, record, op, what);
  } else {
    map(m, record, op, what);
  }
}

bool dmi_directory_on_mmap(struct dmi_member *m, struct dmi_record *record,
                           const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, msg->member.op};
  const struct dmi_entry *before = NULL;
  struct dmi_entry what = {0};
  struct dmi_unpack body;
  dmi_unpack_init(&body, &msg->body);
  what.page_size = dmi_unpack_u64(&body);
  what.page_num = dmi_unpack_u64(&body);
  what.tag = dmi_unpack_u64(&body);
  if (!dmi_unpack_done(&body)) return false;
  if (msg->flags & DMI_F_AGAIN) before = dmi_directory_adopted_before(c, &caller);
  if (before) {
    answer_mapping(m, &caller, before);
  } else if (!capacity_of(what.page_size, what.page_num)) {
    dmi_coord_answer(m, &caller, DMI_ESIZE, NULL);
  } else {
    dmi_directory_map(m, record, msg->member.op, &what);
  }
  return true;
}

bool dmi_directory_on_adopted(struct dmi_member *m, struct dmi_record *record,
                              const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  uint64_t base;
  if (!dmi_member_unpack_number(msg, &base)) return false;
  for (uint32_t i = 0; i < c->adopts.num; i++) {
    struct dmi_adopt *adopt = &c->adopts.at[i];
    const struct dmi_entry *mapping = dmi_directory_find(c, base);
    if (adopt->mapping.base != base || adopt->home != record->uid) continue;
    /* its home may have changed meanwhile */
    answer_mapping(m, &adopt->caller, mapping ? mapping : &adopt->mapping);
    DMI_LIST_DROP(&c->adopts, i);
    return true;
  }
  return false;
}

bool dmi_directory_on_lookup(struct dmi_member *m, struct dmi_record *record,
                             const struct dmi_msg *msg) {
  struct dmi_caller caller = {record->uid, msg->member.op};
  const struct dmi_entry *mapping;
  uint64_t addr;
  if (!dmi_member_unpack_number(msg, &addr)) return false;
  mapping = dmi_directory_find(m->coord, addr);
  if (mapping) {
    answer_mapping(m, &caller, mapping);
  } else {
    dmi_coord_answer(m, &caller, DMI_EADDR, NULL);
  }
  return true;
}

/* ---- Unmapping ----------------------------------------------------------------------------- */

/* All are asked whose answer is not waited for already. */
static void ask_to_forget(struct dmi_member *m, struct dmi_forget *forget) {
  struct dmi_coord *c = m->coord;
  uint64_t done = c->forgets.at[0].number; /* they are in order */
  for (uint32_t i = 0; i < c->records.num; i++) {
    const struct dmi_record *record = &c->records.at[i];
    struct dmi_pack body;
    if (record->life == DMI_LIFE_EXITING || record->life == DMI_LIFE_LOST) continue;
    if (dmi_uid_set_has(&forget->awaits, record->uid)) continue;
    dmi_uid_set_add(&forget->awaits, record->uid);
    dmi_pack_init(&body);
    dmi_pack_u64(&body, forget->base);
    dmi_pack_u64(&body, done);
    dmi_member_send(m, record->uid, DMI_CTL_FORGET, forget->number, 0, &body);
  }
}

static void send_forget(struct dmi_member *m, uint64_t base, struct dmi_caller caller) {
  struct dmi_coord *c = m->coord;
  struct dmi_forget *forget = DMI_LIST_ADD(&c->forgets);
  forget->base = base;
  forget->caller = caller;
  forget->number = c->next_forget++;
  ask_to_forget(m, forget);
  if (DMI_BROKEN(m, DMI_MBREAK_FORGOT)) dmi_coord_answer(m, &forget->caller, DMI_OK, NULL);
}

void dmi_directory_unmap(struct dmi_member *m, uint64_t base) {
  dmi_directory_drop(m->coord, base);
  send_forget(m, base, (struct dmi_caller){0, 0});
}

static struct dmi_forget *find_forget(const struct dmi_coord *c, uint64_t base) {
  for (uint32_t i = 0; i < c->forgets.num; i++) {
    if (c->forgets.at[i].base == base) return &c->forgets.at[i];
  }
  return NULL;
}

/* Who had forgotten it may know it again: as the heir of its home, to which others have reported.
 */
void dmi_directory_forget_again(struct dmi_member *m, uint64_t base) {
  struct dmi_forget *forget = find_forget(m->coord, base);
  if (forget) {
    ask_to_forget(m, forget);
  } else {
    dmi_directory_unmap(m, base);
  }
}

/* The coordinator before had begun it, or all had forgotten the mapping already.  (Or there was no
 * such mapping: its error is lost with that coordinator.) */
static void unmap_again(struct dmi_member *m, struct dmi_caller *caller, uint64_t base) {
  struct dmi_forget *forget = find_forget(m->coord, base);
  if (forget && !forget->caller.uid) {
    forget->caller = *caller;
  } else {
    dmi_coord_answer(m, caller, DMI_OK, NULL);
  }
}

/* While the mapping's home is being handed to an heir, HOME_BEGIN could reach the heir after
 * FORGET and make the mapping known again, so the unmap waits until the leave ends. */
bool dmi_directory_on_munmap(struct dmi_member *m, struct dmi_record *record,
                             const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, msg->member.op};
  struct dmi_entry *mapping;
  const struct dmi_record *home;
  struct dmi_unpack body;
  uint64_t base, tag;
  dmi_unpack_init(&body, &msg->body);
  base = dmi_unpack_u64(&body);
  tag = dmi_unpack_u64(&body);
  if (!dmi_unpack_done(&body)) return false;
  mapping = dmi_directory_find(c, base);
  if (!mapping || mapping->base != base || mapping->tag != tag || mapping == &c->system) {
    if (!mapping && (msg->flags & DMI_F_AGAIN)) {
      unmap_again(m, &caller, base);
    } else {
      dmi_coord_answer(m, &caller, DMI_EADDR, NULL);
    }
    return true;
  }
  home = dmi_coord_find(c, mapping->home);
  if (home && home->life == DMI_LIFE_LEAVING && !DMI_BROKEN(m, DMI_MBREAK_UNMAP)) {
    dmi_deferred_add(&c->blocked_calls, record->uid, msg);
    return true;
  }
  DMI_LIST_DROP(&c->mappings, mapping - c->mappings.at);
  send_forget(m, base, caller);
  return true;
}

static void drop_await(struct dmi_member *m, uint32_t i, uint32_t uid) {
  struct dmi_coord *c = m->coord;
  struct dmi_forget *forget = &c->forgets.at[i];
  dmi_uid_set_drop(&forget->awaits, uid);
  if (forget->awaits.num > 0) return;
  dmi_coord_answer(m, &forget->caller, DMI_OK, NULL);
  dmi_uid_set_free(&forget->awaits);
  DMI_LIST_DROP(&c->forgets, i);
  dmi_coord_leave_retry(m);
}

bool dmi_directory_on_forgot(struct dmi_member *m, struct dmi_record *record,
                             const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  uint64_t base;
  if (!dmi_member_unpack_number(msg, &base)) return false;
  for (uint32_t i = 0; i < c->forgets.num; i++) {
    if (c->forgets.at[i].base != base || !dmi_uid_set_has(&c->forgets.at[i].awaits, record->uid)) {
      continue;
    }
    drop_await(m, i, record->uid);
    return true;
  }
  return false;
}

void dmi_directory_exited(struct dmi_member *m, uint32_t uid) {
  struct dmi_coord *c = m->coord;
  for (uint32_t i = c->forgets.num; i-- > 0;)
    drop_await(m, i, uid);
  if (dmi_uid_set_drop(&c->reserves, uid) && !c->reserves.num) reserved(m);
}

/* ---- Results of threads -------------------------------------------------------------------- */

/* Why there is no result of a thread of process `uid`, which is not a member any more. */
static int no_result(const struct dmi_coord *c, uint32_t uid) {
  bool unknown = uid < c->since && !dmi_coord_find(c, uid);
  if (unknown || dmi_uid_set_has(&c->dead, uid)) return DMI_ELOST;
  return DMI_WHY(DMI_ETHREAD, DMI_WHY_NO_THREAD);
}

/* Will it be known later whether there is a result? */
static bool is_early(const struct dmi_member *m, uint32_t uid) {
  const struct dmi_record *home = dmi_coord_find(m->coord, uid);
  if (!home) return false;
  if (home->life == DMI_LIFE_LEAVING) return true; /* it has said "moved": DRAINED is in flight */
  /* the caller has taken the crash view without it, and this process has not yet */
  return m->env.survive && home->life < DMI_LIFE_LEAVING;
}

bool dmi_directory_on_thread(struct dmi_member *m, struct dmi_record *record,
                             const struct dmi_msg *msg) {
  struct dmi_coord *c = m->coord;
  struct dmi_caller caller = {record->uid, msg->member.op};
  struct dmi_unpack body;
  uint32_t uid;
  uint64_t seq;
  dmi_unpack_init(&body, &msg->body);
  uid = dmi_unpack_u32(&body);
  seq = dmi_unpack_u64(&body);
  if (!dmi_unpack_done(&body)) return false;
  for (uint32_t i = 0; i < c->results.num; i++) {
    struct dmi_pack out;
    if (c->results.at[i].uid != uid || c->results.at[i].ended.seq != seq) continue;
    dmi_pack_init(&out);
    dmi_pack_u64(&out, c->results.at[i].ended.value);
    DMI_LIST_DROP(&c->results, i);
    dmi_coord_answer(m, &caller, DMI_OK, &out);
    return true;
  }
  if (is_early(m, uid)) {
    dmi_deferred_add(&c->blocked_calls, record->uid, msg);
  } else {
    dmi_coord_answer(m, &caller, no_result(c, uid), NULL);
  }
  return true;
}
