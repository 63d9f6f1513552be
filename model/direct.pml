/*
 * Direct sessions in Postgres (ringfence.direct): a trigger admits each login, or fails it.
 *
 *     make model MODEL=direct
 *
 * Leaders connect to the database without a guard. Token 1 is the older leader's, and token 2 the newer one's.
 * At each login a trigger calls attach for its own backend, in the transaction of the login: it takes the locks
 * of enter, looks at the gate, and records the session. It raises no mark: whoever raises is outside (campaign
 * and take, fence.Lead, or a guard). A login may be on a
 * standby that is promoted later. The server may start again, and a snapshot may be put back. There is no
 * guard that could let anybody go.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   5    once token 2 is in, token 1 writes nothing                          in Session
 *   live token 2 gets in                                                     ltl gets_in, in the world LIVE
 *
 * Worlds: the claims hold in the one above, and in this one.
 *   LIVE         the older leader may stop anywhere, and everybody else goes on. Then the newer one gets in
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   STANDBY      5    a login is let in on a standby
 *   BEFORE       5    sessions from before the trigger was enabled are not ended when it is
 *   TRIAL        5    a role on the list is let in although attach says no (a trial that is believed)
 *   NO_LOCK      5    the login takes no locks before it looks at the gate
 *   NO_RUN       5    a mark counts on every run of the server
 *   UNASKED      5    who raises does not ask the coordinator
 *   LOGIN_RAISES 5    the trigger raises the mark, too: it cannot ask the coordinator
 *   LIVE+NO_SIGNAL live revoke waits for older sessions, and does not end them
 */
#include "invariant.h"

typedef Data { byte mark, raisedIn; bit open };
Data db, saved;
byte present = 1;         /* the run of the server */
byte leads = 1;           /* at the coordinator */
byte newest;
byte recorded;            /* the token of the older leader's session, 0: none */
bit alive, told;          /* its backend */
bit inside;               /* the transaction of its login is open, and holds the locks of enter */
bit installed;            /* the trigger is */

#ifdef NO_RUN
#define IS_MARK(t) (db.mark == t)
#else
#define IS_MARK(t) (db.mark == t && db.raisedIn == present)
#endif
/* What a revocation waits for: older sessions, and older logins that are under way. */
#define OLDER(t) (recorded != 0 && recorded != t || inside && t != 1)

#ifdef LIVE
bit halted;
#define PAUSE (!halted)
ltl gets_in { <> (newest == 2) }
#else
#define PAUSE true
#endif

/* The older leader: a login, and then statements. */
proctype Session()
{
    bit standby;
    if
    :: atomic { !installed -> alive = true; goto in } /* from before */
    :: installed
#ifndef LIVE
    :: standby = true /* on a server in recovery, whose data are the primary's of some time */
#endif
    fi;
    if
#ifdef STANDBY
    :: atomic { standby -> alive = true; printf("session 1: logs in on a standby, which is promoted\n"); goto in }
#else
    :: standby -> goto over
#endif
    :: atomic { /* the login trigger: attach takes the locks */
           PAUSE && !standby ->
           alive = true;
#ifndef NO_LOCK
           inside = true
#endif
       }
    fi;
    atomic { /* and looks at the gate */
#ifdef LOGIN_RAISES
        if
        :: db.mark < 1 || db.mark == 1 && !IS_MARK(1) -> db.mark = 1; db.raisedIn = present; db.open = true
        :: else
        fi;
#endif
        if
#ifdef TRIAL
        :: true
#else
        :: IS_MARK(1) && db.open
        :: !(IS_MARK(1) && db.open) -> alive = false; inside = false; goto over
#endif
        fi;
        printf("session 1: its trigger has found that 1 is the mark\n")
    };
    atomic { /* it commits: the record is seen from now on */
        if
        :: alive && !told -> recorded = 1; inside = false; printf("session 1: is recorded, and in\n")
        :: !alive || told -> alive = false; inside = false; goto over
        fi
    };
in: do
    :: atomic { alive && !told && PAUSE -> printf("session 1: writes\n"); invariant(5, newest <= 1) }
    :: atomic { alive && told -> alive = false; printf("session 1: is ended\n"); break }
    :: atomic { !alive -> break }
    od;
over:
    skip
}

/* Enabling the trigger ends who is in. */
proctype Enable()
{
    atomic {
        installed = true;
#ifndef BEFORE
        told = alive
#endif
    };
#ifndef BEFORE
    !told || !alive;
#endif
    told = false;
    run Raise(1); run Raise(2)
}

/* Whoever raises the mark to a token, outside of its sessions: look, confirm, raise, revoke. */
proctype Raise(byte t)
{
    byte basis;
look:
    skip; /* see invariant.h */
    atomic { basis = present + 4 * db.mark; if :: t < db.mark -> goto over :: else fi };
#ifndef UNASKED
    atomic { if :: leads == t :: leads > t -> goto over fi };
#endif
    atomic { /* ringfence.raise */
        if
        :: basis != present + 4 * db.mark -> basis = 0; goto look
        :: else -> db.mark = t; db.raisedIn = present; db.open = false; basis = 0; printf("raise to %d: has committed\n", t)
        fi
    };
    do
    :: atomic { !IS_MARK(t) -> goto look }
    :: atomic { IS_MARK(t) && OLDER(t) ->
           if
           :: !alive -> recorded = 0
#ifndef NO_SIGNAL
           :: alive -> told = true
#else
           :: alive -> skip
#endif
           fi }
    :: atomic { IS_MARK(t) && !OLDER(t) ->
           db.open = true; printf("revoke under %d: nobody is left\n", t); break }
    od;
    if
    :: atomic { t == 2 && IS_MARK(2) && db.open -> newest = 2; printf("session 2: is recorded, and in\n") }
    :: t != 2
#ifndef LIVE
    :: true
#endif
    fi;
over:
    skip
}

proctype Server()
{
    d_step { saved.mark = db.mark; saved.raisedIn = db.raisedIn; saved.open = db.open };
    d_step {
        db.mark = saved.mark; db.raisedIn = saved.raisedIn; db.open = saved.open;
        present++; alive = false; told = false; recorded = 0; inside = false;
        printf("server: the snapshot is put back, and it starts again\n")
    }
}

init {
    atomic {
        run Session(); run Enable();
#ifdef LIVE
        if :: halted = true :: skip fi
#else
        run Server()
#endif
    };
    leads = 2
}
