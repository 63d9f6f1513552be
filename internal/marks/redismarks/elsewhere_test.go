package redismarks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// coordinatedServers starts servers, of which the first is the primary of the second, and so on.
func coordinatedServers(t *testing.T, n int) (all []*bench) {
	t.Helper()
	for i := range n {
		server := serverstest.Redis(t, servers.RedisOptions{})
		if i == 0 {
			open(t, server)
		}
		all = append(all, openWith(t, server, redismarks.Options{Coordinated: true}))
		if i > 0 {
			all[i].follow(t, all[i-1].server)
		}
	}
	return all
}

// takesOver promotes the server when it has the records of the other one. What a failover loses no
// raise can know.
func (b *bench) takesOver(t *testing.T, from *bench) {
	t.Helper()
	records := func(b *bench) string {
		return fmt.Sprint(b.admin.HGetAll(t.Context(), "ringfence:orders").Val())
	}
	want := records(from)
	if !poll.Until(patience, func() bool { return records(b) == want }) {
		t.Fatalf("the replica has %s, want %s", records(b), want)
	}
	b.promote(t)
}

// raised raises the mark of orders, and returns what it was.
func (b *bench) raised(t *testing.T, token fence.Token) marks.Mark {
	t.Helper()
	c := claim(token)
	before, err := b.store.Raise(t.Context(), marks.SessionID{}, c, agreed(c))
	must.Succeed(t, err)
	return before
}

// writesNothing fails the test unless the connection was ended.
func (c *conn) writesNothing(t *testing.T) {
	t.Helper()
	if err := c.Write(t.Context(), "deposed"); err == nil {
		t.Error("the older leader can still write")
	}
}

// After a failover the former primary is a replica, and its clients are still connected. A raise
// ends them there, so they write nothing when it is promoted again. No guard runs at that server.
func TestARaiseEndsTheOlderSessionsOnAFormerPrimary(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 2)
	p, r := all[0], all[1]
	old := p.admit(t, trusting{}, 5)
	r.takesOver(t, p)
	p.follow(t, r.server)
	if left := r.raised(t, 6).Left; left != "" {
		t.Errorf("left: %s", left)
	}
	p.promote(t)
	old.writesNothing(t)
}

func TestARaiseEndsTheOlderSessionsOnAReplicaOfAReplica(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 3)
	old := all[0].admit(t, trusting{}, 5)
	all[2].takesOver(t, all[0])
	all[1].follow(t, all[2].server)
	all[0].follow(t, all[1].server)
	if left := all[2].raised(t, 6).Left; left != "" {
		t.Errorf("left: %s", left)
	}
	all[0].promote(t)
	old.writesNothing(t)
}

// The other way round: the newer leader's sessions are older ones when the servers change back.
func TestARaiseEndsTheSessionsOfTheServerThatWasPromotedInBetween(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 2)
	p, r := all[0], all[1]
	p.admit(t, trusting{}, 5)
	r.takesOver(t, p)
	between := r.admit(t, trusting{}, 6)
	p.follow(t, r.server)
	p.takesOver(t, r)
	r.follow(t, p.server)
	if left := p.raised(t, 7).Left; left != "" {
		t.Errorf("left: %s", left)
	}
	r.takesOver(t, p)
	between.writesNothing(t)
}

// The former primary is no replica: it is still a primary, it hangs, or it is gone. The newer
// leader is admitted all the same, and the mark before says what is left.
func TestARaiseNamesTheServerThatItDoesNotReach(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(p, r *bench) error{
		"a primary of its own": func(*bench, *bench) error { return nil },
		"killed":               func(p, _ *bench) error { return p.server.Kill() },
		"hangs": func(p, r *bench) error {
			p.follow(t, r.server)
			return p.server.Pause()
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := coordinatedServers(t, 2)
			p, r := all[0], all[1]
			old := p.admit(t, trusting{}, 5)
			r.takesOver(t, p)
			must.Succeed(t, lose(p, r))
			left := r.raised(t, 6).Left
			if !strings.Contains(left, old.s.Run) {
				t.Errorf("left: %q, want run %s", left, old.s.Run)
			}
			if name == "hangs" {
				_ = p.server.Resume()
			}
		})
	}
}

