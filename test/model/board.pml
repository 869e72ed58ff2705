/*
 * board.pml - a model of a table of the board (docs/barriers.md): processes of one host that
 * announce arrivals, take those of others, send them to the owner, and answer; and losses, of which
 * each process learns at a time of its own.
 *
 * N processes, of which KILLS are lost, each at any step. A round has as many arrivals as processes
 * are left, or with TWO always two. With LEAVE there is one process more, which has left, and is
 * killed at any step: nobody learns of a loss then. The owner is another process, which is not lost
 * (what its loss means for barriers: docs/crashes-pages.md). Who is the last one to come is not
 * modelled: who has come may take what there is at once, and who waits may at any time.
 *
 * Searched exhaustively: no arrival is counted twice; who returns from a round was counted in it;
 * DMI_EBROKEN is returned by who knows of a newer loss; and nobody waits for ever (otherwise SPIN
 * finds an invalid end state). Each define NO_... switches off one rule, and must be found.
 *
 * Not modelled: the hints, tables and free seats, and what a malicious process writes (board_test.c).
 */
#ifndef N
#define N 3
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifdef LEAVE
#define ALL (N + 1)
#else
#define ALL N
#endif
#define OWNER ALL
#ifdef TWO
#define PNUM(losses) 2
#else
#define PNUM(losses) (N - (losses))
#endif
#define SEATS (ALL + KILLS * (N - 1))
#define COUNT 4 /* numbers of arrivals */

/* States of a seat. */
#define FREE 0
#define WAITING 1
#define TAKEN 2
#define DONE 3
#define AGAIN 4
#define FAILED 5

/* Answers of the owner. */
#define NOTHING 0
#define OVER 1
#define BROKEN 2

typedef seat_t {
  byte state, number, taker; /* the word: read and compared in one step */
  byte losses, value;        /* value: which of its process's arrivals */
  byte round;                /* the answer */
  byte whose;
}
seat_t seat[SEATS];
byte used = ALL;

/* What a process has taken. */
typedef taken_t {
  byte num, losses;
  byte at[ALL], number[ALL], value[ALL];
}
taken_t taken[ALL];

/* The table. */
byte asleep;
bool rung[ALL];   /* the bell has rung since the process looked at it */
bool sleeps[ALL]; /* in the kernel, until somebody wakes it */

/* Processes. */
byte losses;
byte gone[ALL];      /* which loss that of the process was; 0: it lives */
bool left[ALL];      /* it has left, and was killed */
byte known[ALL + 1]; /* of the losses */

/* The owner. */
bool sent[ALL];
byte answer[ALL], answer_taken[ALL], answer_round[ALL];
byte waits[ALL]; /* so many arrivals that the process has sent */
byte arrived, round_losses, rounds;
bool ends; /* enough rounds have ended, one of them since the last loss */

/* Of each process: its arrival, the last one that was counted, and in which round. */
byte arrival[ALL] = COUNT - 1, counted[ALL] = COUNT, counted_in[ALL];

#define LIVES(p, q) (!left[q] && (gone[q] == 0 || gone[q] > known[p]))
#define IS_LATE(p, l) (known[p] > (l))
/* Who is lost may go on for as long as it likes. */
#define DIES gone[me] != 0 || left[me] -> goto out

inline ring() {
#ifdef FINE
#ifndef NO_BELL
  d_step { for (i : 0 .. ALL - 1) { rung[i] = true }; i = 0 }
#endif
#endif
  d_step {
#ifndef FINE
#ifndef NO_BELL
    for (i : 0 .. ALL - 1) { rung[i] = true }
#endif
#endif
    if
    :: asleep > 0 ->
      for (i : 0 .. ALL - 1) {
        sleeps[i] = false
      }
    :: else
    fi;
    i = 0
  }
}

/* ---- The owner, losses, and who tells of them ---- */

