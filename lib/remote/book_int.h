/*
 * book_int.h - private to the files of the book (book.h).
 */
#ifndef DMI_REMOTE_BOOK_INT_H
#define DMI_REMOTE_BOOK_INT_H

#include <utlist.h>

#include "base/mutation.h"
#include "remote/book.h"
#include "remote/place.h"
#include "remote/table.h"

/* ---- Values --------------------------------------------------------------------------------- */

/* An input of a call that is not done. */
struct dmi_remote_need {
  struct dmi_remote_entry *call;
  struct dmi_remote_item *value;
  bool takes;      /* it is to become an output; a handle of it was dropped for that */
  bool pending;    /* it was sent without an address: a HAVE has to come there */
  dmi_uid_t asked; /* pending: whoever is to send that; 0: nobody yet */
  struct dmi_remote_need *prev, *next; /* in value->needs */
};

/* A value has bytes while DONE and not `freed`; at.why is a reference. */
struct dmi_remote_item {
  uint64_t number;
  struct dmi_remote_result at;
  bool freed;      /* PENDING, and nobody makes it: its bytes are not needed, or were not */
  bool put;        /* by the client itself */
  bool watched;    /* WAKE when it is not PENDING any more */
  bool settling;   /* in book->settling */
  uint64_t weight; /* bytes of it in book->lineage: put, and kept for that only */
  uint32_t gen;    /* of the call, when it made it, or is to */
  uint64_t mark;   /* see book->mark */
  uint64_t copies; /* servers that had calls which need it, and may have its bytes */
  uint32_t index;  /* which output of its call it is */
  uint32_t handles;
  uint32_t lineage; /* calls that are kept and have it as input, as often as they do */
  dmi_uid_t server; /* where it was made, or is to be; 0: nowhere */
  struct dmi_remote_entry *maker; /* NULL: put, or the call is forgotten */
  struct dmi_remote_need *needs;
  struct dmi_remote_item *next;   /* in book->settling or book->old_items */
  struct dmi_remote_item *remake; /* in the stack of what is to be made again */
};

/* ---- Calls ---------------------------------------------------------------------------------- */

enum dmi_remote_where {
  DMI_REMOTE_UNPLACED, /* in book->unplaced */
  DMI_REMOTE_PLACED,   /* in server->calls */
  DMI_REMOTE_DOOMED,   /* in book->failing */
  DMI_REMOTE_KEPT,     /* done; in book->kept */
  DMI_REMOTE_TRASH
};

/* A call; one block with what it points to. */
struct dmi_remote_entry {
  struct dmi_remote_call call;
  enum dmi_remote_where where;
  bool linked;                      /* its inputs count its lineage */
  struct dmi_remote_host *server;   /* PLACED */
  dmi_uid_t on;                     /* the server it was issued for; 0: any */
  dmi_uid_t thief;                  /* the server it was stolen for; 0: none */
  const char *name;                 /* of its function; or NULL */
  uint32_t losses;                  /* servers that were lost, and may have run it then */
  bool fired;                       /* PLACED, and losses: it runs there */
  uint64_t bytes;                   /* of the block */
  uint64_t memory;                  /* bytes: see struct dmi_remote_demand */
  uint32_t kind;                    /* calls of one kind take about as long */
  uint64_t counts;                  /* PLACED: ns, in server->work */
  uint32_t keep;                    /* outputs that have a record */
  struct dmi_remote_why *why;       /* DOOMED: a reference */
  struct dmi_remote_need *needs;    /* input_num */
  struct dmi_remote_item **outputs; /* output_num; NULL: no record any more */
  struct dmi_remote_entry *prev, *next;
};

/* ---- Servers -------------------------------------------------------------------------------- */

