/*
 * group.c - reading and writing the items of a group.
 *
 * The happy path: every page is a hit, and its parts are copied under its lock.  Each page that is
 * not becomes one operation of the protocol core.  The messages of all operations are queued and
 * written together, before the thread waits for any.
 */
#include "access/group.h"

#include <stdlib.h>
#include <string.h>

#include "access/access_int.h"
#include "base/lock.h"
#include "core/ranges.h"

struct run {
  struct dmi_group *group;
  unsigned char *buf;
  bool write, sync;
  struct dmi_call *call;
  uint64_t begun; /* operations of the call */
  struct dmi_flush flush;
};

/* ---- Hits ----------------------------------------------------------------------------------- */

/* As dmi_access_hit; false: the page is locked. */
static bool read_hit(struct dmi_access *access, const struct dmi_group_page *at,
                     unsigned char *buf) {
  struct dmi_page *page = at->page;
  struct dmi_frame *frame;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  if (!dmi_access_readable(&access->core, page)) return false;
  frame = page->frame;
  if (at->len <= DMI_COPY_LOCKED) {
    dmi_parts_read(at->part, at->parts, frame ? frame->bytes : NULL, buf);
    dmi_unlock(&page->lock, DMI_RANK_PAGE);
    return true;
  }
  if (frame) dmi_frame_ref(frame); /* a frame with two references is not changed */
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  dmi_parts_read(at->part, at->parts, frame ? frame->bytes : NULL, buf);
  dmi_frame_unref(frame);
  return true;
}

