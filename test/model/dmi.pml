/*
 * dmi.pml - Promela model of the page protocol (docs/protocol.md); docs/model.md tells how to
 * read it.
 *
 * One transition is one event of the protocol: a message is taken from a channel, an operation
 * of a thread begins, or the membership moves on.  All that the rules say happens at that event,
 * messages to oneself included, is one d_step: the interleavings are those of a process that
 * holds the page's lock during an event.  The one Promela process chooses the next event.
 *
 * Names follow the protocol page; R1..R9, R11..R13 in comments are its rules.  -DBREAK_xxx switches one
 * rule off, -DOLD_xxx brings a flaw back that the protocol had (docs/model.md).
 */
#include "tests.h"

#define CI(a, b) ((a) * (NODES - 1) + (b) - ((b) > (a) -> 1 : 0)) /* channel from a to b */
#define NCH (NODES * (NODES - 1))
#define K(a, b) ((a) * NP + (b)) /* record of page b in process a */

/* events that are not messages nor threads */
#define EV_DROP 28
#define EV_LEAVE 32
#define EV_HAND 33
#define EV_DRAINED 34
#define EV_VIEW 36
#define EV_BULK 40 /* and the channel: DATA, which other messages may overtake (R13) */
#define EV_OFFER 64 /* + 3 * owner + to */
#define EV_ROOM 76
#define EV_REFUSE 80
#define EV_SPILL 84
#define EV_CRASH 96 /* this and all above: crash.h */

/* roles, kinds of copies */
#define NONE 0
#define PENDING 1
#define OWNER 2
#define ABSENT 0
#define INVALIDATING 1
#define UPDATING 2

/* modes of operations: reads, writes, atomics */
#define R_INV 1
#define R_UPD 2
#define R_GET 3
#define W_EXCL 4
#define W_PUT 5
#define A_EXCL 6
#define A_PUT 7
#define LOCKING 8 /* take a ticket, wait until it is served: R11 */

/* messages (a byte: type, flags above) */
#define GET 1
#define READ 2
#define PUT 3
#define ATOMIC 4
#define OWN 5        /* to the home */
#define OWNT 6       /* from the home to the tail */
#define GOT 7
#define DATA 8
#define DONE 9
#define GRANT 10
#define INVALIDATE 11
#define INVALIDATED 12
#define UPDATE 13
#define UPDATED 14
#define RELEASE 15
#define TAKE 16
#define HOME_BEGIN 17
#define HOME_TAIL 18 /* one page of the list */
#define HOME_END 19
#define HOME_DONE 24
#define DROP 25      /* not a message: the copy goes, for lack of room (R6) */
/* R12; not messages: room, or the spilled bytes, for what stalls; none anywhere; TAKE goes to x;
 * the bytes go to the disk */
#define COMES (DROP + 32)
#define REFUSED (DROP + 64)
#define OFFERING (DROP + 96)
#define SPILLING (DROP + 128)
#define REFUSE_PAGE (DROP + 160) /* these are messages; REFUSE_MUST: REFUSE_PAGE with the flag MUST */
#define FAIL (DROP + 192)
#define REFUSE_MUST (DROP + 224)
#define BEGIN 20     /* not a message: an own operation begins, or begins anew (R2) */
#define THAW (BEGIN + 32)  /* nor is this: RESUME (crash.h) */
#define LOST_OP (BEGIN + 64) /* FAIL with DMI_ELOST: to an operation, and to a fetch */
#define LOST_FETCH (BEGIN + 96)
#define OP_R 21      /* only in queues: own read, write, atomic */
#define OP_W 22
#define OP_A 23
#define TYPE(m) ((m) & 31)
#define F_HAVE 32
#define F_APPLY 32
#define F_DROPPED 32
#define F_MUST 32
#define F_NODATA 64
#define F_CAME 128   /* OWN that was deferred: it came by message */
#define F_LOST 128   /* GRANT */
#define DELEGATE 31      /* R13: x has the fetch before it, too: AFTER(x) */
#define F_DIRECT 64  /* READ */
#define F_DELEGATED 64  /* DATA */
#define AFTER(x) ((x) >> 4)
/* R11: ATOMIC that takes a ticket, one that waits for its turn and moves with the ownership, the
 * answer to both; in queues and lists: own ones */
#define LOCK 26
#define TURN 27
#define LOCKED 28
#define OP_L 29
#define OP_T 30
#define IS_OWN(m) ((m) == OP_R || (m) == OP_W || (m) == OP_A || (m) == OP_L)
#define IS_WRITE(m) \
  ((m) == PUT || (m) == ATOMIC || (m) == LOCK || (m) == OP_W || (m) == OP_A || (m) == OP_L)
#define IS_ATOMIC(m) ((m) == ATOMIC || (m) == OP_A)
/* R4.1, R11.4: is process i told of a write of qo? */
#ifdef BREAK_TOLD
#define TOLD(i) ((i) != qo)
#else
#define TOLD(i) ((i) != qo || qt == LOCK)
#endif

/* The bytes of a page: two cells of 3 bits. */
#define CELL(d, c) (((d) >> (3 * (c))) & 7)
#define SET(d, c, x) (((d) & (255 - (7 << (3 * (c))))) | ((x) << (3 * (c))))
#define GARBAGE 255

/* A copyset: 2 bits per process. */
#define KIND(s, a) (((s) >> (2 * (a))) & 3)
#define WITHOUT(s, a) ((s) & (255 - (3 << (2 * (a)))))
#define WITH(s, a, x) (WITHOUT(s, a) | ((x) << (2 * (a))))

typedef Page {
  unsigned role : 2;
  unsigned copy : 2;
  unsigned unreleased : 1;
  unsigned nodata : 1;
  unsigned poisoned : 1;
  unsigned stale : 1;
#ifdef ROOM
  unsigned stalled : 1;
  unsigned spilled : 1;
#endif
#ifdef CRASH
  unsigned lost : 1;
#endif
  unsigned busy : 1;
  unsigned acks : 2;
  unsigned puts : 2;
  unsigned fetch : 2;   /* 0: none is out */
  unsigned fetches : 2; /* number of the last one */
  unsigned version : 4;
  unsigned floor : 4;
  unsigned hint : 2;
  unsigned tail : 2;    /* meaningful at the home */
  unsigned rec : 1;     /* this process, as home, has a record of the page */
  byte data;
#ifdef DELEGATES
  byte after; /* for each of the copyset: its fetch that was decided last; 2 bits */
#endif
  byte copyset
};

#define IDLE 0
#define BUSY 1 /* in a queue, or out */
#define WAIT_FETCH 2
#define WAIT_COPY 3

typedef Thread {
  unsigned pc : 2;
  unsigned st : 2;
  unsigned mode : 4;
  byte r0, r1; /* what its reads and atomics returned */
  byte seen    /* ghost: values that were current at some time since the read began */
};

Page pg[NODES * NP];
Thread th[NT];
chan ch[NCH] = [CAP] of { byte, byte, byte, byte, byte }; /* type, page + 2 * origin, x, v, d */
/* queues: type, origin, x, v, d */
chan q[NODES * NP] = [QCAP] of { byte, byte, byte, byte, byte };
#ifdef LOCKS
/* deferred: type, origin, x, ticket */
chan w[NODES * NP] = [NT] of { byte, byte, byte, byte };
byte served; /* ghost: locks that were got */
bit inside;  /* ghost: somebody holds the lock */
#endif
#ifdef DELEGATES
/* passes: origin, x, v, d: READs of others that wait for the fetch of this process */
chan bulk[NCH] = [BCAP] of { byte, byte, byte, byte, byte };
chan ps[NODES * NP] = [2] of { byte, byte, byte, byte };
#endif
chan sq = [8] of { byte, byte, byte, byte, byte }; /* messages to oneself: empty between events */
byte mem[NP];      /* ghost: what the last write in effect left */
byte granting[NP]; /* ghost: GRANTs on their way */

#define HOMEP (p == 0 -> HOME0 : HOME1) /* at the start */

