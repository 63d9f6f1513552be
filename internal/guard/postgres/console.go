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
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/marks"
)

// consoleDatabase is the database that a client without a token asks for to get the console. With a
// token it gets the real database of this name.
const consoleDatabase = "ringfence"

// wantsConsole reports whether a client that claims nothing asks for the console.
func (p *Protocol) wantsConsole(s *startup) bool {
	return len(p.o.Operators) > 0 && s.database() == consoleDatabase && s.get("replication") == ""
}

// consoleLogin returns the startup packet with which the server checks who a client of the console
// is. It names a database that exists. It has none of the client's options, and settings that fit
// what the console sends.
func (p *Protocol) consoleLogin(s *startup) []byte {
	return encodeStartup(s.granted(), []wire.Param{
		{Name: "user", Value: s.get("user")}, {Name: "database", Value: p.o.Store.Database()},
		{Name: "application_name", Value: "ringfence console"},
		{Name: "client_encoding", Value: "UTF8"}, {Name: "DateStyle", Value: "ISO"},
	})
}

// serveConsole answers the statements of a client that has logged in, if its role may use the
// console. It closes the upstream connection before it reads what the client sends after the login,
// so none of it can reach the database.
func (l *login) serveConsole(ctx context.Context) error {
	l.abandon()
	if role := l.reported["session_authorization"]; !slices.Contains(l.p.o.Operators, role) {
		return l.fail(ctx, &wire.Error{
			Code:    wire.InsufficientPrivilege,
			Message: fmt.Sprintf("role %q may not use the console of the guard", role),
			Hint:    "an operator adds the role to GUARD_POSTGRES_OPERATORS",
		})
	}
	_, _ = l.out.Write(l.ready)
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	if l.out.Flush() != nil {
		return nil
	}
	return console.Serve(ctx, l.client, l.fromClient, l.p.statements(), l.p.o.ConsoleIdle, l.p.o.LoginTimeout)
}

// statementTime bounds a statement of the console.
const statementTime = 10 * time.Second

// statements returns the statements of the console. All of them only read.
func (p *Protocol) statements() []console.Statement {
	return []console.Statement{
		{
			Name: "fences", Meaning: "the mark of each resource, as the databases have it",
			Columns: []console.Column{
				console.Text("database"), console.Text("resource"), console.Integer("token"),
				console.Text("holder"), console.Text("issuer"), console.Time("raised_at"),
				console.Bool("confirmed"), console.Integer("sessions"), console.Bool("rolled_back"),
			},
			Rows: p.alone(p.fences),
		},
		{
			Name: "sessions", Meaning: "the sessions of this guard; without a token they only read",
			Columns: []console.Column{
				console.Text("database"), console.Text("resource"), console.Integer("token"),
				console.Text("holder"), console.Integer("pid"), console.Text("client"), console.Text("user"),
				console.Text("application_name"), console.Time("since"), console.Text("state"),
			},
			Rows: p.sessions,
		},
		{
			Name: "refusals", Meaning: "what this guard refused last",
			Columns: []console.Column{
				console.Time("at"), console.Text("database"), console.Text("resource"),
				console.Integer("token"), console.Integer("mark"), console.Text("reason"),
				console.Text("client"), console.Text("user"), console.Text("application_name"),
				console.Integer("count"),
			},
			Rows: p.refusals,
		},
		{
			Name: "elections", Meaning: "who leads now, as the coordinator says",
			Columns: []console.Column{
				console.Text("resource"), console.Integer("token"), console.Text("holder"),
				console.Text("issuer"),
			},
			Rows: p.alone(p.elections),
		},
	}
}

// alone runs one such statement of all consoles at a time, so that they keep no more than one
// control connection busy.
func (p *Protocol) alone(
	rows func(context.Context) (console.Rows, error),
) func(context.Context) (console.Rows, error) {
	return func(ctx context.Context) (console.Rows, error) {
		ctx, cancel := context.WithTimeout(ctx, statementTime)
		defer cancel()
		select {
		case p.asking <- struct{}{}:
			defer func() { <-p.asking }()
			return rows(ctx)
		case <-ctx.Done():
			return console.Rows{}, fmt.Errorf("other statements of the console take too long: %w",
				context.Cause(ctx))
		}
	}
}

