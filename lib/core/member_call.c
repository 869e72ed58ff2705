/*
 * member_call.c - calls of this process to the coordinator and their results; busy and idle.
 *
 * Every call gets exactly one RESULT: from the coordinator, or DMI_EINACTIVE if this process is not
 * (or no longer) part of the running program.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/member_int.h"

static struct dmi_mact *add_result(struct dmi_member *m, uint64_t op, int error) {
  struct dmi_mact *act = dmi_mout_add(m->out, DMI_MACT_RESULT);
  act->op = op;
  act->error = error;
  return act;
}

/* Tells the coordinator when this process is not busy any more: only when its calls are
 * complete, because they may have effects. A poll has none, and in an idle process nobody waits
 * for it. */
static void look_idle(struct dmi_member *m) {
  if (!m->busy_told || m->busy > 0 || m->calls_busy > 0 || !dmi_member_is_active(m)) return;
  m->busy_told = false;
  dmi_member_send(m, m->coordinator, DMI_CTL_IDLE, 0, 0, NULL);
}

/* The process whose id is asked for; 0: none has it. */
static dmi_uid_t uid_of(const struct dmi_member *m, const struct dmi_pack *body) {
  const struct dmi_slice asked = {NULL, body->bytes, body->len};
  struct dmi_unpack unpack;
  uint32_t dmi_id;
  dmi_unpack_init(&unpack, &asked);
  dmi_id = dmi_unpack_u32(&unpack);
  for (uint32_t i = 0; i < m->peers.num; i++) {
    if (m->peers.at[i].dmi_id.n == dmi_id) return m->peers.at[i].uid;
  }
  return 0;
}

void dmi_member_call_begin(struct dmi_member *m, enum dmi_msg_type type, uint64_t op,
                           struct dmi_pack *body) {
  struct dmi_member_call *call;
  if (!dmi_member_is_active(m)) {
    if (body) dmi_pack_free(body);
    add_result(m, op, DMI_EINACTIVE);
    return;
  }
  call = DMI_LIST_ADD(&m->calls);
  call->op = op;
  call->type = (uint8_t)type;
  if (type == DMI_CTL_LOOKUP) {
    const struct dmi_slice asked = {NULL, body->bytes, body->len};
    struct dmi_unpack unpack;
    dmi_unpack_init(&unpack, &asked);
    call->addr = dmi_unpack_u64(&unpack);
  }
  if (type != DMI_CTL_POLL) m->calls_busy++;
  if (m->env.survive && (type == DMI_CTL_WELCOME || type == DMI_CTL_GOODBYE))
    call->about = uid_of(m, body);
  if (m->env.survive && body && body->len) call->body = dmi_slice_xcopy(body->bytes, body->len);
  dmi_member_send(m, m->coordinator, type, op, 0, body);
}

static void end_call(struct dmi_member *m, uint32_t i) {
  struct dmi_member_call *call = &m->calls.at[i];
  if (call->type != DMI_CTL_POLL) m->calls_busy--;
  dmi_slice_drop(&call->body);
  dmi_slice_drop(&call->mmap);
  DMI_LIST_DROP(&m->calls, i);
  look_idle(m);
}

/* This one has left, as the view says that is being taken: who is waited for in DMI_goodbye. */
void dmi_member_calls_left(struct dmi_member *m, const struct dmi_peer *peer) {
  for (uint32_t i = 0; i < m->calls.num; i++)
    m->calls.at[i].left |= m->calls.at[i].about == peer->uid;
}

/* The process that was to be welcomed, or dismissed, is gone.  The new coordinator knows nothing of
 * it, and its dmi_id may be another one's. */
static bool is_over(const struct dmi_member *m, const struct dmi_member_call *call) {
  return m->unheard && call->about && !dmi_member_find(m, call->about);
}

/* DMI_goodbye for one that has left has succeeded, though it is no member. */
static int error_of(const struct dmi_member_call *call, int error) {
  return error == DMI_EMEMBER && call->left && call->type == DMI_CTL_GOODBYE ? DMI_OK : error;
}

/* The one before may have done it, and its answer is lost: hence AGAIN.  Those to be asked at
 * RESUME have had their answer. */
void dmi_member_calls_again(struct dmi_member *m) {
  for (uint32_t i = m->calls.num; i-- > 0;) {
    if (!is_over(m, &m->calls.at[i])) continue;
    add_result(m, m->calls.at[i].op, error_of(&m->calls.at[i], DMI_EMEMBER));
    end_call(m, i);
  }
  dmi_member_notes_again(m);
  for (uint32_t i = 0; i < m->calls.num; i++) {
    const struct dmi_member_call *call = &m->calls.at[i];
    struct dmi_pack body;
    if (call->later) continue;
    dmi_pack_init(&body);
    if (call->body.len) dmi_pack_raw(&body, call->body.ptr, call->body.len);
    dmi_member_send_again(m, call->type, call->op, &body);
  }
  if (m->busy_told) dmi_member_send(m, m->coordinator, DMI_CTL_BUSY, m->busy_seq, 0, NULL);
  dmi_member_main_again(m);
}