#ifdef CRASH
#include "crash.h"
#else
#define FROZEN(a) false
#define DEAD(a) false
#define GONE(k_) false
#define COPY_FROZEN(a) false
#define MAY_START(a) true
#define ARRIVES(a) (len(ch[a]) > 0)
#endif

#ifdef LEAVE
byte home[NODES];    /* one mapping: its home, as each process sees it */
chan deferred = [6] of { byte, byte, byte, byte, byte };
bit arriving;        /* at HEIR */
bit leaving, handed, confirmed, drained; /* LEAVER: lists sent, HOME_DONE came, ... */
bit offered[NP];
bit view[NODES];     /* has taken the view without LEAVER */
bit listed[NP];
bit orphan[NP];      /* ghost: a page without a record, owned by the home that is changing */
#define HOME(a) home[a]
#define LEFT(a, b) ((b) == LEAVER && view[a])
#define LEAVING(a) ((a) == LEAVER && leaving)
#define ARRIVING(a) ((a) == HEIR && arriving)
#define DEFER(m, origin, x, v, d) \
  assert(nfull(deferred));         \
  deferred!m, (p + 2 * (origin)), x, v, d
#else
#ifdef CRASH
#define HOME(a) home[a]
#else
#define HOME(a) HOMEP
#endif
#define LEFT(a, b) false
#define LEAVING(a) false
#define ARRIVING(a) false
#define DEFER(m, origin, x, v, d) assert(false)
#endif
#ifdef ROOM
/* R12.  `tight`: in this event nothing can be reserved; where that matters it is counted. */
bit tight;
byte fulls, offers, spills;
byte disk; /* of page 0 */
hidden byte missed, looked, st, so, sx, sd;
#ifndef FULLS
#define FULLS 2
#endif
#ifndef OFFERS
#define OFFERS 0
#endif
#ifndef SPILLS
#define SPILLS 0
#endif
#define STALLED (pg[k].stalled)
#define SPILLED(k_) (pg[k_].spilled)
/* Must the operation qt at the head of the queue wait?  (The first write of an owner without data
 * never does, nor do those of a leaver.) */
#define IS_WHOLE(m) (WHOLE && (m) == OP_W)
#define STALLS                                                       \
  (!pg[k].busy && !pg[k].nodata &&                                   \
   ((pg[k].spilled && !IS_WHOLE(qt)) ||                              \
    (tight && IS_WRITE(qt) && (pg[k].version == 0 || pg[k].spilled) && !LEAVING(n))))
#define MAY_OFFER(a, b)                                                              \
  (offers < OFFERS && pg[K(a, 0)].role == OWNER && !pg[K(a, 0)].busy && !LEFT(a, b) && \
   !LEAVING(a) && !pg[K(a, 0)].nodata && (len(q[K(a, 0)]) == 0 || \
                                          (pg[K(a, 0)].stalled && !pg[K(a, 0)].spilled)))
#define STALLED_AT(a) (pg[K(a, 0)].stalled)
/* Is the TAKE that has come refused?  One with MUST is by who has begun to leave itself, as any
 * but the heir may have. */
#ifdef LEAVE
#define MAY_REFUSE_PAGE (tight && ((mt & F_MUST) -> n != HEIR : pg[k].version == 0))
#else
#define MAY_REFUSE_PAGE (tight && pg[k].version == 0)
#endif
/* Not what only waits for its bytes: the shell finds these. */
#define MAY_REFUSE(a) (STALLED_AT(a) && !pg[K(a, 0)].spilled)
#define MAY_SPILL(a)                                                                      \
  (spills < SPILLS && pg[K(a, 0)].role == OWNER && pg[K(a, 0)].version > 0 &&             \
   !pg[K(a, 0)].busy && !pg[K(a, 0)].nodata && !pg[K(a, 0)].spilled && len(q[K(a, 0)]) == 0 && \
   pg[K(a, 0)].copyset == 0)
#else
#define tight false
#define STALLED false
#define SPILLED(k_) false
#define STALLS false
#define MAY_REFUSE_PAGE false
#endif
#ifdef DROPS
byte drops; /* how many copies went for lack of room; of page 0 */
#ifdef BREAK_DROP
#define MAY_DROP(a) (pg[K(a, 0)].copy)
#else
#define MAY_DROP(a) (pg[K(a, 0)].copy && pg[K(a, 0)].role == NONE)
#endif
#endif
#ifdef JOIN
bit joined;          /* JOINER: all have taken the view with it (membership.md) */
#define WAS_MEMBER(a) ((a) != JOINER)
#else
#define WAS_MEMBER(a) true
#endif

byte c; /* the event chosen; 0 between events.  Not hidden: backtracking must restore it */
/* Scratch of one event: no part of the state. */
hidden byte to, m, n, f, k, p, o, t, i, j, mt, mp, mx, mv, md, qt, qo, qx, qv, qd, nd, g, num;
hidden byte own, first;

inline send(to_, type_, origin_, x_, v_, d_)
{
  if
  :: (to_) == n -> sq!type_, (p + 2 * (origin_)), x_, v_, d_
  :: else ->
     if
#ifdef CRASH
     :: DEAD(to_) -> skip /* it goes nowhere, and nobody is told */
#endif
     :: !DEAD(to_) && LEFT(n, to_) -> /* only what nobody waits for: the answer to a fetch, REFUSE_PAGE */
        assert(TYPE(type_) == DATA || (type_) == REFUSE_PAGE || (type_) == REFUSE_MUST)
#ifdef DELEGATES
     :: !DEAD(to_) && !LEFT(n, to_) && TYPE(type_) == DATA ->
        assert(nfull(bulk[CI(n, to_)]));
        bulk[CI(n, to_)]!type_, (p + 2 * (origin_)), x_, v_, d_
#endif
     :: else ->
        assert(nfull(ch[CI(n, to_)]));
        ch[CI(n, to_)]!type_, (p + 2 * (origin_)), x_, v_, d_
     fi
  fi
}

/* Operation of thread a is complete; x is what it returns. */
inline complete(a_, x_)
{
  assert(th[a_].st != IDLE);
#ifdef CRASH
  assert(did[a_] || (th[a_].mode != W_EXCL && th[a_].mode != W_PUT)); /* exactly once: not never */
  did[a_] = 0;
#endif
#ifdef LIN
  assert(th[a_].mode > R_GET || (th[a_].seen & (1 << (x_))));
  th[a_].seen = 0;
#endif
#ifdef LOCKS
  if
  :: th[a_].mode == LOCKING ->
     assert(!inside);         /* mutual exclusion */
     assert((x_) == served); /* first come, first served */
     inside = 1;
     served++
  :: else
  fi;
#endif
#ifdef RESULTS
  if
  :: th[a_].pc == 0 -> th[a_].r0 = x_
  :: else -> th[a_].r1 = x_
  fi;
#endif
  th[a_].st = IDLE;
  th[a_].mode = 0;
  th[a_].pc = th[a_].pc + 1
}

#ifdef HOPS
#define HOP + 1
#else
#define HOP
#endif
/* Sends on what process n cannot answer: R1. */
inline forward(type_, origin_, x_, v_, d_)
{
  if
  :: ARRIVING(n) && HOME(n) == n ->
     DEFER(type_, origin_, x_, v_, d_)
  :: else ->
#ifdef HOPS
     assert((v_) < HOPS);
#endif
     if
     :: HOME(n) == n ->
        assert(pg[k].tail != n);
        send(pg[k].tail, type_, origin_, x_, (v_) HOP, d_)
     :: else -> send(HOME(n), type_, origin_, x_, (v_) HOP, d_)
     fi
  fi
}

/* At the home: OWN for the tail. */
inline order(origin_, x_, flags_)
{
  send(pg[k].tail, OWNT + (flags_), origin_, x_, 0, 0);
  pg[k].tail = origin_
}

/* R2.7: asks to own the page. */
inline ask(flags_)
{
  pg[k].role = PENDING;
  num = (pg[k].copy -> pg[k].version + 1 : 0);
  if
  :: ARRIVING(n) && HOME(n) == n -> DEFER((OWN + (flags_)), n, num, 0, 0)
  :: HOME(n) == n && !ARRIVING(n) -> order(n, num, flags_)
  :: else -> send(HOME(n), OWN + (flags_), n, num, 0, 0)
  fi
}

