package redismarks_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// The answer to a take may get lost. The caller repeats it, and deposes nobody, least of all
// itself.
func TestATakeThatIsRepeatedGivesTheSamePass(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 7)
		if again := p.take("worker-1", "007"); again != pass {
			t.Errorf("again: %q, then %q", pass, again)
		}
		must.Report(t, p.put(pass, "x"))
		next := p.take("worker-1", 8)
		if next == pass || !strings.HasPrefix(next, "orders 2 take 8:") {
			t.Errorf("the next attempt of the same holder: %q", next)
		}
		p.refused(p.put(pass, "late"), "STALETOKEN", "the attempt before")
	})
}

func TestAZombieThatStartsLateDeposesNobody(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		p.take("worker-1", 9)
		pass := p.take("worker-2", 10)
		for _, zombie := range [][]any{
			{"orders", "worker-1", 9},  // an attempt below
			{"orders", "worker-2", 9},  // of the same holder
			{"orders", "worker-1", 10}, // another holder has this attempt
		} {
			_, err := p.call("ringfence_take", zombie...)
			p.refused(err, "STALETOKEN", fmt.Sprint(zombie))
			if !strings.Contains(err.Error(), `"worker-2" has attempt 10`) {
				t.Error(err)
			}
		}
		if err := p.put(pass, "x"); err != nil {
			t.Errorf("the present attempt: %v", err)
		}
		// Without an attempt a take is a decree. It does not make attempts forgotten.
		decree := p.take("operator")
		if again := p.take("operator"); again != decree {
			t.Errorf("a decree that is repeated: %q, then %q", decree, again)
		}
		p.refused(p.put(pass, "late"), "STALETOKEN", "after a decree")
		for _, late := range []any{9, 10} {
			_, err := p.call("ringfence_take", "orders", "worker-2", late)
			p.refused(err, "STALETOKEN", fmt.Sprint("attempt ", late, " after a decree"))
		}
		p.take("worker-3", 11)
	})
}

// The older holder writes as fast as it can. After a take none of its writes succeeds.
func TestNoCommandOfADeposedHolderRuns(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		old := p.take("worker-1", 1)
		stopped := make(chan error, 1)
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			var err error
			for start := time.Now(); err == nil && time.Since(start) < time.Minute; {
				err = p.put(old, "old")
			}
			stopped <- err
		})
		until(t, "the older holder writes", func() bool {
			return b.admin.LLen(t.Context(), "written").Val() >= 50
		})
		must.Succeed(t, p.put(p.take("worker-2", 2), "new"))
		p.refused(<-stopped, "STALETOKEN", "the older holder")
		if list := b.written(t); list[len(list)-1] != "new" {
			t.Fatal("a deposed holder wrote after the next one")
		}
	})
}

func TestTokensAreCountedExactly(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-0")
	for i, at := range []string{"9", "99", "1099", "9007199254740992", "1152921504606846975",
		"1152921504606846999"} {
		b.do(t, "HSET", "ringfence:orders", "token", at)
		old := fmt.Sprintf("orders %s take %v", at, b.do(t, "HGET", "ringfence:orders", "candidate"))
		pass := p.take(fmt.Sprint("worker-", i+1))
		before, _ := fence.ParseToken(at)
		if want := fmt.Sprintf("orders %d take ", before+1); !strings.HasPrefix(pass, want) {
			t.Errorf("after %s: %q", at, pass)
		}
		p.refused(p.put(old, "x"), "STALETOKEN", at)
		must.Report(t, p.put(pass, "x"))
	}
}

// Scripts cannot end a connection. So what guards have led is never taken, nor the other way round.
func TestGuardsAndFunctionsKeepApart(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		session := b.admit(t, trusting{}, 5)
		take := func(why string) {
			t.Helper()
			_, err := p.call("ringfence_take", "orders", "worker-1", 1)
			p.refused(err, "ISSUER", why)
		}
		take("a session of a guard lives")
		if err := session.Write(t.Context(), "x"); err != nil {
			t.Errorf("the session: %v", err)
		}
		session.Close()
		take("no session lives")
		b.restart(t)
		p.loadScript()
		take("after a restart")
		b.do(t, "DEL", "ringfence:orders")
		take("Redis has lost the mark")

		_, err := p.call("ringfence_take", "stock", "worker-1", 1)
		must.Succeed(t, err)
		for _, name := range []fence.Issuer{"", "take"} {
			guard := b.admission(marks.Unverified{Name: name})
			for _, token := range []fence.Token{1, 9} { // the mark, and above it
				stock := fence.Claim{Resource: "stock", Token: token, Issuer: "take"}
				s := b.session(t)
				if err := guard.Admit(t.Context(), s.s, marks.Present(stock)); !errors.Is(err,
					fence.ErrOtherIssuer) {
					t.Errorf("a session under %d at a guard whose issuer is %q: %v", token, name, err)
				}
				s.Close()
				if err := guard.Raise(t.Context(), stock); !errors.Is(err, fence.ErrOtherIssuer) {
					t.Errorf("a raise to %d by a guard whose issuer is %q: %v", token, name, err)
				}
			}
		}
	})
}

