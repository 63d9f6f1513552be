package flaw

// Name is a seeded bug.
type Name string

// Of the guard (cmd/flawed-guard).
const (
	Observe    Name = "observe-only"   // the guard judges, logs, and lets everybody in
	Apart      Name = "check-apart"    // the mark is checked at login, and the session is not recorded: check, then write
	Memory     Name = "memory-mark"    // mark and sessions are in the guard's memory; a restart forgets them
	RefuseSame Name = "refuse-current" // off by one: a token equal to the mark is refused
	AdmitLast  Name = "admit-previous" // off by one: the token before the mark's is still let in
)

// Of what is in Postgres.
const (
	CopiedMark       Name = "copied-mark"       // a mark from a dump counts as one that was raised there, and nobody else is asked
	BelievedRegistry Name = "believed-registry" // a registry of sessions that was made anew counts as complete
	BelievedSetting  Name = "believed-setting"  // publish believes the setting that enter makes, whoever made it
)

// Of the worker.
const (
	FirstToken    Name = "first-token"   // the pool keeps the token of the first term for all later ones
	Unconditional Name = "unconditional" // an asynchronous step's checkpoint is written without a condition
)

// Of the history, after the run.
const (
	Swapped Name = "token-swapped" // two tokens of the evidence have changed places
	Empty   Name = "empty-history" // nothing was recorded
)
