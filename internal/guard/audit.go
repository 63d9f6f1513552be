package guard

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/tally"
)

// Audit logs and counts what happens to the resources of one server, and remembers the last
// refusals. docs/operating.md lists its lines and their keys.
type Audit struct {
	log      *slog.Logger
	metrics  *Metrics
	protocol string
	refused  tally.Tally[refusalKind, happened]
}

// happened is an event, and the database in which it happened; "" where a server has only one.
type happened struct {
	marks.Event
	database string
}

// NewAudit returns an Audit, whose Event or In is for marks.Admission. protocol is the name of a
// Protocol. Close it after the last event.
func NewAudit(log *slog.Logger, m *Metrics, protocol string) *Audit {
	a := &Audit{log: log, metrics: m, protocol: protocol}
	a.refused.Report = a.logRefusals
	a.refused.Rest = otherRefusals
	m.begin(protocol)
	return a
}

// Close logs the refusals that are counted and not logged yet.
func (a *Audit) Close() { a.refused.Close() }

// Event logs and counts an event at a server that has one database.
func (a *Audit) Event(e marks.Event) { a.event("", happened{Event: e}) }

// In returns what logs and counts the events of one database. The first hundred databases have a
// label of their own in the metrics.
func (a *Audit) In(database string) func(marks.Event) {
	label := a.metrics.database(a.protocol, database)
	return func(e marks.Event) { a.event(label, happened{e, database}) }
}

// Elsewhere logs and counts an event in a database that the guard does not serve, or not yet. A
// client may have invented its name, so it is no label.
func (a *Audit) Elsewhere(database string, e marks.Event) {
	a.event("", happened{e, printable(database)})
}

// event logs and counts an event under the label of its database.
func (a *Audit) event(label string, e happened) {
	a.metrics.event(a.protocol, label, e.Event)
	switch e.Kind {
	case marks.Raised:
		a.log.Info("mark raised", a.who(e, "old_token", e.Before.Token.String(),
			"old_holder", e.Before.Holder, "issuer", string(e.Claim.Issuer))...)
		if e.Before.Left != "" {
			a.log.Warn("older sessions may be left at a server that was not reached; "+
				"end that server, or its clients, before it is promoted", a.who(e, "left", e.Before.Left)...)
		}
	case marks.Restored:
		a.log.Warn("the store had lost a mark; it was raised again", a.who(e,
			"old_token", e.Before.Token.String(), "issuer", string(e.Claim.Issuer))...)
	case marks.Revoked:
		a.log.Info("older sessions ended", a.who(e, "sessions", e.Ended)...)
	case marks.Adopted:
		a.log.Warn("an operator has adopted the resource", a.who(e,
			"old_token", e.Before.Token.String(), "old_holder", e.Before.Holder,
			"issuer", string(e.Claim.Issuer), "old_issuer", string(e.Before.Issuer))...)
	case marks.Opened:
		a.log.Debug("session admitted", a.who(e, "session", e.Session.ID)...)
	case marks.Finished:
		if e.Took >= slow {
			a.log.Info("slow admission", a.who(e, "result", outcome(e.Err), stepsOf(e))...)
		}
	case marks.Refused:
		a.refused.Add(kindOf(e), e)
	}
}

// who returns the keys that every line has, and those that only this one has.
func (a *Audit) who(e happened, more ...any) []any {
	return append([]any{
		"event", string(e.Kind), "protocol", a.protocol, "database", e.database,
		"resource", string(e.Claim.Resource), "token", e.Claim.Token.String(), "holder", e.Claim.Holder,
		"client", e.Client.Address, "user", e.Client.User, "application_name", e.Client.Application,
		"duration_ms", milliseconds(e.Took),
	}, more...)
}

// logRefusals logs n refusals of a kind; e is the last one.
func (a *Audit) logRefusals(e happened, n int) {
	a.log.Warn("session refused", a.who(e, "reason", reason(e.Err),
		"mark", refusalIn(e.Err).Mark.String(), "count", n, "err", e.Err)...)
}

// refusalKind is what refusals have in common that are counted together: a client that tries again
// and again.
type refusalKind struct {
	database string
	resource fence.Resource
	token    fence.Token
	reason   fence.Reason
	address  string // without the port; an IPv6 network of 64 bits
}

func kindOf(e happened) refusalKind {
	return refusalKind{
		e.database, e.Claim.Resource, e.Claim.Token, refusalIn(e.Err).Reason, network(e.Client.Address),
	}
}

// otherRefusals is the kind of the refusals for which there is no room: all for one reason
// together.
func otherRefusals(k refusalKind, e happened) (refusalKind, happened) {
	const why = "too many clients and tokens at once to count each on its own"
	return refusalKind{reason: k.reason}, happened{Event: marks.Event{
		Kind: e.Kind, Err: &fence.Refusal{Reason: k.reason, Message: why},
	}}
}

// Refusals returns the last refusals, newest first: about a hundred kinds of them.
func (a *Audit) Refusals() (all []RefusalRow) {
	for _, c := range a.refused.List() {
		e, r := c.Last, refusalIn(c.Last.Err)
		all = append(all, RefusalRow{
			Location{a.protocol, e.database}, e.Claim.Resource, e.Claim.Token, e.Claim.Holder, e.Client,
			r.Mark, reason(e.Err), r.Message, c.At, c.Count,
		})
	}
	slices.SortFunc(all, func(a, b RefusalRow) int { return b.At.Compare(a.At) })
	return all
}

// slow is how long an admission takes before it is logged with its steps.
const slow = time.Second

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stepsOf is how long each step of an admission took, in milliseconds.
func stepsOf(e happened) slog.Attr {
	var steps []any
	for _, step := range slices.Sorted(maps.Keys(e.Steps)) {
		steps = append(steps, string(step), milliseconds(e.Steps[step]))
	}
	return slog.Group("steps_ms", steps...)
}
