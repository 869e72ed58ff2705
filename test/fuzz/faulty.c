/*
 * faulty.c - see faulty.h.
 */
#include "faulty.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "core/heap.h"
#include "core/coord_int.h"
#include "net/net.h"
#include "node/runtime.h"
#include "msg/wire.h"

enum attack attack_of(uint64_t run) {
  return run % 2 ? AT_RANDOM : (enum attack)(1 + run / 2 % (ATTACKS - 1));
}

/* ---- The faulty one -------------------------------------------------------------------------- */

bool __real_dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg);
bool __wrap_dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg);
const char *__real_dmi_wire_check(const struct dmi_msg *msg, bool member);
const char *__wrap_dmi_wire_check(const struct dmi_msg *msg, bool member);

#define RING 256
#define KEPT ((uint64_t)2 << 20) /* bytes of a message that is kept */

static bool faulty;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static uint64_t faults, sent, begins, most, rate;
static uint64_t rng;
static struct dmi_msg ring[RING]; /* of what was sent, with copies of their bytes */
static __thread bool unchecked;

const char *__wrap_dmi_wire_check(const struct dmi_msg *msg, bool member) {
  return unchecked ? NULL : __real_dmi_wire_check(msg, member);
}

static void transmit(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  bool was = unchecked;
  unchecked = true;
  if (!__real_dmi_net_send(net, to, msg)) {
    dmi_slice_drop(&msg->list);
    dmi_slice_drop(&msg->body);
  }
  unchecked = was;
}

static struct dmi_msg copy_of(const struct dmi_msg *msg) {
  struct dmi_msg copy = *msg;
  copy.list = copy.body = (struct dmi_slice){0};
  if (msg->list.len && msg->list.len <= KEPT)
    copy.list = dmi_slice_copy(msg->list.ptr, msg->list.len);
  if (msg->body.len && msg->body.ptr && msg->body.len <= KEPT)
    copy.body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  return copy;
}

static void remember(const struct dmi_msg *msg) {
  struct dmi_msg *at = &ring[sent % RING];
  dmi_slice_drop(&at->list);
  dmi_slice_drop(&at->body);
  *at = copy_of(msg);
}

static struct dmi_msg *any_sent(void) {
  uint64_t num = sent < RING ? sent : RING;
  return &ring[mix(&rng) % (num ? num : 1)];
}

static uint64_t strange64(uint64_t now) {
  static const uint64_t values[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    7,
                                    8,
                                    16,
                                    63,
                                    64,
                                    65,
                                    4095,
                                    4096,
                                    4097,
                                    65536,
                                    (1 << 20) + 1,
                                    UINT32_MAX,
                                    UINT64_C(1) << 32,
                                    INT64_MAX,
                                    UINT64_C(1) << 62,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - 7,
                                    UINT64_MAX,
                                    DMI_SYSTEM_BASE};
  const struct dmi_msg *other = any_sent();
  switch (mix(&rng) % 8) {
    case 0:
      return now ^ UINT64_C(1) << mix(&rng) % 64;
    case 1:
      return now + 1;
    case 2:
      return now - 1;
    case 3:
      return mix(&rng);
    case 4:
      return other->word[mix(&rng) % 4];
    case 5:
      return mix(&rng) % 2 ? other->map : other->page;
    case 6:
      return now;
    default:
      return values[mix(&rng) % (sizeof values / sizeof values[0])];
  }
}

static uint32_t strange_uid(void) {
  static const uint32_t values[] = {
      0,         1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 77, INT32_MAX, DMI_NET_TEMP, DMI_NET_TEMP + 1,
      UINT32_MAX};
  return values[mix(&rng) % (sizeof values / sizeof values[0])];
}

