package serverstest

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// shared is a server that the first test starts and RunMain closes.
type shared[S server] struct {
	name  string
	start func(context.Context) (S, error)

	mu      sync.Mutex
	started bool
	server  S
	err     error
}

// sharedServers close the servers that all tests share.
var sharedServers []func() error

func newShared[S server](name string, start func(context.Context) (S, error)) *shared[S] {
	s := &shared[S]{name: "shared " + name, start: start}
	sharedServers = append(sharedServers, s.close)
	return s
}

func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	skipShort(t)
	server, err := s.serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logOnFailure(t, s.name, server) })
	return server
}

// serve starts the server unless it was started before. The end of ctx does not stop the start,
// because the server outlives the test. A failed start is not retried.
func (s *shared[S]) serve(ctx context.Context) (S, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		s.server, s.err = s.start(ctx)
	}
	return s.server, s.err
}

func (s *shared[S]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	return s.server.Close()
}

func closeShared() error {
	var all []error
	for _, end := range sharedServers {
		all = append(all, end())
	}
	return errors.Join(all...)
}
