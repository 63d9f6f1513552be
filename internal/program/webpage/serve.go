package webpage

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/clienthost"
)

// Limits of connections. They are open files, which sessions of databases need, too.
const (
	MaxConnections = 256

	maxHeader   = 5 * time.Second  // for the header of a request
	maxRequest  = 10 * time.Second // for all of a request
	maxIdle     = time.Minute      // between two requests
	headerBytes = 64 << 10
)

// Server serves pages and APIs.
type Server struct {
	Handler http.Handler
	Answer  time.Duration // the longest time for an answer; streams set their own
	Grace   time.Duration // how long requests may go on at the end
	Log     *slog.Logger  // of handshakes that fail, and of panics; nil for the default of package http
}

// Serve serves until ctx ends.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	open := connections{places: slots{max: MaxConnections, renews: true}}
	server := &http.Server{
		Handler: s.Handler, ConnState: open.changed, MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: maxHeader, ReadTimeout: maxRequest, WriteTimeout: s.Answer, IdleTimeout: maxIdle,
	}
	if s.Log != nil {
		server.ErrorLog = slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)
	}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if !unhook() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// connections are those of a server.
type connections struct {
	places slots

	mu   sync.Mutex
	open map[net.Conn]*slot
}

// changed implements http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		taken := c.places.take(clienthost.Of(conn.RemoteAddr().String()), func() { _ = conn.Close() })
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = map[net.Conn]*slot{}
		}
		c.open[conn] = taken
	case http.StateClosed:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.places.leave(c.open[conn])
		delete(c.open, conn)
	}
}
