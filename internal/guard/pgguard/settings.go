package pgguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/settings"
)

// Settings are those of one Postgres server, with what a guard does by them. Their names begin with
// GUARD_POSTGRES_ or, for the server archive, GUARD_POSTGRES_ARCHIVE_.
type Settings struct {
	guard.Endpoints
	Admin         settings.URL   `env:"ADMIN"`
	Databases     settings.Names `env:"DATABASES"`
	MaxDatabases  int            `env:"MAX_DATABASES" envDefault:"20" use:"serving"`
	Leaders       settings.Names `env:"LEADERS" use:"roles"`
	AllowPrepared bool           `env:"ALLOW_PREPARED" envDefault:"false"`
}

var _ guard.Databases = (*Settings)(nil)

// Texts implements settings.Described.
func (*Settings) Texts() settings.Texts { return texts }

var texts = settings.Texts{
	"LISTEN": {Meaning: `
		address to listen on for Postgres clients, such as :6432, or unix:/dir/.s.PGSQL.6432,
		a socket with mode 0666 that is removed at exit; or systemd:name, a socket that a .socket
		unit with FileDescriptorName=name passes. Unset: no Postgres`},
	"UPSTREAM": {Meaning: `
		URL of the Postgres server behind the guard, postgres://guard@host:5432/database. The
		guard's control connections use it, also for the other databases of the server; clients'
		logins are relayed to the same host. Of several hosts, postgres://guard@h1:5432,h2:5432/database,
		it is the one that is the primary, and the guard follows a failover.
		sslmode, sslrootcert, sslcert and sslkey count for both, as libpq has them.
		password_file=FILE or password_command=COMMAND say where the password of this URL is, and are
		read again for each new connection; so for every URL with a user. Unset, with ADMIN set: a database without a
		guard, for every command but serve`},
	"ADMIN": {
		Default: "GUARD_POSTGRES_UPSTREAM",
		Meaning: "URL of a role that may create the schema; used by guard install, uninstall, protect, " +
			"unprotect and check",
	},
	"DATABASES": {Meaning: `
		comma-separated databases of the server that clients may ask for, and that guard install
		prepares. A name that has a comma stands in double quotes, as in SQL; so do roles. Unset: clients may ask for any, and guard install prepares the one of
		GUARD_POSTGRES_UPSTREAM`},
	"MAX_DATABASES": {Meaning: `
		how many databases of the server the guard serves at once. Each takes up to five
		connections of the guard's own, three while little happens. One without a client for five
		minutes is closed, earlier if another one needs the room`},
	"LEADERS": {Meaning: `
		comma-separated roles of programs that may lead: by SQL (ringfence.campaign, take, bring), as clients of
		elections in this database, without a guard, or with checkpoints here; guard install grants them the
		functions. None of them may be the guard's role. Used by guard install only`},
	"ALLOW_PREPARED": {Meaning: `
		serve although max_prepared_transactions is above 0. A prepared transaction outlives
		its session, so one of a deposed leader could still be committed`},
}

// URLs implements guard.Upstream.
func (s *Settings) URLs() []settings.URL { return []settings.URL{s.Upstream, s.Admin} }

// Check implements guard.Upstream.
func (s *Settings) Check(prefix string) (problems []error) {
	check := func(name string, url settings.URL) {
		err := url.Check(prefix+name, pgmarks.CheckURL, "postgres", "postgresql")
		if err != nil {
			problems = append(problems, err)
		}
	}
	check("UPSTREAM", s.Upstream)
	check("ADMIN", s.Admin)
	if s.Upstream == "" && s.Admin != "" && s.Listen != "" { // without either, no server is named
		problems = append(problems, fmt.Errorf("%[1]sLISTEN is set, %[1]sUPSTREAM is not", prefix))
	}
	if err := s.roles().Check(); err != nil {
		problems = append(problems,
			fmt.Errorf("%[1]sLEADERS names the role of %[1]sUPSTREAM: %[2]w", prefix, err))
	}
	if s.MaxDatabases <= 0 {
		problems = append(problems,
			fmt.Errorf("%sMAX_DATABASES is %d: it must be above 0", prefix, s.MaxDatabases))
	}
	return problems
}

// AdminURL returns the URL of a role that may create the schema.
func (s *Settings) AdminURL() string { return cmp.Or(s.Admin, s.Upstream).Reveal() }

// URL returns the URL of the guard's role or, without a guard, of the administrator's.
func (s *Settings) URL() settings.URL { return cmp.Or(s.Upstream, s.Admin) }

