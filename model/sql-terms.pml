/*
 * Terms by SQL: campaign and take raise the mark in the transaction that wins, and a later call opens
 * the gate.
 *
 *     make model MODEL=sql-terms
 *
 * There are two holders. Each may call take (campaign is the same once it leads) as often as it likes,
 * alone or twice in one transaction, and may run transactions under the last token that it was given. A
 * call is several steps; what it has written is seen by others when it commits. Rows that a call has
 * written are locked until then, so calls come one after the other from the first lock on. Transactions
 * that enter take no lock that a call waits for. Any process may stop anywhere.
 *
 * Worlds: the claims hold in the one above, where a take has no attempt and so deposes whoever leads, and in
 * this one.
 *   ATTEMPTS      holder 0 has attempt 1, and holder 1 has attempt 2. The answer to a call may get lost, and
 *                 then it is repeated
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   1    the mark never goes down                                              in Call
 *   1    an attempt below the highest one raises nothing                       in Call
 *   1    a call that is repeated does not depose its own caller                in Call
 *   10   a transaction that has entered under an older token has ended before a newer one is let in
 *                                                        in Work, at the write and at the commit
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   ONE_CALL           10   the call that raises opens the gate too, where there was a mark before
 *   OWN_RAISE          10   a second call in the same transaction counts a raise that is not committed
 *   LOOK_FIRST         10   who is inside is looked for before the raise has committed, and the gate opened then
 *   ONE_LOOK           10   enter looks at the gate once, before its lock
 *   UNLOCKED           1    calls do not lock the row of the election
 *   ATTEMPTS+LATE      1    take does not compare the attempt with the highest one
 *   ATTEMPTS+REPEATED  1    a repeated take does not find the token that it has been given before
 */
#include "invariant.h"

#define HOLDERS 2

#ifdef ONE_LOOK
#define SECOND_LOOK true
#else
#define SECOND_LOOK (mark == token && open)
#endif

/* What is committed. mark is the token; open is whether its gate is. known: there is a mark. */
byte mark, counter;
bool open;
/* Who is inside: its token, 0 for nobody. It is visible at once (pg_locks). */
byte inside[HOLDERS];
bool locked; /* the row of the election, and of the mark */
byte attempt;        /* ringfence_private.election: the highest one */
byte first[HOLDERS]; /* the first token of this holder that was committed */
byte given[HOLDERS]; /* the last token that this holder was told */
byte newest; /* the highest token under which a transaction was let in */

#ifndef ATTEMPTS
#define FOUND (given[me] != 0 && given[me] == mark)
#elif defined(REPEATED)
#define FOUND false
#else
#define FOUND (attempt == me + 1)
#endif
#if defined(ATTEMPTS) && !defined(LATE)
#define IS_LATE (attempt > me + 1)
#else
#define IS_LATE false
#endif

#ifdef UNLOCKED
inline lock() { skip }
#else
inline lock() { atomic { !locked -> locked = true } }
#endif

inline nobody_inside(own, answer)
{
    d_step {
        answer = true;
        k = 0;
        do
        :: k < HOLDERS -> if :: inside[k] != 0 && inside[k] != own -> answer = false :: else fi; k++
        :: else -> break
        od
    }
}

/* A call of take by a holder, and perhaps a second one in the same transaction. */
proctype Call(byte me)
{
    byte token, calls = 0, k;
    bool raised, opens, alone, looked;
    byte turns = 0;
    do
    :: turns < 2 ->
        turns++; raised = false; opens = false; calls = 0; looked = false;
        lock();
        do
        :: calls < 2 ->
            calls++;
            if
            :: !raised && IS_LATE -> break
            :: !raised && !IS_LATE && FOUND -> token = mark /* its own, of an earlier transaction */
            :: !raised && !IS_LATE && !FOUND -> /* raise; not committed yet */
                atomic { counter++; token = counter };
                raised = true;
                if
                :: mark == 0 -> opens = true    /* nobody can be inside */
                :: else ->
#ifdef ONE_CALL
                    nobody_inside(token, alone); if :: alone -> opens = true :: else fi
#endif
                    skip
                fi;
                goto again
            :: raised -> skip
            fi;
            /* the mark is this token: see who is inside */
            if
            :: !raised ->
                nobody_inside(token, alone);
                if :: alone -> opens = true :: else -> skip fi
            :: raised ->
#ifdef OWN_RAISE
                nobody_inside(token, alone);
                if :: alone -> opens = true :: else -> skip fi
#endif
                skip
            fi;
again:      if :: calls < 2 -> skip :: break fi
        :: else -> break
        od;
#ifdef LOOK_FIRST
        if :: raised -> nobody_inside(token, alone); looked = alone :: else fi;
#endif
        if
        :: !raised && IS_LATE -> locked = false; break
        :: else
        fi;
        /* commit */
        if
        :: true ->
            atomic {
                invariant(1, token >= mark);
                if
                :: raised ->
#ifdef ATTEMPTS
                      invariant(1, me + 1 >= attempt); attempt = me + 1;
                      invariant(1, first[me] == 0 || first[me] == token); first[me] = token;
#endif
                      mark = token; open = opens; printf("holder %d: take raises the mark to %d\n", me, token)
                :: !raised && opens -> open = true; printf("holder %d: take opens the gate of %d\n", me, token)
                :: else
                fi;
                if
                :: given[me] = token
#ifdef ATTEMPTS
                :: skip /* the answer is lost */
#endif
                fi;
                locked = false
            };
#ifdef LOOK_FIRST
            if :: looked -> atomic { if :: mark == token -> open = true :: else fi } :: else fi;
#endif
            skip
        :: true -> locked = false /* rolled back */
        fi
    :: break
    od
}

/* A transaction of a holder: look at the gate, lock, look again, write, commit. A signal may end it. */
proctype Work(byte me)
{
    byte token, turns = 0;
    do
    :: turns < 2 && given[me] != 0 ->
        turns++;
        token = given[me];
        if
        :: !(mark == token && open) -> skip /* refused */
        :: mark == token && open ->
            inside[me] = token;
            if
            :: !SECOND_LOOK -> inside[me] = 0
            :: SECOND_LOOK ->
                atomic { newest = (token > newest -> token : newest) };
                atomic { printf("holder %d: writes under token %d\n", me, token); invariant(10, token == newest) };
                if
                :: invariant(10, token == newest) /* the commit */
                :: skip /* ended by a signal, or rolled back */
                fi;
                inside[me] = 0
            fi
        fi
    :: break
    od
}

init {
    byte i = 0;
    atomic {
        do
        :: i < HOLDERS -> run Call(i); run Work(i); i++
        :: else -> break
        od
    }
}