// A session that is under the same token is an older one, too: it is at another server.
func TestARaiseThatConfirmsEndsSessionsElsewhere(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 2)
	p, r := all[0], all[1]
	old := p.admit(t, trusting{}, 5)
	r.takesOver(t, p)
	p.follow(t, r.server)
	r.raised(t, 5)
	p.promote(t)
	old.writesNothing(t)
}

// records returns the kept records of sessions that no raise has reached, and lets the next raise
// try again at once.
func (b *bench) records(t *testing.T) map[string]string {
	t.Helper()
	all := b.admin.HGetAll(t.Context(), "ringfence:.left").Val()
	delete(all, "tried")
	if len(all) > 0 {
		b.do(t, "HSET", "ringfence:.left", "tried", 0)
	}
	return all
}

// The server of an older session hangs during a raise. The session ends with the next raise that
// reaches it, also with that of another resource.
func TestARaiseEndsTheSessionsThatEarlierOnesDidNotReach(t *testing.T) {
	t.Parallel()
	for _, resource := range []fence.Resource{"orders", "invoices"} {
		t.Run(string(resource), func(t *testing.T) {
			all := coordinatedServers(t, 2)
			p, r := all[0], all[1]
			old := p.admit(t, trusting{}, 5)
			r.takesOver(t, p)
			p.follow(t, r.server)
			must.Succeed(t, p.server.Pause())
			if left := r.raised(t, 6).Left; !strings.Contains(left, old.s.Run) {
				t.Errorf("left: %q, want run %s", left, old.s.Run)
			}
			must.Succeed(t, p.server.Resume())
			if got := r.records(t); len(got) != 1 {
				t.Errorf("the records are %v", got)
			}
			c := fence.Claim{Resource: resource, Token: 7, Issuer: claim(7).Issuer, Holder: "newer"}
			before, err := r.store.Raise(t.Context(), marks.SessionID{}, c, agreed(c))
			if err != nil || before.Left != "" {
				t.Fatalf("left: %q, %v", before.Left, err)
			}
			if got := r.records(t); len(got) != 0 {
				t.Errorf("the records are still %v", got)
			}
			p.promote(t)
			old.writesNothing(t)
		})
	}
}

// A server that never comes back is named once, and its records are dropped after a week.
func TestARecordOfAServerThatIsGoneIsKeptForAWeek(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 2)
	p, r := all[0], all[1]
	old := p.admit(t, trusting{}, 5)
	r.takesOver(t, p)
	must.Succeed(t, p.server.Kill())
	r.raised(t, 6)
	record := fmt.Sprintf("%s:%d", old.s.Run, old.s.ID)
	for token, age := range []time.Duration{6 * 24 * time.Hour, 8 * 24 * time.Hour} {
		if got := r.records(t); len(got) != 1 || got[record] == "" {
			t.Fatalf("the records are %v, want %s", got, record)
		}
		r.do(t, "HSET", "ringfence:.left", record, time.Now().Add(-age).Unix())
		if left := r.raised(t, fence.Token(7+token)).Left; left != "" {
			t.Errorf("left is named again: %s", left)
		}
	}
	if n := r.admin.Exists(t.Context(), "ringfence:.left").Val(); n != 0 {
		t.Errorf("the records are still %v", r.records(t))
	}
}

func TestNoMoreThanAThousandRecordsAreKept(t *testing.T) {
	t.Parallel()
	all := coordinatedServers(t, 2)
	p, r := all[0], all[1]
	p.admit(t, trusting{}, 5)
	r.takesOver(t, p)
	full := []any{"HSET", "ringfence:.left"}
	for id := range 1000 {
		full = append(full, fmt.Sprintf("abc:%d", id), time.Now().Unix())
	}
	r.do(t, full...)
	if left := r.raised(t, 6).Left; left == "" {
		t.Error("the server that was not reached is not named")
	}
	if got := r.records(t); len(got) != 1000 {
		t.Errorf("there are %d records", len(got))
	}
}
