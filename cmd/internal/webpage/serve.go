package webpage

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/clienthost"
	"github.com/ringfence/ringfence/internal/network/tally"
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
	// of handshakes that fail, and of panics; nil for the default of package http
	Log *slog.Logger

	// Connected may add a connection to the context of its requests; it is http.Server.ConnContext.
	Connected func(context.Context, net.Conn) context.Context

	// Connections is how many may be open; MaxConnections when zero. A new one gets the place of
	// another client's, unless Keeps is set: then it is closed.
	Connections int
	Keeps       bool
}

// Serve serves until ctx ends.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	open := connections{
		places: slots{max: cmp.Or(s.Connections, MaxConnections), renews: !s.Keeps}, keeps: s.Keeps,
	}
	server := &http.Server{
		Handler: s.Handler, ConnState: open.changed, ConnContext: s.Connected,
		MaxHeaderBytes:    headerBytes,
		ReadHeaderTimeout: maxHeader, ReadTimeout: maxRequest, WriteTimeout: s.Answer,
		IdleTimeout: maxIdle,
	}
	if s.Log != nil {
		failed := tally.NewLog(s.Log)
		defer failed.Close()
		server.ErrorLog = log.New(failed, "", 0)
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
	keeps  bool

	mu   sync.Mutex
	open map[net.Conn]*slot
}

// changed implements http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		client := ""
		if !c.keeps { // with one name for all of them, none has more than its share
			client = clienthost.Of(conn.RemoteAddr().String())
		}
		taken := c.places.acquire(client, func() { _ = conn.Close() })
		if taken == nil {
			_ = conn.Close()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = map[net.Conn]*slot{}
		}
		c.open[conn] = taken
	case http.StateClosed:
		c.mu.Lock()
		defer c.mu.Unlock()
		if taken := c.open[conn]; taken != nil {
			c.places.release(taken)
			delete(c.open, conn)
		}
	}
}
