package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/logging"
)

// adoptTime bounds the whole of an adoption.
const adoptTime = 30 * time.Second

// adopt makes the present coordinator the issuer of a resource's tokens in every configured store: after the
// coordinator was rebuilt, or when a store has lost its marks and nobody can say what they were.
func (p *program) adopt(ctx context.Context, c *config, args []string) error {
	resource, err := fence.ParseResource(args[0])
	if err != nil {
		return usageError{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	authority, observer := c.authority(logging.New(p.stderr, c.Log))
	defer observer.Close()
	claim := fence.Claim{Resource: resource}
	if claim.Issuer, err = authority.Issuer(ctx); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	by := operator(hostname())
	for _, proto := range c.configured() {
		db, err := proto.open(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: nothing was changed: %w", proto.name, err)
		}
		before, err := db.Adopt(ctx, claim, by)
		db.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", proto.name, err)
		}
		fmt.Fprintf(p.stdout, "%s: %s was token %s of %q, and now takes the next token of %q; every older session is ended; recorded as done by %s\n",
			proto.name, resource, before.Token, before.Issuer, claim.Issuer, by)
	}
	return nil
}
