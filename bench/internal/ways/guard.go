package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// GuardProcess is a guard that runs as its real program.
type GuardProcess struct {
	*servers.Program

	Postgres, Redis string // its addresses; empty for a database that is not guarded
	HTTP            string // the address of its pages
}

// GuardOptions say what a guard guards.
type GuardOptions struct {
	Program  string
	Postgres string            // the URL of its upstream; empty: none
	Redis    string            // the URL of its upstream; empty: none
	Settings map[string]string // more environment variables
	Host     string            // where it listens, at ports that Ports has; empty: at free addresses
	Ports    [3]string         // of its pages, of Postgres and of Redis
	Waits    bool              // the upstream may be a standby, where a guard is not ready
}

// StartGuard starts a guard and returns when it is ready.
func StartGuard(ctx context.Context, o GuardOptions) (*GuardProcess, error) {
	program, err := filepath.Abs(o.Program)
	if err != nil {
		return nil, err
	}
	at, err := servers.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	if o.Host != "" {
		for i, port := range o.Ports {
			at[i] = net.JoinHostPort(o.Host, port)
		}
	}
	g := &GuardProcess{HTTP: at[0]}
	env := map[string]string{"GUARD_HTTP_LISTEN": g.HTTP, "GUARD_LOG": "warn"}
	if o.Postgres != "" {
		g.Postgres = at[1]
		env["GUARD_POSTGRES_LISTEN"], env["GUARD_POSTGRES_UPSTREAM"] = g.Postgres, o.Postgres
	}
	if o.Redis != "" {
		g.Redis = at[2]
		env["GUARD_REDIS_LISTEN"], env["GUARD_REDIS_UPSTREAM"] = g.Redis, o.Redis
	}
	maps.Copy(env, o.Settings)
	ready := g.ready
	if o.Waits {
		ready = g.alive
	}
	g.Program, err = servers.NewProgram(servers.ProgramOptions{
		Name: "guard", Command: []string{program, "serve"}, Ready: ready,
		Env: func() []string { return list(env) },
	})
	if err != nil {
		return nil, err
	}
	if err := g.Start(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func list(env map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

func (g *GuardProcess) ready(ctx context.Context) error {
	_, err := g.page(ctx, "/readyz")
	return err
}

func (g *GuardProcess) alive(ctx context.Context) error {
	_, err := g.page(ctx, "/livez")
	return err
}

// page returns a page of the guard.
func (g *GuardProcess) page(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.HTTP+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := pages.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return string(text), err
}

// pages keeps no connection open, which would be memory of the guard.
var pages = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// install prepares a database for guards. The settings are a guard's.
func install(ctx context.Context, program string, settings ...string) error {
	cmd := exec.CommandContext(ctx, program, "install")
	cmd.Env = append(os.Environ(), settings...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
