package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Options of a Store. The zero value is right for a guard without a coordinator.
type Options struct {
	// Connections is the most control connections, 4 when zero. Each admission holds one for one short script.
	Connections int

	// Coordinated says that the Authority asks a coordinator about every raise. Only then may a raise write a marker
	// that is missing; otherwise a missing marker is ErrNotInstalled.
	Coordinated bool
}

// Store keeps marks and sessions in Redis. Its methods may be called from any goroutine and, like everything behind
// marks.Store, from any number of processes.
type Store struct {
	db   *driver.Client
	o    Options
	seen seen
}

var (
	_ marks.Store = (*Store)(nil)
	_ marks.Admin = (*Store)(nil)
)

// Open makes a store on the URL redis[s]://user:password@host:port/db and probes the server once. It fails for a URL that cannot be read and for a server that answers
// and cannot be guarded (SetupError). A server that does not answer, or where nothing is installed yet, is no error:
// Probe tells when the store can be used. Every control connection is probed again before it serves.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	db, err := open(address, o)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, o: o}
	var setup *fence.SetupError
	if err := s.probeRights(ctx); errors.As(err, &setup) {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the control connections.
func (s *Store) Close() { _ = s.db.Close() }

// Dial opens a connection of its own to the server, for a client of the guard: TCP, Unix socket or TLS as in the URL.
func (s *Store) Dial(ctx context.Context) (net.Conn, error) {
	o := s.db.Options()
	d := &net.Dialer{Timeout: o.DialTimeout}
	if o.TLSConfig != nil {
		return (&tls.Dialer{NetDialer: d, Config: o.TLSConfig}).DialContext(ctx, o.Network, o.Addr)
	}
	return d.DialContext(ctx, o.Network, o.Addr)
}

// Address is where a URL points, without its credentials.
func Address(address string) string {
	o, err := driver.ParseURL(address)
	if err != nil {
		return "(not a Redis URL)"
	}
	return fmt.Sprintf("%s/%d", o.Addr, o.DB)
}

// controlName is what CLIENT LIST shows of the guard's own connections.
const controlName = "ringfence-guard"

// Connect makes a client for Run, Script and reading. name is what CLIENT LIST shows of it. It dials when it is used, and
// refuses servers that cannot keep marks (*fence.SetupError): replicas, members of a cluster, Sentinels. A call that is not
// answered within 3 s fails, so it returns at most that long after its context has ended. It fails for a URL that cannot be
// read.
func Connect(address, name string) (*driver.Client, error) {
	opt, err := ownOptions(address, name)
	if err != nil {
		return nil, err
	}
	opt.ReadTimeout, opt.WriteTimeout = 3*time.Second, 3*time.Second
	return driver.NewClient(opt), nil
}

// open makes the client of a store.
func open(address string, o Options) (*driver.Client, error) {
	opt, err := ownOptions(address, controlName)
	if err != nil {
		return nil, err
	}
	opt.DB = 0 // sessions belong to the server, and so do the marks, whatever database the URL names
	opt.PoolSize = o.Connections
	if opt.PoolSize == 0 {
		opt.PoolSize = 4
	}
	opt.MaxActiveConns = opt.PoolSize
	// A long script of a client holds everybody up: only the caller's context says when to give up waiting.
	opt.ReadTimeout, opt.WriteTimeout = -1, 10*time.Second
	opt.PoolTimeout = time.Minute
	return driver.NewClient(opt), nil
}

// ownOptions are of a client whose connections are ours alone: RESP2, our name, nothing that a client of the guard sends.
func ownOptions(address, name string) (*driver.Options, error) {
	opt, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	opt.Protocol, opt.ClientName, opt.DisableIdentity = 2, name, true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PipelinePoolSize, opt.DialerRetries = -1, 1
	opt.ReadBufferSize, opt.WriteBufferSize = 16<<10, 16<<10
	opt.ContextTimeoutEnabled = true
	opt.OnConnect = probeConnection
	return opt, nil
}

func parseURL(address string) (*driver.Options, error) {
	opt, err := driver.ParseURL(address)
	if err != nil {
		return nil, errors.New("not a Redis URL (want redis://user:password@host:port/db): " + withoutSecrets(err))
	}
	return opt, nil
}

// withoutSecrets is what is wrong with a URL, without quoting it: it may hold a password.
func withoutSecrets(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return "it cannot be parsed"
	}
	return err.Error()
}
