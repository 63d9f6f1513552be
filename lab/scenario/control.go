package scenario

import (
	"time"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// Control is a bug that is seeded to test that the lab catches it.
type Control struct {
	Name     flaw.Name
	Bug      string
	Scenario string // in which it shows, unless another one is named
	// any of these has to catch it: an invariant, or "doubt" if the run must not count
	By []string

	seed   func(*Scenario)                       // before the run
	change func([]history.Event) []history.Event // after it
	WarmUp time.Duration                         // for a warm-up that cannot succeed; 0: as usual
}

// Controls has every control.
var Controls = []Control{
	{
		Name: flaw.Observe, Scenario: "leader-paused", By: []string{"I1"},
		Bug: "the guard checks, logs and admits everybody", seed: guardFlaw(flaw.Observe),
	},
	{
		Name: flaw.Apart, Scenario: "leader-paused", By: []string{"I1"},
		Bug:  "the mark is checked at login and no session is ended later: check, then write",
		seed: guardFlaw(flaw.Apart),
	},
	{
		Name: flaw.Memory, Scenario: "guard-restarted-empty", By: []string{"I1", "I2"},
		Bug: "the mark is in the guard's memory, and the guard is restarted",
		seed: func(s *Scenario) {
			guardFlaw(flaw.Memory)(s)
			s.Topology.Coordinator = NoCoordinator
		},
	},
	{
		Name: flaw.RefuseSame, Scenario: "leader-paused", By: []string{"model"},
		Bug: "off by one: the token that is the mark is refused", seed: guardFlaw(flaw.RefuseSame),
		WarmUp: 8 * time.Second,
	},
	{
		Name: flaw.AdmitLast, Scenario: "leader-paused", By: []string{"I1"},
		Bug: "off by one: the token before the mark is admitted", seed: guardFlaw(flaw.AdmitLast),
	},
	{
		Name: flaw.FirstToken, Scenario: "leader-paused", By: []string{"model", "I1", "I6"},
		Bug:  "a pool outlives its term and keeps the first token",
		seed: workerFlaw(flaw.FirstToken),
	},
	{
		Name: flaw.Unconditional, Scenario: "task-leader-paused", By: []string{"I4"},
		Bug: "a checkpoint is written without its condition", seed: workerFlaw(flaw.Unconditional),
	},
	{
		Name: flaw.AnyAttempt, Scenario: "job-worker-paused", By: []string{"I5"},
		Bug:  "a worker publishes a job's result without looking whose attempt it is",
		seed: workerFlaw(flaw.AnyAttempt),
	},
	{
		Name: flaw.InParts, Scenario: "job-assigner-killed", By: []string{"I5"},
		Bug:  "a job is assigned with two changes of documents instead of one",
		seed: workerFlaw(flaw.InParts),
	},
	{
		Name: flaw.NoKey, Scenario: "job-cancelled-and-retried", By: []string{"I5"},
		Bug: "a job is submitted without a look at the unique key", seed: clientFlaw(flaw.NoKey),
	},
	{
		Name: flaw.CancelAnyway, Scenario: "job-cancelled-and-retried", By: []string{"I5"},
		Bug:  "a job is made cancelled, whatever it has become since its status was read",
		seed: clientFlaw(flaw.CancelAnyway),
	},
	{
		Name: flaw.OldRequest, Scenario: "job-cancelled-and-retried", By: []string{"I5"},
		Bug:  "a request to cancel a job outlives the job's end, and a retry",
		seed: clientFlaw(flaw.OldRequest),
	},
	{
		Name: flaw.CopiedMark, Scenario: "marks-restored", By: []string{"I1", "raise"},
		Bug:  "a mark from a dump counts, and the coordinator is not asked",
		seed: func(s *Scenario) { guardFlaw(flaw.CopiedMark)(s); schemaFlaw(flaw.CopiedMark)(s) },
	},
	{
		Name: flaw.Forgetful, Scenario: "postgres-set-back-without-coordinator", By: []string{"I2"},
		Bug:  "a guard without a coordinator does not remember the marks that it has seen",
		seed: guardFlaw(flaw.Forgetful),
	},
	{
		Name: flaw.Numbers, Scenario: "coordinator-restored-and-retried", By: []string{"I8"},
		Bug:  "tokens are compared without their candidates, and a refusal is forgotten",
		seed: guardFlaw(flaw.Numbers),
	},
	{
		Name: flaw.DatabaseOrder, Scenario: "texts-sorted-anew", By: []string{"I1"},
		Bug:  "the keys of marks are sorted in the order of the database",
		seed: schemaFlaw(flaw.DatabaseOrder),
	},
	{
		Name: flaw.OneServer, Scenario: "redis-changes-places-twice", By: []string{"I1"},
		Bug:  "sessions end at the server that answers, and not at a former primary",
		seed: func(s *Scenario) { guardFlaw(flaw.OneServer)(s); schemaFlaw(flaw.OneServer)(s) },
	},
	{
		Name: flaw.Renamed, Scenario: "redis-forked", By: []string{"I2"},
		Bug: "Redis has SCRIPT under another name, which the guard trusts without asking which command " +
			"it is",
		seed: func(s *Scenario) {
			guardFlaw(flaw.Renamed)(s)
			s.Topology.RedisSettings = []string{"rename-command=SCRIPT " + flaw.Script}
		},
	},
	{
		Name: flaw.LogInPath, Scenario: "guard-log-stuck", By: []string{"expect"},
		Bug: "the guard waits for the reader of its log", seed: guardFlaw(flaw.LogInPath),
	},
	{
		Name: flaw.BelievedRegistry, Scenario: "schema-made-anew", By: []string{"I1"},
		Bug:  "a new registry of sessions counts as complete",
		seed: schemaFlaw(flaw.BelievedRegistry),
	},
	{
		Name: flaw.BelievedSetting, Scenario: "publish-forged", By: []string{"I2"},
		Bug:  "publish trusts a setting that anybody can make",
		seed: schemaFlaw(flaw.BelievedSetting),
	},
	{
		Name: flaw.BelievedCount, Scenario: "answer-nobody-asked-for", By: []string{"I1", "forget"},
		Bug:  "the guard's count of answers is the proof that a session is at rest",
		seed: schemaFlaw(flaw.BelievedCount),
	},
	{
		Name: flaw.Abandoned, Scenario: "connection-half-open", By: []string{"I6"},
		Bug:  "nobody ends the backend of a session that was let go",
		seed: schemaFlaw(flaw.Abandoned),
	},
	{
		Name: flaw.NoRoom, Scenario: "postgres-filled", By: []string{"expect"},
		Bug:  "older sessions are ended only for a successor that has logged in",
		seed: guardFlaw(flaw.NoRoom),
	},
	{
		Name: flaw.LeftBehind, Scenario: "databases-swapped-and-back-embedded", By: []string{"I1"},
		Bug:  "marks that SWAPDB brings back count, whatever was written since",
		seed: schemaFlaw(flaw.LeftBehind),
	},
	{
		Name: flaw.LoadedMark, Scenario: "redis-reloaded-embedded", By: []string{"I1"},
		Bug:  "marks that were loaded from a file count as if they had been raised there",
		seed: schemaFlaw(flaw.LoadedMark),
	},
	{
		Name: flaw.ByHand, Scenario: "sql-paused-in-each-shape", By: []string{"I1"},
		Bug:  "transactions look at a lease with a condition written by hand, and do not call enter",
		seed: workerFlaw(flaw.ByHand),
	},
	{
		Name: flaw.Swapped, Scenario: "leader-paused", By: []string{"I1", "I3"},
		Bug: "a good history in which two tokens are swapped", change: swapTokens,
	},
	{
		Name: flaw.Empty, Scenario: "leader-paused", By: []string{"doubt"},
		Bug: "an empty history", change: func([]history.Event) []history.Event { return nil },
	},
}

// FindControl returns a control by its name.
func FindControl(name string) (Control, bool) {
	for _, c := range Controls {
		if string(c.Name) == name {
			return c, true
		}
	}
	return Control{}, false
}

// Seed puts the bug into a scenario.
func (c Control) Seed(s *Scenario) {
	if c.seed != nil {
		c.seed(s)
	}
}

// Change puts the bug into a history that was recorded without it; nil if the bug is in the system.
func (c Control) Change() func([]history.Event) []history.Event { return c.change }

func guardFlaw(n flaw.Name) func(*Scenario) {
	return func(s *Scenario) { s.Topology.GuardFlaw = string(n) }
}

func schemaFlaw(n flaw.Name) func(*Scenario) {
	return func(s *Scenario) { s.Topology.SchemaFlaw = string(n) }
}

func workerFlaw(n flaw.Name) func(*Scenario) {
	return func(s *Scenario) { s.Workload.Flaw = string(n) }
}

func clientFlaw(n flaw.Name) func(*Scenario) {
	return func(s *Scenario) { s.Workload.ClientFlaw = n }
}

// swapTokens swaps the tokens of the first entry of the ledger and the first one under another
// token.
func swapTokens(all []history.Event) []history.Event {
	first := -1
	for i, e := range all {
		if e.Kind != history.Evidence || e.Store != "redis" {
			continue
		}
		if first < 0 {
			first = i
		}
		if e.Token != all[first].Token {
			all[first].Token, all[i].Token = e.Token, all[first].Token
			break
		}
	}
	return all
}
