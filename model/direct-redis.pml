/*
 * Direct sessions in Redis, before anybody builds them: a user for each term.
 *
 *     make model MODEL=direct-redis
 *
 * There are two servers, a primary and a replica, which change places at any time, twice at most. Data are
 * replicated some time later, or get lost with the switch. ACLs are not replicated. A raise to a token asks
 * the coordinator, and then, in one MULTI on the primary, sets the mark and the token's user, and deletes the users
 * of older tokens, which ends their connections. Before the new leader gets its password, the users of older
 * tokens are deleted on the replica, too. A connection to a replica stays open, and writes again when that
 * becomes the primary. A server that starts again has no users.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   5    once token 2 has its password, token 1 writes nothing                in Connection
 *   live token 2 gets its password                                           ltl gets_in, in the world LIVE
 *
 * Worlds: the claims hold in the one above, and in this one.
 *   LIVE         the older leader may stop anywhere, and everybody else goes on. Then the newer one gets in
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   PRIMARY_ONLY  5    users of older tokens are deleted on the primary only
 *   NO_WATCH      5    a raise does not compare the mark with the one from before its question
 *   NO_REPLID     5    a raise does not compare the server's replication id with the one from before its question
 *   UNASKED       5    a raise does not ask the coordinator
 *   ACL_FILE      5    a server that starts again has the users of an ACL file from earlier
 *   KEPT          5    a deleted user's connection stays open
 */
#include "invariant.h"

byte primary;             /* which of the two servers */
byte replid = 1;          /* changes with each switch */
byte mark[2];
bit user1[2], user2[2];   /* who may log in */
bit conn1[2];             /* a connection under token 1 */
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
#define CHANGED (mark[s] != seenMark)
#elif defined(NO_WATCH)
#define CHANGED (replid != seenReplid)
#else
#define CHANGED (mark[s] != seenMark || replid != seenReplid)
#endif

/* DELUSER ends every connection of the user, in the one thread of the server. */
inline deluser1(at)
{
    user1[at] = false;
#ifndef KEPT
    conn1[at] = false
#endif
}

proctype Raise(byte t)
{
    byte s, seenMark, seenReplid;
look:
    skip; /* see invariant.h */
    atomic { PAUSE(t); s = primary; seenMark = mark[s]; seenReplid = replid };
#ifndef UNASKED
    atomic { PAUSE(t); if :: leads == t :: leads > t -> goto over fi };
#endif
    atomic { /* WATCH, MULTI, EXEC: a replica takes no write */
        PAUSE(t);
        if
        :: s != primary -> goto look
        :: s == primary && CHANGED -> goto look
        :: s == primary && !CHANGED ->
           mark[s] = t;
           if
           :: t == 1 -> user1[s] = true; user2[s] = false
           :: t == 2 -> user2[s] = true; deluser1(s)
           fi;
           printf("raise to %d: is made on server %d\n", t, s)
        fi
    };
#ifndef PRIMARY_ONLY
    atomic {
        PAUSE(t);
        if
        :: t == 2 -> deluser1(1 - s); printf("raise to 2: older users are deleted on server %d\n", 1 - s)
        :: else
        fi
    };
#endif
    atomic { /* it looks once more whether it has raised on the present primary, and gives out the password */
        PAUSE(t);
        if
        :: s != primary || replid != seenReplid -> goto look
        :: else -> newest = (t > newest -> t : newest); printf("raise to %d: its leader gets the password\n", t)
        fi
    };
over:
    skip
}

proctype Connection()
{
    do
    :: atomic { user1[0] && !conn1[0] && newest != 0 -> conn1[0] = true; printf("leader 1: logs in on server 0\n") }
    :: atomic { user1[1] && !conn1[1] && newest != 0 -> conn1[1] = true; printf("leader 1: logs in on server 1\n") }
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
    atomic { file = user1[s] };
#endif
    d_step { user1[s] = file; user2[s] = false; conn1[s] = false; printf("server %d: starts again\n", s) }
}

init {
    atomic {
        run Raise(1); run Raise(2); run Connection(); run Replication(); run Switch();
        run Restart(0)
#ifdef LIVE
        ; if :: halted = true :: skip fi
#endif
    };
    atomic { leads = 2; printf("coordinator: token 2 leads\n") }
}
