/*
 * view.pml - who goes on after a loss (docs/crashes.md, "Agreeing"): voters, ballots, and views that
 * some members have taken and others have not.
 *
 * Messages are not queued: what a process has said once, another may hear at any later time, or
 * never.  So delay, loss, reordering and every partition are among the behaviours searched.  Time
 * is one bit for each process: its lease has run out (frozen).  That nobody is removed alive before
 * that is assumed here; it is what the times in docs/crashes.md are for.
 *
 * Checked: crash views are one history, whoever decides them and whoever dies; a join or leave that
 * all have taken is part of it.
 *
 * -DHOSTS=n: which processes share a host (bits of the host number); -DDEATHS, -DBALLOTS, -DCHANGES.
 * Broken rules: -DNO_BALLOT, -DNEWEST_VIEW_ONLY, -DDEAD_NOT_COUNTED, -DNO_LEASE, -DNO_ADOPT,
 * -DNO_LEADER, -DBY_NUMBER.
 */
#ifndef N
#define N 4
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef BALLOTS
#define BALLOTS 3 /* 0 is that of the first coordinator */
#endif
#ifndef CHANGES
#define CHANGES 1 /* joins and leaves */
#endif
#ifndef HOSTS
#define HOSTS 14 /* process 0 on one host, 1 to 3 on another */
#endif
#ifndef FIRST
#define FIRST (bit(N) - 1) /* voters at the start */
#endif
#define bit(p) (1 << (p))
#define VIEWS 7
#define NONE 255

#define has(mask, p) (((mask) >> (p)) & 1)
#define within(a, b) (((a) & ~(b)) == 0)

/* ---- Processes ---- */
byte alive = bit(N) - 1, frozen; /* masks */
byte promised[N];        /* ballot */
byte taken[N];           /* view */
byte known[N];           /* view: the last of which it knows that all have taken it */
byte acc_ballot[N];      /* of the proposal accepted last, + 1; 0: none */
byte acc_num[N], acc_mask[N], acc_base[N];
byte deaths, changes;

/* ---- Views ---- */
byte views = 1;
byte v_num[VIEWS], v_prev[VIEWS], v_ballot[VIEWS], v_tie[VIEWS];
bool v_change[VIEWS]; /* a join or leave */
byte v_mask[VIEWS] = FIRST; /* those not made yet too, which nobody looks at */
byte decided;   /* the newest crash view, or the first view */
byte completed; /* the newest view that all its voters have taken */

/* ---- Ballots ---- */
#define UNUSED 0
#define PREPARING 1
#define LEADING 2
#define PROPOSED 3
#define OVER 4 /* its owner is dead */
byte b_state[BALLOTS];
byte b_owner[BALLOTS], b_got[BALLOTS], b_base[BALLOTS];
byte b_acc[BALLOTS], b_acc_num[BALLOTS], b_acc_mask[BALLOTS]; /* highest that was promised with */
byte b_mask[BALLOTS], b_ack[BALLOTS];
bool b_again[BALLOTS]; /* what it proposes was accepted in an earlier ballot */

/* Who takes view x: its voters; who leaves as well, so that it asks for nothing by the one before. */
#define takers(x) (v_mask[x] | (v_change[x] -> v_mask[v_prev[x]] : 0))

/* Is view x newer than y? */
#define newer(x, y) \
  (v_ballot[x] > v_ballot[y] || (v_ballot[x] == v_ballot[y] && v_num[x] > v_num[y]))

byte i, j, w_yes, w_all, dead; /* scratch, 0 between steps */
bool good;

