/*
 * Where a gate counts: what enter compares.
 *
 *     make model MODEL=run
 *
 * A mark counts only on the run of the server on which it was raised. What shows that is the row of the gate: its table
 * is unlogged (ringfence_private.gate), and the row has the folder of the database and the start of the server. Here the
 * database gets older again in one of the ways that we know: a standby that lacks the last raise is promoted without a
 * restart, a cold copy or a snapshot is put back, a dump is restored into the running server, a copy by
 * CREATE DATABASE takes the name. A crash or a clean restart comes, too. Each happens between any two
 * steps of the others.
 *
 * Each server has a clock of its own. So the starts of two servers may be the same number. Those of
 * one server differ.
 *
 * Claim (ARCHITECTURE.md, invariants):
 *   6   a transaction enters only under the newest token that was ever raised     in Transaction
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   NO_START     6   a gate does not have the start of the server
 *   NO_PLACE     6   a gate does not have the folder of the database
 *   NO_XMIN      6   no row is compared with the transaction that wrote it (written = xmin)
 *   LOGGED       6   the table of gates is logged
 *   OLD_SNAPSHOT 6   enter believes the version of the gate that an old snapshot shows
 */

#include "invariant.h"

/* What the database has on disk: which database it is, and the gate. token 0: the gate has no row. */
typedef Data {
    byte place;
    byte token; bit written;
    byte inPlace, inStart            /* where it was raised */
};

Data live, nothing;
byte start = 1;          /* of the server that is live */
byte newest;             /* the highest token that was ever raised */
byte starts = 1;
/* The transaction: the rows that it has read; whether its session has ended; whether the gate's row
 * has been replaced since its first snapshot. */
Data gate;
bit ended, replaced;

inline copied(to, from)
{
    to.place = from.place; to.token = from.token; to.written = from.written;
    to.inPlace = from.inPlace; to.inStart = from.inStart
}

/* Recovery empties unlogged tables, and a base backup has none. */
inline recovered(d)
{
#ifndef LOGGED
    d.token = 0
#else
    skip
#endif
}

#ifdef NO_XMIN
#define ORIGINAL true
#else
#define ORIGINAL gate.written
#endif
#ifdef NO_PLACE
#define SAME_PLACE true
#else
#define SAME_PLACE (gate.inPlace == gate.place)
#endif
#ifdef NO_START
#define SAME_START true
#else
#define SAME_START (gate.inStart == start)
#endif
#define OPEN (gate.token != 0 && ORIGINAL && SAME_PLACE && SAME_START)

/* ringfence.raise. The coordinator confirms only the newest leader: it raises for the first time, or
 * once more in a run that has not confirmed its mark. */
active proctype Leader()
{
    byte raises;
    do
    :: atomic {
           if
           :: newest < 2 -> newest++
           :: newest > 0 -> skip
           fi;
           live.token = newest; live.written = 1; live.inPlace = live.place; live.inStart = start; replaced = 1
       }
       raises++;
       if
       :: raises == 3 -> break /* keeps the world small */
       :: else
       fi
    od
}

/* enter, under any token, in a transaction whose snapshots are new with each statement, or as old as
 * its first. It takes its locks, and reads the gate. */
active proctype Transaction()
{
    bit old;
    do
    :: d_step { copied(gate, live); ended = 0; replaced = 0 };
       if
       :: old = true
       :: old = false
       fi;
       atomic {
           if
           :: ended -> skip /* its session has ended, and the transaction with it */
           :: else ->
              if
              :: !old -> copied(gate, live)
#ifndef OLD_SNAPSHOT
              :: old && replaced -> gate.token = 0 /* xmax is not 0: it fails with 40001 */
#endif
              :: old && !replaced
#ifdef OLD_SNAPSHOT
              :: old && replaced
#endif
              fi;
              if
              :: OPEN -> invariant(6, gate.token == newest)
              :: else
              fi
           fi;
           copied(gate, nothing); ended = 0; replaced = 0; old = 0
       }
    od
}

/* What takes the database back: a copy is made at any time, and takes the place of the database at any
 * later time. */
active proctype Copy()
{
    Data saved;
    byte otherStart;
    if
    :: d_step { copied(saved, live); recovered(saved) }; /* a standby, which starts maybe in the very microsecond */
       if                                                /* in which the primary has started; promoted, not restarted */
       :: otherStart = start
       :: d_step { starts++; otherStart = starts }
       fi;
       d_step { start = otherStart; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); recovered(saved) }; /* a snapshot of the disk, or a base backup */
       d_step { starts++; start = starts; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); starts++; start = starts; ended = 1 }; /* stopped, copied, started */
       d_step { starts++; start = starts; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); saved.place++ }; /* CREATE DATABASE … TEMPLATE, and then it takes the name */
       d_step { copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); saved.written = 0 }; /* a dump, restored where it was made */
       if
       :: skip
       :: saved.token = 0 /* without unlogged tables */
       fi;
       d_step { saved.place = live.place; copied(live, saved) }
    fi;
    replaced = 1;
    copied(saved, nothing)
}

active proctype Restart()
{
    if
    :: d_step { starts++; start = starts; ended = 1 } /* clean */
    :: d_step { recovered(live); ended = 1 }          /* a backend has crashed: the start is the same */
    :: d_step { recovered(live); starts++; start = starts; ended = 1 }
    fi
}