struct dmi_remote_host {
  struct dmi_remote_server about;
  bool open;          /* it gets calls: is in the heap */
  dmi_uid_t thief;    /* for whom it was asked to give back calls; 0: it was not */
  bool robs;          /* another one was asked for it */
  bool got, lacked;   /* robs: of the calls that came back it has got one; could not hold one */
  bool unfit;         /* it could hold none of those that were stolen for it last */
  uint32_t calls_num; /* placed there */
  uint32_t ready;     /* of them, believed to be ready without a core */
  uint32_t refused;   /* ready calls, when none of them was worth moving; 0: some were */
  uint32_t asked;     /* thief: ready calls, when it was asked */
  uint32_t foreign;   /* calls of others that it has */
  uint64_t others;    /* ns: what these take, by book->counts */
  uint64_t work;      /* ns: what the calls take that are placed there */
  uint64_t rate;      /* bytes that have reached it in a microsecond; 0: not known */
  uint64_t steady;    /* the rate when it was last about another one */
  uint64_t sent;      /* CALLs */
  uint64_t mark;      /* it is a candidate for the call that is being placed, if this is its */
  uint64_t bit;       /* of this server in the copies of values; others may have the same */
  size_t at;          /* in the heap */
  uint64_t last;      /* book->placed, when it got a call last */
  struct dmi_remote_entry *calls;
  struct dmi_remote_host *prev, *next; /* in book->hosts */
};

/* Calls that take about as long: those of a function. */
struct dmi_remote_pace {
  uint64_t took;   /* ns: mean; 0: not known */
  uint64_t counts; /* ns: what placed ones count; 0: not known */
};

struct dmi_remote_book {
  struct dmi_remote_book_config config;
#ifdef DMI_MUTATIONS
  enum dmi_remote_book_break broken;
#endif
  uint64_t last;                  /* number given last */
  struct dmi_remote_table values; /* number -> struct dmi_remote_item */
  struct dmi_remote_table calls;  /* number -> struct dmi_remote_entry that is not done */
  struct dmi_remote_table by_uid; /* {uid, 0} -> struct dmi_remote_host */
  struct dmi_remote_host *hosts;
  struct dmi_remote_host **heap; /* those that are open, the one with the least to do first */
  size_t open, heap_capacity, hosts_num;
  uint64_t mark;   /* of the call that is looked at */
  uint64_t placed; /* calls, since the beginning */
  struct dmi_remote_entry *unplaced, *kept, *failing;
  struct dmi_remote_item *settling; /* may be needed by nobody any more */
  uint64_t undone, bytes, lineage, kept_num, again, given_up;
  struct dmi_remote_pace *kinds;
  uint32_t kind_num, kind_room;
  uint64_t took;                  /* ns: mean of all calls; 0: not known */
  uint64_t counts;                /* ns: what a call of others counts; 0: not known */
  uint64_t rate;                  /* bytes per microsecond: mean of all servers; 0: not known */
  uint32_t rich;                  /* servers with ready calls */
  bool waits;                     /* the program waits for ROOM */
  uint64_t failed;                /* calls */
  struct dmi_remote_why *failure; /* of the first of them; a reference */
  struct dmi_remote_candidate *candidates;
  struct dmi_remote_host **candidate_hosts;
  size_t candidate_num, candidate_capacity;
  struct dmi_remote_book_action *actions; /* from first to num - 1 */
  size_t first, num, capacity;
  struct dmi_remote_entry *old_entries; /* freed at the next event */
  struct dmi_remote_item *old_items;
};

/* ---- book.c ---- */
/* To be called first by each event: all actions were taken, so what they pointed to can go. */
void dmi_remote_book_begin(struct dmi_remote_book *book);
/* To be called last by each event: what has become possible happens. */
void dmi_remote_book_end(struct dmi_remote_book *book);
struct dmi_remote_book_action *dmi_remote_book_act(struct dmi_remote_book *book,
                                                   enum dmi_remote_book_do type, dmi_uid_t to);

/* ---- book_value.c ---- */
struct dmi_remote_item *dmi_remote_item_of(const struct dmi_remote_book *book, uint64_t number);
/* A new record with one handle, PENDING. */
struct dmi_remote_item *dmi_remote_item_new(struct dmi_remote_book *book);
/* Its bytes are here. */
void dmi_remote_item_made(struct dmi_remote_book *book, struct dmi_remote_item *item,
                          const struct dmi_remote_result *at, dmi_uid_t server);
/* It is failed; `tell`: servers whose calls wait for it do not hear that from another one. */
void dmi_remote_item_failed(struct dmi_remote_book *book, struct dmi_remote_item *item,
                            struct dmi_remote_why *why, bool tell);
