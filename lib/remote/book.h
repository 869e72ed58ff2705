/*
 * book.h - what a client knows: its values, where they are and who needs them; its calls, where
 * they were placed, and how lost values are computed again; the servers (docs/remote.md, "The
 * book").
 *
 * Pure: events in, actions out; no threads, clocks, sockets.  There is one for each client.  All
 * functions are called under one lock of its owner.  After each event the owner takes out all
 * actions (dmi_remote_book_next) before it gives the next event; what an action points to is valid
 * until then.  Actions to one server are to arrive in order.
 *
 * Events of a server that a correct one does not cause return false, and have changed nothing.
 * What comes from a server after dmi_remote_book_left or _lost for it is ignored.
 */
#ifndef DMI_REMOTE_BOOK_H
#define DMI_REMOTE_BOOK_H

#include "remote/types.h"

struct dmi_remote_book;

struct dmi_remote_book_config {
  dmi_remote_client_t client;
  bool survive;     /* keep lineage: what is lost is computed again */
  uint64_t most;    /* bytes of calls that are not done; see dmi_remote_book_full.  0: no limit */
  uint64_t lineage; /* bytes of calls that are done and kept for lineage; the oldest are forgotten,
                       and what is lost then is failed (DMI_ELOST).  0: no limit */
  uint64_t rate;    /* bytes per microsecond between servers, until some tell; 0: 125 */
};

enum dmi_remote_book_do {
  DMI_REMOTE_SEND_CALL = 1, /* to server `to`: `call` */
  DMI_REMOTE_SEND_WANT,  /* to `to`: when it has made `number`, tell process `reader`, with seq */
  DMI_REMOTE_TELL_HAVE,  /* to `to`: HAVE of `number`, gen, seq, result: whoever was to tell has
                            gone */
  DMI_REMOTE_SEND_DROP,  /* to `to`: `number` is not needed any more; `lost` */
  DMI_REMOTE_SEND_STEAL, /* to `to`: num calls, for a thief with this rate */
  DMI_REMOTE_WAKE,       /* value `number`, which is watched, is not PENDING any more */
  DMI_REMOTE_ROOM,       /* dmi_remote_book_full was true, and is not any more */
  DMI_REMOTE_FREE_PUT,   /* a value that was put: the page at result.addr, result.size is free */
  DMI_REMOTE_GONE        /* a value is not needed any more that was made by `to`, which has gone:
                            nobody will free its page at result.addr, but its arena may go */
};

struct dmi_remote_book_action {
  enum dmi_remote_book_do type;
  dmi_uid_t to;
  dmi_uid_t reader;                   /* SEND_WANT */
  uint64_t number;                    /* of the value */
  uint64_t seq;                       /* SEND_WANT, TELL_HAVE */
  uint32_t gen;                       /* TELL_HAVE */
  uint32_t num;                       /* SEND_STEAL */
  uint64_t rate;                      /* SEND_STEAL: bytes that reach the thief in a microsecond */
  bool lost;                          /* SEND_DROP */
  struct dmi_remote_result result;    /* TELL_HAVE, FREE_PUT, GONE; its `why` is the book's */
  const struct dmi_remote_call *call; /* SEND_CALL */
};

struct dmi_remote_book *dmi_remote_book_new(const struct dmi_remote_book_config *config);
/* Forgets all.  The servers are told by CLOSE, which is the owner's. */
void dmi_remote_book_free(struct dmi_remote_book *book);

/* The next action; NULL: there is none, and the next event may be given.  Valid until the next
 * call of this function. */
const struct dmi_remote_book_action *dmi_remote_book_next(struct dmi_remote_book *book);

/* ---- The program ---- */

/* A value that the client's process has put at addr.  It gets a number and one handle. */
uint64_t dmi_remote_book_put(struct dmi_remote_book *book, int64_t addr, uint64_t size);

struct dmi_remote_issue {
  uint64_t function;
  uint32_t kind;    /* calls of one kind take about as long; small numbers */
  const char *name; /* of the function, for failures; it stays valid.  NULL: none */
  const void *args; /* copied */
  uint64_t arg_size;
  const uint64_t *inputs; /* numbers */
  const bool *takes;      /* of each input: a handle of it is dropped with this; NULL: of none */
  const uint64_t *sizes;  /* of the outputs, bytes at most */
  uint32_t input_num, output_num;
  dmi_uid_t on; /* this server, if it is there; 0: any */
  bool late;    /* DMI_REMOTE_LATE */
};
/* Issues a call; outputs[i] becomes the number of the value, with one handle.  Never waits: see
 * dmi_remote_book_full.  DMI_EINVAL: an input is unknown, or its last handle was dropped; nothing
 * has happened.  Failed inputs, or a call that no server can hold: DMI_OK, and the outputs are
 * failed. */
int32_t dmi_remote_book_call(struct dmi_remote_book *book, const struct dmi_remote_issue *issue,
                             uint64_t *outputs);

/* Handles: one more, one less.  The value goes when it has none and no call needs it.  False: it
 * has none. */
bool dmi_remote_book_hold(struct dmi_remote_book *book, uint64_t number);
bool dmi_remote_book_drop(struct dmi_remote_book *book, uint64_t number);

/* What is known of a value with a handle; `result->why` is the book's.  `watch`: if it is PENDING,
 * there will be WAKE.  False: no such value.  Who reads the bytes holds the value meanwhile. */
bool dmi_remote_book_look(struct dmi_remote_book *book, uint64_t number, bool watch,
                          struct dmi_remote_result *result);
/* Reading it at addr failed, since the bytes are lost: they are computed again, or it is failed.
 * Then look at it again. */
void dmi_remote_book_unreadable(struct dmi_remote_book *book, uint64_t number, int64_t addr);

