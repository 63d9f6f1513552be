package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/cli"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
)

// target is a store that a command is for: a server, and in Postgres one of its databases.
type target struct {
	server
	database string // "" in Redis
}

// String returns the target for people.
func (t target) String() string {
	if t.database == "" {
		return t.name
	}
	return t.name + ", database " + t.database
}

// name returns the name of a target among so many: that of the server suffices if it is the only one.
func name(t target, among int) string {
	if among == 1 {
		return t.name
	}
	return t.String()
}

const errBothFlags = cli.Mistake("--databases and --all: give one of them")

// place selects targets.
type place struct {
	server    string // only this one
	databases string // these ones, separated by commas
	all       bool   // every database of each server
	database  string // for commands that are for one database
}

func (o *place) several(f *flag.FlagSet) {
	f.StringVar(&o.server, "server", "", "")
	f.StringVar(&o.databases, "databases", "", "")
	f.BoolVar(&o.all, "all", false, "")
}

func (o *place) single(f *flag.FlagSet) {
	f.StringVar(&o.server, "server", "", "")
	f.StringVar(&o.database, "database", "", "")
}

// selected returns the servers that a command is for.
func (c *config) selected(o place) ([]server, error) {
	all := c.configured()
	if o.server == "" {
		return all, nil
	}
	only := slices.DeleteFunc(slices.Clone(all), func(s server) bool {
		return s.name != o.server && !strings.HasSuffix(s.name, "/"+o.server)
	})
	if len(only) == 0 {
		return nil, cli.Mistake(fmt.Sprintf("--server %s: the settings have %s", o.server, namesOf(all)))
	}
	return only, nil
}

// targets returns the stores that a command is for: without flags those of the settings.
func (c *config) targets(ctx context.Context, o place) (all []target, err error) {
	servers, err := c.selected(o)
	if err != nil {
		return nil, err
	}
	if o.databases != "" && o.all {
		return nil, errBothFlags
	}
	if o.databases != "" {
		return ofNames(servers, list(o.databases))
	}
	for _, s := range servers {
		names := s.config.PostgresDatabases
		if o.all && s.protocol.name == postgresProtocol.name {
			if names, err = pgstore.Databases(ctx, s.config.PostgresAdmin.Reveal()); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		all = append(all, s.databases(names)...)
	}
	return all, nil
}

// databases returns targets for databases of a server; for the one in its URL if there are no names.
func (s server) databases(names []string) (all []target) {
	if s.protocol.name != postgresProtocol.name || len(names) == 0 {
		return []target{{s, s.protocol.database(s.config)}}
	}
	for _, name := range names {
		all = append(all, s.with(name))
	}
	return all
}

// with returns the target for a database.
func (s server) with(database string) target {
	if database != s.config.database() {
		s.config = s.config.in(database)
	}
	return target{s, database}
}

// ofNames returns the targets for databases that the command line names.
func ofNames(servers []server, names []string) ([]target, error) {
	servers = slices.DeleteFunc(servers, func(s server) bool { return s.protocol.name != postgresProtocol.name })
	switch len(servers) {
	case 0:
		return nil, cli.Mistake("--databases: only Postgres has databases, and the settings name no such server")
	case 1:
		return servers[0].databases(names), nil
	}
	return nil, cli.Mistake("--databases: say of which server, with --server: " + namesOf(servers))
}

// onePostgres returns the settings for one database of one Postgres server: unless flags name them,
// the database of GUARD_POSTGRES_UPSTREAM.
func (c *config) onePostgres(o place) (*config, error) {
	servers, err := c.selected(o)
	if err != nil {
		return nil, err
	}
	servers = slices.DeleteFunc(servers, func(s server) bool { return s.protocol.name != postgresProtocol.name })
	if i := slices.IndexFunc(servers, func(s server) bool { return s.name == s.protocol.name }); i >= 0 {
		servers = servers[i : i+1]
	}
	switch {
	case len(servers) == 0:
		return nil, cli.Mistake("only Postgres has tables: set GUARD_POSTGRES_UPSTREAM")
	case len(servers) > 1:
		return nil, cli.Mistake("say of which server, with --server: " + namesOf(servers))
	case o.database == "":
		return servers[0].config, nil
	}
	return servers[0].with(o.database).config, nil
}

// withSchema adds those databases of a server that have the schema and are no targets yet. It leaves
// out databases that do not let the guard in, which it cannot serve either.
func (s server) withSchema(ctx context.Context, already []target) ([]target, error) {
	if s.protocol.name != postgresProtocol.name {
		return nil, nil
	}
	names, err := pgstore.Databases(ctx, s.config.PostgresUpstream.Reveal())
	if err != nil {
		return nil, err
	}
	var found []target
	for _, name := range names {
		t := s.with(name)
		if slices.ContainsFunc(already, func(a target) bool { return a.name == s.name && a.database == name }) {
			continue
		}
		installed, err := pgstore.Installed(ctx, t.config.PostgresUpstream.Reveal())
		if installed || err != nil && !letsNobodyIn(err) {
			found = append(found, t)
		}
	}
	return found, nil
}

// letsNobodyIn reports whether a database refuses the role, or is no longer there.
func letsNobodyIn(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "28") || slices.Contains([]string{"42501", "3D000", "55000"}, pg.Code))
}
