package pgguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/pgguard/databases"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
)

// Database is one database of the server, with what a guard needs to serve it.
type Database = databases.Database

// place returns the place of a client. A connection for physical replication has no database; its
// claims are those of the home database.
func (p *Protocol) place(s *startup) *databases.Selected {
	if physical(s.Get("replication")) {
		return p.databases.At(p.databases.Home())
	}
	return p.databases.At(s.database())
}

// serves refuses a database that the settings do not name.
func (p *Protocol) serves(database string) error {
	if len(p.o.Databases) == 0 || database == p.databases.Home() ||
		slices.Contains(p.o.Databases, database) {
		return nil
	}
	return &wire.Error{
		Code:    wire.InvalidCatalogName,
		Message: fmt.Sprintf("this guard does not serve database %q", database),
		Detail:  "nothing was sent to the database",
		Hint: "connect to a database that it serves, or have an operator add this one to " +
			"GUARD_POSTGRES_DATABASES",
	}
}

// reach opens the database of a client that the server has let in. It reports claims for which it
// cannot.
func (l *login) reach(ctx context.Context) error {
	err := l.at.Open(ctx)
	if err != nil {
		for _, c := range l.claims {
			l.p.elsewhere(ctx, l.at, c.Under(""), err)
		}
	}
	return err
}

// report reports a refusal that came before the admission.
func (p *Protocol) report(ctx context.Context, at *databases.Selected, err error, holder string) {
	open, _ := at.Ask(func(a *marks.Admission) error {
		a.Report(ctx, err, holder)
		return nil
	})
	var r *fence.Refusal
	if !open && errors.As(err, &r) {
		claim := r.Claim
		claim.Holder = holder
		p.elsewhere(ctx, at, claim, err)
	}
}

// elsewhere reports a refusal in a database that is not open.
func (p *Protocol) elsewhere(
	ctx context.Context, at *databases.Selected, c fence.Claim, err error,
) {
	if p.o.Audit != nil {
		p.o.Audit.Elsewhere(at.Name, marks.Event{
			Kind: marks.Refused, Claim: c, Client: marks.ClientOf(ctx), Err: err,
		})
	}
}

// Ready returns nil if one of the open databases can admit, and the server has room. Otherwise it
// returns the error of the home database.
func (p *Protocol) Ready(ctx context.Context) error {
	all := p.Databases(ctx)
	for _, err := range all {
		if err == nil {
			return p.hasRoom(ctx)
		}
	}
	return all[p.databases.Home()]
}

// Databases implements guard.Several. It probes all databases at once.
func (p *Protocol) Databases(ctx context.Context) map[string]error {
	open, release := p.databases.Hold()
	defer release()
	failed := make([]error, len(open))
	var probing sync.WaitGroup
	for i, d := range open {
		probing.Go(func() { failed[i] = d.Store.Probe(ctx) })
	}
	probing.Wait()
	found := make(map[string]error)
	for i, d := range open {
		found[d.Name] = failed[i]
	}
	return found
}
