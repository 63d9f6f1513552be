/*
 * Letting go: how a guard admits a newer leader before the older backends have ended.
 *
 *     make model MODEL=letting-go
 *
 * A is the older leader. Its guard relays its session; the flow to the backend is a queue, in which
 * nothing overtakes and which may break without a word. B is the newer leader. The guard of A may
 * let the session go and admit B; so may any other guard, which has to end the backend first.
 *
 * A guard that stops is a process that takes no further step. Nothing here asks for fairness, so
 * every claim holds wherever each guard stops.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   5   once B is ready, no effect of A starts              in Backend
 *   15  every live backend is on a list                     in Duty
 *   15  a later revocation leaves no backend of A behind    at the end of Later
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   BY_COUNT     5   a session at rest by the count of answers is let go, without a proof
 *   KNOWN_NAME   5   the client knows the name in the proof
 *   OPEN         5   the proof is sent while the guard still passes on bytes
 *   OVERTAKEN    5   the proof does not wait for bytes that are counted and not yet written
 *   BUSY         5   the proof counts although the backend is at work
 *   FORGOTTEN    15  the record of a session that is let go is removed, and kept on no list
 */

#include "invariant.h"

mtype = { work, noise, proof, fin };

chan flow = [3] of { mtype }; /* from A's guard to A's backend */
bool broken;                  /* the flow delivers nothing any more */

/* The backend, and what pg_stat_activity shows of it. */
bool alive = true, busy, shown, signalled;
bool batch; /* a batch without Sync has written, and is not committed */

/* The database. */
bool recorded = true;         /* ringfence_private.session lists A's backend */
bool leaving;                 /* ringfence_private.leaving does */
bool ready;                   /* B is registered */

/* The memory of A's guard (pgguard: progress). */
byte pending;                 /* requests without an answer, as it counts */
bool passing;                 /* counted, and not yet written */
bool closed;                  /* nothing more of the client is passed on */

/* A backend works off its flow in order. A termination rolls back what it has not committed. */
active proctype Backend()
{
    mtype m;
    do
    :: signalled -> break
    :: !broken && flow?[m] -> flow?m;
       if
       :: m == fin   -> break
       :: m == proof -> atomic { busy = true; shown = true };
                        invariant(5, !batch || !ready); /* a statement ends a batch that had no Sync */
                        atomic { batch = false; busy = false; pending = (pending > 0 -> pending - 1 : 0) }
       :: m == noise -> /* an error outside of a request: ReadyForQuery that nobody asked for */
                        pending = (pending > 0 -> pending - 1 : 0)
       :: m == work  -> atomic { busy = true; shown = false };
                        if
                        :: signalled -> break
                        :: skip -> invariant(5, !ready) /* the write commits */
                        :: batch = true           /* or will, with its batch */
                        fi;
                        atomic { busy = false; pending = (pending > 0 -> pending - 1 : 0) }
       fi
    od;
    alive = false
}

/* up.Walk: what A sends while its guard passes bytes on. */
active proctype Client()
{
    mtype m;
    do
    :: if
       :: m = work
       :: m = noise
#ifdef KNOWN_NAME
       :: m = proof
#endif
       fi;
       atomic {
           if
           :: closed -> break
           :: else   -> passing = true; pending = (m == work -> pending + 1 : pending)
           fi
       };
       pending <= 3; /* keeps the world small */
       flow!m;
       passing = false
    od
}

active proctype Network() { broken = true }

/* Admission.endOlder in A's guard: quiet, release, register, end. */
active proctype LetGo()
{
    atomic { /* progress.Quiet: a guess, which chooses whom to ask */
#ifdef OVERTAKEN
        pending == 0 -> skip;
#else
        pending == 0 && !passing -> skip;
#endif
#ifndef OPEN
        closed = true
#endif
    };
#ifndef BY_COUNT
    flow!proof;
#endif
    atomic { /* ringfence.release */
#if defined(BY_COUNT)
        !busy && recorded && alive;
#elif defined(BUSY)
        shown && recorded && alive;
#else
        shown && !busy && recorded && alive;
#endif
        recorded = false;
#ifndef FORGOTTEN
        leaving = true
#endif
    };
    closed = true;
    atomic { !recorded -> ready = true }; /* ringfence.register */
    flow!fin;                             /* session.end */
    leaving -> signalled = true;          /* ringfence.end_leaving */
    !alive -> leaving = false
}

/* Store.Revoke and Register at another guard: whoever is listed is ended first. */
active proctype Revoke()
{
    if
    :: recorded -> signalled = true
    :: !recorded -> skip
    fi;
    atomic { !alive && recorded -> recorded = false };
    atomic { !recorded -> ready = true }
}

/* A later revocation for a third leader, at any guard. */
active proctype Later()
{
    ready;
    if
    :: leaving -> signalled = true
    :: !leaving -> skip
    fi;
    (!alive || !leaving && !recorded);
    invariant(15, !alive)
}

/* Every live backend is on a list. */
active proctype Duty()
{
    atomic { alive && !recorded && !leaving -> invariant(15, false) }
}
