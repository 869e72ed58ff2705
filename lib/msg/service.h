/*
 * service_msg.h - messages of threads, beside those of pages and membership.
 *
 * They carry no list and no body; the fields used are named here.  Those of room are answered by
 * the pager: core/room.h, docs/replacement.md.
 */
#ifndef DMI_MSG_SERVICE_H
#define DMI_MSG_SERVICE_H

enum dmi_service_msg {
  DMI_SVC_CREATE = 96, /* op, off: the argument.  Start a thread */
  DMI_SVC_CREATED,     /* op, error, version: the thread's number */
  DMI_SVC_JOIN,        /* op, version: the thread's number */
  DMI_SVC_JOINED,      /* op, error, off: what DMI_thread returned */
  DMI_SVC_DETACH,      /* op, version */
  DMI_SVC_DETACHED,    /* op, error */
  DMI_SVC_WAKE,        /* op, version */
  DMI_SVC_WOKEN,       /* op, error */
  DMI_SVC_ROOM_ASK,    /* op: number, kind, len: bytes, off: bytes of a page, flag MUST: at once */
  DMI_SVC_ROOM_TELL,   /* op: number asked by or 0, kind, len: bytes */
  DMI_SVC_ROOM_BACK,   /* len: bytes */
  DMI_SVC_LAST = DMI_SVC_ROOM_BACK
};

/* DMI_SVC_JOINED, DETACHED: the thread's process has handed its results to the coordinator. */
#define DMI_E_HANDED_OVER 1000

#endif
