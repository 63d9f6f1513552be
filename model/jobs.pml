/*
 * Jobs: one place for each, one end, and one resource.
 *
 *     make model MODEL=jobs
 *
 * A job is tried twice at most. It names no resource, so it gets a numbered one. There are two workers, one of which leaves at any time, and two assigners: the second one is
 * elected at any time, and the first one does not notice. A change of documents is one step. The answer to an
 * assignment may get lost, and then the change is made at any later time, or never. A try may go on when its
 * worker has left, and when somebody else leads its resource. A process that stops takes no further step.
 *
 * Writes to a store are judged by its mark, as in admission.pml. No coordinator is asked there.
 *
 * Worlds: the claims hold in the one above, and in each of these.
 *   TWO          with job 1, and one try of each; no answer is lost, and no worker leaves
 *   LIVE         worker 1 and the first assigner may stop anywhere, and everybody else goes on. Then the job ends
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   22   after each change the job is at one place: among those that wait, assigned, or ended    changed
 *   22   it ends once, by the try that has it                                                    finish
 *   22   it is taken back only from a member that is gone for good                               take_back
 *   22   the next assigner finds it: it is assigned to nobody whom no assigner has noted         Found
 *   23   no earlier try of the job writes after a later one                                      write
 *   23   two jobs never have one number                                                          changed
 *   24   nor does one write after the job has ended                                              write
 *   live the job ends                                                                            ltl ends
 *
 * Mutations: each takes away one step, and Spin finds a violation of the claim with this number.
 *   NO_VERSION       22   a step replaces a status that its author has not read
 *   NO_MOVE          22   a step changes the status, and the entries in a change of its own
 *   NO_ATTEMPT       22   a worker's step does not compare the attempt
 *   NO_STATE         22   a worker's step may end a job that has ended
 *   NO_WHILE         22   the assigner's changes do not name its term
 *   NOTED_LATE       22   a worker is noted after the first assignment to it
 *   FORGOTTEN        22   a worker is forgotten although it has assignments
 *   UNANSWERED       22   an assigner forgets a worker in a term in which an assignment to it was not answered
 *   NOT_GONE         22   jobs are taken back from members that are there
 *   OTHER_NUMBER     24   a job that is taken back gives its number back
 *   NO_MARK          24   the mark is not raised before the handler is called
 *   MARK_REMOVED     24   the mark is removed when its job is done
 *   TWO+NUMBER_LATER 23   the document of the number is created after the assignment
 *   LIVE+NO_RELEASE  live nobody takes jobs back
 */
#include "invariant.h"

#ifdef TWO
#define JOBS 2
#else
#define JOBS 1
#endif

mtype = { none, waiting, assigned, running, done };

/* The documents. */
typedef Status { mtype state; byte version, worker, attempt, number };
Status job[2];
bit entry[2];         /* it is listed among those that wait */
byte place[2];        /* the worker under which it is listed; 0: under none */
bit noted[3];         /* workers/ID */
byte holder[3];       /* resources/NUMBER: the job that has it, and 1; 0: nobody */
byte term = 1;        /* of the assigner that leads */

bit left[3];          /* the member has left the group for good: its ID is never used again */

/* Elections and stores of numbered resources. */
byte tokens, leads[3], mark[3];

byte begun[2];        /* the last attempt that has written */

/* An assignment that has been sent, and not answered. */
bit sent;
byte sentJob, sentVersion, sentWorker, sentNumber;

#ifdef LIVE
bit halted;
#define PAUSE(w) (!halted || w != 1)
#define MAY_LEAD(w, n) (w == 2 || leads[n] == 0) /* worker 2 does not lose its session */
ltl ends { <> (job[0].state == done) }
#else
#define PAUSE(w) true
#define MAY_LEAD(w, n) true
#endif

#ifdef NO_WHILE
#define LEADS(t) true
#else
#define LEADS(t) (term == t)
#endif
#ifdef NO_VERSION
#define UNCHANGED(j, v) true
#else
#define UNCHANGED(j, v) (job[j].version == v)
#endif
#ifdef NO_ATTEMPT
#define MINE(j, w, a) (job[j].worker == w && STATE(j))
#else
#define MINE(j, w, a) (job[j].worker == w && job[j].attempt == a && STATE(j))
#endif
#ifdef NO_STATE
#define STATE(j) true
#else
#define STATE(j) (job[j].state == assigned || job[j].state == running)
#endif

inline changed(j)
{
    job[j].version++;
    invariant(22, (job[j].state == waiting) == entry[j]);
    invariant(22, (job[j].state == assigned || job[j].state == running) == (place[j] != 0));
    invariant(22, place[j] == 0 || place[j] == job[j].worker);
    invariant(23, job[0].number == 0 || job[0].number != job[1].number)
}

