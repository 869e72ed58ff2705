/*
 * session.h - one session: a server of RFC-100 and RFC-102 with a stack, a rank, and links to
 * other servers.  Pure: bytes and results in, actions out; no sockets, threads or clocks.
 * docs/openxm.md has its states.
 *
 * Streams have numbers: 0 the control connection, 1 the data connection, from 2 on links, each
 * with a number that is never used again.
 */
#ifndef DMI_OX_SESSION_H
#define DMI_OX_SESSION_H

#include "ox/value.h"

#define DMI_OX_CONTROL 0
#define DMI_OX_DATA_STREAM 1

/* What is pushed after 279 and 280. */
enum dmi_ox_status_rule {
  DMI_OX_STATUS_AUTO, /* as ASIR for a client whose mathcap says asir; else as RFC, or an ERROR2 */
  DMI_OX_STATUS_RFC,  /* 0 or -1 */
  DMI_OX_STATUS_ASIR  /* nothing or an ERROR2 */
};

struct dmi_ox_settings {
  struct dmi_ox_limits limits;
  enum dmi_ox_status_rule status;
  bool network;    /* announces network order instead of little-endian */
  bool order_sent; /* the caller has sent the byte of order on control and data connection */
};

enum dmi_ox_act {
  DMI_OX_SEND,    /* bytes to a stream; they belong to who carries it out */
  DMI_OX_ACCEPT,  /* be the listener of link id: port or path */
  DMI_OX_CONNECT, /* connect link id to host and port, or path */
  DMI_OX_CLOSE,   /* link id, also one that is not open yet; what is queued for it is dropped */
  DMI_OX_CALL,    /* call id of function name with args; dmi_ox_session_returned tells the result */
  DMI_OX_CANCEL,  /* nobody waits for call id any more */
  DMI_OX_AGAIN,   /* call dmi_ox_session_again when what has come was read */
  DMI_OX_END      /* of the session: nothing more comes, and everything is to be closed */
};

struct dmi_ox_action {
  enum dmi_ox_act act;
  uint32_t id;
  struct dmi_ox_bytes_out {
    unsigned char *at;
    size_t len;
  } bytes;
  int32_t port;              /* with path NULL */
  char *host, *path;         /* freed by dmi_ox_action_free */
  struct dmi_ox_value *name; /* of CALL: a string; one use */
  struct dmi_ox_value *args; /* a list; one use */
};

struct dmi_ox_session;

/* `known` says whether a function is registered. */
struct dmi_ox_session *dmi_ox_session_new(const struct dmi_ox_settings *settings,
                                          bool (*known)(const char *name));
void dmi_ox_session_free(struct dmi_ox_session *s);

/* Bytes came on a stream. */
void dmi_ox_session_bytes(struct dmi_ox_session *s, uint32_t id, const void *at, size_t len);
/* A stream has ended, or broke. */
void dmi_ox_session_eof(struct dmi_ox_session *s, uint32_t id);
/* So many bytes of those to be sent have been written. */
void dmi_ox_session_sent(struct dmi_ox_session *s, uint32_t id, size_t len);
/* ACCEPT or CONNECT has a connection; or it failed. */
void dmi_ox_session_linked(struct dmi_ox_session *s, uint32_t id);
void dmi_ox_session_unlinked(struct dmi_ox_session *s, uint32_t id, const char *why);
/* Goes on with a text that takes long. */
void dmi_ox_session_again(struct dmi_ox_session *s);
/* CALL has a result, of which one use is taken over; NULL is the value NULL. */
void dmi_ox_session_returned(struct dmi_ox_session *s, uint32_t id, struct dmi_ox_value *value);

/* The next thing to do; false when there is none. To be asked after each of the above, and once
 * at the beginning. */
bool dmi_ox_session_next(struct dmi_ox_session *s, struct dmi_ox_action *action);
void dmi_ox_action_free(struct dmi_ox_action *action);

/* True while bytes of this stream are wanted: others wait where they are. */
bool dmi_ox_session_wants(const struct dmi_ox_session *s, uint32_t id);

#endif