/* Some bytes of it are changed, or it becomes longer or shorter by whole elements or not. */
static void change_slice(struct dmi_slice *slice, uint64_t element) {
  uint64_t len = slice->len;
  unsigned char *bytes;
  if (mix(&rng) % 3 == 0) len = mix(&rng) % 2 ? element * (mix(&rng) % 6) : mix(&rng) % 300;
  if (mix(&rng) % 16 == 0) len = 0;
  bytes = calloc(1, len + 8);
  if (!bytes) return;
  if (slice->ptr) memcpy(bytes, slice->ptr, len < slice->len ? len : slice->len);
  for (uint64_t i = mix(&rng) % 4; len && i > 0; i--) {
    uint64_t at = mix(&rng) % len, value;
    if (mix(&rng) % 2) at = at / 4 * 4;
    memcpy(&value, bytes + at, sizeof value); /* there is room for 8 behind the last */
    value = mix(&rng) % 3 ? strange64(value) : strange_uid();
    memcpy(bytes + at, &value, mix(&rng) % 2 ? 8 : mix(&rng) % 2 ? 4 : 1);
  }
  dmi_slice_drop(slice);
  *slice = len ? dmi_slice_copy(bytes, len) : (struct dmi_slice){0};
  free(bytes);
}

static void change_field(struct dmi_msg *msg) {
  uint64_t *const wide[] = {&msg->map,     &msg->page,    &msg->word[0],
                            &msg->word[1], &msg->word[2], &msg->word[3]};
  switch (mix(&rng) % 13) {
    case 0:
      msg->type = (uint8_t)(mix(&rng) % 3 ? mix(&rng) % DMI_MSG_NUMBERS : msg->type ^ 1);
      break;
    case 1:
    case 2:
      msg->flags ^= (uint16_t)(1u << mix(&rng) % 12);
      break;
    case 3:
      msg->word[mix(&rng) % 4] = mix(&rng) % 16;
      break;
    case 4:
      msg->origin = strange_uid();
      break;
    case 5:
    case 6: {
      const struct dmi_wire_type *row = dmi_wire_type(msg->type);
      if (row->list_size) change_slice(&msg->list, row->list_size);
      break;
    }
    case 7:
    case 8:
    case 9:
      change_slice(&msg->body, 8);
      break;
    default: {
      uint64_t *field = wide[mix(&rng) % 6];
      *field = strange64(*field);
    }
  }
}

