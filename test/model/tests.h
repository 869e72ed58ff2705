/*
 * tests.h - the small programs that the model runs: -DTEST_xxx chooses one.
 *
 * Each says: processes, pages, threads; TN(a) process of thread a, OPS(a) how many operations it
 * does; MODES, PAGEOF, CELLOF, VALUE of its next one; WARM copies to begin with; LITMUS what must
 * hold at the end.  R_MODES, W_MODES: bits of the modes that are tried, all mixes of them.
 */
#ifndef R_MODES
#define R_MODES 14 /* INVALIDATE, UPDATE, GET */
#endif
#ifndef W_MODES
#define W_MODES 48 /* EXCLUSIVE, PUT */
#endif
#ifndef WHOLE
#define WHOLE 0 /* 1: an exclusive write covers the page, so it asks for no bytes */
#endif
#ifndef CAP
#define CAP 5
#endif
#ifndef QCAP
#define QCAP 5
#endif
#ifndef BCAP
#define BCAP 3
#endif
#define PC(a) th[a].pc

/* Where threads run, when not one in each process. */
#ifdef PLACE_PAIR /* two in the last one */
#define TN(a) ((a) < 2->(a) : 2)
#endif
#ifdef PLACE_SAME /* the first two in process 1 */
#define TN(a) ((a) < 2->1 : (a))
#endif

#ifdef TEST_SB /* store buffering: x = 1, read y  ||  y = 1, read x */
#define RESULTS
#define NP 2
#define NT 2
#define TN(a) ((a) + 1)
#define OPS(a) 2
#define MODES(a) (PC(a) == 0->W_MODES : R_MODES)
#define PAGEOF(a) (PC(a) == 0->(a) : 1 - (a))
#define VALUE(a) 1
#define LITMUS assert(th[0].r1 == 1 || th[1].r1 == 1)
#endif

#ifdef TEST_MP /* message passing: x = 1, y = 1  ||  read y, read x */
#define RESULTS
#define NP 2
#define NT 2
#define TN(a) ((a) + 1)
#define OPS(a) 2
#define MODES(a) ((a) == 0->W_MODES : R_MODES)
#define PAGEOF(a) ((a) == 0->PC(a) : 1 - PC(a))
#define VALUE(a) 1
#define LITMUS assert(!(th[1].r0 == 1 && th[1].r1 == 0))
#endif

#ifdef TEST_LB /* load buffering: read x, y = 1  ||  read y, x = 1 */
#define RESULTS
#define NP 2
#define NT 2
#define TN(a) ((a) + 1)
#define OPS(a) 2
#define MODES(a) (PC(a) == 0->R_MODES : W_MODES)
#define PAGEOF(a) (PC(a) == 0->(a) : 1 - (a))
#define VALUE(a) 1
#define LITMUS assert(!(th[0].r0 == 1 && th[1].r0 == 1))
#endif

#ifdef TEST_IRIW /* x = 1  ||  y = 1  ||  read x, read y  ||  read y, read x */
#define RESULTS
#define NP 2
#define NT 4
#ifndef TN
#define TN(a) ((a) < 3->(a) : 0)
#endif
#define OPS(a) ((a) < 2->1 : 2)
#define MODES(a) ((a) < 2->W_MODES : R_MODES)
#define PAGEOF(a) ((a) < 2->(a) : ((a) == 2->PC(a) : 1 - PC(a)))
#define VALUE(a) 1
#define LITMUS assert(!(th[2].r0 == 1 && th[2].r1 == 0 && th[3].r0 == 1 && th[3].r1 == 0))
#endif

#ifdef TEST_CO /* coherence of one location: x = 1, x = 2  ||  read x, read x */
#define RESULTS
#define NP 1
#define NT 3
#define TN(a) ((a) < 2->(a) + 1 : 0)
#define OPS(a) 2
#define MODES(a) ((a) == 0->W_MODES : R_MODES)
#define PAGEOF(a) 0
#define VALUE(a) (PC(a) + 1)
#define LITMUS assert(th[1].r0 <= th[1].r1 && th[2].r0 <= th[2].r1)
#endif

#ifdef TEST_ATOMIC /* fetch and add by all: every result is another, the sum is right */
#define RESULTS
#ifndef A_MODES
#define A_MODES 192
#endif
#define NP 1
#define NT 3
#define TN(a) (a)
#define OPS(a) ((a) == 0->1 : 2)
#define MODES(a) A_MODES
#define PAGEOF(a) 0
#define VALUE(a) 1
#define RMW(old, x) (old + (x))
#define LITMUS                                                                   \
  assert(CELL(mem[0], 0) == 5 && th[1].r0 < th[1].r1 && th[2].r0 < th[2].r1 &&   \
         th[0].r0 != th[1].r0 && th[0].r0 != th[1].r1 && th[0].r0 != th[2].r0 && \
         th[0].r0 != th[2].r1 && th[1].r0 != th[2].r0 && th[1].r0 != th[2].r1 && \
         th[1].r1 != th[2].r0 && th[1].r1 != th[2].r1)
