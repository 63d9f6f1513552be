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

	// Primary is called when the Sentinels of the URL name another primary, also at first; may be nil,
	// must not block.
	Primary func(address string)

	name      string     // of the connections in CLIENT LIST; controlName when empty
	sentinels *sentinels // those of the URL, if there are any, which a store has once
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
	t, err := control(address, o, o.probe)
	if err != nil {
		return nil, err
	}
	if o.sentinels = t.sentinels; o.sentinels != nil {
		o.sentinels.moved = o.Primary
	}
	s := &Store{db: driver.NewClient(t.opt), address: address, o: o}
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
	return Target{opt: s.db.Options(), sentinels: s.o.sentinels}.Dial(ctx)
}

// dialer dials any server as the URL says.
func dialer(opt *driver.Options, timeouts keepalive.Timeouts) dialing {
	d := timeouts.Dialer()
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
		config := opt.TLSConfig
		if config.ServerName == noHost {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		encrypted := tls.Client(tlsconfig.NewTransport(conn, nil), config)
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
	t, err := own(address, name)
	if err != nil {
		return nil, err
	}
	t.logIn()
	t.dialWith(keepalive.Timeouts{})
	t.opt.ReadTimeout, t.opt.WriteTimeout = 3*time.Second, 3*time.Second
	return driver.NewClient(t.opt), nil
}

// probe checks a control connection before it serves.
func (o Options) probe(ctx context.Context, c *driver.Conn) error {
	if err := probeConnection(ctx, c); err != nil {
		return err
	}
	return checkCommands(ctx, c, o.Commands)
}

// control is the server for control connections, each of which probe checks before it serves.
func control(
	address string, o Options, probe func(context.Context, *driver.Conn) error,
) (Target, error) {
	t, err := own(address, cmp.Or(o.name, controlName))
	if err != nil {
		return t, err
	}
	opt := t.opt
	opt.OnConnect = probe
	opt.DB = 0 // marks and sessions belong to the server, whatever database the URL names
	t.logIn()
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
	if o.sentinels != nil {
		t.sentinels = o.sentinels
	}
	t.dialWith(o.Timeouts)
	return t, nil
}

// own is the server for a client that only we use: RESP2, our name, and none of the commands that
// drivers send unasked. The caller sets the database, and then calls logIn.
func own(address, name string) (Target, error) {
	t, err := parseURL(address)
	if err != nil {
		return t, err
	}
	opt := t.opt
	opt.Protocol, opt.ClientName, opt.DisableIdentity = 2, name, true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PipelinePoolSize, opt.DialerRetries = -1, 1
	opt.ReadBufferSize, opt.WriteBufferSize = 16<<10, 16<<10
	opt.ContextTimeoutEnabled = true
	opt.OnConnect = probeConnection
	return t, nil
}

// CheckURL says why a URL cannot be a server's. The error has no secrets.
func CheckURL(address string) error {
	_, err := parseURL(address)
	return err
}

// ParseURL reads the URL of a server. Beside the driver's own options, it may have those of package
// password, and a rediss URL those of package tlsconfig.
func ParseURL(address string) (*driver.Options, error) {
	t, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	if t.source != nil {
		t.opt.CredentialsProviderContext = credentials(t.opt.Username, t.source)
	}
	t.dialWith(keepalive.Timeouts{})
	return t.opt, nil
}

func parseURL(address string) (Target, error) {
	address, hosts, name, err := cutSentinels(address)
	if err != nil {
		return Target{}, err
	}
	address, options, ofSentinels := splitOptions(address)
	opt, err := driver.ParseURL(address)
	if err != nil {
		return Target{}, errors.New("not a Redis URL (want redis://user:password@host:port/db): " +
			withoutSecrets(err))
	}
	t := Target{opt: opt, DB: opt.DB}
	t.source, err = password.Cut(options)
	switch {
	case strings.Contains(opt.Addr, ","):
		return Target{}, errors.New("a Redis URL of several hosts: name the one primary, or " +
			"the Sentinels as redis+sentinel://host1,host2,host3/NAME")
	case err != nil:
		return Target{}, fmt.Errorf("not a Redis URL: %w", err)
	case t.source != nil && opt.Password != "":
		return Target{}, fmt.Errorf("the Redis URL has a password, and %s", t.source)
	case len(ofSentinels) > 0 && hosts == nil:
		return Target{}, errors.New("not a Redis URL: options of Sentinels need redis+sentinel://")
	case len(options) > 0 && opt.TLSConfig == nil:
		return Target{}, errors.New("not a Redis URL: the options of TLS (ssl…) need rediss://")
	case len(options) > 0:
		config, err := tlsconfig.Client("rediss", options)
		if err != nil {
			return Target{}, err
		}
		config.ServerName = opt.TLSConfig.ServerName
		opt.TLSConfig = config
	}
	if hosts != nil {
		t.sentinels, err = newSentinels(hosts, name, opt, ofSentinels)
		opt.Addr = name + "@" + strings.Join(hosts, ",")
	}
	return t, err
}

// splitOptions removes the options of TLS, of package password and of Sentinels from a URL, which
// the driver would refuse.
func splitOptions(address string) (rest string, options, ofSentinels url.Values) {
	rest, query, _ := strings.Cut(address, "?")
	all, err := url.ParseQuery(query)
	if err != nil {
		return address, nil, nil // the driver says why
	}
	options, ofSentinels = url.Values{}, url.Values{}
	for name, values := range all {
		option, sentinels := strings.CutPrefix(name, sentinelOption)
		switch {
		case sentinels:
			ofSentinels[option] = values
		case strings.HasPrefix(name, "ssl"), strings.HasPrefix(name, "password_"):
			options[name] = values
		default:
			continue
		}
		all.Del(name)
	}
	if len(all) > 0 {
		rest += "?" + all.Encode()
	}
	return rest, options, ofSentinels
}

// withoutSecrets describes the error in a URL without quoting the URL: it may hold a password.
func withoutSecrets(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return "it cannot be parsed"
	}
	return err.Error()
}