/* Any message, with fields as others have them. */
static struct dmi_msg make_up(void) {
  static const uint8_t likely[] = {DMI_MSG_READ,
                                   DMI_MSG_OWN,
                                   DMI_MSG_GRANT,
                                   DMI_MSG_DATA,
                                   DMI_MSG_BLOCK,
                                   DMI_MSG_DELEGATE,
                                   DMI_MSG_TAKE,
                                   DMI_MSG_REFUSE_PAGE,
                                   DMI_MSG_UPDATE,
                                   DMI_MSG_INVALIDATE,
                                   DMI_MSG_HOME_BEGIN,
                                   DMI_MSG_HOME_TAILS,
                                   DMI_MSG_HOME_END,
                                   DMI_MSG_HOME_DONE,
                                   DMI_SVC_CAPACITY_ASK,
                                   DMI_SVC_CAPACITY_REPORT,
                                   DMI_SVC_CAPACITY_RETURN,
                                   DMI_CTL_LOST,
                                   DMI_CTL_GOODBYE,
                                   DMI_CTL_VIEW,
                                   DMI_CTL_EXIT,
                                   DMI_CTL_END,
                                   DMI_CTL_FINISH,
                                   DMI_CTL_COORD,
                                   DMI_CTL_LEAVE_GO,
                                   DMI_CTL_ADOPT,
                                   DMI_CTL_FORGET,
                                   DMI_CTL_OPEN,
                                   DMI_CTL_BUSY_OK,
                                   DMI_CTL_RESULT,
                                   DMI_CTL_DRAINED,
                                   DMI_CTL_VIEW_TAKEN,
                                   DMI_CTL_MUNMAP,
                                   DMI_CTL_LEAVE_ASK,
                                   DMI_CTL_WELCOME,
                                   DMI_SVC_CREATE,
                                   DMI_SVC_JOIN,
                                   DMI_SVC_DETACH,
                                   DMI_MSG_ATOMIC,
                                   DMI_MSG_PUT};
  const struct dmi_wire_type *row;
  struct dmi_msg msg = copy_of(any_sent());
  if (mix(&rng) % 2) msg.type = likely[mix(&rng) % sizeof likely];
  if (mix(&rng) % 4 == 0) msg.type = (uint8_t)(1 + mix(&rng) % (DMI_MSG_NUMBERS - 1));
  row = dmi_wire_type(msg.type);
  msg.origin = strange_uid();
  if (mix(&rng) % 2) msg.page = mix(&rng) % 66;
  if (mix(&rng) % 2) msg.word[0] = mix(&rng) % 40;
  if (mix(&rng) % 2) msg.word[1] = mix(&rng) % 4;
  if (mix(&rng) % 2) msg.flags = (uint16_t)(mix(&rng) % 3 ? 0 : mix(&rng) % 4096);
  if (!row->list_size || msg.list.len % row->list_size) dmi_slice_drop(&msg.list);
  if (row->list_size && mix(&rng) % 2) change_slice(&msg.list, row->list_size);
  if (msg.list.len && row->list_size && msg.list.len % row->list_size) dmi_slice_drop(&msg.list);
  if (row->body_max == 0) dmi_slice_drop(&msg.body);
  /* Whole pages of zeros and bytes of a size that is not theirs. */
  if (row->body_max && mix(&rng) % 3 == 0) {
    static const uint64_t sizes[] = {1, 8, 12, 16, 24, 36, 52, 64, 1000, 4096, 65536};
    uint64_t len = sizes[mix(&rng) % (sizeof sizes / sizeof sizes[0])];
    unsigned char *bytes = calloc(1, len);
    dmi_slice_drop(&msg.body);
    if (bytes) msg.body = dmi_slice_copy(bytes, len);
    free(bytes);
  }
  while (mix(&rng) % 2)
    change_field(&msg);
  return msg;
}

static enum attack attacks; /* of this run */

/* ---- Attacks that chance would find late -------------------------------------------------------
 */

static bool is_request(const struct dmi_msg *msg) {
  return msg->type == DMI_MSG_GET || msg->type == DMI_MSG_READ || msg->type == DMI_MSG_PUT ||
         msg->type == DMI_MSG_ATOMIC;
}

static void send_packed(struct dmi_net *net, uint32_t to, uint8_t type, struct dmi_pack *pack) {
  struct dmi_msg msg = {.type = type};
  msg.body = dmi_pack_slice(pack);
  transmit(net, to, &msg);
}

static void send_to_others(struct dmi_net *net, const struct dmi_msg *msg) {
  for (uint32_t to = 1; to <= PROCESSES; to++) {
    struct dmi_msg copy = copy_of(msg);
    transmit(net, to, &copy);
    dmi_net_flush(net, to);
  }
}

/* The body of this message says at `at` what it should not. */
static bool lie(struct dmi_msg *msg, uint64_t at, uint64_t value, uint64_t size) {
  struct dmi_slice body;
  if (msg->body.len < at + size) return false;
  body = dmi_slice_copy(msg->body.ptr, msg->body.len);
  memcpy(body.frame->bytes + at, &value, size);
  dmi_slice_drop(&msg->body);
  msg->body = body;
  return true;
}

static bool too_few_bytes(struct dmi_msg *msg, uint16_t flag) {
  if (!msg->body.len || (msg->flags & (DMI_F_ZERO | DMI_F_HAVE | DMI_F_NODATA))) return false;
  dmi_slice_drop(&msg->body);
  msg->body = dmi_slice_copy("8 bytes.", 8);
  msg->flags |= flag;
  return true;
}