/* A request of process n goes to its hint; the home when that is of no use. */
inline request(type_, x_, d_)
{
  to = pg[k].hint;
  if
#ifdef OLD_HINT
  :: LEFT(n, to) -> to = HOME(n)
#else
  :: LEFT(n, to) || to == n -> to = HOME(n)
#endif
  :: else
  fi;
  if
  :: to == n -> forward(type_, n, x_, 0, d_)
  :: else -> send(to, type_, n, x_, 0, d_)
  fi
}

#ifdef BREAK_SPILL
#define HERE (!pg[k].nodata)
#else
#define HERE (!pg[k].nodata && !SPILLED(k) && !GONE(k))
#endif
#ifdef BREAK_PUTS
#define READABLE \
  ((pg[k].role == OWNER && HERE) || (pg[k].copy && !pg[k].unreleased))
#else
#define READABLE \
  ((pg[k].role == OWNER && HERE) || \
   (pg[k].copy && !pg[k].unreleased && pg[k].puts == 0 && !COPY_FROZEN(n)))
#endif
#ifdef BREAK_POISON
#define JOINABLE true
#else
#define JOINABLE (!pg[k].poisoned)
#endif

/* There was no room in this event, and that decided something. */
inline scarce(cond_)
{
#ifdef ROOM
  if
  :: tight && (cond_) -> missed = 1
  :: else
  fi
#else
  skip
#endif
}

/* R2: operation of thread t begins, at process n, page p. */
inline begin()
{
  th[t].st = BUSY;
  if
  :: th[t].mode <= R_GET ->
     if
     :: READABLE -> complete(t, CELL(pg[k].data, CELLOF(t)))
     :: else ->
        if
        :: pg[k].role != NONE && !(pg[k].role == PENDING && pg[k].copy) ->
           assert(nfull(q[k]));
           q[k]!OP_R, n, t, 0, 0
#ifdef OLD_WAIT_FOR_PUTS /* docs/model.md */
        :: !(pg[k].role != NONE && !(pg[k].role == PENDING && pg[k].copy)) && pg[k].copy ->
#else
        :: !(pg[k].role != NONE && !(pg[k].role == PENDING && pg[k].copy)) && pg[k].copy &&
           (pg[k].puts == 0 || pg[k].role == PENDING) ->
#endif
           th[t].st = WAIT_COPY
        :: else ->
           if
           :: th[t].mode != R_GET && pg[k].puts == 0 && pg[k].fetch == 0 && !LEAVING(n) && !tight ->
              pg[k].fetches = (pg[k].fetches == 3 -> 1 : pg[k].fetches + 1);
              pg[k].fetch = pg[k].fetches;
              pg[k].poisoned = 0;
              th[t].st = WAIT_FETCH;
              request(READ, (pg[k].fetch + 4 * th[t].mode), 0)
           :: th[t].mode != R_GET && pg[k].puts == 0 && pg[k].fetch != 0 && JOINABLE &&
              !LEAVING(n) ->
              th[t].st = WAIT_FETCH
           :: else ->
              scarce(th[t].mode != R_GET && pg[k].puts == 0 && pg[k].fetch == 0);
              request(GET, (t + 4 * CELLOF(t)), 0)
           fi
        fi
     fi
  :: else ->
     own = (th[t].mode >= A_EXCL -> (th[t].mode == LOCKING -> OP_L : OP_A) : OP_W);
#ifdef LOCKS
     if
     :: own == OP_A -> inside = 0 /* the unlock begins */
     :: else
     fi;
#endif
     if
     :: pg[k].role != NONE ->
        assert(nfull(q[k]));
        q[k]!own, n, t + 4 * CELLOF(t), 0, VALUE(t)
     :: else ->
        if
        :: own == OP_L -> request(LOCK, (t + 4 * CELLOF(t)), 0)
        :: own != OP_L && (th[t].mode == W_PUT || th[t].mode == A_PUT || LEAVING(n) ||
                           (tight && pg[k].version == 0)) ->
           scarce(th[t].mode != W_PUT && th[t].mode != A_PUT);
           pg[k].puts = pg[k].puts + 1;
           request((own == OP_A -> ATOMIC : PUT), (t + 4 * CELLOF(t)), VALUE(t))
        :: else ->
           assert(empty(q[k]));
           q[k]!own, n, t + 4 * CELLOF(t), 0, VALUE(t);
           if
           :: WHOLE && own == OP_W -> ask(F_NODATA)
           :: else -> ask(0)
           fi
        fi
     fi
  fi
}

/* The floor rises: copies and fetches of older bytes are void. */
inline raise(v_)
{
  if
  :: pg[k].floor < v_ ->
     pg[k].floor = v_
  :: else
  fi;
  if
  :: pg[k].fetch -> pg[k].poisoned = 1
  :: else
  fi
}

inline drop()
{
  pg[k].copy = ABSENT;
  pg[k].unreleased = 0;
  pg[k].version = 0;
  pg[k].data = 0
}

/* R4.1: members of the copyset but origin are told of the write with the new version v. */
inline phase1()
{
  pg[k].busy = 1;
  i = 0;
  do
  :: i < NODES ->
     if
     :: KIND(pg[k].copyset, i) && LEFT(n, i) -> pg[k].copyset = WITHOUT(pg[k].copyset, i)
     :: KIND(pg[k].copyset, i) == INVALIDATING && !LEFT(n, i) && TOLD(i) ->
#ifndef BREAK_INVALIDATE
        pg[k].copyset = WITHOUT(pg[k].copyset, i);
        pg[k].acks = pg[k].acks + 1;
        send(i, INVALIDATE, n, 0, pg[k].version + 1, 0)
#else
        skip
#endif
     :: KIND(pg[k].copyset, i) == UPDATING && !LEFT(n, i) && TOLD(i) ->
        pg[k].acks = pg[k].acks + 1;
        send(i, UPDATE, n, (qx >> 2), pg[k].version + 1, CELL(nd, (qx >> 2)))
     :: else
     fi;
     i++
  :: else -> break
  od
}

#ifdef LOCKS
/* R11.1: a ticket was taken, qv: it is served at once, or the operation waits. */
inline locked()
{
  if
  :: CELL(pg[k].data, 1) != qv ->
     if
     :: qt == OP_L -> w[k]!OP_T, qo, qx, qv
     :: else -> w[k]!TURN, qo, qx, qv
     fi
  :: CELL(pg[k].data, 1) == qv && qt == OP_L -> complete((qx & 3), qv)
  :: else -> send(qo, LOCKED, n, qx, 0, qv)
  fi
}

/* R11.2: something was written: who waited for it is answered. */
inline look()
{
  num = len(w[k]);
  do
  :: num > 0 ->
     num--;
     w[k]?qt, qo, qx, qv;
     if
#ifdef BREAK_LOOK
     :: true -> w[k]!qt, qo, qx, qv
#else
     :: CELL(pg[k].data, 1) != qv -> w[k]!qt, qo, qx, qv
     :: CELL(pg[k].data, 1) == qv && qt == OP_T -> complete((qx & 3), qv)
     :: else -> send(qo, LOCKED, n, qx, 0, qv)
#endif
     fi
  :: else -> break
  od
}

/* R11.3: what waits goes to the next owner, qo, before the GRANT. */
inline move_waits()
{
  do
  :: len(w[k]) > 0 ->
     w[k]?mt, o, mx, md;
#ifndef BREAK_MOVE
     send(qo, TURN, o, mx, 0, md)
#endif
  :: else -> break
  od
}
#endif