inline weigh(mask, tie, into) {
  into = 0;
  i = 0;
  do
  :: i < N ->
     if
     :: has(mask, i) -> into = into + (i == tie -> 3 : 2)
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

/* good: `ack` decides over every view from the last that owner knows all have taken, to `base`. */
inline quorum(ack, base, from) {
  good = true;
  dead = 0;
  i = 0;
  do /* proved dead to somebody in ack: on the same host */
  :: i < N ->
     if
     :: !has(alive, i) && (has(HOSTS, i) -> (ack & HOSTS) != 0 : (ack & 15 & ~HOSTS) != 0) ->
        dead = dead | bit(i)
     :: else
     fi;
     i++
  :: else -> break
  od;
  j = base;
  do
  :: true ->
     weigh(ack & v_mask[j], v_tie[j], w_yes);
#ifdef DEAD_NOT_COUNTED
     weigh(v_mask[j] & ~dead, v_tie[j], w_all);
     good = good && 2 * w_yes > w_all;
#else
     weigh(v_mask[j], v_tie[j], w_all);
     good = good && (2 * w_yes > w_all ||
#ifndef NO_LEASE
                     ((ack & frozen) == 0) &&
#endif
                     within(v_mask[j], ack | dead));
#endif
#ifndef NEWEST_VIEW_ONLY
     if
     :: j == from || j == 0 -> break
     :: else -> j = v_prev[j]
     fi
#else
     break
#endif
  od;
  j = 0; w_yes = 0; w_all = 0; dead = 0
}

/* good: x is y, or lies before it. */
inline before(x, y) {
  j = y;
  do
  :: j == x || j == 0 -> break
  :: else -> j = v_prev[j]
  od;
  good = (j == x);
  j = 0
}

/* The newest view that all have taken, once it is so. */
inline look_completed(x) {
  good = true;
  i = 0;
  do
  :: i < N ->
     if
     :: has(takers(x), i) && taken[i] != x -> good = false
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
  if
  :: good && newer(x, completed) -> completed = x
  :: else
  fi;
  good = false
}

/* Is the entry (ballot x, number y) behind (ballot p, number q), by ballot first? */
#define behind(x, y, p, q) ((x) > (p) || ((x) == (p) && (y) > (q)))
#define best_ballot(b) (b_acc[b] > 0 -> b_acc[b] - 1 : v_ballot[b_base[b]])
#define best_num(b) (b_acc[b] > 0 -> b_acc_num[b] : v_num[b_base[b]])

/* What q tells: the view it has taken, and what it has accepted behind one. */
inline merge(b, q) {
  if
  :: behind(v_ballot[taken[q]], v_num[taken[q]], best_ballot(b), best_num(b)) ->
     b_base[b] = taken[q];
     b_acc[b] = 0; b_acc_num[b] = 0; b_acc_mask[b] = 0
  :: else
  fi;
  if
  :: acc_ballot[q] > 0 &&
#ifdef BY_NUMBER
       (acc_num[q] > best_num(b) || (acc_num[q] == best_num(b) && acc_ballot[q] > b_acc[b])) ->
#else
       behind(acc_ballot[q] - 1, acc_num[q], best_ballot(b), best_num(b)) ->
#endif
     b_base[b] = acc_base[q];
     b_acc[b] = acc_ballot[q];
     b_acc_num[b] = acc_num[q];
     b_acc_mask[b] = acc_mask[q]
  :: else
  fi
}

inline accept(b, q) {
  promised[q] = b;
  acc_ballot[q] = b + 1;
  acc_num[q] = v_num[b_base[b]] + 1;
  acc_mask[q] = b_mask[b];
  acc_base[q] = b_base[b]
}

/* The owner of b takes what b has decided, and leads on. */
inline decide(b) {
  i = 1;
  do /* decided in an earlier ballot already, and only heard of now? */
  :: i < views && !(v_num[i] == v_num[b_base[b]] + 1 && v_mask[i] == b_mask[b] && v_prev[i] == b_base[b]) -> i++
  :: else -> break
  od;
  j = i;
  i = 0;
  if
  :: j == views ->
     v_num[j] = v_num[b_base[b]] + 1;
     v_mask[j] = b_mask[b];
     v_prev[j] = b_base[b];
     v_ballot[j] = b;
     v_tie[j] = (has(b_mask[b], v_tie[b_base[b]]) -> v_tie[b_base[b]] : b_owner[b]);
     views++
  :: else
  fi;
  b_base[b] = j;
  printf("VIEW %d of ballot %d: number %d mask %d after %d; decided %d completed %d\n", j, b, v_num[j], v_mask[j], v_prev[j], decided, completed);
  j = 0;
  before(decided, b_base[b]);
  if
  :: good ->
     decided = b_base[b];
     before(completed, b_base[b]);
     if
     :: !good -> before(b_base[b], completed) /* heard of late, with changes behind it */
     :: else
     fi;
     assert(good) /* what all had taken is part of the history */
  :: else ->
     before(b_base[b], decided); /* heard of late, by who took the lead then */
     assert(good)                /* one history of crash views */
  fi;
  good = false;
  b_state[b] = LEADING;
  b_got[b] = b_ack[b] & b_mask[b];
  b_ack[b] = 0;
  b_mask[b] = 0;
  b_again[b] = false;
  b_acc[b] = 0; b_acc_num[b] = 0; b_acc_mask[b] = 0;
  if
  :: has(v_mask[b_base[b]], b_owner[b]) && newer(b_base[b], taken[b_owner[b]]) ->
     taken[b_owner[b]] = b_base[b]
  :: else
  fi
}

/* What was accepted for a view that has been taken says nothing any more. */
inline forget_accepted(q) {
  if
  :: acc_num[q] <= v_num[taken[q]] -> acc_ballot[q] = 0; acc_num[q] = 0; acc_mask[q] = 0; acc_base[q] = 0
  :: else
  fi
}

inline dies(q) {
  printf("DIES %d\n", q);
  alive = alive & ~bit(q);
  frozen = frozen & ~bit(q);
  deaths++;
  promised[q] = 0; known[q] = 0;
  acc_ballot[q] = 0; acc_num[q] = 0; acc_mask[q] = 0; acc_base[q] = 0;
  j = 0;
  do
  :: j < BALLOTS ->
     if
     :: b_state[j] != UNUSED && b_owner[j] == q ->
        b_state[j] = OVER;
        b_owner[j] = 0; b_got[j] = 0; b_base[j] = 0; b_mask[j] = 0; b_ack[j] = 0; b_again[j] = false;
        b_acc[j] = 0; b_acc_num[j] = 0; b_acc_mask[j] = 0
     :: else
     fi;
     j++
  :: else -> break
  od;
  j = 0
}

/* Does who leads in b have the promises of a quorum of the newest view? */
#ifdef NO_LEADER
#define may_lead(b) ok = true
#else
#define may_lead(b) quorum(b_got[b], b_base[b], known[_pid]); ok = good; good = false
#endif

#define leads(b) (b_state[b] == LEADING || b_state[b] == PROPOSED)

/* p hears from its coordinator, which has lost nobody's lease. */
#define may_thaw(b, p) \
  (has(frozen, p) && promised[p] == b && leads(b) && has(alive & ~frozen, b_owner[b]) && \
   promised[b_owner[b]] == b && taken[p] == taken[b_owner[b]])

#define may_change(b, x) \
  (b_state[b] == LEADING && b_owner[b] == _pid && promised[_pid] == b && x != _pid && x < N && \
   completed == b_base[b] && taken[_pid] == b_base[b])

inline change(b, x) {
  v_num[views] = v_num[b_base[b]] + 1;
  v_mask[views] = v_mask[b_base[b]] ^ bit(x);
  v_prev[views] = b_base[b];
  v_change[views] = true;
  v_ballot[views] = b;
  v_tie[views] = (has(v_mask[views], v_tie[b_base[b]]) -> v_tie[b_base[b]] : b_owner[b]);
  b_base[b] = views;
  taken[b_owner[b]] = views;
  views++;
  changes++;
  printf("CHANGE by %d: view %d mask %d\n", b_owner[b], b_base[b], v_mask[b_base[b]]);
  look_completed(b_base[b])
}

/* VIEW arrives: of the coordinator that p follows, or decided. */
#define may_take(x) \
  (x < views && newer(x, taken[_pid]) && has(takers(x), _pid) && \
   ((v_prev[x] == taken[_pid] && promised[_pid] <= v_ballot[x]) || x == decided))

inline take(x) {
  taken[_pid] = x;
  printf("%d TAKES view %d\n", _pid, x);
  if
  :: promised[_pid] < v_ballot[x] -> promised[_pid] = v_ballot[x]
  :: else
  fi;
  forget_accepted(_pid);
  if
  :: v_change[x] && b_state[v_ballot[x]] == LEADING && b_base[v_ballot[x]] == x ->
     b_got[v_ballot[x]] = b_got[v_ballot[x]] | bit(_pid)
  :: else
  fi;
  look_completed(x)
}

/* Takes the lead, whatever it suspects. */
inline prepare(b) {
  printf("PREPARE ballot %d by %d, view %d\n", b, _pid, taken[_pid]);
  b_state[b] = PREPARING;
  b_owner[b] = _pid;
  b_got[b] = bit(_pid);
  b_base[b] = taken[_pid];
  promised[_pid] = b;
  merge(b, _pid)
}

#ifdef NO_BALLOT
#define below(x, b) true
#define not_above(x, b) true
#else
#define below(x, b) (x < b)
#define not_above(x, b) (x <= b)
#endif

#define may_promise(b) \
  (b_state[b] == PREPARING && !has(b_got[b], _pid) && has(v_mask[taken[_pid]], b_owner[b]) && \
   below(promised[_pid], b))

inline promise(b) {
  printf("PROMISE of %d to ballot %d, view %d\n", _pid, b, taken[_pid]);
  if
  :: promised[_pid] < b -> promised[_pid] = b
  :: else
  fi;
  b_got[b] = b_got[b] | bit(_pid);
  merge(b, b_owner[b]); /* it may have taken a newer one since it asked */
  merge(b, _pid)
}

#define may_propose(b) \
  ((b_state[b] == PREPARING || b_state[b] == LEADING) && b_owner[b] == _pid && \
   has(v_mask[b_base[b]], _pid) && promised[_pid] == b && views < VIEWS)

#ifdef NO_ADOPT
#define must_adopt(b) false
#else
#define must_adopt(b) (b_acc[b] > 0 && b_acc_num[b] == v_num[b_base[b]] + 1)
#endif

/* For the mask m, or what was accepted before. */
inline propose(b, m) {
  b_again[b] = must_adopt(b);
  b_mask[b] = (must_adopt(b) -> b_acc_mask[b] : m);
  b_state[b] = PROPOSED;
  printf("PROPOSE ballot %d by %d: base %d mask %d again %d\n", b, _pid, b_base[b], b_mask[b], b_again[b]);
  taken[_pid] = b_base[b];
  b_acc[b] = 0; b_acc_num[b] = 0; b_acc_mask[b] = 0;
  accept(b, _pid);
  b_ack[b] = bit(_pid);
  look_completed(b_base[b])
}

#define may_accept(b) \
  (b_state[b] == PROPOSED && !has(b_ack[b], _pid) && has(v_mask[b_base[b]], _pid) && \
   has(v_mask[taken[_pid]], b_owner[b]) && \
   (has(b_mask[b], _pid) || b_again[b]) && not_above(promised[_pid], b) && \
   /* has told what it has behind that, or has nothing */ \
   (has(b_got[b], _pid) || \
    (acc_num[_pid] <= v_num[b_base[b]] + 1 && v_num[taken[_pid]] <= v_num[b_base[b]])) && \
   (acc_ballot[_pid] != b + 1 || acc_num[_pid] != v_num[b_base[b]] + 1))

#define may_decide(b) \
  (b_state[b] == PROPOSED && b_owner[b] == _pid && (within(b_mask[b], b_ack[b]) || b_again[b]) && \
   /* who is removed alive has stopped before: see above */ \
   (alive & v_mask[b_base[b]] & ~b_mask[b] & ~frozen) == 0)

/* Options for one ballot. */
#define OPTIONS(b) \
  :: atomic { may_thaw(b, _pid) -> frozen = frozen & ~bit(_pid); printf("THAWS %d\n", _pid) } \
  :: atomic { may_propose(b) -> \
       d_step { quorum(b_got[b], b_base[b], known[_pid]); ok = good; good = false }; \
       if \
       :: ok && must_adopt(b) -> ok = false; d_step { propose(b, 0) } \
       :: ok && !must_adopt(b) -> ok = false; \
          if \
          :: m = 1 :: m = 2 :: m = 3 :: m = 4 :: m = 5 :: m = 6 :: m = 7 :: m = 8 \
          :: m = 9 :: m = 10 :: m = 11 :: m = 12 :: m = 13 :: m = 14 \
          fi; \
          if \
          :: has(m, _pid) && within(m, v_mask[b_base[b]] & b_got[b]) && m != v_mask[b_base[b]] -> \
             d_step { propose(b, m); m = 0 } \
          :: else -> m = 0 \
          fi \
       :: !ok \
       fi } \
  :: atomic { may_accept(b) -> \
       d_step { \
         taken[_pid] = b_base[b]; \
         accept(b, _pid); \
         printf("ACCEPTED by %d of ballot %d\n", _pid, b); \
         look_completed(b_base[b]) \
       }; \
       if \
       :: b_ack[b] = b_ack[b] | bit(_pid) \
       :: skip /* lost */ \
       fi } \
  :: atomic { may_decide(b) -> \
       d_step { quorum(b_ack[b], b_base[b], known[_pid]); ok = good; good = false }; \
       if \
       :: ok -> ok = false; d_step { decide(b); forget_accepted(_pid) } \
       :: !ok \
       fi }

#define CHANGE(b, x) \
  :: atomic { changes < CHANGES && views < VIEWS && may_change(b, x) -> \
       d_step { may_lead(b) }; \
       if \
       :: ok -> ok = false; d_step { change(b, x) } \
       :: !ok \
       fi }
#define PREPARE(b) \
  :: atomic { b_state[b] == UNUSED && b_state[b - 1] != UNUSED && promised[_pid] < b && \
       has(v_mask[taken[_pid]], _pid) -> d_step { prepare(b) } }
#define PROMISE(b) \
  :: atomic { may_promise(b) -> \
       if \
       :: d_step { promise(b) } \
       :: promised[_pid] < b -> promised[_pid] = b /* lost */ \
       fi }
#define TAKE(x) :: atomic { may_take(x) -> d_step { take(x) } }

active [N] proctype node() {
  byte m;
  bool ok;
  /* Process 0 has begun the program, and the others have joined. */
  atomic {
    if
    :: b_state[0] == UNUSED -> b_state[0] = LEADING; b_got[0] = FIRST
    :: else
    fi
  };
end:
  do
  :: atomic { deaths < DEATHS -> d_step { dies(_pid) }; break }
  :: atomic { !has(frozen, _pid) -> frozen = frozen | bit(_pid); printf("FREEZES %d\n", _pid) }
  :: atomic { taken[_pid] == completed && known[_pid] != completed ->
       known[_pid] = completed; printf("%d KNOWS %d\n", _pid, completed) }
  TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6)
  OPTIONS(0) OPTIONS(1)
  CHANGE(0, 0) CHANGE(0, 1) CHANGE(0, 2) CHANGE(0, 3)
  CHANGE(1, 0) CHANGE(1, 1) CHANGE(1, 2) CHANGE(1, 3)
  PREPARE(1) PROMISE(1)
#if BALLOTS > 2
  OPTIONS(2) PREPARE(2) PROMISE(2)
#endif
  od
}