static bool steal_home(struct dmi_net *net, const struct dmi_msg *msg, bool invent) {
  struct dmi_mapping *mapping;
  struct dmi_tail tail = {1, 77, 0};
  struct dmi_msg home = {.type = DMI_MSG_HOME_BEGIN, .map = msg->map};
  dmi_epoch_enter();
  mapping = dmi_space_find(&dmi_runtime_access()->space, msg->map);
  dmi_epoch_leave();
  if (dmi_wire_class(msg) != DMI_CLASS_PAGE || !mapping) return false;
  home.home.page_size = mapping->map.page_size;
  home.home.page_num = mapping->map.page_num;
  if (invent) {
    home.map = 4096;
    home.home.page_size = home.home.page_num = UINT64_C(1) << 30;
  }
  send_to_others(net, &home);
  home.type = DMI_MSG_HOME_TAILS;
  home.home = (struct dmi_msg_home){0};
  home.list = invent ? dmi_slice_copy(&tail, sizeof tail) : (struct dmi_slice){0};
  if (invent) send_to_others(net, &home);
  dmi_slice_drop(&home.list);
  home.type = DMI_MSG_HOME_END;
  send_to_others(net, &home);
  return true;
}

/* A view that follows the last one. */
static void send_view(struct dmi_net *net, uint64_t number, bool twice) {
  struct dmi_peer peer = {.uid = 9, .dmi_id = {9}, .info = {.host = "nowhere"}};
  for (uint32_t to = 2; to <= PROCESSES; to++) {
    struct dmi_pack body;
    dmi_pack_init(&body);
    dmi_pack_u64(&body, number);
    dmi_pack_u32(&body, twice ? 1 : to);
    dmi_pack_u32(&body, twice ? 2 : 0);
    for (int i = 0; twice && i < 2; i++)
      dmi_member_pack_peer(&body, &peer);
    dmi_pack_u32(&body, twice ? 0 : 1);
    if (!twice) {
      dmi_pack_u32(&body, 1);
      dmi_pack_u32(&body, 2);
    }
    send_packed(net, to, DMI_CTL_VIEW, &body);
  }
}

static void send_too_much(struct dmi_net *net) {
  struct dmi_frame *frame = dmi_frame_new_zero(DMI_WIRE_CONTROL);
  struct dmi_msg msg = {.type = DMI_CTL_GOODBYE};
  for (int i = 0; frame && i < 1800; i++) {
    for (uint32_t to = 1; to <= PROCESSES; to++) {
      struct dmi_msg one = msg;
      one.body = dmi_slice_of(frame, 0, frame->size);
      transmit(net, to, &one);
      dmi_net_flush(net, to);
    }
  }
  dmi_frame_unref(frame);
}

/* A quarter of a million holders that are not there. */
static struct dmi_slice many_holders(void) {
  struct dmi_frame *frame = dmi_frame_new(UINT64_C(2) << 20);
  if (!frame) return (struct dmi_slice){0};
  for (uint32_t i = 0; i < frame->size / sizeof(struct dmi_holder); i++) {
    const struct dmi_holder holder = {1000 + i, DMI_KIND_UPDATE};
    memcpy(frame->bytes + i * sizeof holder, &holder, sizeof holder);
  }
  return (struct dmi_slice){frame, frame->bytes, frame->size};
}

