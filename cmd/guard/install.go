package main

import (
	"context"
	"fmt"
)

// install prepares every configured store, or prints the commands that would.
func (p *program) install(ctx context.Context, c *config, o options) error {
	for _, proto := range c.configured() {
		if o.printOnly {
			text, err := proto.script(c)
			if err != nil {
				return fmt.Errorf("%s: %w", proto.name, err)
			}
			fmt.Fprint(p.Stdout, text)
			continue
		}
		if err := proto.install(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", proto.name, err)
		}
		fmt.Fprintf(p.Stdout, "%s: installed\n", proto.name)
	}
	return nil
}
