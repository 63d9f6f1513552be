package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/console"
	"github.com/ringfence/ringfence/internal/marks"
)

// statementTime bounds a statement of the console.
const statementTime = 10 * time.Second

// statements returns the statements of the console. All of them only read.
func (p *Protocol) statements() []console.Statement {
	return []console.Statement{
		table("fences", "the mark of each resource, as the databases have it", alone(p, p.marks), []column[guard.Mark]{
			{"database", console.Text, func(m guard.Mark) any { return m.Database }},
			{"resource", console.Text, func(m guard.Mark) any { return string(m.Resource) }},
			{"token", console.Integer, func(m guard.Mark) any { return int64(m.Token) }},
			{"holder", console.Text, func(m guard.Mark) any { return m.Holder }},
			{"issuer", console.Text, func(m guard.Mark) any { return string(m.Issuer) }},
			{"raised_at", console.Time, func(m guard.Mark) any { return m.Raised }},
			{"confirmed", console.Bool, func(m guard.Mark) any { return m.Confirmed }},
			{"sessions", console.Integer, func(m guard.Mark) any { return int64(m.Sessions) }},
			{"rolled_back", console.Bool, func(m guard.Mark) any { return m.RolledBack }},
		}),
		table("sessions", "the sessions of this guard", p.sessions, []column[guard.Session]{
			{"database", console.Text, func(s guard.Session) any { return s.Database }},
			{"resource", console.Text, func(s guard.Session) any { return string(s.Resource) }},
			{"token", console.Integer, func(s guard.Session) any { return int64(s.Token) }},
			{"holder", console.Text, func(s guard.Session) any { return s.Holder }},
			{"pid", console.Integer, func(s guard.Session) any { return s.ID }},
			{"client", console.Text, func(s guard.Session) any { return s.Client.Address }},
			{"user", console.Text, func(s guard.Session) any { return s.Client.User }},
			{"application_name", console.Text, func(s guard.Session) any { return s.Client.Application }},
			{"since", console.Time, func(s guard.Session) any { return s.Since }},
			{"state", console.Text, func(s guard.Session) any { return s.State }},
		}),
		table("refusals", "what this guard refused last", p.refusals, []column[guard.Refusal]{
			{"at", console.Time, func(r guard.Refusal) any { return r.At }},
			{"database", console.Text, func(r guard.Refusal) any {
				return cmp.Or(r.Database, p.o.Store.Database())
			}},
			{"resource", console.Text, func(r guard.Refusal) any { return string(r.Resource) }},
			{"token", console.Integer, func(r guard.Refusal) any { return known(int64(r.Token)) }},
			{"mark", console.Integer, func(r guard.Refusal) any { return known(int64(r.Mark)) }},
			{"reason", console.Text, func(r guard.Refusal) any { return r.Reason }},
			{"client", console.Text, func(r guard.Refusal) any { return r.Client.Address }},
			{"user", console.Text, func(r guard.Refusal) any { return r.Client.User }},
			{"application_name", console.Text, func(r guard.Refusal) any { return r.Client.Application }},
			{"count", console.Integer, func(r guard.Refusal) any { return int64(r.Count) }},
		}),
		table("elections", "who leads now, as the coordinator says", alone(p, p.elections), []column[guard.Election]{
			{"resource", console.Text, func(e guard.Election) any { return string(e.Resource) }},
			{"token", console.Integer, func(e guard.Election) any { return known(int64(e.Token)) }},
			{"holder", console.Text, func(e guard.Election) any { return e.Holder }},
			{"issuer", console.Text, func(e guard.Election) any { return string(e.Issuer) }},
		}),
	}
}

// column is a column of a statement that shows rows of type R.
type column[R any] struct {
	name string
	kind console.Type
	of   func(R) any
}

// read returns rows to show, and a notice for the client, if there is one.
type read[R any] func(context.Context) (rows []R, notice string, err error)

