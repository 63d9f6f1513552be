package redismarks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Options of a Store. The zero value is right for a guard without a coordinator.
type Options struct {
	// Connections limits the control connections; 4 when zero. An admission holds one at a time,
	// for one short script.
	Connections int

	// Reserved opens the control connections at once and keeps them: a full server takes no new ones.
	Reserved bool

	// Coordinated is true when the Authority asks a coordinator about every raise. Only then may a
	// raise write a marker that is missing. Otherwise a missing marker is ErrNotInstalled.
	Coordinated bool

	// Commands are what the guard's clients may send. A server that runs another command under one of
	// these names is refused.
	Commands Commands

	// Timeouts say when the server counts as gone, for control connections and for Dial.
	Timeouts keepalive.Timeouts

	name string // of the connections in CLIENT LIST; controlName when empty
}

// Store keeps marks and sessions in Redis. Its methods may be called from any goroutine, and from
// any number of processes, as those of every marks.Store.
type Store struct {
	db      *driver.Client
	address string // the URL
	o       Options
	looks   marks.Looks[decision]

	rights tried
}

var (
	_ marks.Store = (*Store)(nil)
	_ marks.Admin = (*Store)(nil)
)

// Open makes a store on the URL redis[s]://user:password@host:port/db and probes the server once.
// It fails if the URL cannot be parsed, or if the server answers but cannot be guarded
// (SetupError). It succeeds if the server does not answer, is a replica or has nothing installed
// yet: Probe reports when the store can be used. Every control connection is probed again before it
// serves.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	db, err := open(address, o, o.probe)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, address: address, o: o}
	err = s.probeRights(ctx)
	if setup, ok := errors.AsType[*fence.SetupError](err); ok && !setup.Passes {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the control connections.
func (s *Store) Close() { _ = s.db.Close() }

// Ping asks the server for any answer. It dials if there is no connection.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx).Err() }

// Dial opens a separate connection to the server, for a client of the guard. It uses TCP, a Unix
// socket or TLS, as the URL says.
func (s *Store) Dial(ctx context.Context) (net.Conn, error) {
	return Target{opt: s.db.Options()}.Dial(ctx)
}

// dialer dials as the URL says.
func (o Options) dialer(
	opt *driver.Options,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := o.Timeouts.Dialer()
	d.Timeout = cmp.Or(opt.DialTimeout, 5*time.Second)
	if opt.TLSConfig == nil {
		return d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout) // for the handshake, too
		defer cancel()
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(tlsconfig.NewTransport(conn, nil), opt.TLSConfig)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return encrypted, nil
	}
}

// Address is the host, port and database of a URL, without its credentials.
func Address(address string) string {
	o, err := ParseURL(address)
	if err != nil {
		return "(not a Redis URL)"
	}
	return fmt.Sprintf("%s/%d", o.Addr, o.DB)
}

// controlName is what CLIENT LIST shows of the guard's own connections.
const controlName = "ringfence-guard"

// Connect makes a client for a Tx, a Script and reading. CLIENT LIST shows it under name. The
// client dials when it is first used, and refuses servers that cannot keep marks
// (*fence.SetupError): replicas, members of a cluster, Sentinels. A call that is not answered
// within 3 s fails, so it returns at most that long after its context has ended. Connect fails if
// the URL cannot be parsed.
func Connect(address, name string) (*driver.Client, error) {
	opt, source, err := ownOptions(address, name)
	if err != nil {
		return nil, err
	}
	logIn(opt, source)
	opt.ReadTimeout, opt.WriteTimeout = 3*time.Second, 3*time.Second
	return driver.NewClient(opt), nil
}

// probe checks a control connection before it serves.
func (o Options) probe(ctx context.Context, c *driver.Conn) error {
	if err := probeConnection(ctx, c); err != nil {
		return err
	}
	return checkCommands(ctx, c, o.Commands)
}

// open makes the client of a store.
func open(
	address string, o Options, probe func(context.Context, *driver.Conn) error,
) (*driver.Client, error) {
	opt, err := controlOptions(address, o, probe)
	if err != nil {
		return nil, err
	}
	return driver.NewClient(opt), nil
}

