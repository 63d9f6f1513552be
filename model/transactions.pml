/*
 * Transactions under a token: enter, the gate, and how a raise finds who is inside.
 *
 *     make model MODEL=transactions
 *
 * The mark is token 1, and a transaction enters under it once the gate is open (transaction 0): with the pass of a raise that it
 * knows, or with its claim, and then it takes the pass of the gate. It has a snapshot for each statement (read committed), or one
 * snapshot from its first statement on (repeatable read, serializable). It may roll back to a savepoint, which
 * releases the locks that it has taken since; then the trigger of a sealed table enters again. It may be
 * prepared. Then the mark is raised: to token 1 once more, as a candidate that nobody knew before, and to
 * token 2, by two guards that may stop anywhere. A raise may be rolled back. Transaction 2 enters under token 2.
 *
 * Worlds: the claims hold in the one above, and in each of these.
 *   ATTACHED     in place of transaction 0, one that attaches its session
 *   LIVE         who is inside under token 1 may stop there, others under token 1 try again and again, and one
 *                guard goes on. Then a transaction under token 2 gets in
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   10   a transaction that has entered ends before a newer token is let in
 *                                                   at each write and each commit
 *   11   enter never believes an old version of the gate's row               at the end of enter
 *   live a transaction under token 2 gets in                                 ltl gets_in
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   ONE_LOOK          10    enter looks at the gate once, before its locks
 *   LOCK_LATE         10    enter looks twice, and takes its locks afterwards
 *   OLD_SNAPSHOT      11    the version that an old snapshot shows is believed, although it has been replaced
 *   NOT_WAITED        11    a raise that has replaced the row, and has not committed, is not waited for
 *   NO_INSIDE         10    revoke does not look for transactions that are inside
 *   ADVISED           10    revoke believes that whom it has told to end has ended
 *   OPEN_AT_ONCE      10    the raise leaves the gate open
 *   LAST_ONLY         10    revoke looks for the number before the last raise only
 *   NO_NUMBER         10    enter does not compare the number of the raise at its second look
 *   ANY_NUMBER        10    a revocation opens a gate that was shut again since it looked
 *   ATTACHED+SESSIONS_FIRST  10    revoke lists sessions first, and transactions second
 *   PREPARED          10    revoke does not look for transactions that are prepared
 *   SEAL_ONCE         10    the trigger of a sealed table does not enter again after a rollback to a savepoint
 *   NOTED_ALONE       10    a prepared transaction counts only if it was noted
 *   LIVE+NO_SIGNAL    live  revoke waits for who is inside, and does not end them
 *   LIVE+NO_NOTE      live  revoke waits for everybody who has the locks, and those who are refused have them for a moment
 *
 * This was tried, and violates nothing:
 *   a raise keeps what was noted after the raise before (NOTED_ONCE): nobody has entered since, as the gate was shut
 */
#include "invariant.h"

#define OLD 0
#define ATTACHING 1

/* The row of the gate. Each change replaces it, so number and open tell its versions apart. */
typedef Gate { byte token, number; bit open };
Gate gate;
bit replacing;           /* a transaction has replaced the row, and has not ended */
byte older;              /* the numbers that revoke looks for, one bit each */
byte number = 1;         /* of the last raise */

byte inside[2];          /* the numbers under which it holds its locks, one bit each, as pg_locks shows at once */
bit looked, noted[2];    /* somebody has looked since the last raise; who was inside then */
bit prepared;            /* process 0: it outlives its session */
bit told[2];             /* its backend is to end */
bit attached;            /* process 1: its session is recorded */
bit gone;                /* its backend has ended */
byte newest = 1;         /* the highest token that was let in */

#define REPLACED (seen.number != gate.number || seen.open != gate.open)
#define BIT(n) (1 << (n))

#ifdef LIVE
ltl gets_in { <> (newest == 2) }
#endif

inline read(to)
{
    to.token = gate.token; to.number = gate.number; to.open = gate.open
}

