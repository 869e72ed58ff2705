/*
 * crash.h - the part of the model about the loss of a process: docs/crashes-pages.md.  -DCRASH, with
 * CRASHES (how many) and CRASHERS (bits: who).  One page.
 *
 * A process stops at any event.  What it has sent arrives until its receiver takes the view without
 * it; what is sent to it goes nowhere.  Each survivor takes the view (freezes) when it likes; when all
 * have and nothing is under way between them, which FLUSH shows, everybody learns what became of its
 * operations and of the page (EV_DECIDE: BACK, REPORT, ASK, DECIDE in one step, all of it marks).
 * Then each one resumes; what a resumed one sends waits until its receiver resumes, too.
 */
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef CRASHERS
#define CRASHERS 7
#endif
#define EV_FREEZE 100
#define EV_DECIDE 104
#define EV_RESUME 108

/* What a process learns of an operation of its own that it has sent. */
#define NOT_SENT 0
#define HELD 1 /* a living owner runs it */
#define ANEW 2 /* it was dropped, or is a read */
#define AWAY 3 /* it went to the dead */

bit dead[NODES];
byte crashes;      /* so far; the newest view */
byte seen_view[NODES];
bit frozen[NODES];
bit decided;       /* all are READY */
bit resumes;       /* RESUME was sent by `coord` */
byte coord, heir;  /* of that recovery; the home after it */
byte winner;       /* the owner after it; NODES: LOST */
byte fate[NT];
bit dropped[NT];   /* its request arrived at a frozen process */
#ifndef LEAVE
byte home[NODES];
#endif
/* ghosts */
bit orphan_page;   /* its owner, or a GRANT, was lost */
bit did[NT];       /* the operation at work has taken effect */
byte mver;         /* version of what is in effect */
bit had[NODES];    /* an exact copy, at a decision that was not carried out */
hidden byte best, fine;

#define DEAD(a) dead[a]
#define FROZEN(a) frozen[a]
#define GONE(k_) (pg[k_].lost)
#define LIVES(a) (!dead[a])
#define ALL(what) (what(0) && what(1) && what(2))
#define IS_SETTLED(a) (dead[a] || (!frozen[a] && seen_view[a] == crashes))
#define UNSETTLED (!(ALL(IS_SETTLED)))
#define IS_STOPPED(a) (dead[a] || (frozen[a] && seen_view[a] == crashes))
#define RECEIVER(a) ((a) % (NODES - 1) + ((a) % (NODES - 1) >= (a) / (NODES - 1) -> 1 : 0))
#define ARRIVES(a) (len(ch[a]) > 0 && !(frozen[RECEIVER(a)] && decided))
#define OWNER_OF(b) \
  (pg[K(0, b)].role == OWNER -> 0 : (pg[K(1, b)].role == OWNER -> 1 : (pg[K(2, b)].role == OWNER -> 2 : NODES)))

/* Hits of the owner go on, all else waits; that it waits from now on needs no step. */
#define HITS(a) \
  (pg[K(a, 0)].role == OWNER && !pg[K(a, 0)].nodata && !pg[K(a, 0)].lost && len(q[K(a, 0)]) == 0 && \
   pg[K(a, 0)].copyset == 0)
#ifdef BREAK_FREEZE /* copies are read, too */
#define COPY_FROZEN(a) false
#define MAY_START(a)                                      \
  (!dead[TN(a)] && (!frozen[TN(a)] || HITS(TN(a)) ||      \
                    (pg[K(TN(a), 0)].copy && !pg[K(TN(a), 0)].unreleased && MODES(a) < 16)))
#else
#define COPY_FROZEN(a) frozen[a]
#define MAY_START(a) (!dead[TN(a)] && (!frozen[TN(a)] || HITS(TN(a))))
#endif
#define MAY_CRASH(a) (crashes < CRASHES && !dead[a] && (CRASHERS & (1 << (a))))
/* READY was sent, and whether RESUME was, the coordinator has taken with it (or says that it was):
 * then what was decided is carried out first. */
#ifdef BREAK_DOUBT
#define IN_DOUBT(a) false
#else
#define IN_DOUBT(a) (decided && frozen[a] && (a) != coord && (resumes || dead[coord]))
#endif
#define MAY_FREEZE(a) (!dead[a] && seen_view[a] < crashes && !(IN_DOUBT(a)))
#ifdef BREAK_FLUSH
#define FLUSHED true
#else
#define FLUSHED                                                                          \
  (len(ch[0]) == 0 && len(ch[1]) == 0 && len(ch[2]) == 0 && len(ch[3]) == 0 && len(ch[4]) == 0 && \
   len(ch[5]) == 0)
