package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/store/pgstore"
)

// The database and the user of all sessions.
const (
	database = "postgres"
	User     = "app"
)

// Options say what a stage starts.
type Options struct {
	Guard    string            // the program
	Settings map[string]string // of Postgres
	Redis    []string          // more arguments for the Redis server
	Peers    bool              // other proxies, too
	TLS      bool              // on every leg
	Progress io.Writer
}

// Postgres is a Postgres with the ways to it.
type Postgres struct {
	set
	Server    *servers.Postgres
	Guard     *GuardProcess
	program   string
	databases []string
	raiser    *pgstore.Raiser // of direct sessions; nil if there are none
}

// Close ends all that was started.
func (s *Postgres) Close() error {
	if s.raiser != nil {
		s.raiser.Close()
	}
	return s.set.Close()
}

// StartPostgres starts a Postgres, a guard, and, if they are wanted, the proxies for Postgres.
func StartPostgres(ctx context.Context, o Options) (s *Postgres, err error) {
	s = &Postgres{program: o.Guard, databases: []string{database}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	po := servers.PostgresOptions{Settings: maps.Clone(o.Settings)}
	if o.TLS {
		if err := s.encrypt(); err != nil {
			return s, err
		}
		po.Settings["ssl"] = "on"
		po.Files = map[string][]byte{"server.crt": s.tls.pair.Cert, "server.key": s.tls.pair.Key}
	}
	s.Server, err = servers.StartPostgres(ctx, po)
	if err != nil {
		return s, err
	}
	s.servers = append(s.servers, s.Server)
	s.Ways = append(s.Ways, &Way{
		Name: Direct, Addr: s.Server.Addr(), TLS: o.TLS, Database: database,
	})
	s.version(ctx, s.Server.Program("postgres"), "--version")
	if err := s.prepare(ctx); err != nil {
		return s, err
	}
	if s.Guard, err = s.NewGuard(ctx, nil); err != nil {
		return s, err
	}
	s.Ways = append(s.Ways, &Way{
		Name: Guard, Addr: s.Guard.Postgres, TLS: o.TLS, Database: database, pid: s.Guard.PID,
	})
	if o.Peers {
		err = errors.Join(s.startPeers(ctx, o.Progress), s.AdmitDirectly(ctx, o.Progress))
	}
	return s, err
}

// prepare makes the roles and the schema.
func (s *Postgres) prepare(ctx context.Context) error {
	err := s.Exec(ctx, "create role guard login", "create role "+User+" login",
		"grant create on schema public to "+User)
	if err != nil {
		return err
	}
	return install(ctx, s.program, "GUARD_POSTGRES_UPSTREAM="+s.Server.URL("guard", database),
		"GUARD_POSTGRES_ADMIN="+s.Server.URL("postgres", database))
}

// NewGuard starts one more guard, with more settings. Close ends it, if nobody has before.
func (s *Postgres) NewGuard(
	ctx context.Context, settings map[string]string,
) (*GuardProcess, error) {
	g, err := StartGuard(ctx, GuardOptions{
		Program: s.program, Postgres: s.url("guard"), Settings: s.tls.forGuard(settings),
	})
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, g)
	return g, nil
}

// url is the URL of the server for a role.
func (s *Postgres) url(role string) string {
	u := s.Server.URL(role, database)
	if s.tls == nil {
		return u
	}
	return strings.Replace(u, "sslmode=disable", "sslmode=verify-full&sslrootcert="+
		s.tls.authority.File, 1)
}

func (s *Postgres) startPeers(ctx context.Context, progress io.Writer) error {
	p, err := started(servers.StartPgBouncer(ctx, s.Server, servers.PgBouncerOptions{
		User: User, TLS: s.tls.forProxy(),
	}))
	if err := s.add(PgBouncer, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "pgbouncer", "--version")
	// With TLS it passes on what client and server have encrypted: it does not speak Postgres.
	p, err = started(servers.StartHAProxy(ctx, s.Server.Addr(), servers.HAProxyOptions{}))
	if err := s.add(HAProxy, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "haproxy", "-v")
	return nil
}

// Exec runs statements as the superuser, in every database of the stage.
func (s *Postgres) Exec(ctx context.Context, statements ...string) (err error) {
	for _, d := range s.databases {
		err = errors.Join(err, Exec(ctx, s.Server.URL("postgres", d), statements...))
	}
	return err
}

// Exec runs statements on a connection of their own.
func Exec(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// PostgresURL returns a connection URL for the way, under a token of the resource.
func (w *Way) PostgresURL(resource string, token int64) string {
	return strings.NewReplacer("sslmode=disable", "sslmode="+w.SSLMode(),
		"/"+database+"?", "/"+w.Database+"?").Replace(PostgresURL(w.Addr, resource, token))
}

// SSLMode is the mode of the way.
func (w *Way) SSLMode() string {
	if w.TLS {
		return "require"
	}
	return "disable"
}

// PostgresURL returns a connection URL for an address, under a token of the resource.
func PostgresURL(addr, resource string, token int64) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&options=%s",
		User, addr, database, escapedOptions(resource, token))
}

func escapedOptions(resource string, token int64) string {
	return strings.ReplaceAll(url.QueryEscape(StartupOptions(resource, token)), "+", "%20")
}

// StartupOptions is the value of the startup parameter "options" for a session under a token.
func StartupOptions(resource string, token int64) string {
	return fmt.Sprintf("-c fence.%s=%d", resource, token)
}
