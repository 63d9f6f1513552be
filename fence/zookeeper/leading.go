package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// leading is a claim that was seen to lead, and its candidate's znode. It needs to be seen once: younger candidates only
// come behind, so the claim leads for as long as the znode exists. That has to be checked each time.
type leading struct {
	claim     fence.Claim
	candidate string
}

// Confirm returns nil if the claim leads, by a transaction of the ensemble; a server that has lost its ensemble cannot
// say so. Otherwise it returns a refusal: fence.ErrStale when the claim's candidate is gone, for good; fence.ErrNotLeader
// when it waits behind an older one, or was never enrolled; fence.ErrOtherIssuer. ErrUnreachable: nobody answered.
func (d *Documents) Confirm(ctx context.Context, c fence.Claim) error {
	_, err := observe(ctx, d.c, func(ctx context.Context, s *session) (string, error) { return d.confirm(ctx, s, c) })
	return err
}

// confirm returns the candidate of a claim that leads. What is read in this session afterwards was there or came later.
func (d *Documents) confirm(ctx context.Context, s *session, c fence.Claim) (string, error) {
	candidate, err := d.candidate(ctx, s, c)
	if err != nil {
		return "", err
	}
	_, err = read(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(exists(candidate)) })
	if errors.Is(err, zk.ErrNoNode) {
		return "", d.gone(ctx, s, c)
	}
	return candidate, d.c.explain(candidate, err)
}

// exists makes a transaction fail unless the znode exists.
func exists(at string) *zk.CheckVersionRequest { return &zk.CheckVersionRequest{Path: at, Version: -1} }

// candidate returns the path of the claim's candidate, which led at least when it was looked at first.
func (d *Documents) candidate(ctx context.Context, s *session, c fence.Claim) (string, error) {
	c.Holder = ""
	d.mu.Lock()
	seen := d.leading[c.Resource]
	d.mu.Unlock()
	if seen.claim == c {
		return seen.candidate, nil
	}
	at, err := d.c.lookFor(ctx, s, c)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leading[c.Resource] = leading{c, at}
	return at, nil
}

// lookFor finds the candidate whose czxid is the claim's token, and refuses unless it leads.
func (c *Coordinator) lookFor(ctx context.Context, s *session, claim fence.Claim) (string, error) {
	if _, err := fence.ParseResource(string(claim.Resource)); err != nil {
		return "", err
	}
	if err := s.sync(ctx, c.address.root); err != nil {
		return "", err
	}
	issuer, err := s.issuer(ctx)
	if err != nil {
		return "", err
	}
	if issuer != claim.Issuer {
		return "", c.otherIssuer(claim, issuer)
	}
	dir := c.electionPath(claim.Resource)
	names, changed, err := s.childrenOf(ctx, dir)
	if err != nil {
		return "", err
	}
	entries, err := c.entries(ctx, s, dir, names)
	if err != nil {
		return "", err
	}
	switch i := slices.IndexFunc(entries, func(e entry) bool { return e.token == claim.Token }); {
	case i == 0:
		return path.Join(dir, entries[0].name), nil
	case i < 0 && int64(claim.Token) <= changed:
		return "", stale(claim, entries)
	default:
		return "", notLeader(claim, entries, i)
	}
}

// stillThere refuses a claim whose candidate is gone.
func (d *Documents) stillThere(ctx context.Context, s *session, c fence.Claim, candidate string) error {
	stat, err := s.stat(ctx, candidate)
	if err == nil && stat == nil {
		return d.gone(ctx, s, c)
	}
	return d.c.explain(candidate, err)
}

// gone refuses a claim whose candidate, which led, exists no more. It looks once more, to say why; a wiped ensemble must
// not pass for a newer leader.
func (d *Documents) gone(ctx context.Context, s *session, c fence.Claim) error {
	d.mu.Lock()
	delete(d.leading, c.Resource)
	d.mu.Unlock()
	if _, err := d.c.lookFor(ctx, s, c); err != nil {
		return err
	}
	return stale(c, nil)
}
