package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// trustEverybody is the default pg_hba.conf.
const trustEverybody = `local all all trust
host all all 127.0.0.1/32 trust
host all all ::1/128 trust
local replication all trust
host replication all 127.0.0.1/32 trust
host replication all ::1/128 trust
`

// PostgresOptions configure Postgres.
type PostgresOptions struct {
	Settings map[string]string // appended to postgresql.conf, values unquoted
	HBA      string            // the whole pg_hba.conf; default: trust everybody on this machine
	Files    map[string][]byte // more files of the data directory, such as server.key
	// OwnLocale gives the server the locale [OwnLocale], which a database may have, and no other but
	// C.
	OwnLocale bool
}

// Postgres is a Postgres server with its own cluster. The superuser is "postgres". fsync is on, so
// committed data survives Kill and Start.
type Postgres struct {
	Process
	port     int
	data     string
	settings map[string]string // further lines of postgresql.conf
}

// StartPostgres creates a cluster and starts it. It returns a [MissingError] if Postgres is not
// installed.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	bin, err := system().postgres()
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("pg", acc)
	if err != nil {
		return nil, err
	}
	p := newPostgres("postgres", filepath.Join(bin, "postgres"), dir, acc, o.Settings)
	if o.OwnLocale {
		err = p.createLocale(ctx)
	}
	if err == nil {
		err = p.create(ctx, bin, o)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// newPostgres returns a server without a data directory.
func newPostgres(name, program, dir string, acc *account, settings map[string]string) *Postgres {
	p := &Postgres{data: filepath.Join(dir, "data"), settings: settings}
	p.spec = spec{
		name: name, dir: dir, account: acc,
		command: func() []string { return []string{program, "-D", p.data} },
		ready:   p.answers,
		stop:    syscall.SIGINT, // fast shutdown: ends sessions, writes a checkpoint
		quit:    syscall.SIGQUIT,
		tidy:    func() { removeSharedMemory(p.data) },
	}
	return p
}

func (p *Postgres) create(ctx context.Context, bin string, o PostgresOptions) error {
	err := p.run(ctx, filepath.Join(bin, "initdb"), "-D", p.data, "--no-sync",
		"--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
	if err != nil {
		return err
	}
	hba := o.HBA
	if hba == "" {
		hba = trustEverybody
	}
	if err := p.spec.account.writeFile(filepath.Join(p.data, "pg_hba.conf"), hba); err != nil {
		return err
	}
	for name, content := range o.Files {
		if err := p.spec.account.writeFile(filepath.Join(p.data, name), string(content)); err != nil {
			return err
		}
	}
	return p.configure(ctx)
}

// configure writes postgresql.conf and starts the server on a free port.
func (p *Postgres) configure(ctx context.Context) error {
	return startOnFreePorts(ctx, 1, func(ports []int) error {
		p.port = ports[0]
		conf := filepath.Join(p.data, "postgresql.conf")
		if err := p.spec.account.writeFile(conf, p.config()); err != nil {
			return err
		}
		return p.Start(ctx)
	})
}

// config is the whole postgresql.conf.
func (p *Postgres) config() string {
	settings := map[string]string{
		"listen_addresses":        host,
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": p.SocketDir(),
		"shared_buffers":          "32MB",
		"max_connections":         "1000", // a shared server has the clients of many tests
		"log_line_prefix":         "%m [%p] %u@%d ",
		"log_checkpoints":         "off",
		"timezone":                "UTC",
		"password_encryption":     "scram-sha-256", // Postgres 13 has md5
		// Segments are files in the data directory, which is removed; those in /dev/shm would outlive
		// a killed server.
		"dynamic_shared_memory_type": "mmap",
	}
	maps.Copy(settings, p.settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return b.String()
}

// Addr returns the TCP address, 127.0.0.1:port.
func (p *Postgres) Addr() string { return hostPort(p.port) }

// Program returns the file of another program of the same installation, such as psql or pgbench. It
// may not exist.
func (p *Postgres) Program(name string) string {
	return filepath.Join(filepath.Dir(p.spec.command()[0]), name)
}

// SocketDir returns the directory of the Unix socket.
func (p *Postgres) SocketDir() string { return p.spec.dir }

// URL returns a connection URL over TCP without TLS.
func (p *Postgres) URL(user, database string) string {
	return postgresURL(user, p.Addr(), database)
}

func postgresURL(user, addr, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(user), Host: addr, Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// answers connects over the Unix socket, which, unlike a port, cannot belong to another server. A
// server that refuses the login is up, since the caller's pg_hba.conf decides that.
func (p *Postgres) answers(ctx context.Context) error {
	q := url.Values{"host": {p.SocketDir()}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	err := pingPostgres(ctx, "postgres://postgres@/postgres?"+q.Encode())
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(e.Code, "28") {
		return nil
	}
	return err
}

// pingPostgres connects and runs a query.
func pingPostgres(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	delete(cfg.RuntimeParams, "options") // the caller's PGOPTIONS
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "select 1", pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, c.Close(ctx))
}

// postgres returns the directory with initdb and postgres: the first in the path, or else the
// highest version in the directories of the packages.
func (p places) postgres() (string, error) {
	patterns := []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}
	for _, b := range brewed {
		patterns = append(patterns, b+"/postgresql*/bin")
	}
	var packaged []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(p.root + pattern)
		packaged = append(packaged, dirs...)
	}
	slices.SortStableFunc(packaged, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range slices.Concat(p.path, packaged) {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", missing("postgres (with initdb)", "postgresql", "postgresql")
}