/* R4.2: the write at the head of the queue takes effect.  nd: the new bytes. */
inline effect()
{
  q[k]?qt, qo, qx, qv, qd;
  assert(pg[k].nodata || SPILLED(k) || GONE(k) || pg[k].data == mem[p]); /* nothing is lost or done twice */
  qv = (pg[k].nodata || GONE(k) -> 0 : CELL(pg[k].data, (qx >> 2))); /* what an atomic returns */
  own = (pg[k].data != nd || !IS_ATOMIC(qt) -> 1 : 0); /* something is written */
  pg[k].busy = 0;
  pg[k].acks = 0;
  if
  :: own ->
     pg[k].data = nd;
     pg[k].version = pg[k].version + 1;
     pg[k].nodata = 0;
#ifdef ROOM
     pg[k].spilled = 0;
#endif
#ifdef CRASH
     pg[k].lost = 0;
     in_effect(qx & 3);
#endif
     mem[p] = nd;
     i = 0;
     do
     :: i < NODES ->
        if
        :: KIND(pg[k].copyset, i) == UPDATING && TOLD(i) && !LEFT(n, i) ->
           send(i, RELEASE, n, 0, pg[k].version, 0)
        :: else
        fi;
        i++
     :: else -> break
     od;
#ifdef LIN
     i = 0;
     do
     :: i < NT ->
        if
        :: th[i].st != IDLE && th[i].mode <= R_GET && PAGEOF(i) == p ->
           th[i].seen = th[i].seen | (1 << CELL(nd, CELLOF(i)))
        :: else
        fi;
        i++
     :: else -> break
     od
#endif
  :: else
  fi;
  if
#ifdef LOCKS
  :: qt == LOCK || qt == OP_L -> locked()
#endif
  :: qt == OP_W || qt == OP_A -> complete((qx & 3), qv)
  :: qt == PUT || qt == ATOMIC ->
     g = (own && KIND(pg[k].copyset, qo) -> F_APPLY : 0);
     num = (own -> pg[k].version : 0);
     send(qo, DONE + g, n, qx, num, qv)
  fi;
#ifdef LOCKS
  look()
#endif
}

/* R5: OWN of qo is at the head of the queue and was taken off it. */
inline grant()
{
  num = WITHOUT(WITHOUT(pg[k].copyset, qo), n);
#ifdef BREAK_COPYSET
  num = 0;
#endif
  assert(qo != n);
#ifdef LOCKS
  move_waits();
#endif
  if
  :: qx == pg[k].version + 1 -> send(qo, GRANT + F_HAVE, n, num, pg[k].version, 0)
  :: qx != pg[k].version + 1 && (qt & F_NODATA) && !GONE(k) ->
     send(qo, GRANT + F_NODATA, n, num, pg[k].version, GARBAGE)
  :: else -> send(qo, GRANT + (GONE(k) -> F_LOST : 0), n, num, pg[k].version, pg[k].data)
  fi;
#ifdef CRASH
  pg[k].lost = 0;
  if
  :: DEAD(qo) -> orphan_page = 1
  :: else -> granting[p] = granting[p] + 1
  fi;
#else
  granting[p] = granting[p] + 1;
#endif
  pg[k].role = NONE;
  pg[k].floor = pg[k].version;
  pg[k].hint = qo;
  pg[k].copyset = 0;
#ifdef DELEGATES
  pg[k].after = 0;
#endif
  drop();
#ifdef LEAVE
  if
  :: n == LEAVER -> offered[p] = 0
  :: else
  fi;
#endif
  do
  :: len(q[k]) > 0 ->
     q[k]?qt, qo, qx, qv, qd;
     if
     :: IS_OWN(qt) -> sq!BEGIN, (p + 2 * n), (qx & 3), 0, 0
     :: else ->
#ifdef BREAK_FORWARD
        skip
#elif defined(OLD_CHASE)
        send(pg[k].hint, qt, qo, qx, qv HOP, qd)
#else
        forward(qt, qo, qx, qv, qd)
#endif
     fi
  :: else -> break
  od
}

#ifdef DELEGATES
/* R13: to the owner, with DIRECT; d_: how often that has happened to this READ. */
inline send_back(origin_, x_, d_)
{
  assert((d_) < 1);
  if
  :: pg[k].role != NONE ->
     assert(nfull(q[k]));
     q[k]!READ + F_DIRECT, origin_, x_, 0, (d_) + 1
  :: else -> forward(READ + F_DIRECT, origin_, x_, 0, (d_) + 1)
  fi
}

/* R13.1: READ of qo is decided.  With three processes there is at most one to choose. */
inline decide()
{
  g = NODES;
  i = 0;
  do
  :: i < NODES ->
     if
#ifdef BREAK_DIRECT
     :: g == NODES && KIND(pg[k].copyset, i) && i != qo && qo != n && !LEFT(n, i) -> g = i
#else
     :: g == NODES && KIND(pg[k].copyset, i) && i != qo && qo != n && !LEFT(n, i) &&
        !(qt & F_DIRECT) -> g = i
#endif
     :: else
     fi;
     i++
  :: else -> break
  od;
  if
  :: g < NODES ->
     num = KIND(pg[k].after, g);
     send(g, DELEGATE, qo, (qx + 16 * num), pg[k].version, qd)
  :: else
  fi;
  if
#ifdef BREAK_DECIDE
  :: qo != n && !LEFT(n, qo) && g == NODES ->
#else
  :: qo != n && !LEFT(n, qo) ->
#endif
     pg[k].copyset = WITH(pg[k].copyset, qo, (qx >> 2));
     pg[k].after = WITH(pg[k].after, qo, (qx & 3))
  :: else
  fi;
  if
  :: g == NODES -> send(qo, DATA, n, qx, pg[k].version, pg[k].data)
  :: else
  fi
}

/* R13.2 */
inline take_delegate()
{
  if
#ifdef BREAK_DELEGATE
  :: pg[k].copy ->
#else
  :: pg[k].copy && !pg[k].unreleased && pg[k].version == mv ->
#endif
     send(o, DATA + F_DELEGATED, n, (mx & 15), mv, pg[k].data)
#ifdef BREAK_AFTER
  :: !pg[k].copy && pg[k].fetch ->
#else
  :: !pg[k].copy && pg[k].fetch && pg[k].fetch == AFTER(mx) ->
#endif
     assert(nfull(ps[k]));
     ps[k]!o, (mx & 15), mv, md
  :: else -> send_back(o, (mx & 15), md)
  fi
}

/* R13.3: the fetch has ended by DATA of version mv, bytes md. */
inline answer_passes()
{
  do
  :: len(ps[k]) > 0 ->
     ps[k]?qo, qx, qv, qd;
     if
#ifdef BREAK_DATA
     :: true -> send(qo, DATA + F_DELEGATED, n, qx, qv, md)
#else
     :: qv == mv -> send(qo, DATA + F_DELEGATED, n, qx, mv, md)
#endif
     :: else -> send_back(qo, qx, qd)
     fi
  :: else -> break
  od
}

/* In another way. */
inline end_passes()
{
  do
  :: len(ps[k]) > 0 ->
     ps[k]?qo, qx, qv, qd;
#ifndef BREAK_DELEGATED
     send_back(qo, qx, qd)
#endif
  :: else -> break
  od
}
#endif

#ifdef ROOM
/* R12: what needs no room passes what stalls: takes it out of the queue; qt 0: there is none. */
inline overtake()
{
  num = len(q[k]);
  st = 0;
  do
  :: num > 0 ->
     num--;
     q[k]?qt, qo, qx, qv, qd;
     if
     :: !IS_WRITE(qt) && !st ->
        st = qt;
        so = qo;
        sx = qx;
        sd = qd
     :: else -> q[k]!qt, qo, qx, qv, qd
     fi
  :: else -> break
  od;
  qt = st;
  qo = so;
  qx = sx;
  qd = sd
}
#endif

/* An operation that writes nothing, taken off the queue. */
inline answer()
{
  if
  :: qt == GET -> send(qo, GOT, n, qx, 0, CELL(pg[k].data, (qx >> 2)))
  :: TYPE(qt) == READ ->
#ifdef DELEGATES
     decide()
#else
     if
     :: qo != n && !LEFT(n, qo) -> pg[k].copyset = WITH(pg[k].copyset, qo, (qx >> 2))
     :: else
     fi;
     send(qo, DATA, n, qx, pg[k].version, pg[k].data)
#endif
  :: qt == OP_R ->
     assert(!pg[k].nodata);
     complete(qx, CELL(pg[k].data, CELLOF(qx)))
  :: else -> /* OWN */
#ifdef ROOM
     pg[k].stalled = 0;
#endif
     grant()
  fi
}

