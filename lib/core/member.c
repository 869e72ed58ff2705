/*
 * member.c - the entry of membership: events of the network, and the dispatch of messages.
 *
 * Every event function ends with finish(), which lets the coordinator begin what is possible now
 * and delivers messages of this process to itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "core/coord_int.h"
#include "msg/wire.h"

/* Limits of deferred messages from others; a correct program has a few for each thread, and
 * large ones only when many leave. */
#define DEFERRED_MAX 65536u
#define DEFERRED_MAX_BYTES ((uint64_t)64 << 20)

struct dmi_member *dmi_member_new(const struct dmi_member_env *env,
                                  const struct dmi_node_info *info, const struct dmi_addr *own) {
  struct dmi_member *m = dmi_xalloc(1, sizeof(*m));
  m->env = *env;
  m->agreement = env->survive;
  dmi_member_settle(m, &env->settings);
  m->info = *info;
  m->info.host[DMI_HOST_MAX] = m->info.tag[DMI_HOST_MAX] = 0;
  m->own = *own;
  return m;
}

void dmi_member_free(struct dmi_member *m) {
  if (!m) return;
  dmi_coord_free(m->coord);
  dmi_deferred_free(&m->loop);
  dmi_deferred_free(&m->deferred);
  dmi_deferred_free(&m->early);
  dmi_uid_set_free(&m->strangers);
  dmi_uid_set_free(&m->viewing_left);
  dmi_uid_set_free(&m->viewing_lost);
  dmi_uid_set_free(&m->last_requests);
  dmi_uid_set_free(&m->awaits);
  free(m->results.at);
  free(m->forgotten.at);
  free(m->adopted.at);
  dmi_root_free(&m->roots);
  dmi_slice_drop(&m->args);
  for (uint32_t i = 0; i < m->agreed.num; i++)
    dmi_slice_drop(&m->agreed.at[i].body);
  for (uint32_t i = 0; i < m->calls.num; i++) {
    dmi_slice_drop(&m->calls.at[i].body);
    dmi_slice_drop(&m->calls.at[i].mmap);
  }
  free(m->agreed.at);
  free(m->lost.at);
  free(m->losses.at);
  free(m->got.at);
  free(m->notes.at);
  free(m->peers.at);
  free(m->calls.at);
  free(m->busy_waits.at);
  free(m);
}

#ifdef DMI_MUTATIONS
void dmi_member_set_break(struct dmi_member *m, enum dmi_member_break broken) {
  m->broken = broken;
}
#endif

/* ---- Messages ------------------------------------------------------------------------------ */

bool dmi_member_for_coordinator(uint8_t type) {
  const struct dmi_wire_type *row = dmi_wire_type(type);
  return row->class == DMI_CLASS_MEMBER && row->receiver == DMI_COORD;
}

/* A message for the coordinator: handles it if that is this process, keeps it if it soon will
 * be. */
static bool to_coordinator(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  if (m->coord) return dmi_coord_message(m, from, msg);
  if (from >= DMI_NET_TEMP || m->phase < DMI_PHASE_JOINED) return false;
  if (from != m->uid &&
      (m->deferred.num >= DEFERRED_MAX || msg->body.len > DEFERRED_MAX_BYTES - m->deferred_bytes)) {
    return false;
  }
  if (m->phase >= DMI_PHASE_ENDED) return true;
  dmi_deferred_add(&m->deferred, from, msg);
  if (from != m->uid) m->deferred_bytes += msg->body.len;
  return true;
}

/* Of a coordinator that was deposed since: all that are left have heard END.  It may be removed by
 * now, so it need not be a member; but it was one. */
static bool is_last(const struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  return m->env.survive && from < DMI_NET_TEMP && m->phase == DMI_PHASE_ENDED &&
         msg->type == DMI_CTL_FINISH;
}

