package local

import (
	"context"
	"errors"
	"strings"

	"github.com/ringfence/ringfence/lab/system"
)

// electionsInStore are elections in the database that is written to.
type electionsInStore struct{ *System }

var errInStore = errors.New("the elections are in the store: faults of the coordinator are not run")

func (e electionsInStore) addresses() []string { return e.postgresLegs() }
func (e electionsInStore) own() string         { return e.asSuperuser(database) }

// legs lead to the primary that Patroni names, if HAProxy is there: one that Patroni has left, and
// that goes on, would hold elections of its own.
func (e electionsInStore) legs() []string {
	if e.toPrimary != nil {
		return []string{e.toPrimary.Addr()}
	}
	return e.postgresLegs()
}

func (e electionsInStore) url(legs []string) string {
	return e.tls.postgres("postgres", strings.Join(legs, ","), database)
}

func (e electionsInStore) processes() (all []process) {
	for _, n := range e.nodes {
		all = append(all, n)
	}
	return all
}

func (e electionsInStore) leader(ctx context.Context) (string, error) {
	name, err := e.Primary(ctx)
	if err != nil {
		return "", err
	}
	n, err := e.nodeOf(name)
	return n.Addr(), err
}

func (e electionsInStore) wipe(ctx context.Context) error {
	return system.Exec(ctx, e.own(), "drop schema ringfence, ringfence_private cascade")
}

func (electionsInStore) backup(context.Context) error  { return errInStore }
func (electionsInStore) restore(context.Context) error { return errInStore }

// close has nothing to do: the servers are closed with the other processes.
func (electionsInStore) close() error { return nil }