#endif
#define MAY_DECIDE (crashes && !decided && UNSETTLED && ALL(IS_STOPPED) && FLUSHED)
#define MAY_RESUME(a) (decided && frozen[a] && !dead[a] && ((a) == coord || resumes || dead[coord]))

/* Of thread a: does its operation count in `puts` once it is sent? */
#define PUTS(a) (th[a].mode >= W_EXCL && th[a].mode != LOCKING)

/* Thread a's operation takes effect. */
inline in_effect(a_)
{
  if
  :: !dead[TN(a_)] ->
     assert(th[a_].st != IDLE && !did[a_]); /* exactly once: not twice */
     did[a_] = 1
  :: else
  fi;
  mver = pg[k].version
}

/* ... and returns without an answer: DMI_ELOST. */
inline op_ends_lost(a_)
{
  assert(th[a_].st != IDLE && crashes);
#ifdef LIN
  th[a_].seen = 0;
#endif
  did[a_] = 0;
  th[a_].st = IDLE;
  th[a_].mode = 0;
  th[a_].pc = th[a_].pc + 1
}

/* At the owner of a LOST page: the head of the queue fails. */
inline refuse_lost()
{
  q[k]?qt, qo, qx, qv, qd;
  if
  :: IS_OWN(qt) -> op_ends_lost((qx & 3))
  :: !IS_OWN(qt) && TYPE(qt) == READ -> send(qo, LOST_FETCH, n, qx, 0, 0)
  :: else -> send(qo, LOST_OP, n, qx, 0, 0)
  fi
}

inline op_lost()
{
  t = mx & 3;
  if
  :: PUTS(t) -> pg[k].puts = pg[k].puts - 1
  :: else
  fi;
  op_ends_lost(t)
}

inline fetch_lost()
{
  if
  :: pg[k].fetch != 0 && pg[k].fetch == (mx & 3) ->
     pg[k].fetch = 0;
     pg[k].poisoned = 0;
     i = 0;
     do
     :: i < NT ->
        if
        :: th[i].st == WAIT_FETCH && TN(i) == n -> op_ends_lost(i)
        :: else
        fi;
        i++
     :: else -> break
     od
  :: else
  fi
}

/* Forgets what is in channel a. */
inline purge(a_)
{
  do
  :: len(ch[a_]) > 0 ->
     ch[a_]?mt, mp, mx, mv, md;
     if
     :: TYPE(mt) == GRANT ->
        granting[0] = granting[0] - 1;
        orphan_page = 1
     :: else
     fi
  :: else -> break
  od
}

/* Process n stops. */
inline die()
{
  dead[n] = 1;
  crashes++;
  frozen[n] = 0;
  seen_view[n] = 0;
  home[n] = 0;
  had[n] = 0;
  k = K(n, 0);
  orphan_page = (pg[k].role == OWNER -> 1 : orphan_page);
  pg[k].role = NONE; pg[k].copy = 0; pg[k].unreleased = 0; pg[k].nodata = 0; pg[k].poisoned = 0;
  pg[k].stale = 0; pg[k].lost = 0; pg[k].busy = 0; pg[k].acks = 0; pg[k].puts = 0;
  pg[k].fetch = 0; pg[k].fetches = 0; pg[k].version = 0; pg[k].floor = 0; pg[k].hint = 0;
  pg[k].tail = 0; pg[k].data = 0; pg[k].copyset = 0;
  do
  :: len(q[k]) > 0 -> q[k]?_, _, _, _, _
  :: else -> break
  od;
  i = 0;
  do
  :: i < NODES ->
     if
     :: i != n -> purge(CI(i, n))
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < NT ->
     if
     :: TN(i) == n ->
        th[i].st = IDLE; /* pc stays: VALUE of what it has sent */
        th[i].mode = 0;
#ifdef LIN
        th[i].seen = 0;
#endif
        fate[i] = 0;
        dropped[i] = 0;
        did[i] = 0
     :: else
     fi;
     i++
  :: else -> break
  od
}

