package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/logging"
)

// adoptTime bounds the whole of an adoption.
const adoptTime = 30 * time.Second

// adopt makes the present coordinator the issuer of a resource's tokens in every configured store: after the
// coordinator was rebuilt or restored, or when a store has lost its marks and nobody can say what they were. Nothing is
// changed before all have answered. It can be run again when it ended in between.
func (p *program) adopt(ctx context.Context, c *config, o options, args []string) error {
	resource, err := fence.ParseResource(args[0])
	if err != nil {
		return cli.Mistake(err.Error())
	}
	if o.newIssuer && c.Coordinator.Reveal() == "" {
		return cli.Mistake("--new-issuer: GUARD_COORDINATOR names no coordinator; without one set GUARD_ISSUER to another name")
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	authority, observer := c.authority(logging.New(p.Stderr, c.Log))
	defer observer.Close()
	claim := fence.Claim{Resource: resource}
	if claim.Issuer, err = authority.Issuer(ctx); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	stores, err := c.reach(ctx)
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
		before, err := s.Adopt(ctx, claim, by)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(p.Stdout, "%s: %s was token %s of %q, and now takes the next token of %q; every older session is ended; recorded as done by %s\n",
			s.name, resource, before.Token, before.Issuer, claim.Issuer, by)
	}
	return nil
}

// reached is a store that has answered.
type reached struct {
	name string
	database
}

// reach opens every configured store and asks it something. Close those that it returns, also after an error.
func (c *config) reach(ctx context.Context) (all []reached, err error) {
	for _, proto := range c.configured() {
		db, err := proto.open(ctx, c)
		if err == nil {
			all = append(all, reached{proto.name, db})
			err = db.Probe(ctx)
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", proto.name, err)
		}
	}
	return all, nil
}

// renewIssuer comes before the adoption: should that fail, every mark is of another issuer, and everything is refused.
func (p *program) renewIssuer(ctx context.Context, o *observer, before fence.Issuer) (fence.Issuer, error) {
	now, err := o.RenewIssuer(ctx)
	if err != nil {
		return "", fmt.Errorf("the coordinator may be another issuer already, and then everything is refused; run it again: %w", err)
	}
	fmt.Fprintf(p.Stdout, "coordinator: was issuer %q, and is now %q; every resource has to be adopted, and every leader to be elected anew\n", before, now)
	return now, nil
}