/* changes.assign: it is made if nothing of what it depends on has changed. */
inline assign(t, j, v, w, n)
{
    if
#ifdef NUMBER_LATER
    :: LEADS(t) && UNCHANGED(j, v) ->
#else
    :: LEADS(t) && UNCHANGED(j, v) && (n == 0 || holder[n] == 0) ->
#endif
       job[j].state = assigned; job[j].worker = w; job[j].attempt++;
       entry[j] = false;
#ifndef NO_MOVE
       place[j] = w;
#endif
       if
       :: job[j].number == 0 ->
          job[j].number = n;
#ifndef NUMBER_LATER
          holder[n] = j + 1
#endif
       :: else
       fi;
       printf("assigner %d: assigns job %d to worker %d, attempt %d, number %d\n", t, j, w, job[j].attempt, job[j].number);
       changed(j)
    :: else
    fi
}

/* changes.wait, of a job that its worker does not run to its end */
inline wait(j)
{
    job[j].state = waiting; job[j].worker = 0; place[j] = 0;
    entry[j] = true
}

/* changes.takeBack */
inline take_back(t)
{
    atomic {
        PAUSE(t);
        if
        :: LEADS(t) && UNCHANGED(j, v) ->
           invariant(22, left[w]);
           wait(j);
#ifdef OTHER_NUMBER
           holder[job[j].number] = 0; job[j].number = 0;
#endif
           printf("assigner %d: takes job %d back from worker %d\n", t, j, w);
           changed(j)
        :: else
        fi;
        j = 0; v = 0
    }
}

/* An assigner, as long as its term lasts. Each round is about one worker. */
proctype Assigner(byte t)
{
    byte j, w, v, n;
    byte turn = 2;
    byte unsure; /* the worker of an assignment that has got no answer */

round:
    skip; /* see invariant.h */
    atomic { /* trackListed, and then group.Watch */
        PAUSE(t) && LEADS(t) -> j = 0; v = 0; n = 0;
#ifdef LIVE
        w = 3 - turn; turn = w; /* one after the other */
#else
        if
        :: w = 1
        :: w = 2
        fi;
#endif
        if
#ifdef NOT_GONE
        :: noted[w] -> goto release
#endif
        :: noted[w] && left[w] -> goto release
#ifdef NOTED_LATE
        :: !left[w] -> skip
#else
        :: !noted[w] && !left[w] -> goto enlist
        :: noted[w] && !left[w] -> skip
#endif
        :: !noted[w] && left[w] -> goto round
        fi;
        if /* assignDue: number, choose */
        :: j = 0
        :: JOBS == 2 -> j = 1
        fi;
        if
        :: job[j].state == waiting && entry[j] && job[j].attempt <= (JOBS == 2 -> 0 : 1) && (job[j].number != 0 || holder[1] == 0 || holder[2] == 0) ->
           v = job[j].version;
           if
           :: job[j].number != 0 -> n = 0
           :: job[j].number == 0 && holder[1] == 0 -> n = 1
           :: job[j].number == 0 && holder[2] == 0 -> n = 2
           fi
        :: else -> goto round
        fi
    };
    if
    :: atomic { PAUSE(t) -> assign(t, j, v, w, n) }
#if !defined(LIVE) && !defined(TWO)
    :: atomic { t == 1 && !sent -> sent = true; sentJob = j; sentVersion = v; sentWorker = w; sentNumber = n; unsure = w;
                printf("assigner %d: sends an assignment of job %d to worker %d, and gets no answer\n", t, j, w) }
#endif
    fi;
#ifdef NUMBER_LATER
    atomic {
        if
        :: LEADS(t) && n != 0 && job[j].number == n -> holder[n] = j + 1
        :: else
        fi
    };
#endif
#ifdef NOTED_LATE
    atomic { if :: LEADS(t) -> noted[w] = true :: else fi };
#endif
    goto round;

enlist:
    skip; /* see invariant.h */
    atomic {
        PAUSE(t);
        if
        :: LEADS(t) -> noted[w] = true; printf("assigner %d: notes worker %d\n", t, w)
        :: else
        fi
    };
    goto round;

release:
#ifdef NO_RELEASE
    goto round;
#endif
    do
    :: atomic { PAUSE(t) && place[0] == w -> j = 0; v = job[0].version };
       take_back(t)
    :: atomic { PAUSE(t) && place[1] == w -> j = 1; v = job[1].version };
       take_back(t)
#ifdef FORGOTTEN
    :: break
#else
    :: place[0] != w && place[1] != w -> break /* nothing is left */
#endif
    od;
    atomic { /* releaseOne: errUnsure, or forgetWorker */
        PAUSE(t);
        if
#ifdef UNANSWERED
        :: LEADS(t) ->
#else
        :: LEADS(t) && unsure != w ->
#endif
           noted[w] = false; printf("assigner %d: forgets worker %d\n", t, w)
        :: else
        fi
    };
    goto round
}

