/*
 * Sessions in Redis when two servers change places twice.
 *
 *     make model MODEL=servers
 *
 * Leader 1 has a session through a guard at server 0. Server 1 becomes the primary, and leader 2 is admitted
 * there by another guard. Server 0 becomes a replica of server 1, gets the mark by replication, and is promoted
 * again. The connection of leader 1 stays open all the time.
 *
 * Two things end that session. The raise at server 1 ends the older sessions on its replicas before it raises the
 * mark. If server 0 is not among them, it is named and the raise goes on. The guard of leader 1 has a watch on
 * server 0: a connection in a command that blocks, which the server ends when it is demoted. After the guard has
 * stood still, it passes nothing until the watch has answered again.
 *
 * Bytes that the guard has passed may be on their way for as long as they like, and guards may stop anywhere. Only
 * where server 0 was named, its promotion is later than what is on its way, and than a guard that runs needs to
 * hear of the demotion (SLOW).
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   5    once leader 2 is ready, a server that has its mark takes no write of leader 1   in Server
 *   live leader 2 becomes ready                                                         ltl gets_in, in the world LIVE
 *
 * Worlds: the claims hold in the one above, and in these.
 *   LIVE         server 0 and the guard of leader 1 may stop for good, and everybody else goes on
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   PRIMARY_ONLY  5    a raise ends the older sessions of the primary only
 *   MARK_FIRST    5    a raise ends the sessions on replicas after it has raised the mark
 *   UNWATCHED     5    the guard of leader 1 does not hear that server 0 was demoted
 *   UNPROVEN      5    a guard that has stood still goes on without asking
 *   ROLE_ONLY     5    it asks only whether the server is a primary
 *   SLOW          5    server 0 was named, and is promoted before what was on its way has come
 *   LIVE+WAITS    live a raise waits for a server that is not among the replicas
 */
#include "invariant.h"

bit primary0 = 1, primary1;   /* both may be, for a time */
bit follows;                  /* server 0 is a replica of server 1, and is listed there */
bit demoted;                  /* the watch was ended: server 0 was a replica since it was opened */
byte mark0 = 1, mark1 = 1;
bit session = 1;              /* of leader 1 at server 0, as the server has it */
bit on_its_way;               /* bytes of leader 1, between the guard and server 0 */
bit ended, stopped, stood;    /* the guard of leader 1 */
bit named, ready2;

#ifdef LIVE
bit halted;
#define GO !halted
ltl gets_in { <> ready2 }
#else
#define GO true
#endif

#ifdef ROLE_ONLY
#define PROVEN primary0
#else
#define PROVEN (primary0 && !demoted)
#endif

/* What the time between demotion and promotion is for. */
#ifdef SLOW
#define IN_TIME true
#else
#define IN_TIME (!named || !session || !on_its_way && HEARD)
#endif

#ifdef UNWATCHED
#define HEARD true
#else
#define HEARD (ended || stopped || stood)
#endif

proctype Guard1()
{
    do
    :: atomic { GO && !stopped && !ended && !stood -> on_its_way = true; printf("guard 1: passes a write of leader 1\n") }
    :: atomic { GO && !stopped -> stopped = true; printf("guard 1: stops\n") }
    :: atomic { GO && stopped -> stopped = false;
#ifndef UNPROVEN
       stood = true;
#endif
       printf("guard 1: goes on\n") }
    :: atomic { GO && !stopped && stood && !ended ->
       if
       :: PROVEN -> stood = false; printf("guard 1: the watch answers\n")
       :: else -> ended = true; printf("guard 1: the watch says that the server was demoted\n")
       fi }
#ifndef UNWATCHED
    :: atomic { GO && !stopped && demoted && !ended -> ended = true; printf("guard 1: hears that server 0 was demoted\n") }
#endif
    :: atomic { GO && !stopped && ended && session -> session = false; printf("guard 1: ends the session at server 0\n") }
    od
}

proctype Server()
{
    do
    :: atomic { GO && on_its_way && session ->
       on_its_way = false;
       if
       :: primary0 -> printf("server 0: takes a write of leader 1\n"); invariant(5, !(ready2 && mark0 == 2))
       :: else -> printf("server 0: refuses a write of leader 1\n")
       fi }
    :: atomic { GO && follows && mark0 != mark1 -> mark0 = mark1; printf("server 0: gets the mark\n") }
    od
}

inline raise() { atomic { primary1 -> mark1 = 2; printf("raise to 2: is made on server 1\n") } }

inline end_elsewhere()
{
    atomic {
        if
        :: follows -> session = false; printf("raise to 2: ends the older session on the replica\n")
#ifdef WAITS
#else
        :: !follows -> named = true; printf("raise to 2: does not reach server 0, and names it\n")
#endif
        fi
    }
}

proctype Raise2()
{
    atomic { primary1 -> skip };
#ifdef MARK_FIRST
    raise(); end_elsewhere();
#elif defined(PRIMARY_ONLY)
    raise();
#else
    end_elsewhere(); raise();
#endif
    atomic { ready2 = true; printf("leader 2: is ready\n") }
}

proctype Switch()
{
    atomic { primary1 = true; printf("server 1: is promoted\n") };
    if
    :: atomic { GO -> primary0 = false; follows = true; demoted = true; printf("server 0: follows server 1\n") };
       atomic { GO && IN_TIME -> primary0 = true; follows = false; printf("server 0: is promoted again\n") }
    :: skip
    fi
}

init {
    atomic {
        run Guard1(); run Server(); run Raise2(); run Switch()
#ifdef LIVE
        ; if :: halted = true :: skip fi
#endif
    }
}
