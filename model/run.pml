/*
 * Which run of the server this is: what enter compares a mark with.
 *
 *     make model MODEL=run
 *
 * A mark counts only on the run of the server on which it was raised. A run is a row of an unlogged
 * table (ringfence_private.boot), the oid of the database, and the start of the server. Here the database gets
 * older again in one of the ways that we know: a standby that lacks the last raise is promoted without a
 * restart, a cold copy or a snapshot is put back, a dump is restored into the running server, a copy by
 * CREATE DATABASE takes the name. A crash or a clean restart comes, too. Each happens between any two
 * steps of the others.
 *
 * Each server has a clock of its own. So the starts of two servers may be the same number. Those of
 * one server differ.
 *
 * It holds with the identity of schema version 8, too: spin -run -DTODAY model/run.pml
 *
 * Claim (ARCHITECTURE.md, invariants):
 *   6   a transaction enters only under the newest token that was ever raised     in Transaction
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   NO_START     6   a run does not have the start of the server
 *   NO_OID       6   a run does not have the oid of the database
 *   NO_XMIN      6   no row is compared with the transaction that wrote it (written = xmin)
 *   LOGGED       6   the table with the row is logged
 *   OLD_SNAPSHOT 6   enter believes the version of the gate that an old snapshot shows
 */

#include "invariant.h"

#ifdef NO_XMIN
#define ORIGINAL(bit) true
#else
#define ORIGINAL(bit) (bit)
#endif

/* What the database has on disk. id 0: ringfence_private.boot has no row. */
typedef Data {
    byte id;        bit written;                 /* ringfence_private.boot */
    byte oid, line;                              /* the database; the timeline */
    byte mark;      bit original;                /* the mark, and its gate */
    byte inId, inOid, inLine, inStart            /* the run in which it was raised */
};

Data live, nothing;
byte start = 1;          /* of the server that is live */
byte newest;             /* the highest token that was ever raised */
byte ids, starts = 1, lines;
/* The transaction: the rows that it has read; whether its session has ended; whether the gate's row
 * has been replaced since its first snapshot. */
Data here, gate;
bit ended, replaced;

inline copied(to, from)
{
    to.id = from.id; to.written = from.written; to.oid = from.oid; to.line = from.line;
    to.mark = from.mark; to.original = from.original;
    to.inId = from.inId; to.inOid = from.inOid; to.inLine = from.inLine; to.inStart = from.inStart
}

/* Recovery empties unlogged tables, and a base backup has none. */
inline recovered(d)
{
#ifndef LOGGED
    d.id = 0; d.written = 0
#else
    skip
#endif
}

/* ringfence.begin_run: under a lock, it looks again and writes the row. */
inline begun()
{
    if
    :: live.id != 0 && ORIGINAL(live.written)
    :: else -> ids++; live.id = ids; live.written = 1
    fi
}

/* What enter compares: the run that it has read, with the one in the row of the gate. */
#define RUN_ID(d) (ORIGINAL(d.written) -> d.id : 0)
#ifdef TODAY
#define SAME_ID (gate.inLine == here.line)
#else
#define SAME_ID (RUN_ID(here) != 0 && gate.inId == RUN_ID(here))
#endif
#ifdef NO_OID
#define SAME_OID true
#else
#define SAME_OID (gate.inOid == here.oid)
#endif
#ifdef NO_START
#define SAME_START true
#else
#define SAME_START (gate.inStart == start)
#endif
#define OPEN (gate.mark != 0 && ORIGINAL(gate.original) && SAME_ID && SAME_OID && SAME_START)

/* ringfence.raise. The coordinator confirms only the newest leader: it raises for the first time, or
 * once more in a run that has not confirmed its mark. */
active proctype Leader()
{
    byte raises;
    do
    :: true -> atomic { begun() } /* look, register */
    :: true -> atomic {
           begun();
           if
           :: newest < 2 -> newest++
           :: newest > 0 -> skip
           fi;
           live.mark = newest; live.original = 1; replaced = 1;
           live.inId = live.id; live.inOid = live.oid; live.inLine = live.line; live.inStart = start
       }
       raises++;
       if
       :: raises == 3 -> break /* keeps the world small */
       :: else
       fi
    od
}

/* enter, under any token, in a transaction whose snapshots are new with each statement, or as old as
 * its first. It takes its locks, and reads the run and the gate with one snapshot. */
active proctype Transaction()
{
    bit old;
    do
    :: d_step { copied(gate, live); copied(here, live); ended = 0; replaced = 0 };
       if
       :: old = true
       :: old = false
       fi;
       atomic {
           if
           :: ended -> skip /* its session has ended, and the transaction with it */
           :: else ->
              if
              :: !old -> copied(gate, live); copied(here, live)
#ifndef OLD_SNAPSHOT
              :: old && replaced -> gate.mark = 0 /* xmax is not 0: it fails with 40001 */
#endif
              :: old && !replaced
#ifdef OLD_SNAPSHOT
              :: old && replaced
#endif
              fi;
              if
              :: OPEN -> invariant(6, gate.mark == newest)
              :: else
              fi
           fi;
           copied(gate, nothing); copied(here, nothing); ended = 0; replaced = 0; old = 0
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
       d_step { lines++; saved.line = lines; start = otherStart; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); recovered(saved) }; /* a snapshot of the disk, or a base backup */
       d_step { starts++; start = starts; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); starts++; start = starts; ended = 1 }; /* stopped, copied, started */
       d_step { starts++; start = starts; copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); saved.oid++ }; /* CREATE DATABASE … TEMPLATE, and then it takes the name */
       d_step { copied(live, saved); ended = 1 }
    :: d_step { copied(saved, live); saved.original = 0; saved.written = 0 }; /* a dump, restored where it was made */
       if
       :: skip
       :: saved.id = 0 /* without unlogged tables */
       fi;
       d_step { saved.oid = live.oid; saved.line = live.line; copied(live, saved) }
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