/* Process n takes the view without the dead. */
inline freeze()
{
  decided = 0; /* not carried out, and nobody has */
  resumes = 0;
  seen_view[n] = crashes;
  frozen[n] = 1;
  i = 0;
  do
  :: i < NODES ->
     if
     :: i != n && dead[i] -> purge(CI(i, n))
     :: else
     fi;
     i++
  :: else -> break
  od
}

/* FLUSH of all has come.  BACK: where is the operation of thread t? */
inline back()
{
  fate[t] = (th[t].mode <= R_GET || dropped[t] -> ANEW : AWAY);
  i = 0;
  do
  :: i < NODES ->
     k = K(i, 0);
     num = len(q[k]);
     first = 1;
     do
     :: num > 0 ->
        num--;
        q[k]?qt, qo, qx, qv, qd;
        q[k]!qt, qo, qx, qv, qd;
        if
        :: !dead[i] && IS_OWN(qt) && (qx & 3) == t -> fate[t] = NOT_SENT
        :: !dead[i] && (qt == PUT || qt == ATOMIC) && (qx & 3) == t && first && pg[k].busy ->
           fate[t] = HELD
        :: !dead[i] && (qt == PUT || qt == ATOMIC) && (qx & 3) == t && !(first && pg[k].busy) ->
           fate[t] = ANEW
        :: else
        fi;
        first = 0
     :: else -> break
     od;
     i++
  :: else -> break
  od;
#ifdef BREAK_BACK
  if
  :: fate[t] == AWAY -> fate[t] = ANEW
  :: else
  fi
#endif
}

/* Has process i a copy that may be promoted?  `fine`: nobody could doubt it. */
inline eligible()
{
  k = K(i, 0);
  own = !dead[i] && pg[k].copy != ABSENT;
  fine = own;
  t = 0;
  do
  :: t < NT ->
     if
#ifndef BREAK_PUTS_ELIGIBLE
     :: own && TN(t) == i && PUTS(t) && fate[t] == AWAY -> own = 0
#endif
     :: else
     fi;
     if
     :: TN(t) == i && th[t].st != IDLE && PUTS(t) -> fine = 0
     :: else
     fi;
     t++
  :: else -> break
  od
}

/* REPORT, ASK, DECIDE: marks. */
inline decide_owner()
{
  winner = NODES;
  best = 0;
  i = 0;
  do
  :: i < NODES ->
     if
     :: !dead[i] && pg[K(i, 0)].role == OWNER -> winner = i
     :: else
     fi;
     i++
  :: else -> break
  od;
  num = pg[K(heir, 0)].tail;
  /* The home asks nobody when the tail lives and is not PENDING. */
  assert(home[heir] != heir || dead[num] || pg[K(num, 0)].role == PENDING || num == winner);
  i = 0;
  do
  :: i < NODES && OWNER_OF(0) == NODES ->
     eligible();
     if
#ifdef BREAK_LOWEST
     :: own && (winner == NODES || pg[k].version < best) ->
#else
     :: own && (winner == NODES || pg[k].version > best) ->
#endif
        winner = i;
        best = pg[k].version
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < NODES && winner == NODES ->
     eligible();
     assert(!had[i] && !fine); /* ELOST only if there was no exact copy */
     i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < NODES ->
     eligible();
     had[i] = fine && OWNER_OF(0) == NODES;
#ifdef BREAK_EARLY_DROP
     if
     :: own && i != winner -> k = K(i, 0); drop()
     :: else
     fi;
#endif
     i++
  :: else -> break
  od
}

inline decide_all()
{
  decided = 1;
  coord = (dead[0] -> (dead[1] -> 2 : 1) : 0);
  heir = (dead[home[coord]] -> coord : home[coord]);
  t = 0;
  do
  :: t < NT ->
     if
     :: th[t].st == BUSY && !dead[TN(t)] -> back()
     :: else
     fi;
     t++
  :: else -> break
  od;
  decide_owner()
}