inline break_round() {
  for (i : 0 .. ALL - 1) {
    if
    :: waits[i] > 0 -> answer[i] = BROKEN; waits[i] = 0
    :: else
    fi
  }
  arrived = 0
}

inline end_round() {
  rounds++;
  arrived = 0;
  for (i : 0 .. ALL - 1) {
    if
    :: waits[i] > 0 ->
      answer[i] = OVER;
      answer_taken[i] = waits[i];
      answer_round[i] = rounds;
      waits[i] = 0
    :: else
    fi
  }
  ends = rounds >= ROUNDS && round_losses == losses
}

/* The owner learns of a loss some time. */
#define MAY_ARRIVE (!ends && (rounds < ROUNDS || known[OWNER] == losses))

/* arrive of lib/core/syncop.c */
inline arrive(p) {
  sent[p] = false;
  if
  :: gone[p] != 0 && known[OWNER] >= gone[p] -> skip
  :: (gone[p] == 0 || known[OWNER] < gone[p]) && (taken[p].losses < known[OWNER] || taken[p].losses < round_losses) -> answer[p] = BROKEN
  :: else ->
    if
    :: taken[p].losses > round_losses -> break_round(); round_losses = taken[p].losses
    :: else
    fi;
    t = PNUM(round_losses) - arrived;
    t = (taken[p].num < t -> taken[p].num : t);
    for (i : 0 .. ALL - 1) {
      if
      :: i < t ->
        s = seat[taken[p].at[i]].whose;
        assert(taken[p].value[i] != counted[s]); /* twice */
        counted[s] = taken[p].value[i];
        counted_in[s] = rounds + 1
      :: else
      fi
    }
    waits[p] = t;
    if
    :: t == 0 -> answer[p] = BROKEN
    :: else
    fi;
    arrived = arrived + t;
    if
    :: arrived == PNUM(round_losses) -> end_round()
    :: else
    fi
  fi;
  i = 0; t = 0; s = 0
}

active proctype owner() {
  byte i, t, s;
end:
  do
  :: d_step { sent[0] && MAY_ARRIVE -> arrive(0) }
  :: d_step { sent[1] && MAY_ARRIVE -> arrive(1) }
#if ALL > 2
  :: d_step { sent[2] && MAY_ARRIVE -> arrive(2) }
#endif
  :: d_step { known[OWNER] < losses && !ends -> known[OWNER] = losses; break_round(); i = 0 }
  od
}

inline may_learn(p) {
  known[p] = losses;
#ifndef NO_LOSS_BELL
  ring()
#endif
}

active proctype news() {
  byte i;
end:
  do
  :: known[0] < losses && gone[0] == 0 && !ends -> may_learn(0)
  :: known[1] < losses && gone[1] == 0 && !ends -> may_learn(1)
#if ALL > 2
  :: known[2] < losses && gone[2] == 0 && !ends -> may_learn(2)
#endif
  od
}

/* It may be stopped for long, and go on when the others have given it up. */
inline lose(p) {
  losses++;
  gone[p] = losses
}

active proctype killer() {
end:
  do
#if KILLS > 0
  :: d_step { losses < KILLS && !ends && gone[0] == 0 -> lose(0) }
  :: d_step { losses < KILLS && !ends && gone[1] == 0 -> lose(1) }
#if N > 2
  :: d_step { losses < KILLS && !ends && gone[2] == 0 -> lose(2) }
#endif
#endif
#ifdef LEAVE
  :: !ends && !left[N] -> left[N] = true
  :: d_step { !ends && left[N] && sent[N] -> sent[N] = false } /* was never written */
#endif
#ifndef LEAVE
#if KILLS == 0
  :: ends -> break
#endif
#endif
  od
}

/* ---- A process ---- */

inline wait_answer() {
  if
  :: d_step { answer[me] = NOTHING; answer_taken[me] = 0; answer_round[me] = 0; sent[me] = true }
  :: DIES
  fi;
  if
  :: answer[me] != NOTHING
  :: ends -> goto out
  :: DIES
  fi
}