// table makes a statement.
func table[R any](name, meaning string, rows read[R], columns []column[R]) console.Statement {
	s := console.Statement{Name: name, Meaning: meaning}
	for _, c := range columns {
		s.Columns = append(s.Columns, console.Column{Name: c.name, Type: c.kind})
	}
	s.Rows = func(ctx context.Context) (console.Rows, error) {
		all, notice, err := rows(ctx)
		shown := console.Rows{Notice: notice}
		for _, row := range all {
			var values []any
			for _, c := range columns {
				values = append(values, c.of(row))
			}
			shown.Values = append(shown.Values, values)
		}
		return shown, err
	}
	return s
}

// alone runs one such read of all consoles at a time, so that they keep no more than one control
// connection busy.
func alone[R any](p *Protocol, rows read[R]) read[R] {
	return func(ctx context.Context) ([]R, string, error) {
		ctx, cancel := context.WithTimeout(ctx, statementTime)
		defer cancel()
		select {
		case p.asking <- struct{}{}:
			defer func() { <-p.asking }()
			return rows(ctx)
		case <-ctx.Done():
			return nil, "", fmt.Errorf("other statements of the console take too long: %w", context.Cause(ctx))
		}
	}
}

// known returns a value, or NULL for what is not known.
func known[T comparable](value T) any {
	var unknown T
	if value == unknown {
		return nil
	}
	return value
}

// marks reads the marks of all open databases. If it has read some, the notice names the databases that
// cannot be read.
func (p *Protocol) marks(ctx context.Context) (rows []guard.Mark, notice string, err error) {
	open, release := p.databases.Hold()
	defer release()
	var failed []error
	for _, d := range open {
		all, err := d.Store.Marks(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("the marks of database %s cannot be read: %w", d.Name, err))
		}
		for _, m := range all {
			rows = append(rows, guard.Mark{Location: p.in(d.Name), Mark: m})
		}
	}
	if err = errors.Join(failed...); err != nil && len(rows) > 0 {
		return rows, err.Error(), nil
	}
	return rows, "", err
}

func (p *Protocol) in(database string) guard.Location {
	return guard.Location{Store: p.o.Name, Database: database}
}

func (p *Protocol) sessions(context.Context) (rows []guard.Session, notice string, err error) {
	open, release := p.databases.Hold()
	defer release()
	for _, d := range open {
		rows = append(rows, guard.SessionsIn(p.in(d.Name), d.Admission.Sessions())...)
	}
	return rows, "", nil
}

func (p *Protocol) refusals(context.Context) (rows []guard.Refusal, notice string, err error) {
	if p.o.Audit == nil {
		return nil, "", nil
	}
	return p.o.Audit.Refusals(), "", nil
}

// maxElections is for how many resources the coordinator is asked at a time.
const maxElections = 1000

// electing is an authority that asks a coordinator.
type electing interface {
	Leaders(context.Context, ...fence.Resource) (fence.Issuer, []fence.Candidate, error)
}

var (
	_ electing = marks.Elected{}
	_ electing = &marks.Keeping{}
)

// elections asks the coordinator for the leaders of the resources that have a mark, and of those that
// the guard is configured for.
func (p *Protocol) elections(ctx context.Context) (rows []guard.Election, notice string, err error) {
	coordinator, ok := p.o.Admission.Authority.(electing)
	if !ok {
		return nil, "this guard has no coordinator (GUARD_COORDINATOR)", nil
	}
	all, notice, err := p.marks(ctx)
	resources := slices.Clone(p.o.Resources)
	for _, m := range all {
		resources = append(resources, m.Resource)
	}
	slices.Sort(resources)
	resources = slices.Compact(resources)
	if len(resources) == 0 {
		return nil, "", err
	}
	if err != nil {
		notice = err.Error()
	}
	if n := len(resources); n > maxElections {
		notice = fmt.Sprintf("the first %d of %d resources", maxElections, n)
		resources = resources[:maxElections]
	}
	issuer, leaders, err := coordinator.Leaders(ctx, resources...)
	if err != nil {
		return nil, notice, fmt.Errorf("the coordinator did not answer: %w", err)
	}
	for i, leader := range leaders {
		rows = append(rows, guard.Election{
			Resource: resources[i], Token: leader.Token, Holder: leader.Holder, Issuer: issuer,
		})
	}
	return rows, notice, nil
}
