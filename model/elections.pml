/*
 * Elections in Postgres (fence/postgres): enrol, lease, expiry, promotion.
 *
 *     make model MODEL=elections
 *
 * Two candidates enrol once, each in a session of its own. A session ends when its lease is over, by the
 * server's clock, and a heartbeat renews it. The client counts from the start of the heartbeat, and its clock
 * runs as fast as the server's. So its term is over before the lease is. A call is one transaction, which is
 * answered when it is on disk. The server may crash, and its data may be put back, on the same timeline. A
 * standby that lacks the last transactions may be promoted, and be lost: then the primary comes back on its
 * older timeline, or another standby is promoted to the same one. The clock may step back, or be wrong. Any
 * process may stop anywhere.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   1    no token is given out twice under one issuer, also where it was lost       in Candidate
 *   7    a candidate that was passed over is never said to lead again: who leads has a higher token than each
 *        leader before, but for those after a backup that was put back, and on a timeline that was given up
 *                                                                                   in leads
 *        who enrols has a higher token than all before, also than those that were lost
 *                                                                                   in Candidate
 *        Where the clock was wrong, both are claimed only of the tokens that the data know.
 *   8    a new leader is told only when the term of the earlier one is over in its own eyes. It is not so
 *        after another server has taken over, or the data were put back             in leads
 *   21   a change of documents is made only while its candidate leads               in Change
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   UNLOCKED       1    enrol reads the last number before it locks the row of the election
 *   SKIPPED        7    look passes over a session that is over, and does not delete it
 *   JUDGED         8    a session is judged before the lock is waited for, and not after that
 *   NOT_SHORTENED  8    the client counts from the answer to its heartbeat
 *   NO_TIMELINE    7    a session counts on every timeline
 *   NO_CLOCK       7    a token is above those that the data know, and not above those that were lost
 *   NOT_RANDOM     1    a server with a wrong clock gives out the number after the last one of its data
 *   NOT_DURABLE    7    a call is answered before it is on disk
 *   NO_KEY_SHARE   21   a change of documents does not keep the candidate's row
 *
 * This was tried, and violates nothing:
 *   a heartbeat renews a session that is over and was not deleted (REVIVES). Nobody was passed over then, and
 *   its client has given up its term
 */
#include "invariant.h"

/* What is committed: a row of candidate and session for each, and the last token of the election. */
typedef Data { bit row[2]; byte token[2]; byte line[2]; byte last };
Data db, disk, saved, given_up;
byte timeline = 1;
bit wrong;            /* a server had a wrong clock when it gave out a token */
bit older;            /* another server has taken over, or the data were put back */
bit moved;            /* or the server has crashed */

bit over[2];          /* the lease is over by the server's clock */
bit locked[2];        /* a heartbeat has found that it is not, and has not committed */
bit kept[2];          /* a change of documents keeps the row */
bit believes[2];      /* the client believes that its session lasts */
bit leading[2];       /* and it was told that it leads */
bit beating[2], renewed[2], late[2]; /* its heartbeat: is sent, has renewed the lease, does not count any more */
bit given[16];        /* the tokens that were given out */
byte top;             /* the highest one that was given out */
byte highest;         /* the highest one that has led */

#ifdef NO_TIMELINE
#define COUNTS(i) true
#else
#define COUNTS(i) (db.line[i] == timeline)
#endif
#define ALIVE(i) (db.row[i] && !over[i] && COUNTS(i))

#ifdef SKIPPED
#define SKIPS(i) (!ALIVE(i))
#else
#define SKIPS(i) false
#endif

inline copy(to, from)
{
    to.row[0] = from.row[0]; to.row[1] = from.row[1]; to.token[0] = from.token[0]; to.token[1] = from.token[1];
    to.line[0] = from.line[0]; to.line[1] = from.line[1];
    to.last = from.last
}

/* next_token: the clock is above all tokens that were given out. One that is wrong gives no more than the data have; the
   token is then above their last one, at random, so nobody else gives it out. */
inline next_token(t)
{
    if
#ifndef NO_CLOCK
    :: t = top + 1
#endif
#ifdef NOT_RANDOM
    :: t = db.last + 1; wrong = true
#else
    :: t = db.last + 1; do :: given[t] -> t++ :: !given[t] -> break :: t < top + 2 -> t++ od;
#ifndef NO_CLOCK
       wrong = true
#endif
#endif
    fi
}

/* A call commits, is on disk, and is answered. */
inline commit()
{
#ifndef NOT_DURABLE
    copy(disk, db)
#else
    skip
#endif
}

/* The answer of a look with nobody ahead */
inline leads(i)
{
    printf("candidate %d: is told that it leads, with token %d\n", i, db.token[i]);
    invariant(7, wrong && older || db.token[i] >= highest);
    invariant(8, moved || !believes[1 - i] || !leading[1 - i]);
    highest = db.token[i];
    leading[i] = believes[i] /* an answer that comes after the deadline does not count */
}