bool dmi_member_handle(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg) {
  const struct dmi_wire_type *row = dmi_wire_type(msg->type);
  if (row->class != DMI_CLASS_MEMBER) return false;
  if (m->phase == DMI_PHASE_FINISHED) return true;
  if (is_last(m, from, msg)) return dmi_member_on_finish(m, from, msg);
  if (dmi_member_is_early(m, from, msg)) return true;
  if (row->receiver == DMI_COORD) return to_coordinator(m, from, msg);
  if (row->sender == DMI_COORD && row->receiver != DMI_JOINER &&
      (from != m->coordinator || m->uid == 0))
    return m->env.survive && m->uid; /* it has been deposed, and may not know */
  if (row->sender == DMI_COORD && dmi_member_is_late(m, msg)) return true;
  switch (msg->type) {
#define HANDLE(symbol, number, name, handler, ...) \
  case symbol:                                     \
    return handler(m, from, msg);
    DMI_MSGS_MEMBER(HANDLE)
#undef HANDLE
    default:
      return false;
  }
}

/* ---- The frame of every event -------------------------------------------------------------- */

static void begin(struct dmi_member *m, struct dmi_mout *out) {
  m->out = out;
}

/* This process refused its own message: a bug, unless another process sent its state. */
static void refused_own(struct dmi_member *m, const struct dmi_msg *msg) {
  char text[DMI_TEXT_SIZE];
  if (!m->handed_by.uid) {
    fprintf(stderr, "dmi: bug: member %u refuses its own %s\n", m->uid,
            dmi_wire_name((uint8_t)msg->type));
    abort();
  }
  dmi_lost_text(text, &m->handed_by, "it handed over a state of the program that cannot be");
  dmi_member_fatal_lost(m, text);
}

/* Delivers messages to this process itself until there are none. */
static void finish(struct dmi_member *m) {
  do {
    while (m->loop_next < m->loop.num) {
      struct dmi_deferred item = m->loop.at[m->loop_next++];
      bool ok = dmi_member_handle(m, m->uid, &item.msg);
      if (!ok) refused_own(m, &item.msg);
    }
    dmi_deferred_free(&m->loop);
    m->loop_next = 0;
    if (m->coord && m->phase != DMI_PHASE_FINISHED) dmi_coord_advance(m);
  } while (m->loop.num > 0);
  m->out = NULL;
}

bool dmi_member_message(struct dmi_member *m, uint32_t from, const struct dmi_msg *msg,
                        struct dmi_mout *out) {
  bool ok;
  if (from == m->uid && m->uid != 0) return false;
  begin(m, out);
  ok = dmi_member_handle(m, from, msg);
  finish(m);
  return ok;
}

/* A connection without uid broke: that of a joiner that sent JOIN here, or our own one to the
 * coordinator. */
static void lost_temp(struct dmi_member *m, uint32_t temp, const char *why) {
  if (m->phase == DMI_PHASE_ASKING && temp == m->temp) {
    char text[DMI_TEXT_SIZE];
    snprintf(text, sizeof(text), "the program to join cannot be reached any more: %s", why);
    dmi_member_retry(m, text);
    return;
  }
  dmi_uid_set_drop(&m->strangers, temp);
  for (uint32_t i = m->deferred.num; i-- > 0;) {
    if (m->deferred.at[i].from == temp) dmi_deferred_drop(&m->deferred, i);
  }
  if (m->coord) dmi_coord_drop_join(m, temp);
}

void dmi_lost_text(char text[DMI_TEXT_SIZE], const struct dmi_peer *peer, const char *why) {
  if (peer) {
    char name[DMI_NAME_TEXT];
    dmi_info_name(name, peer->dmi_id, &peer->info);
    snprintf(text, DMI_TEXT_SIZE, "lost %s: %s", name, why);
  } else {
    snprintf(text, DMI_TEXT_SIZE, "lost a process of the program: %s", why);
  }
}