/* The page at process n after RESUME. */
inline settle()
{
  if
  :: pg[k].role == OWNER
  :: pg[k].role != OWNER && winner == n -> /* promoted */
     assert((pg[k].version == mver && pg[k].data == mem[0]) ||
            (pg[k].version == mver + 1 && pg[k].unreleased));
     pg[k].role = OWNER;
     orphan_page = 0;
     mver = pg[k].version;
     mem[0] = pg[k].data;
#ifdef LIN
     i = 0;
     do
     :: i < NT ->
        if
        :: th[i].st != IDLE && th[i].mode <= R_GET ->
           th[i].seen = th[i].seen | (1 << CELL(mem[0], CELLOF(i)))
        :: else
        fi;
        i++
     :: else -> break
     od;
#endif
  :: pg[k].role != OWNER && winner == NODES && n == heir ->
     drop();
     pg[k].role = OWNER;
     orphan_page = 0;
     pg[k].lost = 1;
     mver = 0;
     mem[0] = 0
  :: else -> drop()
  fi;
  pg[k].copy = ABSENT;
  pg[k].unreleased = 0;
  pg[k].copyset = 0;
  pg[k].acks = 0; /* a write at work is in effect: nobody else has bytes */
#ifndef BREAK_FLOOR_KEPT
  pg[k].floor = 0;
#endif
  pg[k].fetch = 0;
  pg[k].poisoned = 0;
  pg[k].stale = 0;
  pg[k].puts = 0;
  home[n] = heir;
  pg[k].hint = heir;
  pg[k].tail = (winner == NODES -> heir : winner)
}

/* RESUME at process n. */
inline thaw()
{
  if
  :: n == coord -> resumes = 1
  :: else
  fi;
  frozen[n] = 0;
  settle();
  num = len(q[k]);
  first = 1;
  do
  :: num > 0 -> /* requests of others are dropped, but that at work */
     num--;
     q[k]?qt, qo, qx, qv, qd;
     if
     :: IS_OWN(qt) || (first && pg[k].busy) -> q[k]!qt, qo, qx, qv, qd
     :: else
     fi;
     first = 0
  :: else -> break
  od;
  if
  :: pg[k].role == PENDING -> ask(0)
  :: else
  fi;
  t = 0;
  do
  :: t < NT ->
     if
     :: TN(t) == n && (th[t].st > BUSY || (th[t].st == BUSY && fate[t] == ANEW)) ->
        th[t].st = BUSY;
        sq!BEGIN, (p + 2 * n), t, 0, 0
     :: TN(t) == n && th[t].st == BUSY && fate[t] == AWAY -> op_ends_lost(t)
     :: TN(t) == n && th[t].st == BUSY && fate[t] == HELD ->
#ifndef BREAK_PUTS_FORGOTTEN
        pg[k].puts = pg[k].puts + (PUTS(t) -> 1 : 0)
#else
        skip
#endif
     :: else
     fi;
     if
     :: TN(t) == n ->
        fate[t] = 0;
        dropped[t] = 0
     :: else
     fi;
     t++
  :: else -> break
  od;
  had[n] = 0;
  if
  :: !UNSETTLED ->
     decided = 0;
     resumes = 0;
     winner = 0
  :: else
  fi
}

/* At a frozen process: answers and GRANT are as ever, but DATA is not kept; all else of before the
 * FLUSH of its sender comes to nothing. */
#ifdef BREAK_GRANT_DROPPED
#define AS_EVER(m) ((m) == GOT || TYPE(m) == DONE || (m) == DATA)
#else
#define AS_EVER(m) ((m) == GOT || TYPE(m) == DONE || (m) == DATA || TYPE(m) == GRANT)
#endif
#define CRASH_HANDLES \
  ((FROZEN(n) && mt != BEGIN && !(AS_EVER(mt))) || mt == THAW || mt == LOST_OP || mt == LOST_FETCH)

inline crash_handle()
{
  if
  :: mt == LOST_OP -> op_lost()
  :: mt == LOST_FETCH -> fetch_lost()
  :: mt == PUT || mt == ATOMIC ->
     if
     :: !dead[o] -> dropped[mx & 3] = 1
     :: else
     fi
  :: TYPE(mt) == GRANT -> granting[0] = granting[0] - 1
  :: else /* THAW: done before */
  fi
}

/* Before event(), in a step of its own. */
inline crash_event()
{
  d_step {
    p = 0;
    mt = 0;
    if
    :: c < EV_FREEZE ->
       n = c - EV_CRASH;
       die()
    :: c >= EV_FREEZE && c < EV_DECIDE ->
       n = c - EV_FREEZE;
       freeze()
    :: c == EV_DECIDE -> decide_all()
    :: else ->
       n = c - EV_RESUME;
       k = K(n, 0);
       thaw()
    fi;
    printf("CRASH %d\n", c)
  }
}
