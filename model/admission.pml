/*
 * Admission through guards: who may write, and when.
 *
 *     make model MODEL=admission                       this file and its mutations
 *     make model MODEL=admission MUTATION=NO_REVOKE    the counterexample of one, as a table
 *
 * Token 1 is the older leader's, token 2 the newer one's. Session 0 is under token 1, at guard A. Session
 * 1 is under token 2, at guard B, and session 2 is under token 2, at guard A. Each is admitted once, at any
 * time. Only what token 1 writes can be stale, so only session 0 writes.
 *
 * A guard that stops is a process that takes no further step. Its connections may end, so any backend may
 * end at any time. A guard that is started again remembers nothing, and neither does a process here. The
 * server may start again. A dump of an earlier state, or of the marks alone, may be restored into the running server. An
 * operator installs again where the list of sessions is not of this database.
 *
 * Worlds: the claims hold in the one above, and in each of these.
 *   ELECTED        a coordinator is asked at each admission, and at each raise. Guard A follows the
 *                  election, in place of session 2. Also a snapshot may be put back, and the store
 *                  may go back without a trace, in the same run
 *   ELECTED+ALONE  the same, and no mark refuses a lower token: the coordinator is a barrier of its own
 *   ELECTED+LIVE   the older leader and guard A may stop anywhere, and everybody else goes on: then the newer
 *                  leader gets in. Only a backend that is told to end does, and only a dump is restored
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   1    the mark never goes down                               in raise
 *   3    a record is removed only if its session is gone        in forget
 *   5    once token 2 is ready, token 1 writes nothing          in Backends
 *   13   a list of sessions that counts has every session       in Duty
 *   live token 2 gets in                                        ltl gets_in
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   NO_COMPARISON         1   the mark is not compared with a token that is lower
 *   NO_MARK               5   register admits whoever finds no session of another token, whatever the mark is
 *   NO_REVOKE             5   register admits although sessions of another token are recorded
 *   SPLIT                 5   register checks in one transaction, and records in another
 *   UNRECORDED            5   the guard passes on bytes before the session is recorded
 *   NO_WAIT               3   revoke removes the records of sessions that were told to end
 *   NO_PROOF              3   a session at rest by the guard's count is let go, without a proof
 *   CHECK_FIRST           3   the sweep looks who lives, and then lists the records
 *   COPY_COUNTS           5   a mark that a dump has brought back counts
 *   NOT_DURABLE           5   a restart loses a raise that was answered
 *   ELECTED+REGISTRY      13  a registry that a dump has brought back counts as complete
 *   ELECTED+NOT_LISTED    13  the installation lists nobody
 *   ELECTED+NO_VERIFY     5   the coordinator is not asked at the admission
 *   ELECTED+NO_CONFIRM    5   the coordinator is not asked at the raise
 *   ELECTED+NO_BASIS      5   a raise counts although the run or the mark has changed since it was confirmed
 *   ELECTED+LIVE+NO_SIGNAL  live  revoke waits for older sessions, and does not end them
 *   ELECTED+LIVE+NO_FORGET  live  revoke does not remove the records of sessions that are gone
 *   ELECTED+LIVE+NO_INSTALL live  nobody installs again
 *
 * These violate nothing; the steps are there for another reason:
 *   register asks for a raise in place of refusing a token below the mark. Confirm refuses it then
 *   a guard that follows raises marks that are not confirmed. It has asked the coordinator
 *   revoke looks who lives before it lists. Nobody of an older token is recorded any more then
 */
#include "invariant.h"

#define SESSIONS 3
#define FOLLOWER 3 /* no session: the guard itself */
#define TOKEN(s) (s == 0 -> 1 : 2)
#define AT_A(s) (s != 1)
#define STAR 3 /* recorded as one of an unknown resource */

/* What the database has on disk. */
typedef Data {
    byte mark, raisedIn;      /* ringfence_private.mark: the token, and the run of the server in which it was raised */
    bit copied;               /* its row is a copy (written <> xmin) */
    bit foreign;              /* the row of the installation, and the list of sessions, are copies */
    byte recorded[SESSIONS]   /* ringfence_private.session: 0, a token or STAR */
};
Data db, saved;
byte present = 1;                /* of the server, which starts anew with each */

bit alive[SESSIONS];          /* the backend */
bit here[SESSIONS];           /* it is of this run */
bit ready[SESSIONS];          /* the client has seen "ready" */
bit told[SESSIONS];           /* to end */
bit flow;                     /* session 0: something of its client is on the way to the backend */
bit closed;                   /* session 0: its guard passes on nothing more */
byte newest;                  /* the highest token that was ever ready */
byte leads = 1;               /* at the coordinator */
bit installed;            /* again: the operator vouches for no mark then */
bit halted;                   /* LIVE: the older leader, and guard A */