#ifdef NO_SAME_LOSS
#define SUCH(j) true
#else
#define SUCH(j) (seat[j].losses == l)
#endif
#define IN_TURN (seat[j].state == TAKEN && seat[j].taker == me && seat[j].number == n)

/* The arrival in seat j that was looked at, if it is still the same. */
inline take_one() {
  d_step {
    if
#ifdef NO_CAS_TAKE
    :: true ->
#else
    :: seat[j].state == WAITING && seat[j].number == n ->
#endif
      seat[j].state = TAKEN;
      seat[j].number = n;
      seat[j].taker = me;
      taken[me].at[taken[me].num] = j;
      taken[me].number[taken[me].num] = n;
      taken[me].value[taken[me].num] = v;
      taken[me].num++
    :: else
    fi;
    n = 0; v = 0
  }
}

inline look(at_seat) {
  j = at_seat; n = seat[j].number; v = seat[j].value
}

inline take() {
  d_step { taken[me].num = 0; taken[me].losses = l; o = 0 }
#ifndef NO_OWN
  if
  :: d_step { seat[mine].state == WAITING && SUCH(mine) -> look(mine) }
    take_one()
  :: !(seat[mine].state == WAITING && SUCH(mine))
  :: DIES
  fi;
#endif
  do
#ifndef NO_OWN
  :: o == SEATS || taken[me].num == 0 -> break
  :: o < SEATS && taken[me].num > 0 ->
#else
  :: o == SEATS -> break
  :: o < SEATS ->
#endif
    if
    :: d_step { seat[o].state == WAITING && SUCH(o) && taken[me].num < PNUM(l) -> look(o); o++ }
      take_one()
    :: d_step { !(seat[o].state == WAITING && SUCH(o) && taken[me].num < PNUM(l)) -> o++ }
    :: DIES
    fi
  od
}

inline answer_all() {
  o = 0;
  do
  :: o == taken[me].num -> break
  :: o < taken[me].num ->
    if
    :: d_step { true -> j = taken[me].at[o]; n = taken[me].number[o]; over = IN_TURN }
    :: DIES
    fi;
    if
    :: d_step { over ->
        seat[j].round = answer_round[me];
        if
        :: IN_TURN ->
          if
          :: answer[me] == BROKEN -> seat[j].state = FAILED
#ifndef NO_AGAIN
          :: answer[me] == OVER && o >= answer_taken[me] -> seat[j].state = AGAIN
#endif
          :: else -> seat[j].state = DONE
          fi;
          seat[j].taker = 0
        :: else
        fi
      }
    :: !over
    :: DIES
    fi;
    o++
  od;
  skip;
  d_step {
    taken[me].num = 0;
    for (i : 0 .. ALL - 1) {
      taken[me].at[i] = 0; taken[me].number[i] = 0; taken[me].value[i] = 0
    }
    answer[me] = NOTHING; answer_taken[me] = 0; answer_round[me] = 0;
    i = 0; j = 0; n = 0; o = 0; over = false
  }
  if
  :: true -> ring()
  :: DIES
  fi
}

/* send of board.c */
inline send_all() {
  take();
  if
  :: taken[me].num > 0 -> wait_answer(); answer_all()
  :: taken[me].num == 0
  fi
}

inline sleep_until() {
#ifdef FINE
  asleep++;
  sleeps[me] = !rung[me];
#else
  d_step { asleep++; sleeps[me] = !rung[me] }
#endif
  if
  :: !sleeps[me]
#ifndef NO_PATIENCE
  :: s == WAITING && sleeps[me] -> over = true
#endif
  :: ends -> goto out
  :: DIES
  fi;
  d_step { asleep--; sleeps[me] = false }
}