/* ringfence.enter. It goes to refused if it fails. The pass that it may know is that of the first raise. */
inline enter(me, t)
{
    atomic {
        if
        :: !old -> read(seen)
        :: else
        fi;
        if
        :: first = 1
        :: seen.token == t && seen.open -> first = seen.number
        fi;
#ifdef ONE_LOOK
        if
        :: seen.token == t && seen.open && seen.number == first
        :: else -> goto refused
        fi;
#endif
        if
        :: !old -> seen.token = 0; seen.number = 0; seen.open = 0
        :: else
        fi
    };
#ifndef LOCK_LATE
    atomic { inside[me] = inside[me] | BIT(first); printf("transaction %d: takes its locks, under number %d\n", me, first) };
#endif
#ifndef ONE_LOOK
    atomic {
        if
        :: !old -> read(seen)
        :: else
        fi;
        if
#ifdef NO_NUMBER
        :: seen.token == t && seen.open
#else
        :: seen.token == t && seen.open && seen.number == first
#endif
        :: else -> goto refused
        fi;
#ifndef OLD_SNAPSHOT
        if /* ringfence.newest: xmax is not 0 */
#ifdef NOT_WAITED
        :: old && REPLACED -> goto refused
        :: else
#else
        :: old && (REPLACED || replacing) ->
           !replacing;
           if
           :: REPLACED -> goto refused /* 40001 */
           :: else
           fi
        :: else
#endif
        fi;
#endif
#ifdef LOCK_LATE
    };
    atomic {
        inside[me] = inside[me] | BIT(first);
#else
        invariant(11, !REPLACED && !(old && replacing));
#endif
#else
    atomic {
#endif
        seen.token = (old -> seen.token : 0); seen.number = (old -> seen.number : 0); seen.open = (old -> seen.open : 0);
        first = 0;
        newest = (t > newest -> t : newest);
        printf("transaction %d: has entered under token %d\n", me, t)
    }
}

/* Transactions under token 1, one after the other. */
proctype Work()
{
    Gate seen;
    byte first;
    bit old, locked;
    do
    :: atomic {
           if
           :: old = 0
           :: old = 1
           fi;
           read(seen) /* its first statement */
       };
       enter(OLD, 1);
       locked = true;
       do
       :: atomic { locked && !told[OLD] -> printf("transaction 0: writes under token 1\n"); invariant(10, newest <= 1) }
       :: atomic { locked && !prepared && !told[OLD] ->
              inside[OLD] = 0; locked = false; printf("transaction 0: rolls back to a savepoint\n") }
#ifdef SEAL_ONCE
       :: atomic { !locked && !told[OLD] -> locked = true }
#else
       :: !locked && !told[OLD] -> enter(OLD, 1); locked = true /* ringfence.seal, before a statement */
#endif
       :: atomic { locked && !told[OLD] -> printf("transaction 0: commits\n"); invariant(10, newest <= 1); break }
#ifdef LIVE
       :: told[OLD] -> break /* it has stopped, and its backend ends */
#else
       :: atomic { locked && !told[OLD] -> prepared = true; noted[OLD] = 0; printf("transaction 0: is prepared\n") }
       :: atomic { prepared -> printf("transaction 0: is committed, long after its session\n"); invariant(10, newest <= 1); break }
       :: break
#endif
       od;
refused:
    skip; /* see invariant.h */
       atomic {
           inside[OLD] = 0; noted[OLD] = 0; prepared = 0; told[OLD] = 0; locked = 0; first = 0; old = 0;
           seen.token = 0; seen.number = 0; seen.open = 0
       }
#ifndef LIVE
       break
#endif
    od
}

/* ringfence.attach, and the session after it. */
proctype Attach()
{
    Gate seen;
    byte first;
    bit old;
    enter(ATTACHING, 1);
    if
    :: atomic { !told[ATTACHING] -> attached = true; inside[ATTACHING] = 0; printf("session: is attached under token 1\n") }
    :: told[ATTACHING] -> goto refused
    fi;
    do
    :: atomic { !told[ATTACHING] -> printf("session: writes under token 1\n"); invariant(10, newest <= 1) }
    :: told[ATTACHING] -> break
    od;
refused:
    skip; /* see invariant.h */
    atomic {
        inside[ATTACHING] = 0; gone = true; first = 0;
        seen.token = 0; seen.number = 0; seen.open = 0
    }
}

/* A transaction enters under token 2. Nothing is newer, so it is one step. */
proctype New()
{
    atomic {
        gate.token == 2 && gate.open -> newest = 2; printf("transaction 2: has entered under token 2\n")
    }
}

/* ringfence.raise: others see it when it has committed, or it is rolled back. */
inline raise(t)
{
    atomic { !replacing && gate.token <= t -> replacing = true; printf("raise to %d: has written the row, and not committed\n", t) };
    if
    :: d_step {
           number++; older = older | BIT(gate.number);
#ifdef LAST_ONLY
           older = BIT(gate.number);
#endif
           gate.token = t; gate.number = number; 
#ifndef OPEN_AT_ONCE
           gate.open = false;
#endif
#ifndef NOTED_ONCE
           looked = 0; noted[OLD] = 0; noted[ATTACHING] = 0;
#endif
           replacing = false; raised = true;
           printf("raise to %d: has committed, with number %d\n", t, number)
       }
#ifndef LIVE
    :: d_step { replacing = false; raised = false } /* rolled back */
#endif
    fi
}

/* ringfence.revoke, again and again until nobody is left, or the mark is another one */
inline revoke(guard, t)
{
    do
    :: atomic { /* is_mark, inside */
           if
           :: gate.token != t || gate.open -> n = 0; break
           :: else -> n = gate.number
           fi;
#ifdef SESSIONS_FIRST
           session = attached && t == 2
       };
       atomic {
#endif
#ifndef NO_INSIDE
#ifdef PREPARED
           in0 = !prepared && (older & inside[OLD]) != 0;
#else
           in0 = (older & inside[OLD]) != 0;
#endif
           in1 = (older & inside[ATTACHING]) != 0;
#ifndef NO_NOTE
           if
           :: !looked && gate.token == t && (in0 || in1) -> looked = true; noted[OLD] = in0; noted[ATTACHING] = in1
           :: else
           fi;
#ifdef NOTED_ALONE
           in0 = in0 && (!looked || noted[OLD]);
#else
           in0 = in0 && (!looked || noted[OLD] || prepared);
#endif
           in1 = in1 && (!looked || noted[ATTACHING])
#endif
#endif
       };
       atomic { /* others, is_mark again, and who of them lives */
#ifndef SESSIONS_FIRST
           session = attached && t == 2;
#endif
           left = (gate.token != t);
#ifndef ADVISED
           left = left || in0 || in1 || session && !gone;
#endif
#ifndef NO_SIGNAL
           if :: in0 && gate.token == t -> told[OLD] = true :: else fi;
           if :: (in1 || session) && gate.token == t -> told[ATTACHING] = true :: else fi;
#endif
           if :: session && gone -> attached = false :: else fi;
           if
           :: !left -> printf("guard %c, revoke for %d: finds nobody, and has not opened the gate yet\n", guard, t)
           :: left && gate.token == t -> printf("guard %c, revoke for %d: tells who is inside to end\n", guard, t)
           :: else
           fi;
           in0 = 0; in1 = 0; session = 0
       };
       if
       :: atomic { left -> left = false; n = 0 }
       :: atomic { /* ringfence.open, under the lock of the mark */
              !left && !replacing ->
#ifdef ANY_NUMBER
              if
              :: gate.token == t && !gate.open ->
#else
              if
              :: gate.token == t && !gate.open && gate.number == n ->
#endif
                 gate.open = true; older = 0; looked = 0; noted[OLD] = 0; noted[ATTACHING] = 0; printf("guard %c, revoke for %d: opens the gate of number %d\n", guard, t, gate.number)
              :: else
              fi;
              n = 0
          }
       fi
    od
}

/* Guard A ends what is older than token 1. */
proctype GuardA()
{
    bit in0, in1, session, left;
    byte n;
    revoke(65, 1)
}

/* Guard B does so, too, and then it raises token 2, and revokes. */
proctype GuardB()
{
    bit raised, in0, in1, session, left;
    byte n;
    revoke(66, 1);
    do
    :: !raised -> raise(2)
    :: raised -> break
    od;
    revoke(66, 2)
}

/* Token 1 is raised once more, as a candidate that nobody knew before. */
proctype Again() { bit raised; raise(1) }

init {
    atomic {
        gate.token = 1; gate.number = 1;
#ifdef ATTACHED
        run Attach();
#else
        run Work();
#endif
        run New(); run GuardA(); run GuardB(); run Again()
    }
}
