package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/settings"
)

const errNoTables = cli.Mistake("only Postgres has tables: set GUARD_POSTGRES_UPSTREAM")

// selection selects the stores that a command is for.
type selection struct {
	server    string // only this one
	databases string // these ones, separated by commas
	all       bool   // every database of each server
	database  string // for commands that are for one database
}

// several declares the flags of a command that is for several databases.
func (o *selection) several(c *cobra.Command) {
	o.one(c)
	f := c.Flags()
	f.StringVar(&o.databases, "databases", "", "these `DATABASES`, separated by commas")
	f.BoolVar(&o.all, "all", false, "all databases of the server; where the schema has to be there, "+
		"those that have it")
	c.MarkFlagsMutuallyExclusive("databases", "all")
}

// single declares the flags of a command that is for one database.
func (o *selection) single(c *cobra.Command) {
	o.one(c)
	c.Flags().StringVar(&o.database, "database", "", "this `DATABASE`")
}

func (o *selection) one(c *cobra.Command) {
	c.Flags().StringVar(&o.server, "server", "", "this `SERVER` alone, such as archive")
}

// selected returns the servers that a command is for.
func (c *config) selected(o selection) ([]server, error) {
	all := c.configured()
	if o.server == "" {
		return all, nil
	}
	found := slices.DeleteFunc(slices.Clone(all), func(s server) bool {
		return s.name() != o.server && s.own != o.server
	})
	if len(found) == 0 {
		return nil, cli.Mistake(fmt.Sprintf("--server %s: the settings have %s", o.server, namesOf(all)))
	}
	return found, nil
}

// targets returns the stores that a command is for: without flags those of the settings, and for
// --all those that every returns of a server. With an error of a server it returns those of the
// others.
func (c *config) targets(
	ctx context.Context, o selection, every func(guard.Databases, context.Context) ([]string, error),
) (all []server, err error) {
	servers, err := c.selected(o)
	switch {
	case err != nil:
		return nil, err
	case o.databases != "":
		names, err := list(o.databases)
		if err != nil {
			return nil, err
		}
		return ofNames(servers, names)
	}
	for _, s := range servers {
		several, ok := s.Upstream.(guard.Databases)
		if !ok {
			all = append(all, s)
			continue
		}
		names := several.Named()
		if o.all {
			var failed error
			if names, failed = every(several, ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", s.name(), failed))
			}
		} else if len(names) == 0 {
			names = []string{s.Database()}
		}
		for _, name := range names {
			all = append(all, s.in(name))
		}
	}
	return all, err
}

// ofNames returns the stores for databases that the command line names.
func ofNames(servers []server, names []string) (all []server, err error) {
	servers = only[guard.Databases](servers)
	switch len(servers) {
	case 0:
		return nil, cli.Mistake("--databases: only Postgres has databases, and the settings name no " +
			"such server")
	case 1:
		for _, name := range names {
			all = append(all, servers[0].in(name))
		}
		return all, nil
	}
	return nil, cli.Mistake("--databases: say of which server, with --server: " + namesOf(servers))
}

// only returns the servers whose settings are a U.
func only[U guard.Upstream](all []server) []server {
	return slices.DeleteFunc(all, func(s server) bool {
		_, is := s.Upstream.(U)
		return !is
	})
}

// onePostgres returns the settings for one database of one Postgres server: unless flags name them,
// the database of GUARD_POSTGRES_UPSTREAM.
func (c *config) onePostgres(o selection) (*pgguard.Settings, error) {
	servers, err := c.selected(o)
	if err != nil {
		return nil, err
	}
	servers = only[*pgguard.Settings](servers)
	if i := slices.IndexFunc(servers, func(s server) bool { return s.own == "" }); i >= 0 {
		servers = servers[i : i+1]
	}
	switch {
	case len(servers) == 0:
		return nil, errNoTables
	case len(servers) > 1:
		return nil, cli.Mistake("say of which server, with --server: " + namesOf(servers))
	case o.database != "":
		servers[0] = servers[0].in(o.database)
	}
	return servers[0].Upstream.(*pgguard.Settings), nil
}

// others returns those databases of the server of a store that have the schema and are not among
// these stores, if the settings name no databases.
func (s server) others(ctx context.Context, these []server) (found []server) {
	several, ok := s.Upstream.(guard.Databases)
	if !ok || len(several.Named()) > 0 {
		return nil
	}
	names, _ := several.Installed(ctx) // only for hints, or an error comes with the store, too
	for _, name := range names {
		if !slices.ContainsFunc(these, func(t server) bool {
			return t.name() == s.name() && t.Database() == name
		}) {
			found = append(found, s.in(name))
		}
	}
	return found
}

// list reads a flag with names that are separated by commas.
func list(flag string) ([]string, error) {
	names, err := settings.ParseNames(flag)
	if err != nil {
		return nil, cli.Mistake(err.Error())
	}
	return names, nil
}