// Addresses implements guard.Upstream.
func (s *Settings) Addresses() (listen string, server settings.URL) { return s.Listen, s.URL() }

// Database implements guard.Upstream.
func (s *Settings) Database() string {
	name, _ := pgmarks.DatabaseOf(s.URL().Reveal())
	return name
}

// Home implements guard.Databases: it is the database of the URL, unless the guard may not serve
// it.
func (s *Settings) Home() guard.Upstream {
	if len(s.Databases) == 0 || slices.Contains(s.Databases, s.Database()) {
		return s
	}
	return s.In(s.Databases[0])
}

// In implements guard.Databases.
func (s *Settings) In(database string) guard.Upstream {
	if database == s.Database() {
		return s
	}
	own := *s
	if s.Upstream != "" {
		own.Upstream = settings.URL(pgmarks.ForDatabase(s.Upstream.Reveal(), database))
	}
	own.Admin = settings.URL(pgmarks.ForDatabase(s.AdminURL(), database))
	return &own
}

// Named implements guard.Databases.
func (s *Settings) Named() []string { return s.Databases }

// All implements guard.Databases.
func (s *Settings) All(ctx context.Context) ([]string, error) {
	return pgmarks.Databases(ctx, s.AdminURL())
}

// Installed implements guard.Databases.
func (s *Settings) Installed(ctx context.Context) (found []string, err error) {
	names, err := pgmarks.Databases(ctx, s.URL().Reveal())
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		_, url := s.In(name).Addresses()
		installed, err := pgmarks.Installed(ctx, url.Reveal())
		if installed || err != nil && !letsNobodyIn(err) {
			found = append(found, name)
		}
	}
	return found, nil
}

// letsNobodyIn reports whether a database refuses the role, or is no longer there.
func letsNobodyIn(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "28") ||
		slices.Contains([]string{"42501", "3D000", "55000"}, pg.Code))
}

// Open implements guard.Upstream.
func (s *Settings) Open(_ context.Context, c guard.Common, replaced func()) (guard.Store, error) {
	return pgmarks.Open(s.URL().Reveal(), pgmarks.Options{
		AllowPrepared: s.AllowPrepared, Timeouts: c.Timeouts, Replaced: replaced, Primary: c.Primary,
	})
}

// Serve implements guard.Upstream.
func (s *Settings) Serve(with guard.Service) guard.Protocol {
	store := with.Store.(*pgmarks.Store)
	return New(Options{
		Name: with.Name, Store: store, Admission: with.Admission,
		LoginTimeout: with.LoginTimeout, IdleTimeout: with.IdleTimeout, Resources: with.Resources,
		TLS: with.TLS, Audit: with.Audit,
		Databases: s.Databases, MaxDatabases: s.MaxDatabases,
		Another: func(name string) (*Database, error) {
			other, err := with.Another(name)
			if err != nil {
				return nil, err
			}
			return &Database{
				Store: other.Store.(*pgmarks.Store), Admission: other.Admission, Closing: other.Closing,
			}, nil
		},
	})
}

// OpenAuthorizer implements guard.Upstream.
func (s *Settings) OpenAuthorizer(ctx context.Context, _ guard.Common) (guard.Authorizer, error) {
	return pgmarks.OpenAuthorizer(ctx, s.AdminURL())
}

// Install implements guard.Upstream.
func (s *Settings) Install(ctx context.Context) ([]string, error) {
	return s.roles().Install(ctx, s.AdminURL())
}

// roles returns who uses the schema.
func (s *Settings) roles() pgmarks.Roles {
	return pgmarks.Roles{Guard: s.Guard(), Leaders: s.Leaders}
}

// Guard returns the role of the guard, or "" without one.
func (s *Settings) Guard() string {
	if s.Upstream == "" {
		return ""
	}
	role, _ := pgmarks.Role(s.Upstream.Reveal())
	return role
}

// Image implements guard.Upstream.
func (s *Settings) Image(ctx context.Context) (string, error) {
	return pgmarks.Image(ctx, s.AdminURL())
}

// Script implements guard.Upstream.
func (s *Settings) Script() (string, error) {
	return s.roles().SQL(), nil
}

// Uninstall implements guard.Upstream.
func (s *Settings) Uninstall(ctx context.Context, o marks.Removing) (marks.Removal, error) {
	return pgmarks.Uninstall(ctx, s.AdminURL(), s.Guard(), o)
}
