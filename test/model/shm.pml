/*
 * shm.pml - a model of sleeping and waking on a link in shared memory (docs/shm.md): the ring's
 * index and `empty_wait`, the socket whose bytes wake, the turn, the daemon's list of links that it
 * arms before it sleeps, and a borrower.
 *
 * The putting end puts PUTS messages, whenever it likes. Searched exhaustively: nobody sleeps for
 * ever while there is something to get, so all processes end (otherwise SPIN finds an invalid end
 * state).  Each define NO_... switches off one rule, and must be found.
 *
 * Not modelled: a full ring (its wake-ups are the same steps with the roles exchanged; ring_test.c),
 * and what a malicious process writes.
 */
#ifndef PUTS
#define PUTS 3
#endif
#ifndef LOANS
#define LOANS 2
#endif

mtype = {FREE, DAEMON, LENT, OWED};

/* Shared memory, and the socket. */
byte head = 0;
bool empty_wait = false;
byte sock = 0; /* bytes in it that wake; 2: two or more */

/* The getting process. */
byte tail = 0;
bool armed = false, woken = false; /* of whoever has the turn, or the lock while it is free */
bool locked = false;               /* turn_lock */
mtype turn = FREE;
bool deaf = false;   /* epoll does not tell of the socket */
bool loose = true;   /* in net->loose */
bool asleep = false; /* net->asleep */
bool wake = false;   /* net->wake is pending */
bool listed = false; /* in net->work */

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* empty_socket */
inline take_bytes() { atomic { sock = 0; woken = false } }

/* shm_receive, by whoever has the turn. */
inline receive(look) {
  look = armed || woken;
  if
  :: armed -> atomic { woken = !empty_wait; empty_wait = false; armed = false }
  :: else
  fi;
  if
  :: head != tail -> tail = head
  :: else ->
    if
    :: look -> take_bytes()
    :: else
    fi
  fi
}

/* shm_arm */
inline arm(is) {
  is = armed;
  if
  :: armed -> skip
  :: else ->
    if
    :: woken -> take_bytes()
    :: else
    fi;
    if
    :: head != tail -> skip
    :: else ->
      empty_wait = true;
      if
#ifndef NO_SECOND_LOOK
      :: head != tail -> atomic { woken = !empty_wait; empty_wait = false }
#endif
#ifdef NO_SECOND_LOOK
      :: true
#else
      :: head == tail
#endif
        -> armed = true; is = true
      fi
    fi
  fi
}

active proctype putter() {
  byte i;
  bool wakes;
  for (i : 1 .. PUTS) {
    head++;
    atomic { wakes = empty_wait; empty_wait = false };
    if
    :: wakes -> sock = (sock < 2 -> sock + 1 : 2)
    :: else
    fi
  }
}

/* The daemon: receives in its turn, and gives the turn back. */
inline daemon_receive(look) {
  receive(look);
  lock();
  turn = FREE;
  deaf = false;
  loose = true;
#ifndef NO_ASLEEP
  if
  :: asleep -> wake = true
  :: else
  fi;
#endif
  unlock()
}

inline take_turn(from, mine) {
  lock();
  mine = (turn == from);
  if
  :: mine -> turn = DAEMON
  :: else
  fi;
  unlock()
}

inline resume(mine, look) {
  if
  :: listed -> listed = false; take_turn(OWED, mine);
    if
    :: mine -> daemon_receive(look)
    :: else
    fi
  :: else
  fi
}

inline look_loose(mine, look) {
  if
  :: loose -> take_turn(FREE, mine);
    if
    :: mine -> daemon_receive(look)
    :: else
    fi
  :: else
  fi
}

active proctype daemon() {
  bool mine, look, is;
  do
  :: tail == PUTS -> break
  :: else ->
    /* on_before: looks, or not; then arms */
    if
    :: look_loose(mine, look)
    :: true
    fi;
    if
    :: wake
    :: !wake && loose ->
#ifndef NO_ARM
      lock();
      is = true;
      if
      :: turn == FREE -> arm(is)
      :: else
      fi;
      unlock();
#else
      is = true;
#endif
      if
      :: is -> loose = false
      :: else -> wake = true
      fi;
      asleep = true
    :: !wake && !loose -> asleep = true
    fi;
    /* a callback that runs between that and the sleep may receive, too */
    if
    :: resume(mine, look)
    :: take_turn(FREE, mine);
      if
      :: mine -> daemon_receive(look)
      :: else
      fi
    :: true
    fi;
    /* sleeps */
    if
    :: wake || (sock != 0 && !deaf) || tail == PUTS
    fi;
    asleep = false;
    if
    :: sock != 0 && !deaf ->
      take_turn(FREE, mine);
      if
      :: mine -> daemon_receive(look)
      :: else -> lock();
        if
        :: turn == LENT -> deaf = true
        :: else
        fi;
        unlock()
      fi
    :: else
    fi;
    if
    :: wake -> wake = false; resume(mine, look); look_loose(mine, look)
    :: else
    fi
  od
}

/* A thread that waits until another message has come, whoever has received it. */
active proctype borrower() {
  byte i, goal;
  bool mine, look, is, owes;
  for (i : 1 .. LOANS) {
    goal = (tail < PUTS -> tail + 1 : PUTS);
    lock();
    mine = (turn == FREE);
    if
    :: mine -> turn = LENT
    :: else
    fi;
    unlock();
    if
    :: mine ->
      owes = false;
      do
      :: tail >= goal || owes -> break
      :: else ->
        if
        :: receive(look) /* looks */
        :: true ->
          lock(); /* sleeps */
          deaf = true;
          unlock();
          arm(is);
          if
          :: is -> sock != 0
          :: else
          fi;
          receive(look)
        fi;
        if
        :: owes = true /* a message for the daemon */
        :: true
        fi
      od;
      lock();
      is = false;
      if
      :: !owes -> arm(is)
      :: else
      fi;
      if
      :: is -> turn = FREE;
#ifndef NO_HEAR
        deaf = false
#else
        skip
#endif
      :: else -> turn = OWED; listed = true; wake = true
      fi;
      unlock()
    :: else
    fi
  }
}
