/*
 * Terms by SQL: campaign and take raise the mark in the transaction that wins, and a later call opens
 * the gate.
 *
 *     spin -run model/sql-terms.pml      finds nothing: the rule holds
 *     make model                         runs this file and its mutations
 *
 * There are two holders. Each may call take (campaign is the same once it leads) as often as it likes,
 * alone or twice in one transaction, and may run transactions under the last token that it was given. A
 * call is several steps; what it has written is seen by others when it commits. Rows that a call has
 * written are locked until then, so calls come one after the other from the first lock on. Transactions
 * that enter take no lock that a call waits for. Any process may stop anywhere.
 *
 * Claims (ARCHITECTURE.md, invariants):
 *   10  a transaction that has entered under an older token has ended before a newer one is let in
 *                                                            assert in Work, at the write and at the commit
 *   1   the mark never goes down                             assert in Call
 *
 * Mutations: each takes away one thing that the claims lean on, and Spin finds a violation.
 *   ONE_CALL      the call that raises opens the gate too, where there was a mark before
 *   OWN_RAISE     a second call in the same transaction counts a raise that is not committed
 *   LOOK_FIRST    who is inside is looked for before the raise has committed, and the gate opened afterwards
 *   ONE_LOOK      enter looks at the gate once, before its lock
 *   UNLOCKED      calls do not lock the row of the election
 */

#define HOLDERS 2

#ifdef ONE_LOOK
#define SECOND_LOOK true
#else
#define SECOND_LOOK (mark == token && open)
#endif

/* What is committed. mark is the token; open is whether its gate is. known: there is a mark. */
byte mark, counter;
bool open;
/* Who is inside: its token, 0 for nobody. It is visible at once (pg_locks). */
byte inside[HOLDERS];
bool locked; /* the row of the election, and of the mark */
byte given[HOLDERS]; /* the last token that this holder was told */
byte newest; /* the highest token under which a transaction was let in */

#ifdef UNLOCKED
inline lock() { skip }
#else
inline lock() { atomic { !locked -> locked = true } }
#endif

inline nobody_inside(own, answer)
{
    d_step {
        answer = true;
        k = 0;
        do
        :: k < HOLDERS -> if :: inside[k] != 0 && inside[k] != own -> answer = false :: else fi; k++
        :: else -> break
        od
    }
}

/* A call of take by a holder, and perhaps a second one in the same transaction. */
proctype Call(byte me)
{
    byte token, calls = 0, k;
    bool raised, opens, alone, looked;
    byte turns = 0;
    do
    :: turns < 2 ->
        turns++; raised = false; opens = false; calls = 0; looked = false;
        lock();
        do
        :: calls < 2 ->
            calls++;
            if
            :: !raised && given[me] != 0 && given[me] == mark -> token = mark /* its own, of an earlier transaction */
            :: !raised && !(given[me] != 0 && given[me] == mark) -> /* raise; not committed yet */
                atomic { counter++; token = counter };
                raised = true;
                if
                :: mark == 0 -> opens = true    /* nobody can be inside */
                :: else ->
#ifdef ONE_CALL
                    nobody_inside(token, alone); if :: alone -> opens = true :: else fi
#endif
                    skip
                fi;
                goto again
            :: raised -> skip
            fi;
            /* the mark is this token: see who is inside */
            if
            :: !raised ->
                nobody_inside(token, alone);
                if :: alone -> opens = true :: else -> skip fi
            :: raised ->
#ifdef OWN_RAISE
                nobody_inside(token, alone);
                if :: alone -> opens = true :: else -> skip fi
#endif
                skip
            fi;
again:      if :: calls < 2 -> skip :: break fi
        :: else -> break
        od;
#ifdef LOOK_FIRST
        if :: raised -> nobody_inside(token, alone); looked = alone :: else fi;
#endif
        /* commit */
        if
        :: true ->
            atomic {
                assert(token >= mark);
                if :: raised -> mark = token; open = opens; given[me] = token
                   :: !raised && opens ->
                      open = true
                   :: else
                fi;
                locked = false
            };
#ifdef LOOK_FIRST
            if :: looked -> atomic { if :: mark == token -> open = true :: else fi } :: else fi;
#endif
            skip
        :: true -> locked = false /* rolled back */
        fi
    :: break
    od
}

/* A transaction of a holder: look at the gate, lock, look again, write, commit. A signal may end it. */
proctype Work(byte me)
{
    byte token, turns = 0;
    do
    :: turns < 2 && given[me] != 0 ->
        turns++;
        token = given[me];
        if
        :: !(mark == token && open) -> skip /* refused */
        :: mark == token && open ->
            inside[me] = token;
            if
            :: !SECOND_LOOK -> inside[me] = 0
            :: SECOND_LOOK ->
                atomic { newest = (token > newest -> token : newest) };
                assert(token == newest); /* the write */
                if
                :: assert(token == newest) /* the commit */
                :: skip /* ended by a signal, or rolled back */
                fi;
                inside[me] = 0
            fi
        fi
    :: break
    od
}

init {
    byte i = 0;
    atomic {
        do
        :: i < HOLDERS -> run Call(i); run Work(i); i++
        :: else -> break
        od
    }
}
