package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/postgres/console"
	"github.com/ringfence/ringfence/internal/marks"
)

// statementTime bounds a statement of the console.
const statementTime = 10 * time.Second

// statements returns the statements of the console. All of them only read.
func (p *Protocol) statements() []console.Statement {
	return []console.Statement{
		{
			Name: "fences", Meaning: "the mark of each resource, as the databases have it",
			Columns: []console.Column{
				{Name: "database", Type: console.Text}, {Name: "resource", Type: console.Text},
				{Name: "token", Type: console.Integer}, {Name: "holder", Type: console.Text},
				{Name: "issuer", Type: console.Text}, {Name: "raised_at", Type: console.Time},
				{Name: "confirmed", Type: console.Bool}, {Name: "sessions", Type: console.Integer},
				{Name: "rolled_back", Type: console.Bool},
			},
			Rows: p.alone(p.fences),
		},
		{
			Name: "sessions", Meaning: "the sessions of this guard; without a token they only read",
			Columns: []console.Column{
				{Name: "database", Type: console.Text}, {Name: "resource", Type: console.Text},
				{Name: "token", Type: console.Integer}, {Name: "holder", Type: console.Text},
				{Name: "pid", Type: console.Integer}, {Name: "client", Type: console.Text},
				{Name: "user", Type: console.Text}, {Name: "application_name", Type: console.Text},
				{Name: "since", Type: console.Time}, {Name: "state", Type: console.Text},
			},
			Rows: p.sessions,
		},
		{
			Name: "refusals", Meaning: "what this guard refused last",
			Columns: []console.Column{
				{Name: "at", Type: console.Time},
				{Name: "database", Type: console.Text}, {Name: "resource", Type: console.Text},
				{Name: "token", Type: console.Integer}, {Name: "mark", Type: console.Integer},
				{Name: "reason", Type: console.Text}, {Name: "client", Type: console.Text},
				{Name: "user", Type: console.Text}, {Name: "application_name", Type: console.Text},
				{Name: "count", Type: console.Integer},
			},
			Rows: p.refusals,
		},
		{
			Name: "elections", Meaning: "who leads now, as the coordinator says",
			Columns: []console.Column{
				{Name: "resource", Type: console.Text}, {Name: "token", Type: console.Integer},
				{Name: "holder", Type: console.Text}, {Name: "issuer", Type: console.Text},
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
