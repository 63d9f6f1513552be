package redisjournal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// as creates the user of a rule and opens a journal as this user.
func (b *bench) as(t *testing.T, rule string, o redisjournal.Options) *redisjournal.Journal {
	t.Helper()
	words := strings.Fields(rule)
	b.acl(t, rule)
	j, err := redisjournal.Open(t.Context(), fmt.Sprintf("redis://%s:secret@%s/0", words[2], b.Addr()),
		o)
	must.Succeed(t, err)
	t.Cleanup(j.Close)
	return j
}

func (b *bench) acl(t *testing.T, rule string) {
	t.Helper()
	var args []any
	for _, word := range strings.Fields(rule) {
		args = append(args, word)
	}
	b.do(t, args...)
}

// The journal's user can do everything that a journal does except raise the mark. It can write
// neither marks nor the audit.
func TestAJournalNeedsNoMoreThanItsACL(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		b := newBench(t, server)
		b.acl(t, redismarks.ACL("keeper", "secret"))
		keeper := redismarks.Raiser{URL: fmt.Sprintf("redis://keeper:secret@%s/0", b.Addr()),
			Authority: trusting{}}
		o := redisjournal.Options{Raiser: keeper, Poll: time.Hour}
		j := b.as(t, redisjournal.ACL("app", "secret"), o)
		return checkpointtest.Fixture{
			Journal: j, Second: b.as(t, redisjournal.ACL("app", "secret"), o), Limit: 1 << 20,
			Lead: func(t testing.TB, r fence.Resource) fence.Claim { return b.lead(t, j, r) },
		}
	})
	b := newBench(t, server)
	b.acl(t, redisjournal.ACL("app", "secret"))
	for _, forbidden := range []string{"HSET ringfence schema 9", "HSET ringfence:orders token 1",
		"HSET ringfence:.audit a b", "SADD other x", "PUBLISH other x"} {
		args := []any{"ACL", "DRYRUN", "app"}
		for _, word := range strings.Fields(forbidden) {
			args = append(args, word)
		}
		if b.do(t, args...) == "OK" {
			t.Errorf("the user may run %s", forbidden)
		}
	}
}

func TestAMissingRightIsASetupError(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	c := b.lead(t, b.journal(t, redisjournal.Options{}), "orders")
	for i, right := range []string{"info", "hmget", "evalsha", "sadd", "hset"} {
		b.acl(t, fmt.Sprint(redisjournal.ACL("app", "secret"), " -", right))
		j, err := redisjournal.Open(t.Context(), fmt.Sprintf("redis://app:secret@%s/0", b.Addr()),
			redisjournal.Options{})
		if err == nil {
			cp := version(1, c)
			cp.Task = checkpoint.Name(fmt.Sprint("task-", i))
			err = j.Publish(t.Context(), c, cp)
			j.Close()
		}
		if _, setup := errors.AsType[*fence.SetupError](err); !setup {
			t.Errorf("without %s: %v", right, err)
		}
	}
	if all, err := b.journal(t, redisjournal.Options{}).Load(t.Context()); len(all) != 0 ||
		err != nil {
		t.Errorf("stored: %+v, %v", all, err)
	}
}

// A user that was made before there was Forget has neither right.
func TestAForgetWithoutARightChangesNothing(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	publish(t, j, c, 1)
	for _, right := range []string{"del", "srem"} {
		mute := b.as(t, fmt.Sprint(redisjournal.ACL("app", "secret"), " -", right),
			redisjournal.Options{})
		err := mute.Forget(t.Context(), c, nightly)
		if _, setup := errors.AsType[*fence.SetupError](err); !setup {
			t.Errorf("without %s: %v", right, err)
		}
		if all, err := j.Load(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("without %s: stored are %+v, %v", right, all, err)
		}
	}
	b.acl(t, redisjournal.ACL("app", "secret"))
	must.Report(t, j.Forget(t.Context(), c, nightly))
	if n := b.do(t, "EXISTS", "ringfence:.checkpoint:nightly",
		"ringfence:.checkpoints"); n != int64(0) {
		t.Errorf("%v keys are left", n)
	}
}

// newGuard starts a guard in front of the server.
func (b *bench) newGuard(t *testing.T) (url string) {
	t.Helper()
	s, err := redismarks.Open(t.Context(), b.URL(), redismarks.Options{})
	must.Succeed(t, err)
	p := redisguard.New(redisguard.Options{Store: s,
		Admission: &marks.Admission{Store: s, Authority: marks.Unverified{}}})
	t.Cleanup(p.Close)
	return "redis://" + guardtest.Serve(t, p) + "/0"
}

// The guard raises the mark and ends the session of the older leader; then the journal writes
// directly to Redis.
func TestAGuardRaisesTheMarkOfAJournal(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	url := b.newGuard(t)
	j := b.as(t, redisjournal.ACL("app", "secret"),
		redisjournal.Options{Raiser: redismarks.NewRaiser(url)})
	old := b.lead(t, j, "orders")
	publish(t, j, old, 1)
	fresh := b.lead(t, j, "orders")
	if err := j.Publish(t.Context(), old, version(2, old)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the older leader: %v", err)
	}
	publish(t, j, fresh, 2)

	through, err := redisjournal.Open(t.Context(), url, redisjournal.Options{})
	if err == nil {
		defer through.Close()
		err = through.Publish(t.Context(), fresh, version(3, fresh))
	}
	if _, setup := errors.AsType[*fence.SetupError](err); !setup {
		t.Errorf("a journal at the guard's address: %v", err)
	}
}