static void lost_member(struct dmi_member *m, uint32_t uid, const char *why) {
  struct dmi_pack body;
  char text[DMI_TEXT_SIZE];
  if (m->env.survive) return; /* the agreement knows, and decides */
  if (uid == m->coordinator) {
    dmi_lost_text(text, dmi_member_find(m, uid), why);
    dmi_member_fatal_lost(m, text);
    return;
  }
  if (!dmi_member_find(m, uid)) return;
  dmi_member_leave_lost(m, uid);
  if (m->coord && !dmi_coord_untake(m, uid, why)) return;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, uid);
  dmi_pack_text(&body, why);
  dmi_member_send(m, m->coordinator, DMI_CTL_LOST, 0, 0, &body);
}

void dmi_member_lost(struct dmi_member *m, uint32_t id, const char *why, struct dmi_mout *out) {
  begin(m, out);
  if (m->phase == DMI_PHASE_FINISHED) {
    /* the program is ending: losses are expected */
  } else if (id >= DMI_NET_TEMP) {
    lost_temp(m, id, why);
  } else if (dmi_member_over_lost(m, id)) {
    /* the program has ended, and nobody waits for that process any more */
  } else if (id != m->uid && m->uid != 0) {
    lost_member(m, id, why);
  }
  finish(m);
}

/* ---- The other events, each one step of some file ------------------------------------------ */

#define EVENT(call) \
  do {              \
    begin(m, out);  \
    call;           \
    finish(m);      \
  } while (0)

void dmi_member_start_first(struct dmi_member *m, const uint8_t program_id[16],
                            struct dmi_mout *out) {
  memcpy(m->program_id, program_id, sizeof(m->program_id));
  EVENT(dmi_member_found(m));
}

void dmi_member_start_join(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_member_seek(m));
}

void dmi_member_connected(struct dmi_member *m, uint32_t temp, struct dmi_mout *out) {
  EVENT(dmi_member_ask(m, temp));
}

void dmi_member_not_connected(struct dmi_member *m, const char *why, struct dmi_mout *out) {
  EVENT(dmi_member_retry(m, why));
}

void dmi_member_leave_asked(struct dmi_member *m, struct dmi_mout *out) {
  if (m->asked) return;
  m->asked = true;
  EVENT(dmi_member_ask_leave(m));
}

void dmi_member_viewed(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_view_taken(m));
}

void dmi_member_agreed(struct dmi_member *m, const struct dmi_slice *body, bool crash,
                       struct dmi_mout *out) {
  EVENT(dmi_member_agree(m, body, crash));
}

void dmi_member_cut_off(struct dmi_member *m, const char *why, struct dmi_mout *out) {
  EVENT(dmi_member_alone(m, why));
}

void dmi_member_may_change(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(if (m->coord) dmi_coord_welcome_look(m)); /* what else may begin is looked at anyway */
}

void dmi_member_resumed(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_member_crash_resumed(m));
}

void dmi_member_recovered(struct dmi_member *m, uint64_t number, uint64_t pages,
                          struct dmi_mout *out) {
  EVENT(dmi_member_crash_recovered(m, number, pages));
}

void dmi_member_stopped(struct dmi_member *m, bool stopped, struct dmi_mout *out) {
  EVENT(dmi_member_leave_stopped(m, stopped));
}

void dmi_member_drained(struct dmi_member *m, const struct dmi_ended *ended, uint32_t num,
                        struct dmi_mout *out) {
  EVENT(dmi_member_leave_drained(m, ended, num));
}

void dmi_member_no_capacity(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_member_leave_no_capacity(m));
}

void dmi_member_leave_retry(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_member_leave_retry_said(m));
}

void dmi_member_forgot(struct dmi_member *m, uint64_t base, struct dmi_mout *out) {
  EVENT(dmi_member_mapping_forgot(m, base));
}

void dmi_member_busy(struct dmi_member *m, uint64_t op, struct dmi_mout *out) {
  EVENT(dmi_member_call_busy(m, op));
}

void dmi_member_idle(struct dmi_member *m, struct dmi_mout *out) {
  EVENT(dmi_member_call_idle(m));
}

