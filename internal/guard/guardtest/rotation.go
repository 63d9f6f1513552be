package guardtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

// Rotation is a load on a guard whose own password changes again and again.
type Rotation struct {
	File string // that the guard reads

	Server func(password string) // has the server accept this password and no other
	// ends the guard's connections, so it has to log in again
	Break func()
	Open  func(context.Context, *testing.T) error // opens a session through the guard, and ends it
}

// NewRotation makes the file, with the first password.
func NewRotation(t *testing.T) *Rotation {
	r := &Rotation{File: filepath.Join(t.TempDir(), "password")}
	r.write(t, Password(0))
	return r
}

// Password is the nth password.
func Password(n int) string { return fmt.Sprintf("s3cret-%d", n) }

// URL adds the file to a URL.
func (r *Rotation) URL(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Set("password_file", r.File)
	u.RawQuery = q.Encode()
	return u.String()
}

// patience is how long an admission may take on a busy machine.
const patience = time.Minute

// Run changes file and server one after the other, under load, and fails if a session is not let
// in. RINGFENCE_ROTATION is the time between two changes, and RINGFENCE_ROTATIONS is how many there
// are.
func (r *Rotation) Run(t *testing.T, first int, serverFirst bool) {
	period, times := time.Second, 5
	if d, err := time.ParseDuration(os.Getenv("RINGFENCE_ROTATION")); err == nil {
		period = d
	}
	if n, err := strconv.Atoi(os.Getenv("RINGFENCE_ROTATIONS")); err == nil {
		times = n
	}
	l := &openings{}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() { l.load(ctx, t, r.Open) })
	}
	for n := range times {
		before, gap := l.count(), min(period/4, 2*time.Second)
		r.change(t, Password(first+n), serverFirst)
		r.Break()
		time.Sleep(gap) // what the two are apart
		r.change(t, Password(first+n), !serverFirst)
		time.Sleep(period - gap)
		for deadline := time.Now().Add(patience); l.count() == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("nobody was let in within %s of a change", patience)
			}
		}
	}
	stop()
	clients.Wait()
	t.Logf("%d changes, one each %s: %d sessions admitted, %d not; the longest wait was %s", times,
		period,
		l.admitted, len(l.failed), l.longest.Round(time.Millisecond))
	for _, err := range l.failed[:min(len(l.failed), 5)] {
		t.Errorf("a session was not admitted: %v", err)
	}
}

func (r *Rotation) change(t *testing.T, password string, server bool) {
	if server {
		r.Server(password)
	} else {
		r.write(t, password)
	}
}

// write replaces the file.
func (r *Rotation) write(t *testing.T, password string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(r.File+".new", []byte(password+"\n"), 0o600))
	must.Succeed(t, os.Rename(r.File+".new", r.File))
}

// openings counts the sessions of a load.
type openings struct {
	mu       sync.Mutex
	admitted int
	failed   []error
	longest  time.Duration
}

func (l *openings) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admitted
}

// load opens sessions until ctx ends.
func (l *openings) load(
	ctx context.Context, t *testing.T, open func(context.Context, *testing.T) error,
) {
	for ctx.Err() == nil {
		begin := time.Now()
		err := open(context.WithoutCancel(ctx), t)
		l.mu.Lock()
		if err == nil {
			l.admitted++
		} else {
			l.failed = append(l.failed, err)
		}
		l.longest = max(l.longest, time.Since(begin))
		l.mu.Unlock()
	}
}
