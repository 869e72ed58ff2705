/*
 * service.h - what the fields of thread and room messages mean.
 *
 * They carry no list and no body.
 *
 *   CREATE     op, off: the argument              CREATED   op, error, version: the thread's number
 *   JOIN       op, version: the thread's number   JOINED    op, error, off: what DMI_thread returned
 *   DETACH     op, version                        DETACHED  op, error
 *   WAKE       op, version                        WOKEN     op, error
 *   ROOM_ASK   op: number, kind, len: bytes, off: bytes of a page, flag MUST: at once
 *   ROOM_TELL  op: number asked by or 0, kind, len: bytes
 *   ROOM_BACK  len: bytes
 */
#ifndef DMI_MSG_SERVICE_H
#define DMI_MSG_SERVICE_H

#include "msg/table.h"

/* DMI_SVC_JOINED, DETACHED: the thread's process has handed its results to the coordinator. */
#define DMI_E_HANDED_OVER 1000

#endif
