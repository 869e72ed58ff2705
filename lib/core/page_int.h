/*
 * page_int.h - what the files of the page protocol share; no other file includes it.
 */
#ifndef DMI_CORE_PAGE_INT_H
#define DMI_CORE_PAGE_INT_H

#include <stddef.h>

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/page.h"
#include "dmi_api.h"

/* The handlers of class PAGE. `own`: the own operation that the message answers; NULL: none.
 * False, with nothing changed: a correct peer does not send it. */
#define DMI_PAGE_HANDLER(symbol, number, name, handler, ...)                                      \
  bool handler(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from, struct dmi_msg *msg, \
               struct dmi_req *own, struct dmi_out *out);
DMI_MSGS_PAGE(DMI_PAGE_HANDLER)

/* Do bytes reach this member without a network? */
static inline bool dmi_is_near(const struct dmi_core *core, dmi_uid_t uid) {
  return core->is_near && core->is_near(core->arg, uid);
}

/* Was it offered, and memory for it promised? */
static inline bool dmi_page_is_promised(const struct dmi_page *page) {
  return (page->flags & DMI_PAGE_OFFERED) && page->hint;
}

/* ---- out.c ---- */
void dmi_out_complete(struct dmi_out *out, struct dmi_req *req, int error);
/* Adds DMI_ACT_STALLED. */
void dmi_out_stalled(struct dmi_out *out, const struct dmi_page *page);
void dmi_out_defer(struct dmi_out *out, dmi_uid_t from, const struct dmi_msg *msg);
void dmi_out_hold(struct dmi_out *out, dmi_uid_t from, struct dmi_msg *msg);
/* A message about this page; its other fields are zero. */
struct dmi_msg dmi_msg_about(const struct dmi_core *core, const struct dmi_page *page,
                             enum dmi_msg_type type);
/* The same, made where it stays: appends the sending of it, for the caller to fill in before
 * anything else is appended. */
struct dmi_msg *dmi_out_about(struct dmi_out *out, uint32_t to, const struct dmi_core *core,
                              const struct dmi_page *page, enum dmi_msg_type type);

/* ---- lists ---- */
void dmi_req_push(struct dmi_req_list *list, struct dmi_req *req);
struct dmi_req *dmi_req_pop(struct dmi_req_list *list);

/* ---- page.c ---- */
struct dmi_page_busy *dmi_page_busy(struct dmi_page *page);
/* Called at the end of a step: frees the busy part if it is not needed any more, and returns a
 * reservation for which no bytes will arrive. */
void dmi_page_rest(struct dmi_core *core, struct dmi_page *page);
void dmi_set_role(struct dmi_core *core, struct dmi_page *page, enum dmi_role role);
/* Sets whether an own OWN that is void has not come back yet. Such a page counts as owned, so
 * that a leaver does not leave before (R9). */
void dmi_set_stale(struct dmi_core *core, struct dmi_page *page, bool stale);

/* ---- page_begin.c ---- */
bool dmi_is_read(const struct dmi_req *req);
/* True if the own copy must not be read while this own operation is in flight. */
bool dmi_counts_in_puts(const struct dmi_req *req);
/* Begins an own operation (R2, R3), perhaps again: one that has waited. */
void dmi_own_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                   struct dmi_out *out);
/* Serves an own read from the page's bytes (frame, NULL: zeros). It needs no ranges: the parts
 * say what goes where. */
void dmi_own_serve(struct dmi_req *req, struct dmi_frame *frame, struct dmi_out *out);
/* Sends OWN to the home; the role becomes PENDING. */
void dmi_own_ask(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out);
/* The same for a page that is PENDING. */
void dmi_own_send(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out);
/* Sends a request of this process, or forwards another one's, to the hint or the home. */
void dmi_request_send(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                      struct dmi_out *out);

/* ---- page_message.c ---- */
/* True if a correct peer could have sent this request. */
bool dmi_request_valid(const struct dmi_page *page, const struct dmi_msg *msg);
/* R1: a request has arrived from `from`: queues or forwards it. Takes over msg's slices. */
void dmi_request_arrives(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                         struct dmi_msg *msg, struct dmi_out *out);
/* A request that cannot be carried out because its receiver does not exist. Only a faulty member
 * can cause this. The process that waits for the answer gets DMI_EADDR; drops msg's slices. */
void dmi_request_fails(struct dmi_msg *msg, struct dmi_out *out);
/* True if it is a kind of copy. */
bool dmi_is_kind(uint64_t kind);

