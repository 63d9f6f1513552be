package ways

import (
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
)

// The names of the ways.
const (
	Direct    = report.Direct
	Session   = "direct session" // which the database itself admits (docs/direct.md)
	Guard     = "guard"
	PgBouncer = "pgbouncer"
	HAProxy   = "haproxy"
	Twemproxy = "twemproxy"
)

// Resource is the one that the sessions of a benchmark claim.
const Resource = "orders"

// Way is one way to a database.
type Way struct {
	Name string
	Addr string // host:port
	TLS  bool   // from the client to the proxy, and from there to the server

	Database string // of Postgres

	pid func() int // of the proxy; nil for direct
}

// CPU returns the CPU time that the proxy has used since it started, and false if there is no proxy
// or the system does not say.
func (w *Way) CPU() (time.Duration, bool) {
	if w.pid == nil {
		return 0, false
	}
	return cpuTime(w.pid())
}
