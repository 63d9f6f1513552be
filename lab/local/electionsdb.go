package local

import (
	"context"
	"errors"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/system"
)

// electionsDB is a Postgres that only holds elections.
type electionsDB struct {
	*servers.Postgres
	standby *servers.Postgres // nil if there is none
	tls     *encryption       // nil: no TLS
}

func startElectionsDB(ctx context.Context, standby bool, tls *encryption) (coordinator, error) {
	p, err := servers.StartPostgres(ctx, tls.ofPostgres(nil))
	if err != nil || !standby {
		return electionsDB{Postgres: p, tls: tls}, err
	}
	s, err := p.StartStandby(ctx, "standby")
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return electionsDB{p, s, tls}, nil
}

func (p electionsDB) servers() []*servers.Postgres {
	if p.standby == nil {
		return []*servers.Postgres{p.Postgres}
	}
	return []*servers.Postgres{p.Postgres, p.standby}
}

func (p electionsDB) addresses() (all []string) {
	for _, s := range p.servers() {
		all = append(all, s.Addr())
	}
	return all
}

func (p electionsDB) processes() (all []process) {
	for _, s := range p.servers() {
		all = append(all, s)
	}
	return all
}

func (p electionsDB) url(addresses []string) string {
	return p.tls.postgres("postgres", strings.Join(addresses, ","), database)
}

// The same port is for connections with TLS and without.
func (p electionsDB) legs() []string { return p.addresses() }
func (p electionsDB) own() string    { return p.url(p.addresses()) }

// leader is the primary, as long as it runs.
func (p electionsDB) leader(context.Context) (string, error) { return p.Addr(), nil }

func (p electionsDB) wipe(ctx context.Context) error {
	return system.Exec(ctx, p.URL("postgres", database), "drop schema ringfence, ringfence_private "+
		"cascade")
}

func (p electionsDB) backup(ctx context.Context) error  { return p.Backup(ctx) }
func (p electionsDB) restore(ctx context.Context) error { return p.Restore(ctx) }

// close has nothing to do: the servers are closed with the other processes.
func (p electionsDB) close() error { return nil }

// lag stops the standby's stream, also after a restart.
func (p electionsDB) lag(ctx context.Context) error {
	return system.EndStream(ctx, p.standby.URL("postgres", database))
}

func (p electionsDB) promote(ctx context.Context) error {
	return system.Exec(ctx, p.standby.URL("postgres", database), "select pg_promote()")
}