// An adoption was interrupted before it had ended the sessions of a guard's resource. They live
// until the server ends, or somebody ends them.
func TestATakeForgetsNoSessionOfAGuard(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-1", 1)
	b.do(t, "HSET", "ringfence:orders", "session:77", 5)
	_, err := p.call("ringfence_take", "orders", "worker-2", 2)
	p.refused(err, "REVOKE", "a session is recorded")
	if !strings.Contains(err.Error(), "GUARD_COORDINATOR= GUARD_ISSUER=take guard adopt orders") {
		t.Errorf("nobody can do that: %v", err)
	}
	if _, err := b.store.Adopt(t.Context(), fence.Claim{
		Resource: "orders", Issuer: "take",
	}, "operator"); err != nil {
		t.Fatal(err)
	}
	p.take("worker-2", 2)
	b.do(t, "HSET", "ringfence:orders", "session:78", 5)
	b.restart(t)
	p.take("worker-3", 3)
}

// A pass can also name a token that a guard has raised. Then it waits for the sessions before it.
func TestNothingRunsWhileOlderSessionsMayLive(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	old := b.admit(t, trusting{}, 5)
	_, err := b.store.Raise(t.Context(), marks.SessionID{}, claim(6), agreed(claim(6)))
	must.Succeed(t, err)
	pass := fmt.Sprintf("orders 6 %s -", elector.Unverified)
	p.refused(p.put(pass, "x"), "REVOKE", "a session under an older token is recorded")
	_, err = b.store.Revoke(t.Context(), marks.SessionID{}, claim(6))
	must.Succeed(t, err)
	must.Report(t, p.put(pass, "x"))
	old.Close()
}

func TestANumberIsBroughtWhereTheOperatorAllowsIt(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		bring := func(token any, issuer string) (string, error) {
			pass, err := p.call("ringfence_bring", "orders", token, issuer, "worker-1")
			text, _ := pass.(string)
			return text, err
		}
		_, err := bring(45, "lock")
		p.refused(err, "NOTAUTHORIZED", "nobody has allowed it")
		b.allow(t, "ringfence_bring", "ord*")
		pass, err := bring(45, "lock")
		if err != nil || pass != "orders 45 bring:lock -" {
			t.Fatalf("%q, %v", pass, err)
		}
		if again, err := bring(45, "lock"); err != nil || again != pass {
			t.Errorf("again: %q, %v", again, err)
		}
		must.Report(t, p.put(pass, "a"))
		_, err = bring(44, "lock")
		p.refused(err, "STALETOKEN", "a lower number")
		_, err = bring(46, "another")
		p.refused(err, "ISSUER", "a number of another issuer")
		_, err = p.call("ringfence_take", "orders", "worker-1", 1)
		p.refused(err, "ISSUER", "a take of what is brought")
		higher, err := bring(int64(1<<60), "lock")
		must.Succeed(t, err)
		p.refused(p.put(pass, "late"), "STALETOKEN", "the number before")

		b.restart(t)
		p.loadScript()
		p.refused(p.put(higher, "unconfirmed"), "NOTRAISED", "after a restart")
		_, err = bring(int64(1<<60-1), "lock")
		p.refused(err, "STALETOKEN", "a lower number after a restart")
		if again, err := bring(int64(1<<60), "lock"); err != nil || again != higher ||
			p.put(higher, "b") != nil {
			t.Errorf("after a restart: %q, %v", again, err)
		}
		b.do(t, "DEL", "ringfence:orders")
		_, err = bring(int64(1<<60+1), "lock")
		p.refused(err, "INDOUBT", "the mark is lost")
		adopted := fence.Claim{Resource: "orders", Issuer: "bring:lock"}
		_, err = b.store.Adopt(t.Context(), adopted, "operator")
		must.Succeed(t, err)
		p.refused(p.put("orders 0 bring:lock -", "c"), "NOTRAISED", "the number that everybody knows")
		p.refused(p.put("stock 0 take -", "c"), "NOTRAISED", "the number that everybody knows, without "+
			"a mark")
		if _, err := bring(int64(1<<60), "lock"); err != nil {
			t.Errorf("after an adoption: %v", err)
		}
		if got := fmt.Sprint(b.written(t)); got != "[a b]" {
			t.Error(got)
		}
	})
}

// A script cannot learn who calls it. So the list has names for the functions.
func TestAuthorizationNamesTheFunctions(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		before := p.take("worker-1", 1)
		must.Succeed(t, b.store.Authorize(t.Context(), true))
		_, err := p.call("ringfence_take", "orders", "worker-2", 2)
		p.refused(err, "NOTAUTHORIZED", "a take")
		if err := p.put(before, "x"); err != nil {
			t.Errorf("what was taken before: %v", err)
		}
		b.allow(t, "ringfence_take", "orders")
		p.take("worker-2", 2)
		_, err = p.call("ringfence_take", "stock", "worker-2", 2)
		p.refused(err, "NOTAUTHORIZED", "a take of another resource")
	})
}
