package inject

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// copyTime bounds a MIGRATE of the child.
const copyTime = 5 * time.Second

// forked is a session of the leader that asks Redis for the debugger of scripts. Redis forks then:
// the child has the session's connection and a copy of the data, and CLIENT LIST has neither.
type forked struct {
	claim   fence.Claim
	client  *driver.Client
	conn    *driver.Conn // of the client
	refused bool
}

// fork opens a session of the leader in Redis, and has Redis fork for it. A guard refuses that.
func (r *Injector) fork(ctx context.Context, f scenario.Fault, guard string) (err error) {
	s := &forked{}
	r.rec.Look(func(seen *record.Seen) { s.claim = seen.Term() })
	if s.client, err = r.redisUnder(r.sys.Addresses().Guards[guard].Redis, s.claim); err != nil {
		return err
	}
	s.conn = s.client.Conn()
	r.mu.Lock()
	r.forked = s
	r.held[f.Do] = func() { _ = errors.Join(s.conn.Close(), s.client.Close()) }
	r.mu.Unlock()
	script := "SCRIPT"
	if r.Topology.GuardFlaw == string(flaw.Renamed) {
		script = flaw.Script
	}
	err = s.conn.Do(ctx, script, "DEBUG", "YES").Err()
	if s.refused = outcome(err) == history.Refused; s.refused {
		return nil
	}
	if err != nil {
		return err
	}
	return s.conn.Eval(ctx, "return 1", nil).Err() // the child stops before the first line
}

// strayInFork has the child add an entry to its copy of the ledger, and put that over the ledger of
// Redis. Where Redis has not forked, the session itself tries to write.
func (r *Injector) strayInFork(ctx context.Context) error {
	s := r.forked
	if s == nil {
		return errors.New("no session has asked for the debugger")
	}
	err := r.attempt("redis", s.claim, func(op string) error {
		entry := op + " " + s.claim.Token.String()
		if s.refused {
			return s.conn.Eval(ctx, system.Lua, ledgerKeys, entry).Err()
		}
		return s.writeInChild(ctx, r.sys.Addresses().Redis, entry)
	})
	if errors.Is(err, errUnanswered) {
		return nil
	}
	return err
}

// writeInChild uses the debugger's command eval, which runs Lua in the child.
func (s *forked) writeInChild(ctx context.Context, redis, entry string) error {
	to, err := url.Parse(redis)
	if err != nil {
		return err
	}
	all := []string{
		fmt.Sprintf("redis.call('RPUSH', '%s', '%s')", ledgerKeys[0], entry),
		fmt.Sprintf("redis.call('INCR', '%s')", ledgerKeys[1]),
	}
	for _, key := range ledgerKeys {
		all = append(all, fmt.Sprintf("redis.call('MIGRATE', '%s', '%s', '%s', 0, %d, 'COPY', 'REPLACE')",
			to.Hostname(), to.Port(), key, copyTime.Milliseconds()))
	}
	for _, lua := range all {
		said, err := s.conn.Do(ctx, "EVAL", lua).StringSlice()
		if err != nil {
			return err
		}
		if text := strings.Join(said, " "); strings.Contains(text, "<error>") {
			return errors.New(text)
		}
	}
	return nil
}
