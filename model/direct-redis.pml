/*
 * Direct sessions in Redis, before anybody builds them: a user for each term.
 *
 *     make model MODEL=direct-redis
 *
 * There are two servers, a primary and a replica, which change places at any time, twice at most. Data are
 * replicated some time later, or get lost with the switch. ACLs are not replicated. A leader asks for a password,
 * perhaps twice. A script raises the mark as for any session: the coordinator is asked in between. Then, in one MULTI
 * that watches the mark, the token gets a user with a new random password, and the users of older tokens are deleted,
 * which ends their connections. That server may not be the primary any more: a replica takes such commands, too.
 * Then the users of older tokens are deleted on the other server. The leader gets its password if the server is still
 * the primary, and has been all the while. A connection to a replica stays open, and writes again when that
 * becomes the primary. A server that starts again has no users.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   5    once token 2 has its password, token 1 writes nothing                in Connection
 *   live token 2 gets its password                                           ltl gets_in, in the world LIVE
 *
 * Worlds: the claims hold in the one above, and in this one.
 *   LIVE         the older leader asks once, and may stop anywhere, and everybody else goes on. Then the newer
 *                one gets in
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   PRIMARY_ONLY  5    users of older tokens are deleted on the primary only
 *   NO_WATCH      5    the MULTI does not watch the mark
 *   NO_REPLID     5    the server's replication id is not compared with the one from before the question
 *   UNASKED       5    a raise does not ask the coordinator
 *   ONE_PASSWORD  5    a term has one password, and not a new one for each request
 *   ACL_FILE      5    a server that starts again has the users of an ACL file from earlier
 *   KEPT          5    a deleted user's connection stays open
 */
#include "invariant.h"

byte primary;             /* which of the two servers */
byte replid = 1;          /* changes with each switch */
byte mark[2];
bit user1[2];             /* token 1 has a user */
bit known1[2];            /* whose password its leader knows */
bit conn1[2];             /* a connection under token 1 */
bit told1;                /* the leader of token 1 was told a password */
byte leads = 1;           /* at the coordinator */
byte newest;
byte switches;

#ifdef LIVE
bit halted;
#define PAUSE(t) (t == 2 || !halted)
ltl gets_in { <> (newest == 2) }
#else
#define PAUSE(t) true
#endif

#ifdef NO_REPLID
#define MOVED (s != primary)
#else
#define MOVED (s != primary || replid != seenReplid)
#endif

#ifdef NO_WATCH
#define TOUCHED false
#else
#define TOUCHED (mark[s] != t)
#endif

/* DELUSER ends every connection of the user, in the one thread of the server. */
inline deluser1(at)
{
    user1[at] = false; known1[at] = false;
#ifndef KEPT
    conn1[at] = false
#endif
}

inline setuser1(at)
{
    user1[at] = true;
#ifdef ONE_PASSWORD
    known1[at] = told1
#endif
}

proctype Leader(byte t)
{
    byte s, seenMark, seenReplid;
look:
    skip; /* see invariant.h */
    atomic { PAUSE(t); s = primary; seenMark = mark[s]; seenReplid = replid };
#ifndef UNASKED
    atomic { PAUSE(t); if :: leads == t :: leads > t -> goto over fi };
#endif
    atomic { /* the script: a replica takes no write */
        PAUSE(t);
        if
        :: MOVED || mark[s] != seenMark -> goto look
        :: else -> mark[s] = t; printf("raise to %d: is made on server %d\n", t, s)
        fi
    };
    atomic { PAUSE(t); if :: MOVED || mark[s] != t -> goto look :: else fi }; /* WATCH, and a look */
    atomic { /* EXEC, on a replica, too */
        PAUSE(t);
        if
        :: TOUCHED -> goto look
        :: else ->
           if :: t == 1 -> setuser1(s) :: t == 2 -> deluser1(s) fi;
           printf("token %d: has a user on server %d\n", t, s)
        fi
    };
#ifndef PRIMARY_ONLY
    atomic {
        PAUSE(t);
        if
        :: t == 2 -> deluser1(1 - s); printf("token 2: older users are deleted on server %d\n", 1 - s)
        :: else
        fi
    };
#endif
    atomic {
        PAUSE(t);
        if
        :: MOVED -> goto look
        :: else ->
           newest = (t > newest -> t : newest);
           if :: t == 1 -> told1 = true; known1[s] = user1[s] :: else fi;
           printf("token %d: its leader gets the password of server %d\n", t, s)
        fi
    };
over:
    skip
}

proctype Connection()
{
    do
    :: atomic { known1[0] && !conn1[0] -> conn1[0] = true; printf("leader 1: logs in on server 0\n") }
    :: atomic { known1[1] && !conn1[1] -> conn1[1] = true; printf("leader 1: logs in on server 1\n") }
    :: atomic { conn1[primary] -> printf("leader 1: writes on server %d\n", primary); invariant(5, newest <= 1) }
    od
}

proctype Replication()
{
    do
    :: atomic { mark[primary] != mark[1 - primary] -> mark[1 - primary] = mark[primary] }
    od
}

proctype Switch()
{
    do
    :: atomic { switches < 2 -> switches++; primary = 1 - primary; replid++; printf("server %d: is the primary now\n", primary) }
    :: break
    od
}

proctype Restart(byte s)
{
    bit file;
#ifdef ACL_FILE
    atomic { file = known1[s] };
#endif
    d_step { user1[s] = file; known1[s] = file; conn1[s] = false; printf("server %d: starts again\n", s) }
}

init {
    atomic {
        run Leader(1); run Leader(2); run Connection(); run Replication(); run Switch(); run Restart(0);
#ifdef LIVE
        if :: halted = true :: skip fi
#else
        run Leader(1) /* its leader asks once more */
#endif
    };
    atomic { leads = 2; printf("coordinator: token 2 leads\n") }
}
