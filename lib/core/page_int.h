/*
 * page_int.h - what the files of the page protocol share; nobody else includes it.
 */
#ifndef DMI_CORE_PAGE_INT_H
#define DMI_CORE_PAGE_INT_H

#include <stddef.h>

#include "base/mutation.h"
#include "base/xalloc.h"
#include "core/page.h"
#include "dmi_api.h"

/* The handlers of class PAGE.  `own`: the own operation that the message answers, NULL: none.
 * False, with nothing changed: not from a correct peer. */
#define DMI_PAGE_HANDLER(symbol, number, name, handler, ...)                                      \
  bool handler(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from, struct dmi_msg *msg, \
               struct dmi_req *own, struct dmi_out *out);
DMI_MSGS_PAGE(DMI_PAGE_HANDLER)

/* ---- out.c ---- */
void dmi_out_complete(struct dmi_out *out, struct dmi_req *req, int error);
/* The page stalls. */
void dmi_out_stalled(struct dmi_out *out, const struct dmi_page *page);
void dmi_out_defer(struct dmi_out *out, dmi_uid_t from, const struct dmi_msg *msg);
/* The same until RESUME; the slices pass. */
void dmi_out_hold(struct dmi_out *out, dmi_uid_t from, struct dmi_msg *msg);

/* A message about this page, with everything else zero. */
struct dmi_msg dmi_msg_about(const struct dmi_core *core, const struct dmi_page *page,
                             enum dmi_msg_type type);

/* ---- lists ---- */
void dmi_req_push(struct dmi_req_list *list, struct dmi_req *req);
struct dmi_req *dmi_req_pop(struct dmi_req_list *list);

/* ---- page.c ---- */
struct dmi_page_busy *dmi_page_busy(struct dmi_page *page);
/* At the end of a step: frees the busy part when nothing is going on any more, and returns a
 * reservation for which no bytes will come. */
void dmi_page_rest(struct dmi_core *core, struct dmi_page *page);
void dmi_set_role(struct dmi_core *core, struct dmi_page *page, enum dmi_role role);
/* An own OWN is void and still to come back, or has.  It counts as owning, so that a leaver does
 * not go before (R9). */
void dmi_set_stale(struct dmi_core *core, struct dmi_page *page, bool stale);

/* ---- page_begin.c ---- */
bool dmi_is_read(const struct dmi_req *req);
/* True if the own copy must not be read while this own operation is in flight. */
bool dmi_counts_in_puts(const struct dmi_req *req);
/* An own operation, R2, R3.  The mode has been settled. */
void dmi_own_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                   struct dmi_out *out);
/* Serves an own read from the page's bytes (frame, NULL: zeros).  Its ranges need no look: the
 * parts say what goes where. */
void dmi_own_serve(struct dmi_req *req, struct dmi_frame *frame, struct dmi_out *out);
/* Sends OWN to the home; the role becomes PENDING. */
void dmi_own_ask(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out);
/* The same; it is PENDING. */
void dmi_own_send(struct dmi_core *core, struct dmi_page *page, bool nodata, struct dmi_out *out);
/* Sends a request of this process, or passes on one of another, to the hint or the home. */
void dmi_request_send(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                      struct dmi_out *out);

/* ---- page_message.c ---- */
/* True if a correct peer could have sent this request. */
bool dmi_request_valid(const struct dmi_page *page, const struct dmi_msg *msg);
/* R1: a request is here, of `from`: into the queue, or on its way.  Takes msg's slices over. */
void dmi_request_arrives(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                         struct dmi_msg *msg, struct dmi_out *out);
/* A request that no process can carry out, since the process it must go to does not exist. Only a
 * faulty member can cause it. The process that waits for the answer gets DMI_EADDR; drops msg's
 * slices. */
void dmi_request_fails(struct dmi_msg *msg, struct dmi_out *out);
/* True if it is a kind of copy. */
bool dmi_is_kind(uint64_t kind);

/* ---- copyset.c: at the owner ---- */
struct dmi_sharer *dmi_copyset_find(struct dmi_page_busy *busy, dmi_uid_t uid);
struct dmi_sharer *dmi_copyset_add(struct dmi_page_busy *busy, dmi_uid_t uid, uint32_t kind);
void dmi_copyset_remove(struct dmi_page_busy *busy, struct dmi_sharer *sharer);
/* As GRANT carries it. */
struct dmi_slice dmi_copyset_pack(const struct dmi_page_busy *busy);
/* False: not from a correct peer. */
bool dmi_copyset_valid(const struct dmi_slice *list);
void dmi_copyset_unpack(const struct dmi_core *core, struct dmi_page_busy *busy,
                        const struct dmi_slice *list);
/* R13, the choice: who sends the page to `to`.  NULL: the owner itself. */
struct dmi_sharer *dmi_copyset_choose(const struct dmi_core *core, const struct dmi_page *page,
                                      dmi_uid_t to);

/* ---- page_delegate.c: R13 ---- */
/* At the owner, a READ at the head of the queue: its origin comes into the copyset.  True: another
 * process will send DATA, and `req` is gone. */
bool dmi_delegate_decide(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out);
/* At the delegate. */
void dmi_delegate_arrives(struct dmi_core *core, struct dmi_page *page, const struct dmi_msg *msg,
                          struct dmi_out *out);
/* The fetch is over; returns the reads that waited for it, for one of the three functions below. */
struct dmi_delegated_read *dmi_fetch_end(struct dmi_page_busy *busy);
/* By this DATA. */
void dmi_delegated_answer(struct dmi_core *core, struct dmi_page *page,
                          struct dmi_delegated_read *delegated, const struct dmi_msg *data,
                          struct dmi_out *out);