/* R3: runs the queue as far as possible. */
inline serve()
{
#ifdef ROOM
  looked = 0;
#endif
  do
#ifdef ROOM
  :: pg[k].role == OWNER && STALLED && !SPILLED(k) && !looked ->
     overtake();
     if
     :: qt -> answer()
     :: else -> looked = 1
     fi
#endif
  :: pg[k].role == OWNER && len(q[k]) > 0 && !(pg[k].busy && pg[k].acks) && !STALLED &&
     (!FROZEN(n) || mt == BEGIN) ->
     q[k]?<qt, qo, qx, qv, qd>;
     if
#ifdef CRASH
     :: GONE(k) && TYPE(qt) != OWNT && !(WHOLE && qt == OP_W) -> refuse_lost()
     :: GONE(k) && (TYPE(qt) == OWNT || (WHOLE && qt == OP_W)) && !IS_WRITE(qt) ->
        q[k]?_, _, _, _, _;
        answer()
#endif
#ifdef ROOM
     :: STALLS ->
        scarce(!pg[k].spilled);
        pg[k].stalled = 1
#endif
     :: !(STALLS) && !IS_WRITE(qt) && !GONE(k) ->
        q[k]?_, _, _, _, _;
        answer()
     :: else -> /* a write */
        nd = VALUE(qx & 3);
        if
        :: pg[k].nodata || SPILLED(k) || GONE(k) ->
           assert(qt == OP_W);
           nd = SET(0, (qx >> 2), nd)
        :: else ->
           if
           :: IS_ATOMIC(qt) -> nd = RMW(CELL(pg[k].data, (qx >> 2)), nd) & 7
           :: qt == LOCK || qt == OP_L -> nd = (CELL(pg[k].data, (qx >> 2)) + 1) & 7
           :: else
           fi;
           nd = SET(pg[k].data, (qx >> 2), nd)
        fi;
        if
        :: !pg[k].busy && (nd != pg[k].data || !IS_ATOMIC(qt)) -> phase1();
#ifdef BREAK_ACK_WAIT
           pg[k].acks = 0
#endif
        :: else -> effect()
        fi
     fi
  :: else -> break
  od
}

/* Own reads that wait for the copy: served, or begun anew when it is gone. */
inline waiters()
{
  i = 0;
  do
  :: i < NT ->
     if
     :: th[i].st == WAIT_COPY && TN(i) == n && PAGEOF(i) == p ->
        if
        :: READABLE -> complete(i, CELL(pg[k].data, CELLOF(i)))
        :: !(READABLE) && pg[k].copy == ABSENT && pg[k].role != OWNER && !FROZEN(n) ->
           th[i].st = BUSY;
           sq!BEGIN, (p + 2 * n), i, 0, 0
        :: else
        fi
     :: else
     fi;
     i++
  :: else -> break
  od
}

/* This process is owner now: waiting reads are served, or queued behind the first operation. */
inline become_owner()
{
  pg[k].fetch = 0;
  pg[k].poisoned = 0;
  pg[k].unreleased = 0;
  i = 0;
  first = 1;
  num = len(q[k]);
  do
  :: i < NT ->
     if
     :: (th[i].st == WAIT_COPY || th[i].st == WAIT_FETCH) && TN(i) == n && PAGEOF(i) == p ->
        if
        :: !pg[k].nodata && !GONE(k) -> complete(i, CELL(pg[k].data, CELLOF(i)))
        :: else ->
           if
           :: first ->
              first = 0;
              q[k]?qt, qo, qx, qv, qd;
              q[k]!qt, qo, qx, qv, qd
           :: else
           fi;
           th[i].st = BUSY;
           assert(nfull(q[k]));
           q[k]!OP_R, n, i, 0, 0
        fi
     :: else
     fi;
     i++
  :: else -> break
  od;
  if
  :: !first -> /* the rest of the old queue goes behind them */
     do
     :: num > 1 ->
        num--;
        q[k]?qt, qo, qx, qv, qd;
        q[k]!qt, qo, qx, qv, qd
     :: else -> break
     od
  :: else
  fi;
#ifdef DELEGATES
  end_passes()
#endif
}

/* R5 at the new owner. */
inline granted()
{
  assert(pg[k].role == PENDING);
  granting[p] = granting[p] - 1;
  pg[k].role = OWNER;
  pg[k].copyset = mx;
#ifdef CRASH
  pg[k].lost = (mt & F_LOST -> 1 : 0);
#endif
  if
  :: mt & F_HAVE ->
     assert(pg[k].copy && pg[k].version == mv);
     pg[k].copy = ABSENT
  :: else ->
     pg[k].data = md;
     pg[k].nodata = (mt & F_NODATA -> 1 : 0);
     pg[k].version = mv;
     pg[k].copy = ABSENT
  fi;
  become_owner()
}

/* The sender of an answer is the new hint. */
inline found()
{
#ifdef OLD_HINT
  pg[k].hint = f
#else
  if
  :: f != n -> pg[k].hint = f
  :: else
  fi
#endif
}

/* R6 DATA. */
inline take_data()
{
  if
  :: !(mt & F_DELEGATED) -> found()
  :: else
  fi;
  if
  :: pg[k].fetch != 0 && pg[k].fetch == (mx & 3) ->
     pg[k].fetch = 0;
     pg[k].poisoned = 0;
#ifdef DELEGATES
     answer_passes();
#endif
     i = 0;
     do
     :: i < NT ->
        if
        :: th[i].st == WAIT_FETCH && TN(i) == n && PAGEOF(i) == p ->
           complete(i, CELL(md, CELLOF(i)))
        :: else
        fi;
        i++
     :: else -> break
     od;
     if
#ifdef BREAK_FLOOR
     :: pg[k].copy == ABSENT && pg[k].role != OWNER ->
#else
     :: mv >= pg[k].floor && pg[k].copy == ABSENT && pg[k].role != OWNER && !FROZEN(n) ->
#endif
        pg[k].copy = (mx >> 2);
        pg[k].version = mv;
        pg[k].data = md
     :: else
     fi
  :: else
  fi
}

/* R6 DONE. */
inline take_done()
{
  found();
  t = mx & 3;
  pg[k].puts = pg[k].puts - 1;
  if
  :: pg[k].role != OWNER && mv > 0 ->
     nd = (th[t].mode >= A_EXCL -> RMW(md, VALUE(t)) & 7 : VALUE(t));
     if
#ifdef BREAK_GAP
     :: pg[k].copy && pg[k].version < mv && (mt & F_APPLY) ->
#else
     :: pg[k].copy && pg[k].version + 1 == mv && (mt & F_APPLY) && !(tight && mv == 1) ->
#endif
        pg[k].data = SET(pg[k].data, (mx >> 2), nd);
        pg[k].version = mv;
#ifndef OLD_HELD
        pg[k].unreleased = 0 /* the write is in effect, and so are those before it */
#endif
     :: else ->
        if
        :: pg[k].copy && pg[k].version < mv ->
           scarce(mv == 1);
           drop()
        :: else
        fi
     fi;
     if
     :: mv > pg[k].floor -> raise(mv)
     :: else
     fi
  :: else
  fi;
  complete(t, md)
}

/* R6 UPDATE. */
inline take_update()
{
  assert(pg[k].role != OWNER);
  if
#ifdef BREAK_GAP
  :: pg[k].copy && pg[k].version < mv ->
#else
  :: pg[k].copy && pg[k].version + 1 == mv && !(tight && pg[k].version == 0) ->
#endif
     pg[k].data = SET(pg[k].data, mx, md);
     pg[k].version = mv;
#ifndef BREAK_RELEASE
     pg[k].unreleased = 1;
#endif
     send(f, UPDATED, n, 0, mv, 0)
  :: else ->
     drop();
     raise(mv);
     scarce(mv == 1);
     send(f, UPDATED + F_DROPPED, n, 0, mv, 0)
  fi
}