static bool write_hit(struct dmi_access *access, const struct dmi_group_page *at,
                      const unsigned char *buf) {
  struct dmi_page *page = at->page;
  dmi_lock(&page->lock, DMI_RANK_PAGE);
  if (!dmi_access_writable(&access->core, page)) return false;
  if (!dmi_page_write_parts_now(&access->core, page, at->part, at->parts, buf)) return false;
  dmi_unlock(&page->lock, DMI_RANK_PAGE);
  return true;
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void read_request(struct run *run, const struct dmi_group_page *at, struct dmi_req *req) {
  req->type = DMI_REQ_GET;
  req->dst = run->buf;
  if (at->parts == 1) { /* received at its place */
    req->dst = run->buf + at->part->to;
  } else {
    req->part = at->part;
    req->parts = at->parts;
  }
  /* If the bytes between the ranges are fewer than those of the list, fetch them, too. */
  if (at->ranges && at->len + at->list->size < at->span) {
    req->ranges = at->ranges;
    req->len = at->len;
    /* A short list is copied into messages, and needs no reference: the group has one. */
    req->src = at->list->size <= DMI_NET_COPY
                   ? (struct dmi_slice){NULL, at->list->bytes, at->list->size}
                   : dmi_slice_of(at->list, 0, at->list->size);
  } else {
    req->off = at->off;
    req->len = at->span;
  }
}

/* Gathers the bytes of a write.  Later items overwrite earlier ones. */
static int32_t write_request(struct run *run, const struct dmi_group_page *at,
                             struct dmi_req *req) {
  uint64_t list = at->ranges ? at->list->size : 0;
  struct dmi_frame *frame;
  req->type = DMI_REQ_PUT;
  req->len = at->len;
  req->ranges = at->ranges;
  if (!at->ranges) req->off = at->off;
  if (at->parts == 1 && run->sync) {
    req->src = (struct dmi_slice){NULL, run->buf + at->part->to, at->len};
    return DMI_OK;
  }
  frame = dmi_frame_new(list + at->len);
  if (!frame) return DMI_ENOMEM;
  if (list) memcpy(frame->bytes, at->list->bytes, list);
  for (uint64_t i = 0; i < at->parts; i++) {
    const struct dmi_part *part = &at->part[i];
    memcpy(frame->bytes + list + part->at, run->buf + part->to, part->len);
  }
  req->src = (struct dmi_slice){frame, frame->bytes, frame->size};
  return DMI_OK;
}

/* The page is locked; it is not when this returns.  `most`: of so many pages it is the first. */
static int32_t page_begin(struct run *run, const struct dmi_group_page *at, uint64_t most) {
  struct dmi_access *access = run->group->access;
  struct dmi_op *op = dmi_access_call_op(run->call, most);
  int32_t error = DMI_OK;
  if (run->write || !op) dmi_unlock(&at->page->lock, DMI_RANK_PAGE); /* a write copies much */
  if (!op) return DMI_ENOMEM;
  op->page = at->page;
  op->mapping = at->mapping; /* the group stays until the call is complete */
  op->of_group = true;
  op->call = run->call;
  if (run->write) {
    error = write_request(run, at, &op->req);
  } else {
    read_request(run, at, &op->req);
  }
  if (error != DMI_OK) {
    if (!run->write) dmi_unlock(&at->page->lock, DMI_RANK_PAGE);
    dmi_slice_drop(&op->req.src);
    return error;
  }
  run->begun++;
  if (run->write) {
    dmi_access_op_begin(access, op, &run->flush);
  } else {
    dmi_access_op_locked(access, op, &run->flush);
  }
  return DMI_OK;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Runs the pages [from, to). */
static void run_pages(struct run *run, uint64_t from, uint64_t to) {
  struct dmi_access *access = run->group->access;
  dmi_access_flush_init(&run->flush);
  run->begun = 0;
  atomic_fetch_add(&run->call->left, (uint32_t)(to - from)); /* more than will begin, perhaps */
  for (uint64_t i = from; i < to; i++) {
    const struct dmi_group_page *at = &run->group->page[i];
    int32_t error = DMI_OK;
    if (!(run->write ? write_hit(access, at, run->buf) : read_hit(access, at, run->buf))) {
      error = page_begin(run, at, to - i);
    }
    if (error != DMI_OK) dmi_access_call_fail(run->call, error);
  }
  dmi_access_flush(access, &run->flush);
  /* The caller's own 1 is still in it, so it is not 0. */
  if (run->begun < to - from)
    atomic_fetch_sub(&run->call->left, (uint32_t)(to - from - run->begun));
  dmi_access_call_finish(run->call);
}

static int32_t run_now(struct run *run) {
  uint64_t pages = run->group->pages;
  int32_t error = DMI_OK;
  for (uint64_t from = 0; from < pages && error == DMI_OK; from += DMI_PAGES_AT_ONCE) {
    uint64_t to = pages - from < DMI_PAGES_AT_ONCE ? pages : from + DMI_PAGES_AT_ONCE;
    struct dmi_status status;
    struct dmi_call call;
    run->call = &call;
    dmi_status_begin(&status);
    dmi_access_call_begin(&call, &status, false);
    run_pages(run, from, to);
    error = dmi_access_wait_for(run->group->access, &status,
                                &(struct dmi_access_for){.what = DMI_DOING_PAGE});
  }
  return error;
}

static int32_t run_later(struct run *run, DMI_local_status_t *status) {
  run->call = malloc(sizeof(*run->call));
  if (!run->call) return DMI_ENOMEM;
  dmi_status_begin(dmi_status_of(status));
  dmi_access_call_begin(run->call, dmi_status_of(status), true);
  atomic_fetch_add(&run->group->refs, 1);
  run->call->group = run->group;
  run_pages(run, 0, run->group->pages);
  return DMI_OK;
}

/* Finds errors that can be known before the call has any effect. */
static int32_t can_run(const struct dmi_group *group) {
  int32_t error = dmi_access_usable(group->access);
  if (error != DMI_OK) return error;
  for (uint64_t i = 0; i < group->pages; i++) {
    if (atomic_load_explicit(&group->page[i].mapping->dead, memory_order_relaxed)) return DMI_EADDR;
  }
  return DMI_OK;
}

static int32_t run_group(struct dmi_group *group, unsigned char *buf, bool write,
                         DMI_local_status_t *status) {
  struct run run = {.group = group, .buf = buf, .write = write, .sync = status == NULL};
  int32_t error = can_run(group);
  if (error == DMI_OK) error = status ? run_later(&run, status) : run_now(&run);
  return error == DMI_OK ? DMI_TRUE : dmi_status_refuse(status, error);
}

int32_t dmi_group_read(struct dmi_group *group, void *buf, DMI_local_status_t *status) {
  return run_group(group, buf, false, status);
}

int32_t dmi_group_write(struct dmi_group *group, const void *buf, DMI_local_status_t *status) {
  /* The cast is safe: a write only reads the buffer. */
  return run_group(group, (unsigned char *)(uintptr_t)buf, true, status);
}