/* ---- Results ------------------------------------------------------------------------------- */

/* A member, or with `survive` one that has gone since (is_outdated): all members know who has
 * joined before it can be a home. */
static bool home_good(const struct dmi_member *m, dmi_uid_t home) {
  return dmi_member_find(m, home) || (m->env.survive && home && home < m->next_uid);
}

/* Reads a mapping of the directory. */
static bool read_mapping(const struct dmi_member *m, const struct dmi_member_call *call,
                         struct dmi_unpack *body, struct dmi_entry *mapping) {
  dmi_member_unpack_mapping(body, mapping);
  if (!dmi_unpack_done(body) || !dmi_member_mapping_good(mapping)) return false;
  if (!home_good(m, mapping->home)) return false;
  return call->type != DMI_CTL_LOOKUP ||
         (call->addr >= mapping->base &&
          call->addr - mapping->base < mapping->page_size * mapping->page_num);
}

/* Reads the results of a successful call. False: malformed; the action frees what it holds. */
static bool read_payload(const struct dmi_member *m, const struct dmi_member_call *call,
                         struct dmi_unpack *body, struct dmi_mact *act) {
  uint8_t type = call->type;
  switch (type) {
    case DMI_CTL_POLL:
    case DMI_CTL_PEEK:
    case DMI_CTL_NODES:
      act->notice_num = dmi_unpack_count(body, DMI_NOTICE_BYTES);
      act->notices = dmi_xalloc(act->notice_num + 1u, sizeof(*act->notices));
      for (uint32_t i = 0; i < act->notice_num; i++)
        dmi_notice_unpack(body, &act->notices[i]);
      act->flag = type != DMI_CTL_NODES && act->notice_num == 1;
      return dmi_unpack_done(body) && (type == DMI_CTL_NODES || act->notice_num <= 1) &&
             (type != DMI_CTL_POLL || act->flag);
    case DMI_CTL_MMAP:
    case DMI_CTL_LOOKUP:
      return read_mapping(m, call, body, &act->mapping);
    case DMI_CTL_THREAD:
    case DMI_CTL_ROOT_GET:
      act->value = dmi_unpack_u64(body);
      return dmi_unpack_done(body);
    default:
      return dmi_unpack_done(body);
  }
}

/* It says who is the home of a mapping, and that may not be so any more.  In a recovery: it was
 * sent before the loss, and this process has told its STATE without the mapping, so RECOVER does
 * not correct it; who is the home is known at RESUME.  (But if it is this process itself, the
 * coordinator knows that this answer is under way to it.)  Else: the home has left or is gone, and
 * this process has heard of that by the agreement before this came. */
static bool is_outdated(const struct dmi_member *m, const struct dmi_mact *act) {
  const struct dmi_peer *home;
  if (act->error != DMI_OK || !act->mapping.page_num) return false;
  if (m->crash && act->mapping.home != m->uid) return true;
  home = dmi_member_find(m, act->mapping.home);
  return !home || (home->left && m->env.survive);
}

static void ask_later(struct dmi_member_call *call, uint64_t base) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, base);
  if (call->type == DMI_CTL_MMAP) {
    call->mmap = call->body;
  } else {
    dmi_slice_drop(&call->body);
  }
  call->body = dmi_pack_slice(&body);
  call->type = DMI_CTL_LOOKUP;
  call->addr = base;
  call->later = true;
}

void dmi_member_calls_later(struct dmi_member *m) {
  for (uint32_t i = 0; i < m->calls.num; i++) {
    struct dmi_member_call *call = &m->calls.at[i];
    struct dmi_pack body;
    if (!call->later) continue;
    call->later = false;
    call->asked = m->view;
    dmi_pack_init(&body);
    dmi_pack_raw(&body, call->body.ptr, call->body.len);
    dmi_member_send(m, m->coordinator, DMI_CTL_LOOKUP, call->op, 0, &body);
  }
}

/* Only the home knew the mapping, so it is lost with it; nobody has heard of its address.  Another
 * one is made. */
static void map_again(struct dmi_member *m, struct dmi_member_call *call) {
  struct dmi_pack body;
  dmi_slice_drop(&call->body);
  call->body = call->mmap;
  memset(&call->mmap, 0, sizeof(call->mmap));
  call->type = DMI_CTL_MMAP;
  dmi_pack_init(&body);
  dmi_pack_raw(&body, call->body.ptr, call->body.len);
  dmi_member_send(m, m->coordinator, DMI_CTL_MMAP, call->op, 0, &body);
}