// controlOptions are those of control connections, each of which probe checks before it serves.
func controlOptions(
	address string, o Options, probe func(context.Context, *driver.Conn) error,
) (*driver.Options, error) {
	opt, source, err := ownOptions(address, cmp.Or(o.name, controlName))
	if err != nil {
		return nil, err
	}
	opt.OnConnect = probe
	opt.DB = 0 // marks and sessions belong to the server, whatever database the URL names
	logIn(opt, source)
	opt.PoolSize = o.Connections
	if opt.PoolSize == 0 {
		opt.PoolSize = 4
	}
	// No MaxActiveConns: while the driver replaces ended connections, it would fail calls at once with
	// "pool exhausted" in place of letting them wait for their turn. PoolSize limits the calls.
	if o.Reserved { // in turn, so that no timeout of the server finds one idle
		opt.MinIdleConns, opt.ConnMaxIdleTime, opt.PoolFIFO = opt.PoolSize, -1, true
	}
	// A client's long script blocks every other call: only the caller's context limits the wait.
	opt.ReadTimeout, opt.WriteTimeout = -1, 10*time.Second
	opt.PoolTimeout = time.Minute
	opt.Dialer = o.dialer(opt)
	return opt, nil
}

// ownOptions are the options of a client that only we use: RESP2, our name, and none of the
// commands that drivers send unasked. The caller sets the database, and then calls logIn.
func ownOptions(address, name string) (*driver.Options, *password.Source, error) {
	opt, source, err := parseURL(address)
	if err != nil {
		return nil, nil, err
	}
	opt.Protocol, opt.ClientName, opt.DisableIdentity = 2, name, true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PipelinePoolSize, opt.DialerRetries = -1, 1
	opt.ReadBufferSize, opt.WriteBufferSize = 16<<10, 16<<10
	opt.ContextTimeoutEnabled = true
	opt.OnConnect = probeConnection
	return opt, source, nil
}

// CheckURL says why a URL cannot be a server's. The error has no secrets.
func CheckURL(address string) error {
	_, _, err := parseURL(address)
	return err
}

// ParseURL reads the URL of a server. Beside the driver's own options, it may have those of package
// password, and a rediss URL those of package tlsconfig.
func ParseURL(address string) (*driver.Options, error) {
	opt, source, err := parseURL(address)
	if source != nil && err == nil {
		opt.CredentialsProviderContext = credentials(opt.Username, source)
	}
	return opt, err
}

func parseURL(address string) (*driver.Options, *password.Source, error) {
	address, options := splitOptions(address)
	opt, err := driver.ParseURL(address)
	if err != nil {
		return nil, nil, errors.New("not a Redis URL (want redis://user:password@host:port/db): " +
			withoutSecrets(err))
	}
	source, err := password.Cut(options)
	switch {
	case strings.Contains(opt.Addr, ","):
		return nil, nil, errors.New("a Redis URL of several hosts: name the one primary")
	case err != nil:
		return nil, nil, fmt.Errorf("not a Redis URL: %w", err)
	case source != nil && opt.Password != "":
		return nil, nil, fmt.Errorf("the Redis URL has a password, and %s", source)
	case len(options) == 0:
		return opt, source, nil
	case opt.TLSConfig == nil:
		return nil, nil, errors.New("not a Redis URL: the options of TLS (ssl…) need rediss://")
	}
	config, err := tlsconfig.Client("rediss", options)
	if err != nil {
		return nil, nil, err
	}
	config.ServerName = opt.TLSConfig.ServerName
	opt.TLSConfig = config
	return opt, source, nil
}

// splitOptions removes the options of TLS and of package password from a URL, which the driver
// would refuse.
func splitOptions(address string) (rest string, options url.Values) {
	rest, query, _ := strings.Cut(address, "?")
	all, err := url.ParseQuery(query)
	if err != nil {
		return address, nil // the driver says why
	}
	options = url.Values{}
	for name, values := range all {
		if strings.HasPrefix(name, "ssl") || strings.HasPrefix(name, "password_") {
			options[name] = values
			all.Del(name)
		}
	}
	if len(all) > 0 {
		rest += "?" + all.Encode()
	}
	return rest, options
}

// withoutSecrets describes the error in a URL without quoting the URL: it may hold a password.
func withoutSecrets(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return "it cannot be parsed"
	}
	return err.Error()
}