#ifdef ELECTED
#define CONFIRM(t) (leads == t)
#else
#define CONFIRM(t) (!doubt)
#endif
#if defined(NO_COMPARISON) || defined(ALONE)
#define BELOW(t) false
#else
#define BELOW(t) (db.mark > t)
#endif
#ifdef COPY_COUNTS
#define ORIGINAL true
#else
#define ORIGINAL (!db.copied)
#endif
#ifdef REGISTRY
#define COMPLETE true
#else
#define COMPLETE (!db.foreign)
#endif
#define IS_MARK(t) (db.mark == t && db.raisedIn == present && ORIGINAL)
#define CONFIRMED (db.mark != 0 && db.raisedIn == present && ORIGINAL)
#define IS_OTHER(k, t) (db.recorded[k] != 0 && db.recorded[k] != t)
#define OTHERS(t) (IS_OTHER(0, t) || IS_OTHER(1, t) || IS_OTHER(2, t))
/* What look returns, and raise compares: the run, and the rows of mark and installation. */
#define BASIS (present + 4 * (db.mark + 4 * (db.raisedIn + 4 * (db.copied + 2 * db.foreign))))

#ifdef LIVE
#define MAY_END(s) (told[s] && alive[s])
#define PAUSE(s) (AT_A(s) && halted -> false : true)
ltl gets_in { <> (ready[1]) }
#else
#define MAY_END(s) (alive[s])
#define PAUSE(s) true
#endif

inline copy(to, from)
{
    to.mark = from.mark; to.raisedIn = from.raisedIn; to.copied = from.copied;
    to.foreign = from.foreign; to.recorded[0] = from.recorded[0]; to.recorded[1] = from.recorded[1];
    to.recorded[2] = from.recorded[2]
}

/* ringfence.forget */
inline forget(k)
{
    invariant(3, k != 0 || !alive[0] || closed && !flow);
    db.recorded[k] = 0
}

/* The installation lists everybody (stamp.sql). */
inline install()
{
    db.recorded[0] = 0; db.recorded[1] = 0; db.recorded[2] = 0;
#ifndef NOT_LISTED
    if :: alive[0] -> db.recorded[0] = STAR :: else fi;
    if :: alive[1] -> db.recorded[1] = STAR :: else fi;
    if :: alive[2] -> db.recorded[2] = STAR :: else fi;
#endif
    db.foreign = 0; installed = 1
}

/* revoke, of one session that it has listed: it is gone, or it is told to end */
inline revoke_one(k, listed)
{
    if
    :: listed && !alive[k] ->
#ifndef NO_FORGET
       forget(k)
#else
       left = true
#endif
    :: listed && alive[k] ->
#ifndef NO_SIGNAL
       told[k] = true;
#endif
#ifdef NO_WAIT
       forget(k)
#else
       left = true
#endif
    :: else
    fi
}