/* What was sent arrives late, or never. */
proctype Network()
{
    do
    :: atomic { sent ->
           if
           :: printf("coordinator: what was sent arrives\n"); assign(1, sentJob, sentVersion, sentWorker, sentNumber)
           :: skip
           fi;
           sent = false; sentJob = 0; sentVersion = 0; sentWorker = 0; sentNumber = 0
       }
    od
}

proctype Election() { atomic { term = 2; printf("coordinator: assigner 2 is elected\n") } }

proctype Leave() { atomic { left[1] = true; printf("worker 1: has left\n") } }

/* One try: its worker has found the assignment. It knows what it has read, and goes on whatever happens. */
proctype Try(byte j; byte a)
{
    byte w, v, n, token;

    atomic { /* runner.assigned, Queue.open */
        place[j] != 0 && job[j].attempt == a ->
        w = place[j]; v = job[j].version; n = job[j].number
    };
    atomic { /* fence.Lead: whoever led the resource has lost its session, and perhaps not noticed; the stores */
        PAUSE(w) && MAY_LEAD(w, n);
        tokens++; token = tokens; leads[n] = token;
        printf("attempt %d of job %d: leads resource %d with token %d\n", a, j, n, token)
    };
#ifndef NO_MARK
    atomic {
        PAUSE(w);
        if
        :: mark[n] < token -> mark[n] = token; printf("attempt %d of job %d: raises the mark of resource %d to %d\n", a, j, n, token)
        :: mark[n] > token -> goto over
        fi
    };
#endif
    atomic { /* changes.start */
        PAUSE(w);
        if
        :: leads[n] == token && UNCHANGED(j, v) ->
           job[j].state = running; changed(j); v = job[j].version; begun[j] = a;
           printf("attempt %d of job %d: its handler is called\n", a, j)
        :: else -> goto over
        fi
    };
#ifndef LIVE
    do
    :: atomic { /* the handler, through a guard: it refuses a token below the mark, and raises to a higher one */
           PAUSE(w) && mark[n] <= token ->
#ifndef NO_MARK
           mark[n] = token;
#endif
           printf("attempt %d of job %d: writes to resource %d under token %d\n", a, j, n, token);
           if
           :: job[j].state == done -> invariant(24, a >= begun[j])
           :: else -> invariant(23, a >= begun[j])
           fi
       }
    :: break
    od;
#endif
finish: /* Queue.step: it reads the status again after a conflict, and after an answer that was lost */
    skip; /* see invariant.h */
    atomic {
        PAUSE(w);
        if
        :: leads[n] == token && UNCHANGED(j, v) ->
           invariant(22, job[j].state != done && job[j].attempt == a);
           if
           :: job[j].state = done; place[j] = 0; holder[n] = 0; job[j].number = 0;
#ifdef MARK_REMOVED
              mark[n] = 0;
#endif
              printf("attempt %d of job %d: is done\n", a, j)
#ifndef LIVE
           :: JOBS == 1 && a < 2 -> wait(j); printf("attempt %d of job %d: has failed, and is to be tried again\n", a, j)
#endif
           fi;
           changed(j);
           if
           :: goto over
           :: skip /* the answer is lost */
           fi
        :: leads[n] == token && !UNCHANGED(j, v) -> skip
        :: leads[n] != token -> goto over
        fi
    };
    atomic {
        PAUSE(w);
        if
        :: MINE(j, w, a) -> v = job[j].version; goto finish
        :: else
        fi
    };
over:
    skip
}

#ifdef LIVE
proctype Stop() { if :: halted = true :: skip fi }
#endif

/* A job is assigned only to a worker that the next assigner finds. */
proctype Found()
{
    atomic { place[0] != 0 && !noted[place[0]] || place[1] != 0 && !noted[place[1]] -> invariant(22, false) }
}

init {
    atomic {
        job[0].state = waiting; entry[0] = true;
        job[1].state = (JOBS == 2 -> waiting : none); entry[1] = (JOBS == 2);
        run Network(); run Election(); run Found();
#ifndef TWO
        run Leave();
#endif
#ifdef LIVE
        run Stop();
#endif
        run Assigner(1); run Assigner(2);
        run Try(0, 1);
        if
        :: JOBS == 2 -> run Try(1, 1)
        :: JOBS == 1 -> run Try(0, 2)
        fi
    }
}