/* INVALIDATED, UPDATED. */
inline acknowledged()
{
#ifdef BREAK_ACK_WAIT
  if
  :: pg[k].role == OWNER && (mt & F_DROPPED) ->
     pg[k].copyset = WITHOUT(pg[k].copyset, f)
  :: else
  fi
#else
  assert(pg[k].role == OWNER && pg[k].busy && pg[k].acks && mv == pg[k].version + 1);
  pg[k].acks = pg[k].acks - 1;
  if
  :: mt & F_DROPPED -> pg[k].copyset = WITHOUT(pg[k].copyset, f)
  :: else
  fi
#endif
}

#ifdef LEAVE
/* R8.2 at the heir: HOME_END. */
inline home_end()
{
  arriving = 0;
  home[n] = n;
  send(LEAVER, HOME_DONE, n, 0, 0, 0);
  j = 0;
  do
  :: j < NP ->
     pg[K(n, j)].rec = 1;
     if
     :: listed[j] -> listed[j] = 0
     :: else -> /* nobody asked for the page: it is mine, version 0, zeros */
        pg[K(n, j)].tail = n;
#ifndef BREAK_STALE
        pg[K(n, j)].stale = (pg[K(n, j)].role == PENDING);
#endif
        assert(pg[K(n, j)].role != OWNER);
        pg[K(n, j)].role = OWNER;
        orphan[j] = 0;
        sq!HOME_END + 32, (j + 2 * n), 0, 0, 0 /* the rest of it, below */
     fi;
     j++
  :: else -> break
  od;
  do
  :: len(deferred) > 0 ->
     deferred?qt, qo, qx, qv, qd;
     if
     :: qt == OWN || qt == OWN + F_NODATA -> sq!qt + F_CAME, qo, qx, qv, qd
     :: else -> sq!qt, qo, qx, qv, qd
     fi
  :: else -> break
  od
}

/* R8.3: who shall take the page is asked, and nobody else while its answer may come. */
inline give(to_)
{
  assert(!offered[p]);
  offered[p] = 1;
  send(to_, TAKE + F_MUST, n, 0, 0, 0)
}

/* R12 at the leaver: one that had promised room keeps nothing. */
inline page_refused()
{
  if
#ifndef BREAK_REOFFER
  :: n == LEAVER && leaving && f != HEIR && pg[k].role == OWNER ->
     if
     :: mt == REFUSE_MUST -> offered[p] = 0
     :: else
     fi;
     give(HEIR)
#endif
  :: else
  fi
}

/* R8.3 at the leaver. */
inline offer()
{
  if
#ifndef BREAK_TAKE
  :: n == LEAVER && handed && pg[k].role == OWNER && !offered[p] ->
     /* to one that has promised room, or to the heir */
     scarce(true);
     give((tight -> NODES - LEAVER - HEIR : HEIR))
#endif
  :: else
  fi
}
#endif

/* R12: TAKE is refused. */
inline keep()
{
  if
  :: mt & F_MUST -> send(f, REFUSE_MUST, n, 0, 0, 0)
  :: else -> send(f, REFUSE_PAGE, n, 0, 0, 0)
  fi
}

inline handle()
{
  if
  :: mt == BEGIN ->
     t = mx;
     begin()
#ifdef DELEGATES
  :: mt == DELEGATE -> take_delegate()
#endif
  :: TYPE(mt) <= ATOMIC || mt == LOCK ->
     if
     :: pg[k].role != NONE ->
        assert(nfull(q[k]));
        q[k]!mt, o, mx, mv, md
     :: else -> forward(mt, o, mx, mv, md)
     fi
  :: TYPE(mt) == OWN ->
     if
#ifdef OLD_OWN
     /* OWN and OWNT are one: whoever is not the home takes it for the tail's */
     :: HOME(n) != n && pg[k].role != NONE ->
        q[k]!(OWNT + (mt & F_NODATA)), o, mx, mv, md
     :: !(HOME(n) != n && pg[k].role != NONE) && (HOME(n) != n || ARRIVING(n)) ->
#else
     :: HOME(n) != n || ARRIVING(n) ->
#endif
        if
        :: HOME(n) != n -> send(HOME(n), mt, o, mx, mv, md)
        :: else ->
           DEFER(mt, o, mx, mv, md)
        fi
     :: else ->
        if
        :: pg[k].stale && o == n -> pg[k].stale = 0
        :: else -> order(o, mx, (mt & F_NODATA))
        fi
     fi
  :: TYPE(mt) == OWNT ->
     assert(pg[k].role != NONE);
     assert(nfull(q[k]));
     q[k]!(mt & (31 + F_NODATA)), o, mx, mv, md
  :: mt == GOT || mt == LOCKED ->
     found();
     t = mx & 3;
     complete(t, md)
#ifdef LOCKS
  :: mt == TURN ->
     assert(pg[k].role == PENDING);
     w[k]!TURN, o, mx, md
#endif
  :: TYPE(mt) == DATA -> take_data()
  :: TYPE(mt) == DONE -> take_done()
  :: TYPE(mt) == GRANT -> granted()
  :: mt == INVALIDATE ->
     assert(pg[k].role != OWNER);
     drop();
     raise(mv);
     send(f, INVALIDATED, n, 0, mv, 0)
#ifdef DROPS
  :: mt == DROP -> drop()
#endif
  :: mt == UPDATE -> take_update()
  :: TYPE(mt) == INVALIDATED || TYPE(mt) == UPDATED -> acknowledged()
  :: mt == RELEASE ->
     if
     :: pg[k].unreleased && mv >= pg[k].version -> pg[k].unreleased = 0
     :: else
     fi
  :: TYPE(mt) == TAKE ->
     if
#ifndef BREAK_LEAVER
     :: pg[k].role == NONE && LEAVING(n) -> keep()
     :: pg[k].role == NONE && !LEAVING(n) && MAY_REFUSE_PAGE ->
#else
     :: pg[k].role == NONE && MAY_REFUSE_PAGE ->
#endif
        scarce(true);
        keep()
     :: pg[k].role == NONE -> ask(0)
     :: else
     fi
#ifdef ROOM
#if defined(OLD_REFUSE) && defined(LEAVE)
  :: mt == REFUSE_PAGE -> page_refused()
#else
  :: mt == REFUSE_PAGE /* the page stays here */
#endif
#ifdef LEAVE
  :: mt == REFUSE_MUST -> page_refused()
#endif
  :: mt == FAIL ->
     t = mx & 3;
     pg[k].puts = pg[k].puts - 1;
     complete(t, 0)
  :: mt == OFFERING -> send(mx, TAKE, n, 0, 0, 0)
  :: mt == SPILLING ->
     disk = pg[k].data;
     pg[k].spilled = 1;
#ifdef BREAK_SPILL
     pg[k].data = 0
#else
     pg[k].data = GARBAGE
#endif
  :: mt == COMES ->
     pg[k].stalled = 0;
     if
     :: pg[k].spilled ->
        pg[k].data = disk;
        pg[k].spilled = 0
     :: else
#ifdef BREAK_STALL
        -> q[k]?_, _, _, _, _
#endif
     fi
  :: mt == REFUSED ->
     pg[k].stalled = 0;
     q[k]?qt, qo, qx, qv, qd;
#ifdef BREAK_REFUSE
     pg[k].data = SET(pg[k].data, (qx >> 2), VALUE(qx & 3));
#endif
     if
     :: IS_OWN(qt) -> complete((qx & 3), 0)
     :: else -> send(qo, FAIL, n, qx, 0, 0)
     fi
#endif
#ifdef LEAVE
  :: mt == HOME_BEGIN ->
     arriving = 1;
     home[n] = n
  :: mt == HOME_TAIL ->
     listed[p] = 1;
     pg[k].tail = mx
  :: mt == HOME_END -> home_end()
  :: mt == HOME_DONE -> confirmed = 1
  :: mt == HOME_END + 32 ->
#ifndef OLD_FETCH
     become_owner()
#else
     skip
#endif
#endif
  fi
}

/* What must hold after every event: one owner, or one GRANT on its way. */
inline invariants()
{
  j = 0;
  do
  :: j < NP ->
#ifdef LEAVE
     num = granting[j] + orphan[j];
#else
     num = granting[j];
#endif
     i = 0;
     do
     :: i < NODES ->
        if
        :: pg[K(i, j)].role == OWNER -> num++
        :: else
        fi;
        i++
     :: else -> break
     od;
#ifdef CRASH
     assert(num + orphan_page == 1);
#else
     assert(num == 1);
#endif
     j++
  :: else -> break
  od
}