static bool page_attack(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  struct dmi_msg own = {.type = DMI_MSG_OWN, .origin = 77, .map = msg->map, .page = msg->page};
  struct dmi_msg copy;
  switch (attacks) {
    case GRANT_ZERO:
      return msg->type == DMI_MSG_GRANT && too_few_bytes(msg, DMI_F_ZERO);
    case GRANT_NODATA:
      return msg->type == DMI_MSG_GRANT && too_few_bytes(msg, DMI_F_NODATA);
    case DATA_ZERO:
      return msg->type == DMI_MSG_DATA && too_few_bytes(msg, DMI_F_ZERO);
    case GRANT_HOLDERS:
      if (msg->type != DMI_MSG_GRANT) return false;
      dmi_slice_drop(&msg->list);
      msg->list = many_holders();
      return true;
    case OWN_BY_NOBODY:
      if (!is_request(msg) || msg->origin == to) return false;
      transmit(net, to, &own);
      copy = copy_of(msg);
      transmit(net, to, &copy);
      return true;
    case HOME_STOLEN:
    case HOME_INVENTED:
      return steal_home(net, msg, attacks == HOME_INVENTED);
    case FAIL_WITHOUT:
      if (msg->type != DMI_MSG_DATA) return false;
      msg->type = DMI_MSG_FAIL;
      msg->flags = 0;
      msg->fail = (struct dmi_msg_fail){.fetch = msg->data.fetch};
      dmi_slice_drop(&msg->body);
      return true;
    default:
      return false;
  }
}

static bool member_attack(struct dmi_net *net) {
  struct dmi_pack body;
  if (attacks == TOO_MUCH) {
    send_too_much(net);
  } else {
    dmi_pack_init(&body);
    dmi_pack_u32(&body, 1);
    dmi_pack_string(&body, "you");
    send_packed(net, 1, DMI_CTL_LOST, &body);
  }
  return true;
}

/* A RESULT with a mapping. */
static bool lie_of_mapping(struct dmi_msg *msg, uint64_t at, uint64_t value, uint64_t size) {
  return msg->type == DMI_CTL_RESULT && msg->body.len == DMI_MAPPING_BYTES &&
         lie(msg, at, value, size);
}

static bool lie_of_state(struct dmi_msg *msg) {
  if (msg->type != DMI_CTL_COORD || msg->body.len <= 60) return false;
  for (uint64_t i = 1 + mix(&rng) % 3; i > 0; i--) {
    uint64_t at = mix(&rng) % (mix(&rng) % 2 ? 60 : msg->body.len - 8);
    lie(msg, at, mix(&rng) % 2 ? strange_uid() : strange64(1), mix(&rng) % 2 ? 1 : 4);
  }
  return true;
}

static bool coordinator_attack(struct dmi_net *net, struct dmi_msg *msg) {
  static uint64_t view;
  struct dmi_msg end = {.type = DMI_CTL_END};
  struct dmi_pack body;
  if (msg->type == DMI_CTL_VIEW && msg->body.len >= 8) memcpy(&view, msg->body.ptr, 8);
  switch (attacks) {
    case RESULT_EMPTY:
      return lie_of_mapping(msg, 8, 0, 8);
    case RESULT_HOME:
      return lie_of_mapping(msg, 24, 77, 4);
    case RESULT_ELSEWHERE:
      return lie_of_mapping(msg, 0, UINT64_C(1) << 50, 8);
    case VIEW_WITHOUT:
    case VIEW_TWICE:
      if (!view || sent <= 100) return false;
      send_view(net, view + 1, attacks == VIEW_TWICE);
      return true;
    case ACCEPT_WITHOUT:
      return msg->type == DMI_CTL_ACCEPT && lie(msg, 37, 50, 4);
    case OUT_FOR_EVER:
      if (msg->type != DMI_CTL_EXIT) return false;
      dmi_slice_drop(&msg->body);
      dmi_pack_init(&body);
      dmi_pack_u32(&body, 1);
      dmi_pack_u32(&body, 77);
      msg->body = dmi_pack_slice(&body);
      return true;
    case END_EARLY:
      if (!is_request(msg) || sent <= 150) return false;
      send_to_others(net, &end);
      end.type = DMI_CTL_FINISH;
      send_to_others(net, &end);
      return true;
    default:
      return lie_of_state(msg);
  }
}

/* An answer that goes to who asks for a viewer: before it some that it has not asked for, and twice
 * what it has. */