/* Admission.Admit of a session, or of no session: a guard that follows the election (Admission.follow). */
proctype Admit(byte s)
{
    short basis;
    bit doubt, other0, other1, other2, left;

    if
    :: s == FOLLOWER -> goto raise
    :: else
    fi;
again:
    skip; /* see invariant.h */
    atomic { /* its login, and Authority.Verify */
        PAUSE(s) -> alive[s] = true; here[s] = true;
        printf("session %d: logs in under token %d\n", s, TOKEN(s));
#if defined(ELECTED) && !defined(NO_VERIFY)
        if
        :: leads == TOKEN(s) -> printf("session %d: the coordinator says that token %d leads\n", s, TOKEN(s))
        :: else -> goto refused
        fi
#endif
    };

register:
    skip; /* see invariant.h */
    atomic { /* ringfence.register */
        PAUSE(s);
        if
        :: !here[s] || BELOW(TOKEN(s)) || !COMPLETE -> goto refused
#ifdef NO_MARK
        :: here[s] && !BELOW(TOKEN(s)) && COMPLETE && !OTHERS(TOKEN(s)) -> skip
        :: here[s] && !BELOW(TOKEN(s)) && COMPLETE && OTHERS(TOKEN(s)) && IS_MARK(TOKEN(s)) -> goto revoke
        :: here[s] && !BELOW(TOKEN(s)) && COMPLETE && OTHERS(TOKEN(s)) && !IS_MARK(TOKEN(s)) -> goto raise
#else
        :: here[s] && !BELOW(TOKEN(s)) && COMPLETE && IS_MARK(TOKEN(s)) ->
           if
#ifdef NO_REVOKE
           :: true -> skip
#else
           :: !OTHERS(TOKEN(s)) -> skip
           :: OTHERS(TOKEN(s)) -> goto revoke
#endif
           fi
        :: here[s] && !BELOW(TOKEN(s)) && COMPLETE && !IS_MARK(TOKEN(s)) -> goto raise
#endif
        fi;
#ifdef SPLIT
        goto record
    };
record:
    skip; /* see invariant.h */
    atomic {
#endif
        db.recorded[s] = TOKEN(s);
        ready[s] = true; /* or later, or never */
        newest = (TOKEN(s) > newest -> TOKEN(s) : newest);
        printf("session %d: register records it under token %d, and its client sees ready\n", s, TOKEN(s))
    };
    goto over;

raise: /* Store.Raise: look, confirm, raise */
    skip; /* see invariant.h */
    atomic {
        PAUSE(s);
        basis = BASIS;
        doubt = BELOW(TOKEN(s)) || (db.mark != 0 -> db.copied : installed);
        if
        :: !COMPLETE -> basis = 0; goto refused
        :: COMPLETE && s == FOLLOWER && (!CONFIRMED || db.mark >= 2) -> basis = 0; goto over
        :: COMPLETE && s == FOLLOWER && CONFIRMED && db.mark < 2 -> skip
        :: COMPLETE && s != FOLLOWER -> skip
        fi
    };
#if !defined(NO_CONFIRM)
    atomic {
        PAUSE(s);
        if
        :: CONFIRM(TOKEN(s)) -> printf("raise to %d: it is confirmed\n", TOKEN(s))
        :: else -> basis = 0; goto refused
        fi
    };
#endif
    atomic { /* ringfence.raise */
        PAUSE(s);
        if
#ifndef NO_BASIS
        :: basis != BASIS -> goto raise
        :: basis == BASIS && BELOW(TOKEN(s)) -> basis = 0; goto refused
        :: basis == BASIS && !BELOW(TOKEN(s)) ->
#else
        :: BELOW(TOKEN(s)) -> basis = 0; goto refused
        :: !BELOW(TOKEN(s)) ->
#endif
#ifndef ALONE
           invariant(1, TOKEN(s) >= db.mark);
#endif
           db.mark = TOKEN(s); db.raisedIn = present; db.copied = 0;
           printf("raise to %d: the mark is raised\n", TOKEN(s))
        fi;
        basis = 0; doubt = 0
    };
    if /* Admission.endOlder: a session at rest at this very guard is made quiet, and let go */
    :: AT_A(s) && ready[0] && !closed && TOKEN(s) == 2 ->
       atomic { closed = true; printf("guard A: passes on nothing more of session 0\n") };
       if
       :: atomic {
#ifdef NO_PROOF
              db.recorded[0] != 0 ->
#else
              db.recorded[0] != 0 && !flow ->
#endif
              forget(0); printf("guard A: session 0 is let go\n")
          }
       :: skip /* it gives no proof in time */
       fi
    :: else
    fi;
    if
    :: s == FOLLOWER -> goto revoke
    :: else -> goto register
    fi;

revoke: /* ringfence.revoke, again and again: list first, check second */
    skip; /* see invariant.h */
    atomic {
        PAUSE(s);
        if
        :: !IS_MARK(TOKEN(s)) -> goto refused
        :: IS_MARK(TOKEN(s)) -> skip
        fi;
        other0 = IS_OTHER(0, TOKEN(s)); other1 = IS_OTHER(1, TOKEN(s)); other2 = IS_OTHER(2, TOKEN(s))
    };
    atomic {
        PAUSE(s);
        left = false;
        if
        :: !IS_MARK(TOKEN(s)) -> other0 = 0; other1 = 0; other2 = 0; goto refused
        :: IS_MARK(TOKEN(s)) -> revoke_one(0, other0); revoke_one(1, other1); revoke_one(2, other2)
        fi;
        printf("revoke under %d: tells sessions to end, and removes the records of those that are gone\n", TOKEN(s));
        other0 = 0; other1 = 0; other2 = 0;
        if
        :: left -> left = false; goto revoke
        :: !left && s == FOLLOWER -> goto over
        :: !left && s != FOLLOWER -> goto register
        fi
    };

refused:
#ifdef LIVE
    if
    :: s == 1 -> goto again
    :: else
    fi;
#endif
over:
    skip
}

