package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// raiser is a store that only says whether it was asked.
type raiser func(context.Context, fence.Claim) error

// Raise implements fence.Raiser.
func (r raiser) Raise(ctx context.Context, c fence.Claim) error { return r(ctx, c) }

// served is an agent on a Unix socket, and its coordinator.
type served struct {
	t      *testing.T
	agent  *Agent
	path   string
	client http.Client
	other  elector.Coordinator // of another process
	stop   func()
}

func serve(t *testing.T, all ...fence.Raiser) *served {
	t.Helper()
	m := fencetest.NewMemory(10 * time.Second)
	c, other := m.Open(), m.Open()
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	s := &served{t: t, path: path, other: other, agent: &Agent{
		Coordinator: c, Holder: "test", Stores: all, Table: stores.All, Raise: time.Minute,
		Session: 10 * time.Second, Log: log,
	}}
	s.client.Transport = &http.Transport{DialContext: func(
		ctx context.Context, _, _ string,
	) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() {
		stopped <- webpage.Server{
			Handler: s.agent.Handler(), Answer: time.Minute, Grace: 10 * time.Second,
			Connections: MaxStreams, Keeps: true, Connected: Connected,
		}.Serve(ctx, l)
	}()
	s.stop = sync.OnceFunc(func() {
		s.agent.Close()
		cancel()
		must.Report(t, <-stopped)
	})
	t.Cleanup(func() {
		s.stop()
		s.client.CloseIdleConnections()
		_, _ = c.Close(), other.Close()
	})
	return s
}

// ask sends a request. The caller closes the body.
func (s *served) ask(ctx context.Context, method, path, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, strings.NewReader(body))
	must.Succeed(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := s.client.Do(r)
	must.Succeed(s.t, err)
	return got
}

// stream is a client's.
type reading struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// stands stands for election.
func (s *served) stands(body string) *reading {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	got := s.ask(ctx, "POST", "/v1/terms", body)
	r := &reading{s.t, bufio.NewScanner(got.Body), func() { cancel(); got.Body.Close() }}
	s.t.Cleanup(r.close)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%s: %v", got.Status, got.Header)
	}
	return r
}

// next returns the next event.
func (r *reading) next() Event {
	r.t.Helper()
	var e Event
	if !r.lines.Scan() {
		r.t.Fatalf("the stream has ended: %v", r.lines.Err())
	}
	must.Succeed(r.t, json.Unmarshal(r.lines.Bytes(), &e))
	return e
}

// until returns the next event of this kind.
func (r *reading) until(what What) Event {
	r.t.Helper()
	for {
		switch e := r.next(); e.Event {
		case what:
			return e
		case Lost:
			r.t.Fatalf("lost before %s: %+v", what, e)
		}
	}
}

// ends checks that the term is lost by this cause, and that the stream ends then.
func (r *reading) ends(why Cause) {
	r.t.Helper()
	if e := r.next(); e.Event != Lost || e.Cause != why ||
		e.Final != (why == Refused || why == Resigned) || e.Error == "" {
		r.t.Errorf("got %+v, want the term lost: %s", e, why)
	}
	if r.lines.Scan() || r.lines.Err() != nil {
		r.t.Errorf("after the end: %q, %v", r.lines.Text(), r.lines.Err())
	}
}

// led waits until a holder leads, or nobody.
func (s *served) led(holder string) {
	s.t.Helper()
	stop := errors.New("seen")
	err := s.other.Watch(s.t.Context(), "orders", func(all []elector.Candidate) error {
		if len(all) == 0 && holder == "" || len(all) > 0 && all[0].Holder == holder {
			return stop
		}
		return nil
	})
	if err != stop {
		s.t.Fatal(err)
	}
}