/* It is needed less: it is looked at, at the end of the event. */
void dmi_remote_item_less(struct dmi_remote_book *book, struct dmi_remote_item *item);
/* Looks at those. */
void dmi_remote_book_settle(struct dmi_remote_book *book);
/* The bytes are not needed, where they are. */
void dmi_remote_item_free_bytes(struct dmi_remote_book *book, struct dmi_remote_item *item,
                                bool lost);
/* Whoever was to tell a server of it has gone, or never will: the client does. */
void dmi_remote_need_tell(struct dmi_remote_book *book, struct dmi_remote_need *need);

/* ---- book_call.c ---- */
/* The call is done, or has failed; its outputs have been set.  `keep`: for lineage. */
void dmi_remote_entry_over(struct dmi_remote_book *book, struct dmi_remote_entry *entry, bool keep);
/* Ends a call without a server: takes a reference to `why`. */
void dmi_remote_entry_fail(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                           struct dmi_remote_why *why);
/* A call has failed: counts. */
void dmi_remote_book_count_failure(struct dmi_remote_book *book, struct dmi_remote_why *why);
/* Ends those calls, and what waits for them here. */
void dmi_remote_book_fail(struct dmi_remote_book *book);
/* An output of a call has no record any more. */
void dmi_remote_entry_less(struct dmi_remote_book *book, struct dmi_remote_entry *entry,
                           uint32_t index);
/* It is to be done (again): it counts, and its inputs are needed. */
void dmi_remote_entry_begin(struct dmi_remote_book *book, struct dmi_remote_entry *entry);
/* Forgets the oldest calls that are kept, beyond the bound. */
void dmi_remote_book_forget(struct dmi_remote_book *book);

/* ---- book_place.c ---- */
/* Places what is unplaced, if there is a server. */
void dmi_remote_book_place(struct dmi_remote_book *book);
/* True: the unplaced call was to be done again, but by now nobody needs what it makes; so it is
 * kept as before. */
bool dmi_remote_entry_needless(struct dmi_remote_book *book, struct dmi_remote_entry *entry);
/* The call is at no server any more. */
void dmi_remote_entry_unplace(struct dmi_remote_book *book, struct dmi_remote_entry *entry);
/* Its server is lost. */
void dmi_remote_entry_lost(struct dmi_remote_book *book, struct dmi_remote_entry *entry);

/* ---- book_server.c ---- */
struct dmi_remote_host *dmi_remote_host_of(const struct dmi_remote_book *book, dmi_uid_t uid);
/* What it has to do has changed: its place in the heap. */
void dmi_remote_host_moved(struct dmi_remote_book *book, struct dmi_remote_host *host);
void dmi_remote_host_ready(struct dmi_remote_book *book, struct dmi_remote_host *host,
                           uint32_t ready);
uint64_t dmi_remote_host_load(const struct dmi_remote_host *host); /* calls */
/* What was not worth moving may be by now. */
void dmi_remote_book_unrefuse(struct dmi_remote_book *book);
/* Has calls stolen for a server that is dry, if there are any. */
void dmi_remote_book_steal(struct dmi_remote_book *book);

/* ---- book_time.c ---- */
/* ns: what a call of this kind takes, as far as is known. */
uint64_t dmi_remote_book_time(struct dmi_remote_book *book, uint32_t kind);
/* A call of this kind took so long. */
void dmi_remote_book_took(struct dmi_remote_book *book, uint32_t kind, uint64_t ns);
/* ns: what the calls take that the server has.  It changes for one server at a time, and each time
 * its place in the heap does, too. */
uint64_t dmi_remote_host_work(const struct dmi_remote_host *host);
/* It has so many calls of others. */
void dmi_remote_host_foreign(struct dmi_remote_book *book, struct dmi_remote_host *host,
                             uint32_t num);
/* It is known, and neither at least twice as much as before, nor at most half. */
bool dmi_remote_is_steady(uint64_t before, uint64_t now);
/* Bytes that reach it in a microsecond, as far as is known; at least 1. */
uint64_t dmi_remote_host_rate(const struct dmi_remote_book *book,
                              const struct dmi_remote_host *host);

/* ---- book_again.c ---- */
/* It is to be made again, by its call; if that is not kept any more, it is failed. */
void dmi_remote_item_again(struct dmi_remote_book *book, struct dmi_remote_item *item);
/* Its bytes are lost: they are made again. */
void dmi_remote_item_lost(struct dmi_remote_book *book, struct dmi_remote_item *item);

#endif