/* ---- copyset.c: at the owner ---- */
struct dmi_sharer *dmi_copyset_find(struct dmi_page_busy *busy, dmi_uid_t uid);
struct dmi_sharer *dmi_copyset_add(struct dmi_page_busy *busy, dmi_uid_t uid, uint32_t kind);
void dmi_copyset_remove(struct dmi_page_busy *busy, struct dmi_sharer *sharer);
/* The copyset as the list of a GRANT. */
struct dmi_slice dmi_copyset_pack(const struct dmi_page_busy *busy);
/* False: a correct peer does not send such a list. */
bool dmi_copyset_valid(const struct dmi_slice *list);
void dmi_copyset_unpack(const struct dmi_core *core, struct dmi_page_busy *busy,
                        const struct dmi_slice *list);
/* R13, the choice: the member that sends the page to `to`. NULL: the owner itself. */
struct dmi_sharer *dmi_copyset_choose(const struct dmi_core *core, const struct dmi_page *page,
                                      dmi_uid_t to);

/* ---- page_delegate.c: R13 ---- */
/* At the owner, for a READ at the head of the queue: puts its origin into the copyset. True: a
 * delegate will send DATA, and `req` is freed. */
bool dmi_delegate_decide(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out);
/* At the delegate: handles DELEGATE. */
void dmi_delegate_arrives(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                          struct dmi_out *out);
/* Ends the fetch. Returns the delegated reads that waited for it, for one of the functions
 * below. */
struct dmi_delegated_read *dmi_fetch_end(struct dmi_page_busy *busy);
/* Answers them with this DATA. */
void dmi_delegated_answer(struct dmi_core *core, struct dmi_page *page,
                          struct dmi_delegated_read *delegated, const struct dmi_msg *data,
                          struct dmi_out *out);
/* Frees them without an answer: their origins begin again. */
void dmi_delegated_forget(struct dmi_page_busy *busy);
/* The fetch ended without DATA: sends them back to the owner. */
void dmi_delegated_end(struct dmi_core *core, struct dmi_page *page,
                       struct dmi_delegated_read *delegated, struct dmi_out *out);
/* The mapping is unmapped: answers them with FAIL (out NULL: no answers). */
void dmi_delegated_fail(struct dmi_core *core, struct dmi_page *page,
                        struct dmi_delegated_read *delegated, struct dmi_out *out);
/* The first `got` bytes of DATA of this version are in the frame: sends them on. */
void dmi_delegated_part(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                        dmi_version_t version, uint64_t got, struct dmi_out *out);

/* ---- page_early.c: R13 ---- */
/* Bytes [from, to) of the page have come into this frame, of the fetch in flight: reads that wait
 * for it get them. */
void dmi_early_part(struct dmi_page *page, const struct dmi_frame *frame, uint64_t from,
                    uint64_t to);
/* BLOCKs begin in a new frame, perhaps where an older one was: what came so far does not count. */
void dmi_early_forget(struct dmi_page *page);
/* The fetch of the read has ended with this frame (NULL: zeros): as dmi_own_serve, but copies only
 * what is missing. */
void dmi_early_serve(struct dmi_core *core, struct dmi_req *req, struct dmi_frame *frame,
                     struct dmi_out *out);

/* ---- page_block.c: R13 ---- */
/* The frame in which the body of this BLOCK is received at its place. NULL: it is of no use. */
struct dmi_frame *dmi_assembly_frame(const struct dmi_page *page, const struct dmi_msg *msg);
void dmi_assembly_free(struct dmi_assembly *blocks);
/* True if the assembly's sizes are consistent; for the invariants. */
bool dmi_assembly_valid(const struct dmi_page *page);

/* ---- page_owner.c ---- */
/* Turns a request message into a queued operation. */
void dmi_queue_message(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                       struct dmi_out *out);
void dmi_queue_run(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* ---- page_crash.c ---- */
/* As dmi_page_message, for a frozen page. */
bool dmi_page_absorb(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                     struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out);

/* ---- page_write.c ---- */
/* No process has a copy any more: the write in progress, if any, takes effect. */
void dmi_write_resume(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);
/* True for a PUT or ATOMIC that an owner of whom nothing else is asked, and who has no copies to
 * tell, can do at once in the bytes that it has; or a LOCK, which may have to wait.  Whether it is
 * valid is checked later. */
bool dmi_write_is_short(const struct dmi_page *page, const struct dmi_msg *msg);
/* Does it, and answers; or *error says why it cannot be done.  False: it has to wait, and nothing
 * was changed. */
bool dmi_write_at_once(const struct dmi_core *core, struct dmi_page *page,
                       const struct dmi_msg *msg, int *error, struct dmi_out *out);
/* Begins a write or read-modify-write, which was taken from the head of the queue. */
void dmi_write_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     struct dmi_out *out);
/* REVIVE, a read-modify-write that acts on a LOST page only.  Inline, since every operation of a
 * queue is asked. */
