package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// OwnLocale is a locale of a server with [PostgresOptions.OwnLocale]. "aa" comes before "z" in it,
// until SortAnew.
const OwnLocale = "own.UTF-8"

// The locales that OwnLocale is, one after the other.
const (
	english = "en_US"
	danish  = "da_DK" // "aa" comes after "z"
)

// SortAnew stops the server, changes the order of texts in OwnLocale, and starts the server again.
// An upgrade of the C library does that. No index is built again, so one in the order of OwnLocale
// no longer finds all its rows.
func (p *Postgres) SortAnew(ctx context.Context) error {
	if _, err := os.Stat(p.locales()); err != nil {
		return fmt.Errorf("%s has no locale of its own: %w", p.spec.name, err)
	}
	if err := p.Stop(); err != nil {
		return err
	}
	if err := p.setLocale(danish); err != nil {
		return err
	}
	return p.Start(ctx)
}

func (p *Postgres) locales() string { return filepath.Join(p.spec.dir, "locales") }

// createLocale compiles the locales into the server's directory.
func (p *Postgres) createLocale(ctx context.Context) error {
	if err := os.Mkdir(p.locales(), 0o755); err != nil {
		return err
	}
	for _, name := range []string{english, danish} {
		to := filepath.Join(p.locales(), name)
		out, err := exec.CommandContext(ctx, "localedef", "-i", name, "-f", "UTF-8", to).CombinedOutput()
		if err != nil {
			return errors.Join(missing("localedef, or the locale "+name+",", "locales", "glibc"),
				fmt.Errorf("localedef: %w: %s", err, out))
		}
	}
	p.spec.env = func() []string { return []string{"LOCPATH=" + p.locales()} }
	return p.setLocale(english)
}

// setLocale makes this locale the server's own, from its next start on.
func (p *Postgres) setLocale(name string) error {
	own := filepath.Join(p.locales(), OwnLocale)
	if err := os.Remove(own); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(name, own)
}
