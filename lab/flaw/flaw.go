package flaw

// Name is a seeded bug.
type Name string

// Flaws of the guard (cmd/flawed-guard).
const (
	// Observe: the guard checks, logs, and admits everybody.
	Observe Name = "observe-only"
	// Apart: the mark is checked at login, and the session is not recorded: check, then write.
	Apart Name = "check-apart"
	// Memory: mark and sessions are in the guard's memory; a restart forgets them.
	Memory Name = "memory-mark"
	// RefuseSame: off by one, a token equal to the mark is refused.
	RefuseSame Name = "refuse-current"
	// AdmitLast: off by one, the token before that of the mark is still admitted.
	AdmitLast Name = "admit-previous"
	// Forgetful: the guard remembers no mark that it has seen.
	Forgetful Name = "no-memory"
	// Numbers: the guard compares only numbers, and its refusal of a coordinator that went back is
	// written down nowhere.
	Numbers Name = "numbers-only"
	// OneServer: sessions end at the server that answers, and not at a former primary of Redis.
	OneServer Name = "one-server"
	// Renamed: Redis has SCRIPT under another name. The guard trusts that name, and does not ask Redis
	// which command it is.
	Renamed Name = "renamed-command"
	// NoRoom: the guard ends older sessions only for a successor that has logged in.
	NoRoom Name = "no-room"
	// LogInPath: the guard itself writes its log to standard error, and waits for the reader.
	LogInPath Name = "log-in-the-path"
)

// Flaws of the schema in Postgres.
const (
	// CopiedMark: a mark from a dump counts as if it had been raised there, and nothing else is
	// checked.
	CopiedMark Name = "copied-mark"
	// BelievedRegistry: a new registry of sessions counts as complete.
	BelievedRegistry Name = "believed-registry"
	// BelievedSetting: publish trusts the setting that enter makes, whoever made it.
	BelievedSetting Name = "believed-setting"
	// BelievedCount: a session is let go because the guard has counted its answers, and its backend is
	// left to itself.
	BelievedCount Name = "believed-count"
	// DatabaseOrder: the keys of marks have the order of the database, and not of their bytes.
	DatabaseOrder Name = "database-order"
	// Abandoned: nobody ends the backend of a session that was let go.
	Abandoned Name = "abandoned-backend"
)

// Flaws of the marks in Redis.
const (
	// LeftBehind: marks that SWAPDB brings back count, whatever was written since.
	LeftBehind Name = "left-behind"
	// LoadedMark: marks that were loaded from a file count as if they had been raised there.
	LoadedMark Name = "loaded-mark"
)

// Flaws of the worker.
const (
	// FirstToken: the connection pool keeps the token of the first term in all later ones.
	FirstToken Name = "first-token"
	// Unconditional: an asynchronous step's checkpoint is written without a condition.
	Unconditional Name = "unconditional"
	// AnyAttempt: a worker publishes a job's result without looking whose attempt it is now.
	AnyAttempt Name = "any-attempt"
	// InParts: a job is assigned with two changes of documents instead of one.
	InParts Name = "in-parts"
	// NoEnter: a transaction does not call ringfence.enter.
	NoEnter Name = "no-enter"
	// ByHand: a transaction looks at a lease instead, and locks nothing.
	ByHand Name = "by-hand"
)

// Flaws of a client of jobs.
const (
	// NoKey: a submission does not look at the unique key.
	NoKey Name = "no-key"
	// CancelAnyway: a job is made cancelled, whatever it has become since its status was read.
	CancelAnyway Name = "cancel-anyway"
	// OldRequest: a request to cancel a job outlives the job's end, and cancels it after a retry.
	OldRequest Name = "old-request"
)

// Flaws of the history, seeded after the run.
const (
	Swapped Name = "token-swapped" // two tokens of the evidence are swapped
	Empty   Name = "empty-history" // nothing was recorded
)