/* None is answered: their origins begin anew. */
void dmi_delegated_forget(struct dmi_page_busy *busy);
/* In another way. */
void dmi_delegated_end(struct dmi_core *core, struct dmi_page *page,
                       struct dmi_delegated_read *delegated, struct dmi_out *out);
/* The mapping is unmapped (out NULL: nobody is told). */
void dmi_delegated_fail(struct dmi_core *core, struct dmi_page *page,
                        struct dmi_delegated_read *delegated, struct dmi_out *out);
/* The first `got` bytes of DATA of this version are in the frame. */
void dmi_delegated_part(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame,
                        dmi_version_t version, uint64_t got, struct dmi_out *out);

/* ---- page_block.c: R13 ---- */
void dmi_assembly_free(struct dmi_assembly *blocks);
/* How much is there; for the invariants. */
bool dmi_assembly_valid(const struct dmi_page *page);

/* ---- page_owner.c ---- */
/* Turns a request message into a queued operation. */
void dmi_queue_message(struct dmi_core *core, struct dmi_page *page, struct dmi_msg *msg,
                       struct dmi_out *out);
void dmi_queue_run(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* ---- page_crash.c ---- */
/* dmi_page_message of a frozen page. */
bool dmi_page_absorb(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                     struct dmi_msg *msg, struct dmi_req *own, struct dmi_out *out);

/* ---- page_write.c ---- */
/* Nobody has a copy any more: the write at work, if any, is in effect. */
void dmi_write_resume(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);
/* A write, or read-modify-write, at the head of the queue, taken out. */
void dmi_write_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                     struct dmi_out *out);
/* A copy has answered INVALIDATE or UPDATE. */
/* Answers an ATOMIC: `answer` of sizes.in bytes (a reference passes), with APPLY also the new bytes
 * (NULL: without).  `version` 0: its origin's copy has nothing to do with it. */
void dmi_atomic_answer(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                       dmi_version_t version, struct dmi_frame *answer, const unsigned char *apply,
                       struct dmi_out *out);

/* ---- page_request.c ---- */
void dmi_req_free(struct dmi_req *req);
void dmi_req_fail(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req, int error,
                  struct dmi_out *out);
/* A request message as an operation; in no list yet. */
struct dmi_req *dmi_req_of_message(struct dmi_msg *msg);
/* Its own fields and sizes into a message of its type; not the bytes. */
void dmi_msg_carries(struct dmi_msg *msg, const struct dmi_req *req);
/* The message that carries a waiting or queued operation on to another process. */
struct dmi_msg dmi_msg_of_req(const struct dmi_core *core, const struct dmi_page *page,
                              const struct dmi_req *req);

/* ---- page_reserve.c: R12 ---- */
/* The bytes of the page are this frame (a reference passes; NULL: absent).  The one place that sets
 * page->frame. */
void dmi_page_bytes(struct dmi_core *core, struct dmi_page *page, struct dmi_frame *frame);
/* The bytes, private and ready to be changed; `whole`: their old values do not matter. False: no
 * reservation (with `force`: never that), or no memory. */
bool dmi_page_own_frame(struct dmi_core *core, struct dmi_page *page, bool whole, bool force);
/* Makes sure that there is memory for the bytes: they are here, or it is reserved. False: there is
 * none. */
bool dmi_reserve_get(struct dmi_core *core, struct dmi_page *page, bool force);
/* Returns the reservation if no bytes will come for it. */
void dmi_reserve_settle(struct dmi_core *core, struct dmi_page *page);
/* The role has changed, or the bytes have. */
void dmi_reserve_copies(struct dmi_core *core, struct dmi_page *page);
/* The record holds nothing any more. */
void dmi_reserve_end(struct dmi_core *core, struct dmi_page *page);
/* What was spilled is not needed any more. */
void dmi_reserve_overwritten(struct dmi_core *core, struct dmi_page *page);
/* At the owner: true if the operation at the head of the queue cannot run for lack of memory, or of
 * the page's bytes. If false, its memory has been reserved. */
bool dmi_reserve_stalls(struct dmi_core *core, struct dmi_page *page, const struct dmi_req *req);
/* The first operation in the queue of a stalled page that needs no memory, taken out. NULL: there
 * is none, or the bytes are outside, and all must wait. */
struct dmi_req *dmi_reserve_overtake(const struct dmi_core *core, struct dmi_page *page);

/* ---- page_wait.c: R11, at the owner ---- */
/* A pure wait at the head of the queue: it is over, or waits from now on. */
void dmi_page_wait_begin(struct dmi_core *core, struct dmi_page *page, struct dmi_req *req,
                         struct dmi_out *out);
/* The bytes of this range were written: answers what waited for it. */
void dmi_page_wait_look(struct dmi_core *core, struct dmi_page *page, uint64_t off, uint64_t len,
                        struct dmi_out *out);
/* Sends all that wait to the next owner; before GRANT. */
void dmi_page_wait_move(struct dmi_core *core, struct dmi_page *page, dmi_uid_t to,
                        struct dmi_out *out);
/* One of them arrives at the next owner. */
void dmi_page_wait_arrives(struct dmi_page *page, struct dmi_msg *msg);

/* ---- page_copy.c ---- */
/* The fetch in flight fails, and so do the reads that wait for it. */
void dmi_fetch_fails(struct dmi_core *core, struct dmi_page *page, int error, struct dmi_out *out);
/* Serves own reads that wait for the copy, or begins them again. */
void dmi_waiters_look(struct dmi_core *core, struct dmi_page *page, struct dmi_out *out);

/* ---- page_home.c ---- */
/* At the home: a request, to the tail. */
void dmi_home_route(struct dmi_core *core, struct dmi_page *page, dmi_uid_t from,
                    struct dmi_msg *msg, struct dmi_out *out);

#endif
