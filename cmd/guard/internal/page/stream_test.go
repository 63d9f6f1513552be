package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// pipes is a listener whose connections have no buffer, so a client that does not read blocks the
// server at once.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// served is a running page in a bubble of synctest.
type served struct {
	t      *testing.T
	page   *Page
	notify func(marks.Event)
	at     *pipes
	reads  atomic.Int64
	stop   func() // ends the page and waits for it
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, page: New(Options{Guard: "guard-1"}), at: &pipes{
		conns: make(chan net.Conn), closed: make(chan struct{}),
	}}
	store := empty("postgres")
	store.Marks = func(context.Context) ([]marks.Mark, error) {
		s.reads.Add(1)
		return nil, nil
	}
	s.notify, _ = s.page.Watch(store)
	mux := http.NewServeMux()
	s.page.Register(mux)
	server := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(s.at) })
	running.Go(func() { s.page.Run(ctx) })
	s.stop = sync.OnceFunc(func() {
		cancel()
		s.page.streams.Close()
		_ = server.Close()
		running.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// ask sends a request for the stream. The caller reads the answer.
func (s *served) ask() net.Conn {
	s.t.Helper()
	client, server := net.Pipe()
	s.at.conns <- server
	s.t.Cleanup(func() { _ = client.Close() })
	_, err := io.WriteString(client, "GET /events HTTP/1.1\r\nHost: guard\r\n\r\n")
	must.Succeed(s.t, err)
	return client
}

// stream opens a stream and returns its answer.
func (s *served) stream() *http.Response {
	s.t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(s.ask()), nil)
	must.Succeed(s.t, err)
	return answer
}

// messages reads states from a stream, each with the time at which it came.
func messages(answer *http.Response) func() (State, time.Time, error) {
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() (state State, at time.Time, err error) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return state, time.Now(), json.Unmarshal([]byte(data), &state)
			}
		}
		return state, time.Now(), errors.Join(lines.Err(), io.EOF)
	}
}

func TestAStreamSendsChangesAtMostOnceASecondAndAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		answer := s.stream()
		if answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v", answer.Header)
		}
		next := messages(answer)
		for read := false; !read; { // the first state may be older than the first read of the marks
			state, _, err := next()
			must.Succeed(t, err)
			read = !state.Stores[0].Read.IsZero()
		}
		begin := time.Now()
		after := func(want time.Duration, token string) {
			t.Helper()
			state, at, err := next()
			if err != nil || at.Sub(begin) != want {
				t.Fatalf("a message after %v, want %v; %v", at.Sub(begin), want, err)
			}
			if len(state.Resources) != 1 || state.Resources[0].Marks[0].Token.String() != token {
				t.Errorf("after %v: %+v, want token %s", want, state.Resources, token)
			}
		}
		for token := range 50 {
			s.notify(marks.Event{Kind: marks.Raised, Claim: claim("orders", fence.Token(token+1))})
		}
		after(webpage.Pace, "50")
		after(webpage.Pace+webpage.Heartbeat, "50")
		s.stop()
	})
}

func TestMarksAreReadOnlyWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		time.Sleep(time.Hour) // of the bubble's clock
		if n := s.reads.Load(); n != 0 {
			t.Errorf("%d reads before anybody looked", n)
		}
		answer := s.stream()
		go func() { _, _ = io.Copy(io.Discard, answer.Body) }()
		time.Sleep(time.Minute)
		seen := s.reads.Load()
		if seen < 25 || seen > 31 {
			t.Errorf("%d reads in a minute, want about 30", seen)
		}
	})
}

func TestAReadThatTakesLongIsFollowedByALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		p := New(Options{Guard: "guard-1"})
		p.Watch(guard.Source{Marks: func(context.Context) ([]marks.Mark, error) {
			reads++
			time.Sleep(time.Second)
			return nil, nil
		}})
		p.streams.Begin("", func() {})
		p.keepReading(ctx, p.stores[0].opened, func(ctx context.Context) error {
			return p.read(ctx, p.stores[0])
		})
		if want := 10 * 60 / (restFor + 1); reads < want || reads > want+2 {
			t.Errorf("%d reads of a second each in ten minutes, want %d", reads, want)
		}
	})
}

// The coordinator stood still, and answers or does not; then all is well again.
func TestAfterOneSlowReadThePageIsCurrentSoon(t *testing.T) {
	for name, answer := range map[string]error{"late": nil, "none": errors.New("no answer")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				p := New(Options{Guard: "guard-1"})
				p.streams.Begin("", func() {})
				reads := 0
				p.keepReading(ctx, nil, func(context.Context) error {
					if reads++; reads == 2 {
						time.Sleep(5 * time.Second)
						return answer
					}
					return nil
				})
				if reads < 3 {
					t.Errorf("%d reads", reads)
				}
			})
		})
	}
}

func TestAReaderThatTakesNothingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.ask()
		synctest.Wait()
		if s.page.streams.Open() != 1 {
			t.Fatal("there is no stream")
		}
		time.Sleep(webpage.Patience + time.Millisecond)
		synctest.Wait()
		if n := s.page.streams.Open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
	})
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		var first net.Conn
		for i := range webpage.MaxStreams {
			c := s.ask()
			if i == 0 {
				first = c
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
		synctest.Wait()
		if a := s.stream(); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("one stream too many: %s", a.Status)
		}
		_ = first.Close()
		synctest.Wait()
		if a := s.stream(); a.StatusCode != http.StatusOK {
			t.Errorf("a stream has ended, but another one gets %s", a.Status)
		}
	})
}

func TestStreamsEndWithThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		next := messages(s.stream())
		if _, _, err := next(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.stop()
		for {
			if _, _, err := next(); err != nil {
				break
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the stream ended after %v", took)
		}
	})
}

func TestEveryAnswerForbidsTheBrowserToLoadAnythingElse(t *testing.T) {
	p, _, _ := fresh()
	p.streams.Close() // so that /events answers at once
	mux := http.NewServeMux()
	p.Register(mux)
	for path, kind := range map[string]string{
		"/": "text/html", "/page.css": "text/css", "/page.js": "javascript",
		"/health.js": "javascript", "/lanes.js": "javascript", "/tokens.js": "javascript",
		"/live.js": "javascript", "/status.css": "text/css", "/icon.svg": "image/svg+xml",
		"/events": "text/plain",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/files/page.html", "/page.html", "/../doc.go"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}

func TestAStoreComesAndGoesWhileThePageIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		next := messages(s.stream())
		until := func(stores int, is func(State) bool) {
			t.Helper()
			for {
				state, _, err := next()
				must.Succeed(t, err)
				if len(state.Stores) == stores && is(state) {
					return
				}
			}
		}
		var reads atomic.Int64
		store := empty("postgres")
		store.Database = "crm"
		store.Marks = func(context.Context) ([]marks.Mark, error) {
			reads.Add(1)
			return many(1), nil
		}
		hear, unwatch := s.page.Watch(store)
		hear(marks.Event{Kind: marks.Raised, Claim: claim("orders", 5)})
		until(2, func(state State) bool {
			return state.Stores[1].Database == "crm" && state.Stores[1].Marks == 1 &&
				len(state.Resources) == 2 &&
				state.Resources[0].Marks[0].Database == "crm"
		})
		unwatch()
		until(1, func(state State) bool { return len(state.Resources) == 0 })
		synctest.Wait()
		before := reads.Load()
		time.Sleep(time.Minute) // of the bubble
		if n := reads.Load(); n != before {
			t.Errorf("a store that has gone was read %d times", n-before)
		}
		hear(marks.Event{Kind: marks.Raised, Claim: claim("orders", 6)}) // of a session that is late
	})
}
