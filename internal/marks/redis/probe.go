package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

// Probe is nil when the store can be used now: the server answers, can be guarded, and the marks can be read.
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.Marks(ctx)
	return err
}

// probeConnection checks a control connection before it serves: another server may have come up at this address.
func probeConnection(ctx context.Context, c *driver.Conn) error {
	p := c.Pipeline()
	server, replication := p.Info(ctx, "server"), p.Info(ctx, "replication")
	p.Do(ctx, "CLIENT", "NO-EVICT", "ON") // since 7.0, and not allowed everywhere; nothing depends on it
	_, _ = p.Exec(ctx)
	if err := cmp.Or(server.Err(), replication.Err()); err != nil {
		return Explain(err)
	}
	mode, role := infoField(server.Val(), "redis_mode"), infoField(replication.Val(), "role")
	if mode == "" {
		mode = infoField(server.Val(), "server_mode") // Valkey, where the old name is turned off
	}
	switch {
	case mode == "cluster":
		return &fence.SetupError{What: "the upstream runs in cluster mode: MOVED would lead clients round the guard", Hint: "guard a server that is not part of a cluster"}
	case mode == "sentinel":
		return &fence.SetupError{What: "the upstream is a Sentinel, not a Redis server", Hint: "point the guard at the primary itself"}
	case role == "slave":
		return &fence.SetupError{What: "the upstream is a replica: it cannot keep marks", Hint: "point the guard at the primary"}
	case runID(server.Val()) == "":
		return &fence.SetupError{What: "the upstream does not tell its run_id", Hint: "allow INFO, and make sure that it is Redis 6.2 or later, or Valkey"}
	}
	return nil
}

// Warning says what an operator should know of the server's settings although it can be guarded, or nothing.
func (s *Store) Warning(ctx context.Context) string {
	info, err := s.db.Info(ctx, "memory").Result()
	policy := infoField(info, "maxmemory_policy")
	if err != nil || !strings.HasPrefix(policy, "allkeys") || infoField(info, "maxmemory") == "0" {
		return ""
	}
	return "maxmemory-policy is " + policy + ": Redis may evict the marks, and every client connection is ended each time that happens; " +
		"use a volatile-… policy, or noeviction"
}

// probeRights tries every command that the store needs, on a key of its own and on clients that do not exist.
func (s *Store) probeRights(ctx context.Context) error {
	r, err := s.run(ctx, probeScript, []string{probeKey})
	if err != nil {
		return err
	}
	if len(r.list) > 1 {
		return &fence.SetupError{What: "the guard's user may not run " + text(r.list[1]), Hint: rightsHint}
	}
	const nobody = "9223372036854775807"
	for _, command := range [][]any{
		{"CLIENT", "KILL", "ID", nobody}, {"CLIENT", "LIST", "ID", nobody}, {"CLIENT", "SETNAME", controlName},
	} {
		if err := retry(ctx, func() error { return s.db.Do(ctx, command...).Err() }); err != nil {
			return Explain(fmt.Errorf("%v: %w", command[0:2], err))
		}
	}
	return nil
}

const rightsHint = "give the user what guard install --print shows"

// Explain turns what Redis says of missing rights and missing abilities into what to do about it (*fence.SetupError). Any
// other error stays what it is.
func Explain(err error) error {
	var setup *fence.SetupError
	switch {
	case err == nil, errors.As(err, &setup):
		return err
	case denied(err):
		return &fence.SetupError{What: "the user of this connection lacks a right: " + err.Error(), Hint: rightsHint, Cause: err}
	case driver.IsAuthError(err):
		return &fence.SetupError{What: "Redis refuses the credentials: " + err.Error(), Hint: "set user and password in the URL", Cause: err}
	case driver.IsReadOnlyError(err):
		return &fence.SetupError{What: "the upstream has become a replica: it cannot keep marks", Hint: "point the guard at the primary", Cause: err}
	case strings.Contains(strings.ToLower(err.Error()), "unknown command"):
		return &fence.SetupError{What: "the upstream lacks a command: " + err.Error(), Hint: "ringfence needs Redis 6.2 or later, or Valkey, with Lua and CLIENT KILL", Cause: err}
	}
	return err
}

// denied says that the user of the connection lacks a right, as Redis says it to a command or to a script.
func denied(err error) bool {
	text := err.Error()
	return driver.IsPermissionError(err) || strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
}
