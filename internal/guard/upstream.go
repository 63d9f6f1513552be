package guard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/settings"
)

// Upstream is one server behind the guard: its settings, and what they lead to. Each protocol has a
// struct of settings that implements it, which is all that cmd/guard knows of the protocol.
type Upstream interface {
	// Addresses returns where the guard listens for clients of the server ("" if it does not), and the
	// URL of the server ("" if there is none).
	Addresses() (listen string, server settings.URL)
	// URLs returns every URL of the settings. They may have passwords.
	URLs() []settings.URL
	// Check says what is wrong with the settings, whose names begin with prefix. The addresses for
	// clients are checked elsewhere.
	Check(prefix string) []error
	// Database returns the database that the URL names; "" where a server has only one, or if the URL
	// cannot be parsed, which Open reports.
	Database() string

	// Open opens the store. It calls replaced if another database has got the name of the store's;
	// replaced may be nil.
	Open(ctx context.Context, c Common, replaced func()) (Store, error)
	// Serve returns the protocol that serves clients through an open store.
	Serve(s Service) Protocol
	// OpenAuthorizer opens the store for an operator who says who may claim what.
	OpenAuthorizer(ctx context.Context, c Common) (Authorizer, error)
	// Install prepares the store, and returns what the server did not let it do, one text each; Script
	// returns the commands that Install runs, to be printed.
	Install(ctx context.Context) (warnings []string, err error)
	Script() (string, error)
	// Image returns a text that changes if Install changes anything.
	Image(ctx context.Context) (string, error)
	// Uninstall removes from the store what Install made, and says what that is. An error, or a reason
	// in Removal.Blocked, means that nothing was changed, unless the error says that something is
	// left.
	Uninstall(ctx context.Context, o marks.Removing) (marks.Removal, error)
}

// Databases is an Upstream whose server has several databases, each a store.
type Databases interface {
	Upstream
	// Home returns the settings for the database that is served all the time.
	Home() Upstream
	// In returns the settings for a database of the server.
	In(database string) Upstream
	// Named returns the databases that the settings name; none if every one may be served.
	Named() []string
	// All returns every database of the server.
	All(ctx context.Context) ([]string, error)
	// Installed returns the databases that have the schema, and those of which that cannot be said.
	// It leaves out databases that do not let the guard in, which it cannot serve either.
	Installed(ctx context.Context) ([]string, error)
}

// Endpoints are the settings that a server of every protocol has.
type Endpoints struct {
	Listen   string       `env:"LISTEN" use:"serving"`
	Upstream settings.URL `env:"UPSTREAM"`
}

// Addresses implements Upstream.
func (e *Endpoints) Addresses() (listen string, server settings.URL) { return e.Listen, e.Upstream }

// Common is what all servers of a guard have in common.
type Common struct {
	Timeouts     keepalive.Timeouts
	LoginTimeout time.Duration
	IdleTimeout  time.Duration
	Resources    []fence.Resource // the only ones that clients may name; any when empty
	TLS          TLS
	Coordinated  bool // a coordinator knows who leads

	// Primary is called when another of several servers is the primary; may be nil, must not block.
	Primary func(address string)
}

// Service is what a protocol serves clients with.
type Service struct {
	Common
	Opened
	Name  string // of the server, for logs and metrics
	Audit *Audit
	// Another opens another database of the same server.
	Another func(name string) (Opened, error)
}

// Opened is an open store with its admission.
type Opened struct {
	Store     Store
	Admission *marks.Admission
	Closing   func() // called before the Store is closed
}

// Store is a store with the operations of an operator.
type Store interface {
	marks.Store
	marks.Admin
	Probe(ctx context.Context) error
	Close()
}

// Authorizer is a marks.Authorizer with a connection.
type Authorizer interface {
	marks.Authorizer
	Close()
}