#ifdef LEAVE
inline leave_event()
{
  p = 0;
  k = K(n, 0);
  if
  :: c == EV_LEAVE ->
     n = LEAVER;
     leaving = 1;
     if
     :: HOME(n) == n ->
        home[n] = HEIR;
        send(HEIR, HOME_BEGIN, n, 0, 0, 0);
        j = 0;
        do
        :: j < NP ->
           if
           :: !pg[K(n, j)].rec -> /* no record: not owned any more */
              pg[K(n, j)].role = NONE;
              orphan[j] = 1
           :: else
           fi;
           j++
        :: else -> break
        od
     :: else ->
        handed = 1;
        confirmed = 1
     fi
  :: c == EV_HAND -> /* the lists, any time later */
     n = LEAVER;
     handed = 1;
     p = 0;
     do
     :: p < NP ->
#ifndef BREAK_TAILS
        if
        :: pg[K(n, p)].rec -> send(HEIR, HOME_TAIL, n, pg[K(n, p)].tail, 0, 0)
        :: else
        fi;
#endif
        pg[K(n, p)].tail = 0;
        p++
     :: else -> break
     od;
     p = 0;
     send(HEIR, HOME_END, n, 0, 0, 0)
  :: c == EV_DRAINED -> drained = 1
  :: else -> /* process c - EV_VIEW takes the view without LEAVER */
     n = c - EV_VIEW;
     view[n] = 1;
     if
     :: HOME(n) == LEAVER -> home[n] = HEIR
     :: else
     fi
  fi;
  if
  :: handed && c < EV_DRAINED ->
     p = 0;
     do
     :: p < NP ->
        k = K(n, p);
        offer();
        p++
     :: else -> break
     od
  :: else
  fi
}

#ifdef OLD_VIEW
#define CONFIRMED true
#else
#define CONFIRMED confirmed
#endif
#define L_OWNS(b) (pg[K(LEAVER, b)].role != NONE)
#define L_IDLE (CONFIRMED && (drained || (!L_OWNS(0) && !L_OWNS(NP - 1))))
/* No user code runs at LEAVER any more: only then a view removes it. */
#define ENDED(a) ((a) >= NT || TN(a) != LEAVER || (th[(a) % NT].st == IDLE && \
                  th[(a) % NT].pc == OPS((a) % NT)))
#define threads_done (ENDED(0) && ENDED(1) && ENDED(2) && ENDED(3))
#endif

/* One event: c is a channel, or 16 + a thread, or one of membership. */
inline event()
{
  d_step {
    if
    :: c < NCH ->
       ch[c]?mt, mp, mx, mv, md;
       f = c / (NODES - 1);
       n = c % (NODES - 1);
       n = (n >= f -> n + 1 : n)
#ifdef DELEGATES
    :: c >= EV_BULK && c < EV_OFFER ->
       bulk[c - EV_BULK]?mt, mp, mx, mv, md;
       f = (c - EV_BULK) / (NODES - 1);
       n = (c - EV_BULK) % (NODES - 1);
       n = (n >= f -> n + 1 : n)
#endif
#ifdef DROPS
    :: c >= EV_DROP && c < EV_LEAVE ->
       n = c - EV_DROP;
       f = n;
       mt = DROP;
       mp = 2 * n;
       drops++
#endif
#ifdef ROOM
    :: c >= EV_OFFER && c < EV_CRASH ->
       n = (c < EV_ROOM -> (c - EV_OFFER) / 3 : (c - EV_ROOM) & 3);
       f = n;
       mp = 2 * n;
       mx = (c - EV_OFFER) % 3;
       if
       :: c < EV_ROOM ->
          mt = OFFERING;
          offers++
       :: c >= EV_ROOM && c < EV_REFUSE -> mt = COMES
       :: c >= EV_REFUSE && c < EV_SPILL -> mt = REFUSED
       :: else ->
          mt = SPILLING;
          spills++
       fi
#endif
#ifdef CRASH
    :: c >= EV_CRASH ->
       n = (c >= EV_RESUME -> c - EV_RESUME : 0);
       f = n;
       mp = 2 * n;
       mt = (c >= EV_RESUME -> THAW : 0)
#endif
#ifdef LEAVE
    :: c >= EV_LEAVE && c < EV_BULK ->
       printf("LEAVE %d\n", c);
       leave_event();
       mt = 0
#endif
    :: else ->
       t = c - 16;
       n = TN(t);
       f = n;
       th[t].mode = m;
#ifdef LIN
       if
       :: m <= R_GET -> th[t].seen = 1 << CELL(mem[PAGEOF(t)], CELLOF(t))
       :: else
       fi;
#endif
       mt = BEGIN;
       mp = PAGEOF(t) + 2 * n;
       mx = t
    fi;
    do
    :: mt ->
       p = mp & 1;
       o = mp >> 1;
       k = K(n, p);
       printf("EVENT %d %d %d %d %d %d %d %d\n", mt, n, f, p, o, mx, mv, md);
#ifdef CRASH
       if
       :: CRASH_HANDLES -> crash_handle()
       :: else -> handle()
       fi;
#else
       handle();
#endif
       k = K(n, p);
       serve();
       waiters();
#ifdef LEAVE
       if
       :: n == LEAVER && HOME(n) == n -> pg[k].rec = 1
       :: else
       fi;
       offer();
#endif
       printf("STATE %d %d %d %d %d %d\n", pg[k].role, pg[k].copy, pg[k].unreleased, pg[k].puts,
              pg[k].fetch, pg[k].version);
       if
       :: len(sq) > 0 ->
          sq?mt, mp, mx, mv, md;
          f = n
       :: else -> break
       fi
    :: else -> break
    od;
    invariants();
#ifdef ROOM
    fulls = fulls + missed;
    missed = 0;
    tight = 0;
#endif
    c = 0; m = 0
  }
}

/* Where the system starts.  Everything nobody set is 0: role NONE, no copy, value 0. */
inline setup()
{
  p = 0;
  do
  :: p < NP ->
     i = 0;
     do
     :: i < NODES ->
        k = K(i, p);
#if defined(LEAVE) || defined(CRASH)
        home[i] = HOME0;
#endif
        pg[k].hint = HOMEP;
        pg[k].tail = (p == 0 -> OWNER0 : OWNER1);
        i++
     :: else -> break
     od;
     pg[K((p == 0 -> OWNER0 : OWNER1), p)].role = OWNER;
#ifdef LEAVE
     pg[K(HOMEP, p)].rec = ((p == 0 -> OWNER0 : OWNER1) != HOMEP);
#endif
     p++
  :: else -> break
  od
}

/*
 * Process a has a copy of page b to begin with, of kind x.  (In a d_step, as everything that
 * uses hidden variables must be: undoing a single statement would use their later values.)
 */
inline warm(a_, b_, x_)
{
  d_step {
    if
    :: x_ != ABSENT && (b_ == 0 -> OWNER0 : OWNER1) != a_ && WAS_MEMBER(a_) ->
       pg[K(a_, b_)].copy = x_;
       k = K((b_ == 0 -> OWNER0 : OWNER1), b_);
       pg[k].copyset = WITH(pg[k].copyset, a_, x_);
#ifdef LEAVE
       pg[K(HOME0, b_)].rec = 1
#endif
    :: else
    fi
  }
}

#define READY(a) (th[a].st == IDLE && th[a].pc < OPS(a) && JOINED(a) && MAY_START(a))
#ifdef JOIN
#define JOINED(a) (TN(a) != JOINER || joined)
#define IS_MEMBER(a) ((a) != JOINER || joined)
#define VIEWS (view[0] + view[1] + view[NODES - 1])
#else
#define JOINED(a) true
#define IS_MEMBER(a) true
#endif
#define START(a) READY(a) -> c = 16 + a; choose_mode()
#define MAY(x) (MODES(c - 16) & (1 << x))
inline choose_mode()
{
  if
  :: MAY(R_INV) -> m = R_INV
  :: MAY(R_UPD) -> m = R_UPD
  :: MAY(R_GET) -> m = R_GET
  :: MAY(W_EXCL) -> m = W_EXCL
  :: MAY(W_PUT) -> m = W_PUT
  :: MAY(A_EXCL) -> m = A_EXCL
  :: MAY(A_PUT) -> m = A_PUT
  :: MAY(LOCKING) -> m = LOCKING
  fi
}