/* A notice was given to this process: nobody else must get it.  Of one that has gone only its loss
 * could be told again. */
static void note_notice(struct dmi_member *m, uint64_t op, uint8_t type,
                        const struct dmi_mact *act) {
  const struct dmi_notice *notice = act->notices;
  if (!m->env.survive || !act->flag || (type != DMI_CTL_POLL && type != DMI_CTL_PEEK)) return;
  if (notice->state == DMI_LOST || dmi_member_find(m, notice->uid)) {
    if (notice->state == DMI_NOTE) {
      dmi_member_note_given(m, notice);
    } else {
      dmi_member_note_got(m, notice->uid, notice->state);
    }
  }
  dmi_member_send(m, m->coordinator, DMI_CTL_NOTICE_OK, op, 0, NULL);
}

bool dmi_member_on_result(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  struct dmi_unpack body;
  struct dmi_mact *act;
  (void)from;
  for (uint32_t i = 0; i < m->calls.num; i++) {
    uint8_t type = m->calls.at[i].type;
    if (m->calls.at[i].op != msg->member.op) continue;
    if (msg->member.error == DMI_EADDR && m->calls.at[i].mmap.len) {
      map_again(m, &m->calls.at[i]);
      return true;
    }
    act = add_result(m, msg->member.op, error_of(&m->calls.at[i], msg->member.error));
    dmi_unpack_init(&body, &msg->body);
    if (msg->member.error == DMI_OK && !read_payload(m, &m->calls.at[i], &body, act)) {
      free(act->notices);
      m->out->num--;
      return false;
    }
    if (is_outdated(m, act)) {
      m->out->num--;
      /* The coordinator has answered behind this view, and so knows as much. */
      if (!m->crash && m->calls.at[i].asked == m->view) return false;
      ask_later(&m->calls.at[i], act->mapping.base);
      if (!m->crash) dmi_member_calls_later(m);
      return true;
    }
    note_notice(m, msg->member.op, type, act);
    if (type == DMI_CTL_NOTIFY) dmi_member_note_called(m, msg->member.op, msg->member.error);
    end_call(m, i);
    return true;
  }
  return !dmi_member_is_active(m); /* completed with DMI_EINACTIVE */
}

void dmi_member_end_calls(struct dmi_member *m) {
  for (uint32_t i = 0; i < m->calls.num; i++)
    add_result(m, m->calls.at[i].op, DMI_EINACTIVE);
  for (uint32_t i = 0; i < m->calls.num; i++) {
    dmi_slice_drop(&m->calls.at[i].body);
    dmi_slice_drop(&m->calls.at[i].mmap);
  }
  m->calls.num = 0;
  m->calls_busy = 0;
  for (uint32_t i = 0; i < m->busy_waits.num; i++) {
    add_result(m, m->busy_waits.at[i].op, DMI_EINACTIVE);
  }
  m->busy_waits.num = 0;
}

/* ---- Busy and idle ------------------------------------------------------------------------- */

void dmi_member_grow_busy(struct dmi_member *m) {
  m->busy++;
  if (m->busy_told || !dmi_member_is_active(m)) return;
  m->busy_told = true;
  dmi_member_send(m, m->coordinator, DMI_CTL_BUSY, ++m->busy_seq, 0, NULL);
}

void dmi_member_call_busy(struct dmi_member *m, uint64_t op) {
  struct dmi_busy_wait *wait;
  dmi_member_grow_busy(m);
  if (!dmi_member_is_active(m)) {
    add_result(m, op, DMI_EINACTIVE);
    return;
  }
  if (m->busy_acked == m->busy_seq || DMI_BROKEN(m, DMI_MBREAK_BUSY)) {
    add_result(m, op, DMI_OK);
    return;
  }
  wait = DMI_LIST_ADD(&m->busy_waits);
  wait->op = op;
  wait->seq = m->busy_seq;
}

void dmi_member_call_idle(struct dmi_member *m) {
  if (m->busy == 0) abort(); /* a bug of the caller: more idle than busy */
  m->busy--;
  look_idle(m);
}

bool dmi_member_on_busy_ok(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  uint32_t kept = 0;
  (void)from;
  if (msg->member.op == m->busy_acked && m->env.survive) return true; /* asked again */
  if (msg->member.op <= m->busy_acked || msg->member.op > m->busy_seq) return false;
  m->busy_acked = msg->member.op;
  for (uint32_t i = 0; i < m->busy_waits.num; i++) {
    struct dmi_busy_wait wait = m->busy_waits.at[i];
    if (wait.seq <= m->busy_acked) {
      add_result(m, wait.op, DMI_OK);
    } else {
      m->busy_waits.at[kept++] = wait;
    }
  }
  m->busy_waits.num = kept;
  return true;
}
