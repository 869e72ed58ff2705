/*
 * member_note.c - DMI_notify: a note, which some caller of DMI_poll is given as a notice
 * (docs/elastic.md, "DMI_notify").
 *
 * The coordinator has it in the queue of notices.  In a program that survives losses the process
 * that made it keeps it, too, until some member was given it, and tells it to a new coordinator.
 */
#include <string.h>

#include "base/error.h"
#include "core/coord_int.h"

/* Notes are told from other notices in lists of those that were given: by a number instead of a
 * state.  So far apart are never two that are not given. */
#define CODE_FIRST 16u
#define CODES (UINT32_MAX - CODE_FIRST)

static uint32_t code_of(uint64_t number) {
  return CODE_FIRST + (uint32_t)(number % CODES);
}

/* ---- Who makes it --------------------------------------------------------------------------- */

/* The number of the oldest that is kept; of the next one, if none is. */
static uint64_t first_kept(const struct dmi_member *m) {
  return m->notes.num ? m->notes.at[0].number : m->last_note + 1;
}

static void pack(struct dmi_pack *body, uint64_t number, uint64_t value, uint64_t floor) {
  dmi_pack_init(body);
  dmi_pack_u64(body, number);
  dmi_pack_u64(body, value);
  dmi_pack_u64(body, floor);
}

void dmi_member_note_call(struct dmi_member *m, uint64_t op, uint64_t value) {
  uint64_t number = ++m->last_note;
  struct dmi_pack body;
  if (m->env.survive && dmi_member_is_active(m))
    *DMI_LIST_ADD(&m->notes) = (struct dmi_note){number, value, op};
  pack(&body, number, value, m->env.survive ? first_kept(m) : number);
  dmi_member_call_begin(m, DMI_CTL_NOTIFY, op, &body);
}

/* The call is complete: not accepted, it is none. */
void dmi_member_note_called(struct dmi_member *m, uint64_t op, int error) {
  for (uint32_t i = 0; i < m->notes.num; i++) {
    if (m->notes.at[i].op != op) continue;
    m->notes.at[i].op = 0;
    if (error != DMI_OK) DMI_LIST_DROP(&m->notes, i);
    return;
  }
}

/* To a new coordinator; those of calls that have no answer come with the calls. */
void dmi_member_notes_again(struct dmi_member *m) {
  for (uint32_t i = 0; i < m->notes.num; i++) {
    const struct dmi_note *note = &m->notes.at[i];
    struct dmi_pack body;
    if (note->op) continue;
    pack(&body, note->number, note->value, first_kept(m));
    dmi_member_send_again(m, DMI_CTL_NOTIFY, 0, &body);
  }
}

/* Somebody was given it. */
bool dmi_member_on_noted(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  (void)from;
  for (uint32_t i = 0; i < m->notes.num; i++) {
    if (m->notes.at[i].number != msg->member.op) continue;
    DMI_LIST_DROP(&m->notes, i);
    break;
  }
  return true;
}

/* ---- Who is given it ------------------------------------------------------------------------ */

void dmi_member_note_given(struct dmi_member *m, const struct dmi_notice *note) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->got.num; i++) {
    const struct dmi_got got = m->got.at[i];
    /* below the floor: who made it knows that it was given, and does not tell it again */
    uint64_t behind = (uint64_t)code_of(note->number) + CODES - got.state;
    bool old = got.uid == note->uid && got.state >= CODE_FIRST &&
               behind % CODES > note->number - note->floor;
    if (!old) m->got.at[kept++] = got;
  }
  m->got.num = kept;
  dmi_member_note_got(m, note->uid, code_of(note->number));
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static bool is_note(const struct dmi_queued *queued, dmi_uid_t uid, uint64_t number) {
  return queued->notice.state == DMI_NOTE && queued->uid == uid && queued->notice.number == number;
}

/* It is in the queue, or on its way to a caller. */
static bool is_here(const struct dmi_coord *c, dmi_uid_t uid, uint64_t number) {
  for (uint32_t i = 0; i < c->notices.num; i++) {
    if (is_note(&c->notices.at[i], uid, number)) return true;
  }
  for (uint32_t i = 0; i < c->given.num; i++) {
    if (is_note(&c->given.at[i].queued, uid, number)) return true;
  }
  return false;
}

static void queue(struct dmi_member *m, const struct dmi_record *record, uint64_t number,
                  uint64_t value, uint64_t floor) {
  struct dmi_queued *queued = DMI_LIST_ADD(&m->coord->notices);
  queued->uid = record->uid;
  queued->notice = (struct dmi_notice){.state = DMI_NOTE,
                                       .dmi_id = record->dmi_id,
                                       .uid = record->uid,
                                       .info = record->info,
                                       .value = value,
                                       .number = number,
                                       .floor = floor};
  dmi_coord_deliver(m);
}

bool dmi_coord_on_notify(struct dmi_member *m, struct dmi_record *record,
                         const struct dmi_msg *msg) {
  struct dmi_caller caller = {msg->member.op ? record->uid : 0, msg->member.op};
  bool again = msg->flags & DMI_F_AGAIN;
  struct dmi_unpack body;
  uint64_t number, value, floor;
  int error = DMI_OK;
  dmi_unpack_init(&body, &msg->body);
  number = dmi_unpack_u64(&body);
  value = dmi_unpack_u64(&body);
  floor = dmi_unpack_u64(&body);
  if (!dmi_unpack_done(&body) || !floor || floor > number) return false;
  if (dmi_coord_stops(m)) {
    error = DMI_EEND;
  } else if (again && dmi_coord_has_got(m->coord, record->uid, code_of(number))) {
    dmi_member_send(m, record->uid, DMI_CTL_NOTED, number, 0, NULL);
  } else if (!again || !is_here(m->coord, record->uid, number)) {
    queue(m, record, number, value, floor);
  }
  dmi_coord_answer(m, &caller, error, NULL);
  return true;
}

/* NOTICE_OK has come. */
void dmi_coord_note_given(struct dmi_member *m, const struct dmi_queued *queued) {
  const struct dmi_record *record = dmi_coord_find(m->coord, queued->uid);
  if (queued->notice.state != DMI_NOTE || !record || record->life == DMI_LIFE_LOST ||
      record->life == DMI_LIFE_EXITING)
    return;
  dmi_member_send(m, queued->uid, DMI_CTL_NOTED, queued->notice.number, 0, NULL);
}