static bool lie_of_answer(struct dmi_net *net, uint32_t to, const struct dmi_msg *msg) {
  if (msg->type != DMI_SEE_ANSWER) return false;
  for (uint32_t i = 0; i < 8; i++) {
    struct dmi_msg extra = copy_of(msg);
    if (i < 6) extra.seen.number = i < 3 ? extra.seen.number + i : (uint32_t)mix(&rng);
    extra.seen.how = (uint32_t)(mix(&rng) % 2 ? mix(&rng) % 3 : 0);
    if (mix(&rng) % 2) extra.seen.next = mix(&rng);
    if (mix(&rng) % 2) change_slice(&extra.body, 0);
    transmit(net, to, &extra);
  }
  return true;
}

/* With the lock held.  True: the attack was carried out (once), and msg sent; else that goes out as
 * it is. */
static bool carry_out(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  bool done;
  if (attacks == TOO_MUCH || attacks == LOST_YOURSELF) {
    done = member_attack(net);
  } else if (attacks == SEEN_LIES) {
    done = lie_of_answer(net, to, msg);
  } else if (attacks >= FIRST_ATTACK_OF_COORDINATOR) {
    done = coordinator_attack(net, msg);
  } else {
    done = page_attack(net, to, msg);
  }
  if (done) transmit(net, to, msg);
  return done;
}

/* ---- Its way out -------------------------------------------------------------------------------
 */

/* With the lock held: sends something instead of this message, or in addition to it. */
static void misbehave(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  static struct dmi_msg held;
  static uint32_t held_to;
  uint32_t other = mix(&rng) % 2 ? to : (uint32_t)(1 + mix(&rng) % PROCESSES);
  struct dmi_msg extra;
  faults++;
  switch (mix(&rng) % 12) {
    case 0: /* left out */
      break;
    case 1:
      extra = copy_of(msg);
      transmit(net, to, &extra);
      transmit(net, to, msg);
      return;
    case 2:
      extra = copy_of(any_sent());
      transmit(net, other, &extra);
      transmit(net, to, msg);
      break;
    case 3: /* later */
      extra = copy_of(msg);
      if (held.type) transmit(net, held_to, &held);
      held = extra;
      held_to = to;
      break;
    case 4: /* to another one */
      transmit(net, other, msg);
      break;
    case 5:
    case 6:
    case 7:
      extra = make_up();
      transmit(net, other, &extra);
      transmit(net, to, msg);
      break;
    default:
      extra = copy_of(msg);
      do
        change_field(&extra);
      while (mix(&rng) % 3 == 0);
      transmit(net, to, &extra);
  }
  dmi_net_flush(net, other);
  dmi_slice_drop(&msg->list);
  dmi_slice_drop(&msg->body);
}

bool __wrap_dmi_net_send(struct dmi_net *net, uint32_t to, struct dmi_msg *msg) {
  bool good = true;
  if (!faulty) return __real_dmi_net_send(net, to, msg);
  pthread_mutex_lock(&lock);
  remember(msg);
  sent++;
  if (attacks == AT_RANDOM ? faults >= most : faults && sent > faults + 300) raise(SIGKILL);
  if (attacks != AT_RANDOM) {
    if (!faults && carry_out(net, to, msg)) {
      faults = sent;
      dmi_net_flush(net, to);
    } else {
      good = __real_dmi_net_send(net, to, msg);
    }
  } else if (to >= DMI_NET_TEMP || sent < begins || mix(&rng) % rate != 0) {
    good = __real_dmi_net_send(net, to, msg);
  } else {
    misbehave(net, to, msg);
    dmi_net_flush(net, to);
  }
  pthread_mutex_unlock(&lock);
  return good;
}

void be_faulty(uint64_t run) {
  faulty = true;
  attacks = attack_of(run);
  rng = run;
  begins = mix(&rng) % 4 ? mix(&rng) % 300 : 0;
  most = mix(&rng) % 2 ? 1 + mix(&rng) % 3 : 1 + mix(&rng) % 60;
  rate = 1 + mix(&rng) % (mix(&rng) % 2 ? 4 : 40);
}
