package redismarks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Probe returns nil when the store can be used now: the server answers, can be guarded and takes
// connections, the marks can be read, and the rights are there.
func (s *Store) Probe(ctx context.Context) error {
	if _, err := s.Marks(ctx, "probe"); err != nil { // any resource: there may be very many marks
		return err
	}
	if err := s.full(ctx); err != nil {
		return err
	}
	return s.keptRights(ctx)
}

// probeConnection checks a connection before it serves. Another server may have come up at this
// address.
func probeConnection(ctx context.Context, c *driver.Conn) error {
	p := c.Pipeline()
	server, replication := p.Info(ctx, "server"), p.Info(ctx, "replication")
	// Redis before 7.0 lacks this command, and some providers forbid it. Nothing depends on it.
	p.Do(ctx, "CLIENT", "NO-EVICT", "ON")
	_, _ = p.Exec(ctx)
	if err := cmp.Or(server.Err(), replication.Err()); err != nil {
		return Explain(err)
	}
	mode, role := infoField(server.Val(), "redis_mode"), infoField(replication.Val(), "role")
	if mode == "" {
		mode = infoField(server.Val(), "server_mode") // Valkey can turn the old name off
	}
	switch {
	case mode == "cluster":
		return refusal.Setup(
			"the upstream runs in cluster mode: MOVED would lead clients round the guard",
			"guard a server that is not part of a cluster")
	case mode == "sentinel":
		return refusal.Setup("the upstream is a Sentinel, not a Redis server",
			"name the Sentinels as such: redis+sentinel://host1,host2,host3/NAME")
	case role == "slave":
		return refusal.Replica("the upstream is a replica: it cannot keep marks")
	case runID(server.Val()) == "":
		return refusal.Setup("the upstream does not tell its run_id",
			"allow INFO, and make sure that it is Redis 6.2 or later, or Valkey")
	}
	return nil
}

// Warning returns a warning about the server's settings for an operator, or nothing. The server can
// be guarded in either case.
func (s *Store) Warning(ctx context.Context) string {
	info, err := s.db.Info(ctx, "memory").Result()
	policy := infoField(info, "maxmemory_policy")
	if err != nil || !strings.HasPrefix(policy, "allkeys") || infoField(info, "maxmemory") == "0" {
		return ""
	}
	return "maxmemory-policy is " + policy + ": Redis may evict the marks, " +
		"and every client connection is ended each time that happens; " +
		"use a volatile-… policy, or noeviction"
}

// probeRights tries every command that the store needs, on a key that nothing else uses and on a
// client that does not exist.
func (s *Store) probeRights(ctx context.Context) error {
	r, err := s.eval(ctx, probeScript, []string{probeKey})
	if err != nil {
		return err
	}
	if len(r) > 1 {
		return refusal.Setup("the guard's user may not run "+text(r[1]), rightsHint)
	}
	const nobody = "9223372036854775807"
	for _, command := range [][]any{
		{"CLIENT", "KILL", "ID", nobody},
		{"CLIENT", "LIST", "ID", nobody},
		{"CLIENT", "SETNAME", controlName},
		{"XREAD", "STREAMS", probeKey, "$"},
	} {
		err := retry(ctx, func() error { return s.db.Do(ctx, command...).Err() })
		if err != nil && !errors.Is(err, driver.Nil) { // nothing to read
			return Explain(fmt.Errorf("%v: %w", command[0:2], err))
		}
	}
	return nil
}

const rightsHint = "give the user what guard install --print shows"

// Explain turns Redis' errors about missing rights and missing commands into a *fence.SetupError,
// which says what to do. It returns any other error unchanged.
func Explain(err error) error {
	switch _, setup := errors.AsType[*fence.SetupError](err); {
	case err == nil, setup:
		return err
	case denied(err):
		return &fence.SetupError{
			What:  "the user of this connection lacks a right: " + err.Error(),
			Hint:  rightsHint,
			Cause: err,
		}
	case driver.IsAuthError(err):
		return &fence.SetupError{
			What:  "Redis refuses the credentials: " + err.Error(),
			Hint:  "set user and password in the URL",
			Cause: err,
		}
	case driver.IsReadOnlyError(err):
		replica := refusal.Replica("the upstream has become a replica: it cannot keep marks")
		replica.Cause = err
		return replica
	case isUnknown(err):
		return &fence.SetupError{
			What: "the upstream lacks a command: " + err.Error() +
				" (its configuration renames or removes it, or it is older than Redis 6.2)",
			Hint:  renameHint,
			Cause: err,
		}
	}
	return err
}

// denied reports whether the connection's user lacks a right. Redis words the error differently for
// a command and for a script.
func denied(err error) bool {
	text := err.Error()
	return driver.IsPermissionError(err) ||
		strings.Contains(text, "The user executing the script can't") ||
		strings.Contains(text, "ACL failure in script")
}
