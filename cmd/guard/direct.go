package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

func (p *program) directCommand() *cobra.Command {
	o := &p.options
	c := &cobra.Command{
		Use:   "direct [flags] [ROLE…]",
		Short: "Have Postgres itself admit the sessions of roles, without a guard",
		Long: `Have Postgres itself admit the sessions of these roles when they log in, and of no others, or say
whose it admits. Their sessions that are open are ended. It takes Postgres 17 and a superuser
(GUARD_POSTGRES_ADMIN).
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.using(p.direct, useStores),
	}
	c.Flags().BoolVar(&o.trial, "trial", false,
		"refuse and end nobody, and log at the server whom it would have refused: this fences nothing")
	c.Flags().BoolVar(&o.off, "off", false, "remove the trigger: every role may log in as before")
	o.print(c)
	o.several(c)
	return c
}

// directly is a store that can admit sessions itself.
type directly interface {
	Direct(ctx context.Context, roles []string, trial bool) error
	DirectSessions(ctx context.Context) (pgmarks.DirectSessions, error)
}

// direct switches direct sessions on, to a trial or off, or says what is on.
func (p *program) direct(ctx context.Context, c *config, roles []string) error {
	o := p.options
	switch {
	case o.off && (o.trial || len(roles) > 0):
		return cli.Mistake("--off takes no roles, and no --trial")
	case o.trial && len(roles) == 0:
		return cli.Mistake("--trial needs the roles to try it with")
	case o.printOnly:
		fmt.Fprint(p.Stdout, pgmarks.DirectScript(roles, o.trial))
		return nil
	}
	found := false
	err := p.eachStore(ctx, c, func(ctx context.Context, store string, s guard.Authorizer) error {
		d, ok := s.(directly)
		if !ok {
			return nil
		}
		found = true
		if len(roles) > 0 || o.off {
			if err := d.Direct(ctx, roles, o.trial); err != nil {
				return err
			}
		}
		return p.printDirect(ctx, store, d)
	})
	if err == nil && !found {
		err = errors.New("no store is a Postgres: set GUARD_POSTGRES_UPSTREAM")
	}
	return err
}

func (p *program) printDirect(ctx context.Context, store string, d directly) error {
	is, err := d.DirectSessions(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "%s: %s\n", store, is)
	return err
}