func (p *Protocol) fences(ctx context.Context) (rows console.Rows, err error) {
	err = p.eachMark(ctx, func(database string, m marks.Mark) {
		rows.Values = append(rows.Values, []any{
			database, string(m.Resource), int64(m.Token), m.Holder, string(m.Issuer),
			m.Raised, m.Confirmed, int64(m.Sessions), m.RolledBack,
		})
	})
	if err != nil && len(rows.Values) > 0 { // those of the other databases are of use
		rows.Notice, err = err.Error(), nil
	}
	return rows, err
}

// eachMark calls each with the marks of all open databases. Its error names those that cannot be
// read.
func (p *Protocol) eachMark(ctx context.Context, each func(database string, m marks.Mark)) error {
	open, release := p.databases.Hold()
	defer release()
	var failed []error
	for _, d := range open {
		all, err := d.Store.Marks(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("the marks of database %s cannot be read: %w", d.Name, err))
		}
		for _, m := range all {
			each(d.Name, m)
		}
	}
	return errors.Join(failed...)
}

func (p *Protocol) sessions(context.Context) (rows console.Rows, err error) {
	open, release := p.databases.Hold()
	defer release()
	for _, d := range open {
		for _, s := range d.Admission.Sessions() {
			state := ""
			if relayed, ok := s.Relayed.(*progress); ok {
				state = relayed.state()
			}
			rows.Values = append(rows.Values, []any{
				d.Name, string(s.Claim.Resource), int64(s.Claim.Token), s.Claim.Holder,
				s.Session.ID, s.Client.Address, s.Client.User, s.Client.Application, s.Since, state,
			})
		}
	}
	rows.Values = append(rows.Values, p.readers.rows()...)
	return rows, nil
}

func (p *Protocol) refusals(context.Context) (rows console.Rows, err error) {
	if p.o.Audit == nil {
		return rows, nil
	}
	for _, r := range p.o.Audit.Refusals() {
		rows.Values = append(rows.Values, []any{
			r.At, cmp.Or(r.Database, p.o.Store.Database()), string(r.Claim.Resource), known(r.Claim.Token),
			known(r.Mark), r.Reason, r.Client.Address, r.Client.User, r.Client.Application, int64(r.Count),
		})
	}
	return rows, nil
}

// known returns a token, or NULL if there is none.
func known(t fence.Token) any {
	if t == 0 {
		return nil
	}
	return int64(t)
}

// electionsMost is for how many resources the coordinator is asked at a time.
const electionsMost = 1000

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
func (p *Protocol) elections(ctx context.Context) (rows console.Rows, err error) {
	coordinator, ok := p.o.Admission.Authority.(electing)
	if !ok {
		rows.Notice = "this guard has no coordinator (GUARD_COORDINATOR)"
		return rows, nil
	}
	resources, err := p.knownResources(ctx)
	if err != nil {
		if len(resources) == 0 {
			return rows, err
		}
		rows.Notice = err.Error()
	}
	if len(resources) == 0 {
		return rows, nil
	}
	if n := len(resources); n > electionsMost {
		rows.Notice = fmt.Sprintf("the first %d of %d resources", electionsMost, n)
		resources = resources[:electionsMost]
	}
	issuer, leaders, err := coordinator.Leaders(ctx, resources...)
	if err != nil {
		return rows, fmt.Errorf("the coordinator did not answer: %w", err)
	}
	for i, leader := range leaders {
		rows.Values = append(rows.Values, []any{
			string(resources[i]), known(leader.Token), leader.Holder, string(issuer),
		})
	}
	return rows, nil
}

// knownResources lists, sorted, the resources that have a mark or are in the settings.
func (p *Protocol) knownResources(ctx context.Context) ([]fence.Resource, error) {
	resources := slices.Clone(p.o.Resources)
	err := p.eachMark(ctx, func(_ string, m marks.Mark) { resources = append(resources, m.Resource) })
	slices.Sort(resources)
	return slices.Compact(resources), err
}
