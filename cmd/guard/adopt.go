package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// adoptTimeout bounds a whole adoption.
const adoptTimeout = 30 * time.Second

func (p *program) adoptCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "adopt [flags] RESOURCE", Args: cobra.ExactArgs(1),
		Short: "Reset a resource to the present coordinator",
		Long: `Reset a resource to the present coordinator.

DANGER: stop every old leader first, paused ones too. Without a coordinator their tokens may be
accepted afterwards. The command ends all sessions of RESOURCE and forgets its mark.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.adopt, useStores, useCoordinator),
	}
	c.Flags().BoolVar(&p.options.newIssuer, "new-issuer", false,
		"the coordinator was restored from a backup, so its tokens cannot be compared with earlier ones")
	p.options.several(c)
	return c
}

// adopt makes the present coordinator the issuer of a resource's tokens in every configured store.
// An operator runs it after the coordinator was rebuilt or restored, or when a store has lost its
// marks and nobody knows what they were. It changes nothing before all stores have answered, and it
// can be run again when it was interrupted.
func (p *program) adopt(ctx context.Context, c *config, args []string) error {
	o := p.options
	resource, err := fence.ParseResource(args[0])
	if err != nil {
		return cli.Mistake(err.Error())
	}
	if o.newIssuer && c.Coordinator == "" {
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
	stores, err := c.openStores(ctx, o.selection, resource)
	defer func() {
		for _, s := range stores {
			s.store.Close()
		}
	}()
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if o.newIssuer {
		if claim.Issuer, err = p.renewIssuer(ctx, observer, claim.Issuer); err != nil {
			return err
		}
	} else if err := rolledBack(ctx, stores, claim); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	by := operator(hostname())
	for _, s := range stores {
		start := time.Now()
		before, err := s.store.Adopt(ctx, claim, by)
		if err != nil {
			return fmt.Errorf("%s: %w", s.of, err)
		}
		fmt.Fprintf(p.Stdout, "%s: %s was at token %s of %q, and now accepts the next token of %q; "+
			"every older session was ended; recorded as done by %s\n",
			s.of.among(len(stores)), resource, before.Token, before.Issuer, claim.Issuer, by)
		log.Warn("resource adopted", "event", string(marks.Adopted), "protocol", s.of.name(),
			"database", s.of.Database(), "resource", string(resource), "token", claim.Token.String(),
			"issuer", string(claim.Issuer),
			"old_token", before.Token.String(), "old_holder", before.Holder,
			"old_issuer", string(before.Issuer), "by", by,
			"duration_ms", float64(time.Since(start).Microseconds())/1000)
	}
	if !o.all && o.databases == "" {
		p.tellOthers(ctx, c, stores, resource)
	}
	return nil
}

// rolledBack refuses to adopt tokens that the coordinator gives out a second time: nothing but a
// new issuer tells them from those that were given out before.
func rolledBack(ctx context.Context, stores []openStore, c fence.Claim) error {
	for _, s := range stores {
		found, err := s.store.Marks(ctx, c.Resource)
		if err != nil {
			return fmt.Errorf("%s: %w", s.of, err)
		}
		for _, m := range found {
			if m.RolledBack && m.Issuer == c.Issuer {
				return fmt.Errorf("%s: the coordinator went back, as after a restore: its tokens are given "+
					"out a second time; stop all leaders, paused ones too, and run: guard adopt --new-issuer %s",
					s.of, c.Resource)
			}
		}
	}
	return nil
}

// openStore is a store that has answered.
type openStore struct {
	of    server
	store guard.Store
}

// openStores opens the stores of an adoption and probes them. Of all databases of a server it takes
// those that have a mark of the resource. Close those that it returns, also after an error.
func (c *config) openStores(
	ctx context.Context, o selection, resource fence.Resource,
) (all []openStore, err error) {
	targets, err := c.targets(ctx, o, guard.Databases.Installed)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		db, err := t.Open(ctx, c.common(), nil)
		if err != nil {
			return all, fmt.Errorf("%s: %w", t, err)
		}
		all = append(all, openStore{t, db})
		if err := db.Probe(ctx); err != nil {
			return all, fmt.Errorf("%s: %w", t, err)
		}
		if !o.all || t.Database() == "" {
			continue
		}
		found, err := db.Marks(ctx, resource)
		if err != nil {
			return all, fmt.Errorf("%s: %w", t, err)
		}
		if len(found) == 0 {
			db.Close()
			all = all[:len(all)-1]
		}
	}
	return all, nil
}

// tellOthers names the databases that also have a mark of the resource, and were not meant. It is
// only a hint, so it has no error.
func (p *program) tellOthers(
	ctx context.Context, c *config, stores []openStore, resource fence.Resource,
) {
	var adopted []server
	for _, s := range stores {
		adopted = append(adopted, s.of)
	}
	for _, s := range stores {
		for _, t := range s.of.others(ctx, adopted) {
			db, err := t.Open(ctx, c.common(), nil)
			if err != nil {
				continue
			}
			if found, err := db.Marks(ctx, resource); err == nil && len(found) > 0 {
				fmt.Fprintf(p.Stdout, "%s: has a mark of %s, too, which stays as it was; --all adopts it "+
					"there\n",
					t, resource)
			}
			db.Close()
		}
	}
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