inline announce() {
  d_step { seat[mine].losses = l; seat[mine].value = arrival[me] }
  d_step {
#ifndef NO_NUMBER
    seat[mine].number = (seat[mine].number + 1) % COUNT;
#endif
    seat[mine].state = WAITING
  }
}

/* await of board.c, once around */
inline look_at_seat() {
#ifdef FINE
  rung[me] = false;
  d_step { s = seat[mine].state; k = seat[mine].taker }
#else
  d_step { rung[me] = false; s = seat[mine].state; k = seat[mine].taker }
#endif
  if
  :: d_step { s == WAITING && IS_LATE(me, l) ->
      if
#ifdef NO_CAS_WITHDRAW
      :: true ->
#else
      :: seat[mine].state == WAITING ->
#endif
        seat[mine].state = FREE; error = BROKEN
      :: else
      fi
    }
#ifndef NO_GIVE_UP
  :: d_step { s == TAKEN && IS_LATE(me, l) && !LIVES(me, k) ->
      error = BROKEN;
#ifndef NO_OTHER_SEAT
      mine = used;
      seat[mine].whose = me;
      used++
#endif
    }
#endif
#ifndef NO_LEARN
  :: s == FAILED && IS_LATE(me, l) -> error = BROKEN
  :: s == FAILED && !IS_LATE(me, l) -> sleep_until()
#else
  :: s == FAILED -> error = BROKEN
#endif
  :: s == DONE -> error = OVER
  :: s == AGAIN || s == FREE -> error = AGAIN
  :: s == WAITING && !IS_LATE(me, l) -> sleep_until()
#ifndef NO_GIVE_UP
  :: s == TAKEN && (!IS_LATE(me, l) || LIVES(me, k)) -> sleep_until()
#else
  :: s == TAKEN -> sleep_until()
#endif
  fi;
  k = 0
}

inline meet() {
  announce();
#ifdef NO_PATIENCE
  if
  :: send_all() /* the last one, as it seems */
  :: true
  fi;
#endif
  do
  :: error == BROKEN || error == OVER -> break
  :: error == AGAIN -> error = NOTHING; announce()
  :: error == NOTHING ->
    look_at_seat();
    if
    :: over -> over = false; send_all()
    :: !over
    fi
  od;
  skip;
  d_step {
    if
    :: error == OVER -> r = seat[mine].round
    :: else
    fi;
    if
    :: seat[mine].state == DONE || seat[mine].state == FAILED -> seat[mine].state = FREE
    :: else
    fi
  }
}

/* As without a board. */
inline meet_alone() {
  d_step {
    taken[me].num = 1;
    taken[me].losses = l;
    taken[me].at[0] = mine;
    taken[me].value[0] = arrival[me]
  }
  wait_answer();
  d_step { error = answer[me]; r = answer_round[me] }
}

proctype process(byte me) {
  byte i, j, l, s, k, n, v, o, r, error;
  byte mine = me;
  bool over;
  do
  :: ends -> break
  :: DIES
  :: !ends ->
    d_step { l = known[me]; arrival[me] = (arrival[me] + 1) % COUNT; s = 0 }
#if defined(LEAVE) && !defined(NO_STAY)
    if
    :: me == N -> meet_alone()
    :: me != N -> meet()
    fi;
#else
    meet();
#endif
    d_step {
      if
      :: gone[me] != 0 || left[me]
      :: gone[me] == 0 && !left[me] && error == OVER ->
        assert(counted[me] == arrival[me] && counted_in[me] == r)
      :: gone[me] == 0 && !left[me] && error == BROKEN -> assert(IS_LATE(me, l))
      fi;
      error = NOTHING; r = 0
    }
  od;
out:
  skip
}

init {
  byte i;
  atomic {
    for (i : 0 .. ALL - 1) {
      seat[i].whose = i
    }
    for (i : 0 .. ALL - 1) {
      run process(i)
    }
    i = 0
  }
}
