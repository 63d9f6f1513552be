package local

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

// probes check for each kind of process whether it answers now.
func probes(s *System, h *heard) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"postgres": func(ctx context.Context) error {
			c, err := pgx.Connect(ctx, s.Addresses().Postgres)
			if err != nil {
				return err
			}
			return c.Close(ctx)
		},
		"redis": func(ctx context.Context) error {
			o, err := driver.ParseURL(s.Addresses().Redis)
			if err != nil {
				return err
			}
			o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
			db := driver.NewClient(o)
			defer db.Close()
			return db.Ping(ctx).Err()
		},
		"zookeeper-1": func(ctx context.Context) error {
			if !(system.Server{Address: s.elects.(zooKeeper).Nodes[0].Addr()}).Leads(ctx) {
				return errors.New("no answer")
			}
			return nil
		},
		"guard-1": func(ctx context.Context) error {
			return ready(ctx, "http://"+s.guards["guard-1"].http+"/livez")
		},
		"worker-1": func(ctx context.Context) error {
			for from := history.Now(); !h.ticked("worker-1", from); {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
			return nil
		},
	}
}

func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// subject is a process that is hit.
type subject struct {
	t     *testing.T
	s     *System
	name  string
	probe func(context.Context) error
}

func (u *subject) answers(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), limit)
	defer cancel()
	return u.probe(ctx)
}

func (u *subject) up(when string) {
	u.t.Helper()
	var err error
	end := time.Now().Add(30 * time.Second)
	for ; time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = u.answers(20 * time.Second); err == nil {
			return
		}
	}
	u.t.Errorf("%s does not answer %s: %v", u.name, when, err)
}

func (u *subject) down(when string) {
	u.t.Helper()
	if err := u.answers(500 * time.Millisecond); err == nil {
		u.t.Errorf("%s answers %s", u.name, when)
	}
}

func (u *subject) must(do func(context.Context, string) error) {
	u.t.Helper()
	must.Succeed(u.t, do(limited(u.t), u.name))
}

func (u *subject) signal(sig syscall.Signal) func(context.Context, string) error {
	return func(ctx context.Context, name string) error { return u.s.Signal(ctx, name, sig) }
}

// hit does everything to the process in turn.
func (u *subject) hit() {
	u.t.Helper()
	u.up("at first")
	u.must(u.s.Pause)
	u.down("while it is paused")
	u.must(u.s.Resume)
	u.up("after it was resumed")
	u.must(u.signal(syscall.SIGSTOP))
	if u.name != "postgres" { // its backends continue
		eventually(u.t, u.name+" is stopped", func() bool { // a signal takes time
			return u.answers(300*time.Millisecond) != nil
		})
	}
	u.must(u.signal(syscall.SIGCONT))
	u.up("after it was continued")
	u.must(u.s.Pause)
	u.must(u.s.Kill)
	u.down("after it was killed")
	if err := u.s.Signal(limited(u.t), u.name, syscall.SIGCONT); err == nil {
		u.t.Errorf("%s is gone and takes a signal", u.name)
	}
	u.must(u.s.Start)
	u.up("after it was started again")
}

func TestEachKindOfProcessCanBePausedAndKilled(t *testing.T) {
	s, h := built(t, nil)
	must.Succeed(t, s.Start(limited(t), "worker-1"))
	for name, probe := range probes(s, h) {
		u := &subject{t, s, name, probe}
		u.hit()
		defer u.must(s.Pause) // Close also ends paused processes
	}
	if ended := h.texts("worker-1", history.Ended); len(ended) > 0 {
		t.Errorf("the lab has killed it, but the note says %v", ended)
	}
}

func TestUnknownNamesAreErrors(t *testing.T) {
	s, _ := built(t, nil)
	if err := s.Kill(t.Context(), "worker-9"); err == nil ||
		!strings.Contains(err.Error(), "guard-1") {
		t.Error(err)
	}
	if err := s.Shape(t.Context(), "guard-1", "journal", system.Shape{}); err == nil {
		t.Error("a missing link was shaped")
	}
}