void dmi_member_main_ended(struct dmi_member *m, bool good, struct dmi_mout *out) {
  EVENT(dmi_member_main_over(m, good));
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void call(struct dmi_member *m, enum dmi_msg_type type, uint64_t op, struct dmi_pack *body,
                 struct dmi_mout *out) {
  EVENT(dmi_member_call_begin(m, type, op, body));
}

void dmi_member_poll(struct dmi_member *m, uint64_t op, struct dmi_mout *out) {
  call(m, DMI_CTL_POLL, op, NULL, out);
}

void dmi_member_peek(struct dmi_member *m, uint64_t op, struct dmi_mout *out) {
  call(m, DMI_CTL_PEEK, op, NULL, out);
}

void dmi_member_nodes(struct dmi_member *m, uint64_t op, struct dmi_mout *out) {
  call(m, DMI_CTL_NODES, op, NULL, out);
}

void dmi_member_welcome(struct dmi_member *m, uint64_t op, dmi_id_t dmi_id, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, dmi_id.n);
  call(m, DMI_CTL_WELCOME, op, &body, out);
}

void dmi_member_goodbye(struct dmi_member *m, uint64_t op, dmi_id_t dmi_id, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, dmi_id.n);
  call(m, DMI_CTL_GOODBYE, op, &body, out);
}

void dmi_member_mmap(struct dmi_member *m, uint64_t op, uint64_t page_size, uint64_t page_num,
                     struct dmi_mout *out) {
  dmi_member_mmap_tag(m, op, page_size, page_num, DMI_TAG_USER, out);
}

void dmi_member_mmap_tag(struct dmi_member *m, uint64_t op, uint64_t page_size, uint64_t page_num,
                         uint64_t tag, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, page_size);
  dmi_pack_u64(&body, page_num);
  dmi_pack_u64(&body, tag);
  call(m, DMI_CTL_MMAP, op, &body, out);
}

void dmi_member_lookup(struct dmi_member *m, uint64_t op, uint64_t addr, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, addr);
  call(m, DMI_CTL_LOOKUP, op, &body, out);
}

void dmi_member_munmap(struct dmi_member *m, uint64_t op, uint64_t base, struct dmi_mout *out) {
  dmi_member_munmap_tag(m, op, base, DMI_TAG_USER, out);
}

void dmi_member_munmap_tag(struct dmi_member *m, uint64_t op, uint64_t base, uint64_t tag,
                           struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, base);
  dmi_pack_u64(&body, tag);
  call(m, DMI_CTL_MUNMAP, op, &body, out);
}

void dmi_member_thread(struct dmi_member *m, uint64_t op, uint32_t uid, uint64_t seq,
                       struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u32(&body, uid);
  dmi_pack_u64(&body, seq);
  call(m, DMI_CTL_THREAD, op, &body, out);
}

void dmi_member_root_set(struct dmi_member *m, uint64_t op, const void *name, size_t len,
                         uint64_t addr, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_u64(&body, addr);
  dmi_pack_bytes(&body, name, len);
  call(m, DMI_CTL_ROOT_SET, op, &body, out);
}

void dmi_member_root_get(struct dmi_member *m, uint64_t op, const void *name, size_t len,
                         struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  dmi_pack_bytes(&body, name, len);
  call(m, DMI_CTL_ROOT_GET, op, &body, out);
}

void dmi_member_survives(struct dmi_member *m, uint64_t op, struct dmi_mout *out) {
  struct dmi_pack body;
  dmi_pack_init(&body);
  call(m, DMI_CTL_SURVIVE, op, &body, out);
}

void dmi_member_exit(struct dmi_member *m, uint64_t op, uint32_t status, struct dmi_mout *out) {
  EVENT(dmi_member_exit_call(m, op, status));
}

void dmi_member_notify(struct dmi_member *m, uint64_t op, uint64_t value, struct dmi_mout *out) {
  EVENT(dmi_member_note_call(m, op, value));
}

void dmi_member_set_args(struct dmi_member *m, const void *bytes, size_t len) {
  dmi_slice_drop(&m->args);
  if (len) m->args = dmi_slice_xcopy(bytes, len);
}

struct dmi_slice dmi_member_args(const struct dmi_member *m) {
  return m->args;
}