proctype Candidate(byte i)
{
    bit judged;
    byte number;

    atomic { /* open: the client counts from here */
        beating[i] = true; late[i] = false
    };
#ifdef UNLOCKED
    atomic { next_token(number) };
#endif
    atomic { /* enrol, with the lock of the election's row */
#ifndef UNLOCKED
        next_token(number);
#endif
        db.last = number;
        db.row[i] = true; db.token[i] = number; db.line[i] = timeline; over[i] = false;
        printf("candidate %d: enrols, with token %d\n", i, db.token[i]);
        invariant(1, !given[db.token[i]]);
        invariant(7, wrong || db.token[i] > top);
        given[db.token[i]] = true; top = (db.token[i] > top -> db.token[i] : top); number = 0;
        commit();
        renewed[i] = true
    };
    do
    :: atomic { /* front and places, of look: the one ahead is deleted if its session is over */
           db.row[i] && ALIVE(i) && db.row[1 - i] && db.token[1 - i] < db.token[i] ->
           judged = !ALIVE(1 - i)
       };
       if
       :: atomic { /* expire: under the lock of the session, it is judged again */
#ifdef JUDGED
              judged && !locked[1 - i] && !kept[1 - i] ->
#else
              judged && !locked[1 - i] && !kept[1 - i] && !ALIVE(1 - i) ->
#endif
              db.row[1 - i] = false; db.token[1 - i] = 0; db.line[1 - i] = 0; over[1 - i] = false;
              commit();
              printf("candidate %d: deletes candidate %d, whose session is over\n", i, 1 - i);
              judged = false
          }
       :: atomic { judged = false }
       fi
    :: atomic { /* look, with nobody ahead */
           ALIVE(i) && (!db.row[1 - i] || db.token[1 - i] > db.token[i] || SKIPS(1 - i)) -> leads(i)
       }
    :: atomic { !beating[i] -> beating[i] = true; late[i] = false } /* a heartbeat is sent */
    od
}

/* beat at the server, and its answer */
proctype Beats(byte i)
{
    do
#ifdef REVIVES
    :: atomic { beating[i] && !renewed[i] && !locked[i] && db.row[i] && COUNTS(i) -> locked[i] = true }
#else
    :: atomic { beating[i] && !renewed[i] && !locked[i] && ALIVE(i) -> locked[i] = true }
#endif
    :: atomic { locked[i] -> locked[i] = false; over[i] = false; renewed[i] = true }
    :: atomic {
           beating[i] && renewed[i] ->
           believes[i] = believes[i] || !late[i];
           beating[i] = false; renewed[i] = false; late[i] = false
       }
    :: atomic { beating[i] && !renewed[i] && !locked[i] -> beating[i] = false; late[i] = false } /* it gets lost */
    od
}

proctype Time(byte i)
{
    do
    :: atomic { believes[i] -> believes[i] = false; leading[i] = false; printf("candidate %d: its term is over\n", i) }
    :: atomic { /* the lease ends, after the term of its client, and after that of a heartbeat that has renewed it */
#ifdef NOT_SHORTENED
           db.row[i] && !over[i] ->
#else
           db.row[i] && !over[i] && !believes[i] ->
#endif
           over[i] = true; late[i] = beating[i] && !locked[i]; printf("server: the lease of candidate %d is over\n", i)
       }
    :: atomic { over[i] && db.row[i] -> over[i] = false } /* the clock steps back */
    od
}

/* change_documents of candidate 0: it keeps the row of its candidate until it has committed. */
proctype Change()
{
    byte token;
    atomic {
        ALIVE(0) && (!db.row[1] || db.token[1] > db.token[0]) -> token = db.token[0];
#ifndef NO_KEY_SHARE
        kept[0] = true
#endif
    };
    atomic {
        if
        :: moved -> skip /* the transaction is gone */
        :: !moved -> printf("candidate 0: changes documents under token %d\n", token); invariant(21, highest <= token)
        fi;
        kept[0] = false; token = 0
    }
}

inline ended() /* every call that was under way is gone */
{
    locked[0] = false; locked[1] = false; kept[0] = false; moved = true
}

/* A standby takes over, with what it has. */
inline promoted()
{
    copy(db, saved); copy(disk, saved); timeline++; older = true; ended(); printf("server: a standby is promoted\n")
}

proctype Server()
{
    byte before;
    d_step { copy(saved, db); before = highest }; /* a standby has got so far; or a backup is made */
    if
    :: d_step { copy(given_up, disk); before = highest; promoted() };
       if
       :: true -> skip
       :: d_step {
              copy(db, given_up); copy(disk, given_up); timeline--; highest = before; ended();
              printf("server: it is lost, and the primary comes back\n")
          }
       :: d_step { timeline--; highest = before; promoted(); printf("server: the other one is lost\n") }
       fi
    :: d_step {
           copy(db, saved); copy(disk, saved); older = true; highest = before; ended();
           printf("server: its data are put back\n")
       }
    :: d_step { copy(db, disk); ended(); printf("server: crashes, and starts again\n") }
    fi
}

init {
    atomic {
        copy(disk, db);
        run Candidate(0); run Candidate(1); run Beats(0); run Beats(1); run Time(0); run Time(1);
        run Change(); run Server()
    }
}
