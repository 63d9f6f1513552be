package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// place returns the place of a client. A connection for physical replication has no database; its
// claims are those of the home database.
func (p *Protocol) place(s *startup) *place {
	if physical(s.get("replication")) {
		return p.databases.at(p.databases.home.name)
	}
	return p.databases.at(s.database())
}

// serves refuses a database that the settings do not name.
func (p *Protocol) serves(database string) error {
	if len(p.o.Databases) == 0 || database == p.databases.home.name || slices.Contains(p.o.Databases, database) {
		return nil
	}
	return &loginError{
		code: invalidCatalogName,
		what: fmt.Sprintf("this guard does not serve database %q", database),
		why:  "nothing was sent to the database",
		hint: "connect to a database that it serves, or have an operator add this one to GUARD_POSTGRES_DATABASES",
	}
}

// reach opens the database of a client that the server has let in. It reports claims for which it
// cannot.
func (p *Protocol) reach(ctx context.Context, at *place, claims []marks.Presented) error {
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	err := at.open(bounded)
	if err == nil || p.o.Audit == nil {
		return err
	}
	for _, c := range claims {
		p.o.Audit.Elsewhere(at.name, marks.Event{
			Kind: marks.Refused, Claim: c.Under(""), Client: marks.ClientOf(ctx), Err: err,
		})
	}
	return err
}

// report reports a refusal that came before the admission.
func (p *Protocol) report(ctx context.Context, at *place, err error, holder string) {
	if open, _ := at.ask(func(d *database) error {
		d.Admission.Report(ctx, err, holder)
		return nil
	}); open {
		return
	}
	var r *fence.Refusal
	if p.o.Audit != nil && errors.As(err, &r) {
		c := r.Claim
		c.Holder = holder
		p.o.Audit.Elsewhere(at.name, marks.Event{
			Kind: marks.Refused, Claim: c, Client: marks.ClientOf(ctx), Err: err,
		})
	}
}

// Ready returns nil if one of the open databases can admit. Otherwise it returns the error of the
// home database.
func (p *Protocol) Ready(ctx context.Context) error {
	all := p.Databases(ctx)
	for _, err := range all {
		if err == nil {
			return nil
		}
	}
	return all[p.databases.home.name]
}

// Databases implements guard.Several. It probes all databases at once.
func (p *Protocol) Databases(ctx context.Context) map[string]error {
	open, release := p.databases.hold()
	defer release()
	failed := make([]error, len(open))
	var probing sync.WaitGroup
	for i, d := range open {
		probing.Go(func() { failed[i] = d.Store.Probe(ctx) })
	}
	probing.Wait()
	found := make(map[string]error)
	for i, d := range open {
		found[d.name] = failed[i]
	}
	return found
}
