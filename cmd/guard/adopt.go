package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/marks"
)

// adoptTimeout bounds a whole adoption.
const adoptTimeout = 30 * time.Second

// adopt makes the present coordinator the issuer of a resource's tokens in every configured store.
// An operator runs it after the coordinator was rebuilt or restored, or when a store has lost its
// marks and nobody knows what they were. It changes nothing before all stores have answered, and it
// can be run again when it was interrupted.
func (p *program) adopt(ctx context.Context, c *config, o options, args []string) error {
	resource, err := fence.ParseResource(args[0])
	if err != nil {
		return cli.Mistake(err.Error())
	}
	if o.newIssuer && c.Coordinator.Reveal() == "" {
		return cli.Mistake("--new-issuer: GUARD_COORDINATOR names no coordinator; without one, set " +
			"GUARD_ISSUER to another name")
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	log := logging.New(p.Stderr, c.Log)
	authority, observer := c.authority(log)
	defer observer.Close()
	claim := fence.Claim{Resource: resource}
	if claim.Issuer, err = authority.Issuer(ctx); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	stores, err := c.openStores(ctx)
	defer func() {
		for _, s := range stores {
			s.Close()
		}
	}()
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if o.newIssuer {
		if claim.Issuer, err = p.renewIssuer(ctx, observer, claim.Issuer); err != nil {
			return err
		}
	}
	by := operator(hostname())
	for _, s := range stores {
		start := time.Now()
		before, err := s.Adopt(ctx, claim, by)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(p.Stdout, "%s: %s was at token %s of %q, and now accepts the next token of %q; "+
			"every older session was ended; recorded as done by %s\n",
			s.name, resource, before.Token, before.Issuer, claim.Issuer, by)
		log.Warn("resource adopted", "event", string(marks.Adopted), "protocol", s.name,
			"resource", string(resource), "token", claim.Token.String(), "issuer", string(claim.Issuer),
			"old_token", before.Token.String(), "old_holder", before.Holder,
			"old_issuer", string(before.Issuer), "by", by,
			"duration_ms", float64(time.Since(start).Microseconds())/1000)
	}
	return nil
}

// openStore is a store that has answered.
type openStore struct {
	name string
	database
}

// openStores opens every configured store and probes it. Close those that it returns, also after an
// error.
func (c *config) openStores(ctx context.Context) (all []openStore, err error) {
	for _, proto := range c.configured() {
		db, err := proto.open(ctx, c)
		if err == nil {
			all = append(all, openStore{proto.name, db})
			err = db.Probe(ctx)
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", proto.name, err)
		}
	}
	return all, nil
}

// renewIssuer comes before the adoption. If the adoption then fails, every mark belongs to another
// issuer, so the stores refuse everything.
func (p *program) renewIssuer(
	ctx context.Context, o *observer, before fence.Issuer,
) (fence.Issuer, error) {
	now, err := o.RenewIssuer(ctx)
	if err != nil {
		return "", fmt.Errorf("the coordinator may already be another issuer, and then everything is "+
			"refused; run it again: %w", err)
	}
	fmt.Fprintf(p.Stdout, "coordinator: was issuer %q, and is now %q; every resource has to be "+
		"adopted, and every leader has to be elected again\n", before, now)
	return now, nil
}