#endif

/*
 * Any operations: each of NT threads does N0..N3 of them, of any of ANY_MODES; every read must
 * return a value that was current between its call and its return.  (That is more than sequential
 * consistency, and it is local: what holds for one page so holds for all together.)
 */
#ifdef TEST_ANY
#define LIN
#ifndef NP
#define NP 1
#endif
#ifndef NT
#define NT 3
#endif
#ifndef TN
#define TN(a) (a)
#endif
#ifndef ANY_MODES
#define ANY_MODES 62
#endif
#ifndef M0
#define M0 ANY_MODES
#endif
#ifndef M1
#define M1 ANY_MODES
#endif
#ifndef M2
#define M2 ANY_MODES
#endif
#ifndef M3
#define M3 ANY_MODES
#endif
#ifndef N0
#define N0 2
#endif
#ifndef N1
#define N1 2
#endif
#ifndef N2
#define N2 2
#endif
#ifndef N3
#define N3 1
#endif
#define OPS(a) ((a) == 0->N0 : ((a) == 1->N1 : ((a) == 2->N2 : N3)))
#define MODES(a) ((a) == 0->M0 : ((a) == 1->M1 : ((a) == 2->M2 : M3)))
#ifdef CELLS
#define CELLOF(a) ((a)&1)
#endif
#define PAGEOF(a) 0
#define VALUE(a) ((a) == 3->7 : 1 + 2 * (a) + PC(a))
#ifdef CAS
#define RMW(old, x) (old == 0->(x) : old) /* compare with 0 and swap */
#endif
#define LITMUS skip
#endif

/*
 * Waiting at the owner (R11): each thread takes the lock, and gives it to the next one.  Cell 0 is
 * the next ticket, cell 1 the one that is served.  With READER the last thread reads tickets beside
 * thread 1 instead, and must never see an old one.
 */
#ifdef TEST_LOCK
#define LOCKS
#define LIN
#define NP 1
#ifndef NT
#define NT 3
#endif
#ifdef READER
#define IS_READER(a) ((a) == NT - 1)
#define TN(a) (IS_READER(a)->1 : (a))
#else
#define IS_READER(a) false
#endif
#ifndef TN
#define TN(a) (a)
#endif
#ifndef U_MODES
#define U_MODES 192
#endif
#define OPS(a) 2
#define MODES(a) (IS_READER(a)->R_MODES : (PC(a) == 0->256 : U_MODES))
#define PAGEOF(a) 0
#define CELLOF(a) (IS_READER(a)->0 : PC(a))
#define VALUE(a) 1
#define RMW(old, x) (old + (x))
#define LITMUS assert(served == (IS_READER(NT - 1)->NT - 1 : NT))
#endif

#ifndef NODES
#define NODES 3
#endif
#ifndef CELLOF
#define CELLOF(a) 0
#endif
#ifndef RMW
#define RMW(old, x) (x)
#endif
#ifndef HOME0
#define HOME0 0
#endif
#ifndef HOME1
#define HOME1 HOME0
#endif
#ifndef OWNER0
#define OWNER0 HOME0
#endif
#ifndef OWNER1
#define OWNER1 HOME1
#endif

/* Copies to begin with: KINDS, bits 1 none, 2 INVALIDATE, 4 UPDATE; of each process and page. */
#ifndef KINDS
#define KINDS 7
#endif
#define WARM_ONE(a, b)                                                                         \
  if                                                                                           \
  ::(KINDS & 1)->warm(a, b, ABSENT)::(KINDS & 2)->warm(a, b, INVALIDATING)::(KINDS & 4)->warm( \
      a, b, UPDATING) fi
#define WARM_PAGE(b) \
  WARM_ONE(0, b);    \
  WARM_ONE(1, b);    \
  WARM_MORE(b)
#if NODES > 3
#define WARM_MORE(b) \
  WARM_ONE(2, b);    \
  WARM_ONE(3, b)
#elif NODES > 2
#define WARM_MORE(b) WARM_ONE(2, b)
#else
#define WARM_MORE(b) skip
#endif
#if NP > 1
#define WARM    \
  WARM_PAGE(0); \
  WARM_PAGE(1)
#else
#define WARM WARM_PAGE(0)
#endif