/* True if calls that are not done have `most` bytes: who issues waits for ROOM.  Never true if
 * there are none. */
bool dmi_remote_book_full(struct dmi_remote_book *book);

/* ---- Messages from servers ---- */

/* DONE: results[i] of output i; all DONE.  It took so many ns; 0: not known. */
bool dmi_remote_book_done(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                          const struct dmi_remote_result *results, uint32_t num, uint64_t took);
/* FIRED: the call, which was sent with DMI_REMOTE_SUSPECT, runs there. */
bool dmi_remote_book_fired(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call);
/* DONE, failed.  A reference to `why` is taken. */
bool dmi_remote_book_failed(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                            struct dmi_remote_why *why);
/* RETURN: not fired.  `lost`, `addr`: of the input that could not be read; 0: none was lost. */
bool dmi_remote_book_returned(struct dmi_remote_book *book, dmi_uid_t from, uint64_t call,
                              uint64_t lost, int64_t addr);
/* The end of the answer to a STEAL. */
bool dmi_remote_book_stolen(struct dmi_remote_book *book, dmi_uid_t from);
/* How much it has to do: behind what else was in the message. */
void dmi_remote_book_load(struct dmi_remote_book *book, dmi_uid_t from,
                          const struct dmi_remote_load *load);

/* ---- Servers ---- */

/* SERVES.  Again: cores and limit are changed; and if it was to leave, it stays. */
void dmi_remote_book_serves(struct dmi_remote_book *book, const struct dmi_remote_server *server);
/* It leaves: it gets no more calls.  (A RETURN because of a leave says so, too.) */
void dmi_remote_book_leaves(struct dmi_remote_book *book, dmi_uid_t server);
/* It has left; all messages from it were given before.  Calls that it had and that did not come
 * back have not been fired: they are placed anew. */
void dmi_remote_book_left(struct dmi_remote_book *book, dmi_uid_t server);
/* It is lost; no more messages from it will be given.  Its calls are placed anew, but one that has
 * run, for all that is known, in DMI_REMOTE_LOSSES servers that were lost fails.  Values that were
 * there are found lost, or not, by who reads them. */
void dmi_remote_book_lost(struct dmi_remote_book *book, dmi_uid_t server);

/* ---- Questions ---- */

/* So many servers may be lost with one call; and so many until it is not run any more in the
 * client's own process.  At the first it may not have run, at the second another one may have run
 * beside it. */
#define DMI_REMOTE_LOSSES 4
#define DMI_REMOTE_LOSSES_AWAY 3

struct dmi_remote_book_counts {
  uint64_t values;  /* records, with those kept for lineage only */
  uint64_t calls;   /* records, with those kept for lineage only */
  uint64_t undone;  /* calls that are not done */
  uint64_t bytes;   /* of these */
  uint64_t lineage; /* bytes of calls that are kept for lineage only */
  uint64_t again;   /* calls done again since the beginning, after a loss */
  uint64_t servers;
  uint64_t given_up; /* calls that have cost too many of them */
};
struct dmi_remote_book_counts dmi_remote_book_counts(const struct dmi_remote_book *book);

/* Why a call has failed, of the first one that has; and how many have, with those that needed what
 * such a call was to make.  NULL: none. */
const struct dmi_remote_why *dmi_remote_book_failure(const struct dmi_remote_book *book,
                                                     uint64_t *calls);
/* True if calls are placed at this server, so that it will be heard again. */
bool dmi_remote_book_awaits(const struct dmi_remote_book *book, dmi_uid_t server);
/* Visits the calls that are placed at this server and not done, in the order in which they were. */
void dmi_remote_book_each(const struct dmi_remote_book *book, dmi_uid_t server,
                          void (*visit)(void *arg, const struct dmi_remote_call *call), void *arg);

/* Rules that tests switch off (base/mutation.h). */
enum dmi_remote_book_break {
  DMI_REMOTE_BOOK_BREAK_NOTHING,
  DMI_REMOTE_BOOK_BREAK_NEEDS,   /* a value lives while calls need it */
  DMI_REMOTE_BOOK_BREAK_DROP,    /* what nobody needs is dropped, also if it is made later */
  DMI_REMOTE_BOOK_BREAK_WANT,    /* with a call that is placed anew, its readers are told anew */
  DMI_REMOTE_BOOK_BREAK_TELL,    /* what a server that has gone was to tell, the client tells */
  DMI_REMOTE_BOOK_BREAK_REPLACE, /* calls of a server that has gone are placed anew */
  DMI_REMOTE_BOOK_BREAK_ADDR,    /* only what was read at the present address is found lost */
  DMI_REMOTE_BOOK_BREAK_LINEAGE, /* a call is kept while its outputs may be needed */
  DMI_REMOTE_BOOK_BREAK_DEEP,    /* inputs that were freed are computed again, too */
  DMI_REMOTE_BOOK_BREAK_SPARE,   /* of a call done again, outputs that are there are not made */
  DMI_REMOTE_BOOK_BREAK_GEN,     /* it has another generation */
  DMI_REMOTE_BOOK_BREAK_CLOSED,  /* a server that leaves gets no calls */
  DMI_REMOTE_BOOK_BREAK_STEAL,   /* a server that is dry gets calls of others */
  DMI_REMOTE_BOOK_BREAK_FATAL,   /* a call that has cost many servers fails */
  DMI_REMOTE_BOOK_BREAK_POISON,  /* failed inputs fail a call that is issued, or placed anew */
  DMI_REMOTE_BOOK_BREAK_LAST
};
#ifdef DMI_MUTATIONS
void dmi_remote_book_set_break(struct dmi_remote_book *book, enum dmi_remote_book_break broken);
#endif

#endif