/* When nothing can happen any more, everything must be done. */
inline finish()
{
  d_step {
    i = 0;
    do
    :: i < NT ->
       assert(th[i].pc == OPS(i) || DEAD(TN(i))); /* no lost request */
       i++
    :: else -> break
    od;
    p = 0;
    do
    :: p < NP ->
       i = 0;
       do
       :: i < NODES ->
          k = K(i, p);
#ifdef CRASH
          assert(DEAD(i) || pg[k].role != OWNER || pg[k].floor <= pg[k].version);
          assert(DEAD(i) || OWNER_OF(p) == NODES ||
                 pg[k].floor <= pg[K(OWNER_OF(p), p)].version); /* it can have copies again */
#endif
          assert(!pg[k].unreleased || LEAVING(i)); /* the view may come before the RELEASE */
          assert(pg[k].role != PENDING && !pg[k].puts && !pg[k].fetch);
          assert(!pg[k].busy && empty(q[k]) && !pg[k].stale);
#ifdef DELEGATES
          assert(empty(ps[k]));
#endif
#ifdef LOCKS
          assert(empty(w[k]));
#endif
          assert(DEAD(i) || pg[k].role != OWNER || pg[K(HOME(i), p)].tail == i);
#ifdef ROOM
          assert(!pg[k].stalled);
          assert(pg[k].role != OWNER || (SPILLED(k) -> disk : pg[k].data) == mem[p]);
#else
          assert(pg[k].role != OWNER || pg[k].data == mem[p]);
#endif
#ifndef NO_AGREE
          assert(pg[k].copy == ABSENT || pg[k].data == mem[p] || LEAVING(i)); /* copies agree */
#endif
          i++
       :: else -> break
       od;
       p++
    :: else -> break
    od;
#ifdef LEAVE
    i = 0;
    do
    :: i < NODES ->
       assert(i == LEAVER || view[i]); /* the leaver could go */
       i++
    :: else -> break
    od;
#endif
    LITMUS
  }
}

active proctype system()
{
  atomic {
    d_step { setup() };
    WARM
  };
  do
  :: atomic {
       if
       :: ARRIVES(0) -> c = 0
       :: ARRIVES(1) -> c = 1
#if NODES > 2
       :: ARRIVES(2) -> c = 2
       :: ARRIVES(3) -> c = 3
       :: ARRIVES(4) -> c = 4
       :: ARRIVES(5) -> c = 5
#endif
#if NODES > 3
       :: ARRIVES(6) -> c = 6
       :: ARRIVES(7) -> c = 7
       :: ARRIVES(8) -> c = 8
       :: ARRIVES(9) -> c = 9
       :: ARRIVES(10) -> c = 10
       :: ARRIVES(11) -> c = 11
#endif
#ifdef DELEGATES
       :: len(bulk[0]) > 0 -> c = EV_BULK + 0
       :: len(bulk[1]) > 0 -> c = EV_BULK + 1
#if NODES > 2
       :: len(bulk[2]) > 0 -> c = EV_BULK + 2
       :: len(bulk[3]) > 0 -> c = EV_BULK + 3
       :: len(bulk[4]) > 0 -> c = EV_BULK + 4
       :: len(bulk[5]) > 0 -> c = EV_BULK + 5
#endif
#if NODES > 3
       :: len(bulk[6]) > 0 -> c = EV_BULK + 6
       :: len(bulk[7]) > 0 -> c = EV_BULK + 7
       :: len(bulk[8]) > 0 -> c = EV_BULK + 8
       :: len(bulk[9]) > 0 -> c = EV_BULK + 9
       :: len(bulk[10]) > 0 -> c = EV_BULK + 10
       :: len(bulk[11]) > 0 -> c = EV_BULK + 11
#endif
#endif
       :: START(0)
#if NT > 1
       :: START(1)
#endif
#if NT > 2
       :: START(2)
#endif
#if NT > 3
       :: START(3)
#endif
#ifdef LEAVE
       :: !leaving -> c = EV_LEAVE
       :: leaving && !handed -> c = EV_HAND
       :: handed && !drained && L_IDLE -> c = EV_DRAINED
       :: drained && threads_done && LEAVER != 0 && !view[0] && IS_MEMBER(0) -> c = EV_VIEW + 0
       :: drained && threads_done && LEAVER != 1 && !view[1] && IS_MEMBER(1) -> c = EV_VIEW + 1
#if NODES > 2
       :: drained && threads_done && LEAVER != 2 && !view[2] && IS_MEMBER(2) -> c = EV_VIEW + 2
#endif
#endif
#ifdef DROPS
       :: drops < DROPS && MAY_DROP(0) -> c = EV_DROP + 0
       :: drops < DROPS && MAY_DROP(1) -> c = EV_DROP + 1
       :: drops < DROPS && MAY_DROP(2) -> c = EV_DROP + 2
#endif
#ifdef ROOM
       :: STALLED_AT(0) -> c = EV_ROOM + 0
       :: STALLED_AT(1) -> c = EV_ROOM + 1
       :: STALLED_AT(2) -> c = EV_ROOM + 2
       :: MAY_REFUSE(0) -> c = EV_REFUSE + 0
       :: MAY_REFUSE(1) -> c = EV_REFUSE + 1
       :: MAY_REFUSE(2) -> c = EV_REFUSE + 2
       :: MAY_SPILL(0) -> c = EV_SPILL + 0
       :: MAY_SPILL(1) -> c = EV_SPILL + 1
       :: MAY_SPILL(2) -> c = EV_SPILL + 2
       :: MAY_OFFER(0, 1) -> c = EV_OFFER + 1
       :: MAY_OFFER(0, 2) -> c = EV_OFFER + 2
       :: MAY_OFFER(1, 0) -> c = EV_OFFER + 3
       :: MAY_OFFER(1, 2) -> c = EV_OFFER + 5
       :: MAY_OFFER(2, 0) -> c = EV_OFFER + 6
       :: MAY_OFFER(2, 1) -> c = EV_OFFER + 7
#endif
#ifdef JOIN
#ifdef LEAVE
       /* one view change at a time: not while some, but not all, have taken the other view */
       :: !joined && VIEWS == 0 -> joined = 1; goto again
       :: !joined && VIEWS == NODES - 2 ->
          joined = 1;
          view[JOINER] = 1;
          home[JOINER] = home[HEIR];
          pg[K(JOINER, 0)].hint = home[HEIR];
          pg[K(JOINER, NP - 1)].hint = home[HEIR];
          goto again
#else
       :: !joined -> joined = 1; goto again
#endif
#endif
#ifdef CRASH
       :: MAY_CRASH(0) -> c = EV_CRASH + 0
       :: MAY_CRASH(1) -> c = EV_CRASH + 1
       :: MAY_CRASH(2) -> c = EV_CRASH + 2
       :: MAY_FREEZE(0) -> c = EV_FREEZE + 0
       :: MAY_FREEZE(1) -> c = EV_FREEZE + 1
       :: MAY_FREEZE(2) -> c = EV_FREEZE + 2
       :: MAY_DECIDE -> c = EV_DECIDE
       :: MAY_RESUME(0) -> c = EV_RESUME + 0
       :: MAY_RESUME(1) -> c = EV_RESUME + 1
       :: MAY_RESUME(2) -> c = EV_RESUME + 2
#endif
       :: else -> finish(); break
       fi;
#ifdef ROOM
       if
       :: tight = 0
       :: fulls < FULLS && (c < EV_OFFER || (c >= EV_REFUSE && c < EV_SPILL)) -> tight = 1
       fi;
#endif
#ifdef CRASH
       if
       :: c >= EV_CRASH -> crash_event()
       :: else
       fi;
#endif
       event();
again: skip
     }
  od
}