/* The clients, the flow to the backends, and their ends. */
proctype Backends()
{
    do
#ifdef UNRECORDED
    :: atomic { alive[0] && !closed && !flow -> flow = true }
#else
    :: atomic { ready[0] && alive[0] && !closed && !flow -> flow = true }
#endif
    :: atomic {
           flow && alive[0] -> printf("session 0: its backend writes under token 1\n");
           invariant(5, newest <= 1);
           flow = false
       }
    od
}

proctype Ends()
{
    do
    :: atomic { MAY_END(0) -> alive[0] = false; flow = false; told[0] = false; printf("session 0: its backend has ended\n") }
    :: atomic { MAY_END(1) -> alive[1] = false; told[1] = false }
    od
}

/* Store.sweep: it removes the records of sessions that are gone. */
proctype Sweep()
{
    bit a, b, c;
#ifdef CHECK_FIRST
    atomic { a = !alive[0]; b = !alive[1]; c = !alive[2] };
    atomic {
        if :: a && db.recorded[0] != 0 -> forget(0) :: else fi;
        if :: b && db.recorded[1] != 0 -> forget(1) :: else fi;
        if :: c && db.recorded[2] != 0 -> forget(2) :: else fi;
        a = 0; b = 0; c = 0
    }
#else
    atomic { a = db.recorded[0] != 0; b = db.recorded[1] != 0; c = db.recorded[2] != 0 };
    atomic {
        if :: a && !alive[0] -> forget(0) :: else fi;
        if :: b && !alive[1] -> forget(1) :: else fi;
        if :: c && !alive[2] -> forget(2) :: else fi;
        a = 0; b = 0; c = 0
    }
#endif
}

/* Every backend of the server ends. */
inline end_all()
{
    alive[0] = false; alive[1] = false; alive[2] = false; here[0] = false; here[1] = false; here[2] = false;
    told[0] = false; told[1] = false; told[2] = false; flow = false
}

proctype Restart()
{
    byte before;
#ifdef NOT_DURABLE
    before = db.mark;
#endif
    d_step {
        present++; end_all();
#ifdef NOT_DURABLE
        db.mark = before;
#endif
        before = 0;
        printf("server: starts again\n")
    }
}

/* What takes the data back to an earlier state. */
proctype SetBack()
{
    d_step { copy(saved, db); printf("server: somebody saves its data\n") };
    if
    :: d_step { /* a dump, restored where it was made: every row is a copy */
           copy(db, saved); db.copied = (db.mark != 0 -> 1 : 0); db.foreign = 1;
           printf("server: a dump of it is restored while it runs\n")
       }
    :: d_step { saved.mark != 0 -> /* of the marks alone: a mark that is missing while its gate is there is in doubt */
           db.mark = saved.mark; db.raisedIn = saved.raisedIn; db.copied = (db.mark != 0 -> 1 : 0);
           printf("server: a dump of the marks is restored while it runs\n")
       }
#if defined(ELECTED) && !defined(LIVE)
    :: d_step { copy(db, saved); present++; end_all(); printf("server: the snapshot is put back, and it starts again\n") }
    :: d_step { copy(db, saved); end_all(); printf("server: goes back to it without a trace\n") }
#endif
    fi;
    d_step { saved.mark = 0; saved.raisedIn = 0; saved.foreign = 0; saved.copied = 0;
             saved.recorded[0] = 0; saved.recorded[1] = 0; saved.recorded[2] = 0 }
}

#ifdef ELECTED
proctype Election() { atomic { leads = 2; printf("coordinator: token 2 leads\n") } }
#endif
#ifdef LIVE
proctype Stop()
{
    if
    :: halted = true
    :: skip
    fi
}
#endif

#ifndef NO_INSTALL
proctype Operator() { atomic { db.foreign -> install(); printf("operator: installs again\n") } }
#endif

/* A list that counts as complete has each session that may write. */
proctype Duty()
{
    atomic { COMPLETE && ready[0] && alive[0] && db.recorded[0] == 0 && !(closed && !flow) -> invariant(13, false) }
}

init {
    atomic {
#ifdef ELECTED
        db.mark = 1; db.raisedIn = present; /* by an earlier session of token 1 */
#endif
        run Admit(0);
        run Admit(1);
#ifdef ELECTED
        run Admit(FOLLOWER);
        run Election();
#else
        run Admit(2);
#endif
#ifdef LIVE
        run Stop();
#else
        run Sweep(); run Restart(); run Duty();
#endif
#ifndef NO_INSTALL
        run Operator();
#endif
        run Backends(); run Ends(); run SetBack()
    }
}