static inline bool dmi_is_revive(const struct dmi_req *req) {
  return req->type == DMI_REQ_ATOMIC && req->kind == DMI_RMW_REVIVE;
}
void dmi_write_revive(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                      struct dmi_out *out);
/* Answers an ATOMIC: `answer` has sizes.in bytes (a reference passes), with APPLY also the new
 * bytes (NULL: without). `version` 0: the origin's copy does not change. */
void dmi_atomic_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                       dmi_version_t version, struct dmi_frame *answer, const unsigned char *apply,
                       struct dmi_out *out);

/* ---- page_request.c ---- */
void dmi_req_free(struct dmi_req *req);
void dmi_req_fail(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req, int error,
                  struct dmi_out *out);
/* Fills in an operation, all of whose bytes are zero, with the fields of a request message; its
 * inputs are the message's. */
void dmi_req_fill(struct dmi_req *req, const struct dmi_msg *msg);
/* Makes an operation of a request message, whose body it takes over; it is in no list yet. */
struct dmi_req *dmi_req_of_message(struct dmi_msg *msg);
/* Copies the operation's fields into a message of its type; not the bytes, and not its sizes, which
 * are the message's list while the operation stays. */
void dmi_msg_carries(struct dmi_msg *msg, const struct dmi_req *req);
/* Makes the message that moves a waiting or queued operation to another process. */
struct dmi_msg dmi_msg_of_req(const struct dmi_core *core, const struct dmi_page *page,
                              const struct dmi_req *req);

/* ---- page_reserve.c: R12 ---- */
/* Sets the frame of the page's bytes (a reference passes; NULL: absent). Only this function sets
 * page->frame. */
void dmi_page_bytes(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame);
/* Makes the bytes private, so that they can be changed; `whole`: their old values do not matter.
 * False: no reservation (never with `force`), or no memory. */
bool dmi_page_own_frame(struct dmi_core *core, struct dmi_page *page, bool whole, bool force);
/* Makes sure that there is memory for the bytes: they are here, or reserves it. False: there is
 * none. */
bool dmi_reserve_get(struct dmi_core *core, struct dmi_page *page, bool force);
/* Returns the reservation if no bytes will arrive. */
void dmi_reserve_settle(struct dmi_core *core, struct dmi_page *page);
/* Called after a change of role or bytes: updates the account of droppable copies. */
void dmi_reserve_copies(struct dmi_core *core, struct dmi_page *page);
/* Called at the end of a record, which holds nothing any more. */
void dmi_reserve_end(struct dmi_core *core, struct dmi_page *page);
/* The spilled bytes are not needed any more. */
void dmi_reserve_overwritten(struct dmi_core *core, struct dmi_page *page);
/* At the owner: true if the operation at the head of the queue cannot run for lack of memory, or of
 * the page's bytes. If false, its memory has been reserved. */
bool dmi_reserve_stalls(struct dmi_core *core, struct dmi_page *page, const struct dmi_req *req);
/* Takes the first operation that needs no memory out of the queue of a stalled page. NULL: there
 * is none, or the bytes are in the file and all must wait. */
struct dmi_req *dmi_reserve_overtake(const struct dmi_core *core, struct dmi_page *page);

/* ---- page_wait.c: R11, at the owner ---- */
/* Begins a pure wait, from the head of the queue: it ends at once, or becomes a waiting
 * operation. */
void dmi_page_wait_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out);
/* The bytes of this range were written: answers waiting operations whose condition holds now. */
void dmi_page_wait_look(struct dmi_core *core, struct dmi_page *page, uint64_t off, uint64_t len,
                        struct dmi_out *out);
/* Sends all waiting operations to the next owner, before GRANT. */
void dmi_page_wait_move(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                        struct dmi_out *out);
/* The operation waits from now on; or fails, as the program is ending (DMI_EEND). */
void dmi_page_wait_push(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                        struct dmi_out *out);
/* A waiting operation arrives at the next owner, whose page is frozen. */
void dmi_page_wait_arrives(struct dmi_page *page, struct dmi_msg *msg);

/* ---- page_copy.c ---- */
/* The fetch in flight fails, and so do the reads that wait for it. */
void dmi_fetch_fails(struct dmi_core *core, struct dmi_page *page, int error, struct dmi_out *out);
/* Serves own reads that wait for the copy, or begins them again. */
void dmi_waiters_look(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* ---- page_home.c ---- */
/* At the home: sends a request to the tail. */
void dmi_home_route(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                    struct dmi_msg *msg, struct dmi_out *out);

#endif
