package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// guardAddresses are where one guard listens, the same after each start.
type guardAddresses struct{ postgres, redis, http string }

// install creates what guards need in the databases.
func (s *System) install(ctx context.Context) error {
	_, err := s.Operator(ctx, "install")
	if err == nil && s.build.Topology.Neighbour {
		_, err = s.operate(ctx, s.operatorOf(scenario.NeighbourDatabase), "install")
	}
	return err
}

// startGuards starts all guards at once.
func (s *System) startGuards(ctx context.Context) error {
	var starts []func() error
	for _, name := range s.build.Topology.AllGuardNames() {
		p, err := s.newGuard(name)
		if err != nil {
			return err
		}
		s.processes[name] = p
		starts = append(starts, func() error { return p.Start(ctx) })
	}
	return atOnce(starts)
}

func (s *System) newGuard(name string) (*servers.Program, error) {
	a, err := s.listen(name)
	if err != nil {
		return nil, err
	}
	s.guards[name] = a
	coordinator, err := s.linkCoordinator(name)
	if err != nil {
		return nil, err
	}
	to, err := s.linkStores(name)
	if err != nil {
		return nil, err
	}
	env := append(s.guardEnviron(coordinator, to), s.build.Topology.GuardSettings...)
	env = append(env, s.tls.ofGuard()...)
	env = append(env, "GUARD_POSTGRES_LISTEN="+a.postgres, "GUARD_REDIS_LISTEN="+a.redis,
		"GUARD_HTTP_LISTEN="+a.http, "GUARD_DRAIN_TIMEOUT=5s")
	command := []string{s.build.Programs.Guard, "serve"}
	if name := s.build.Topology.GuardFlaw; name != "" {
		command = []string{s.build.Programs.FlawedGuard}
		env = append(env, "FLAW="+name)
	}
	page := "/readyz"
	if s.build.Topology.Beside { // a guard beside a standby is up, and not ready
		page = "/livez"
	}
	return s.newProgram(servers.ProgramOptions{
		Name: name, Command: command,
		Env:   func() []string { return env },
		Ready: func(ctx context.Context) error { return ready(ctx, "http://"+a.http+page) },
	})
}

// listen chooses where a guard listens.
func (s *System) listen(guard string) (guardAddresses, error) {
	if s.build.Topology.Beside {
		return s.listenBeside(guard)
	}
	at, err := servers.FreeAddresses(3)
	if err != nil {
		return guardAddresses{}, err
	}
	return guardAddresses{at[0], at[1], at[2]}, nil
}

// upstreams are where a guard or an operator reaches the databases.
type upstreams struct{ postgres, redis string }

// guardEnviron returns the common environment of guards and operators.
func (s *System) guardEnviron(coordinator string, to upstreams) []string {
	env := []string{
		s.tag.value, "GUARD_POSTGRES_UPSTREAM=" + to.postgres, "GUARD_REDIS_UPSTREAM=" + to.redis,
	}
	if s.build.Topology.Coordinator != scenario.NoCoordinator {
		env = append(env, "GUARD_COORDINATOR="+coordinator)
	}
	return env
}

// readyTime bounds one request to a guard's health page.
const readyTime = 5 * time.Second

// ready requests a guard's health page.
func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return system.Ready(ctx, url)
}

// Operator implements system.System. The error has the output of the program.
func (s *System) Operator(ctx context.Context, args ...string) (string, error) {
	return s.operate(ctx, s.operatorOf(database), args...)
}

// operatorOf returns the environment of an operator of one database.
func (s *System) operatorOf(database string) []string {
	at := s.primaryAt()
	to := s.upstreams(at, s.redisAt())
	to.postgres = s.tls.postgres("guard", at, database)
	coordinator := s.elects.url(s.elects.legs())
	own := []string{"GUARD_POSTGRES_LEADERS=app"}
	if s.build.Topology.Route == scenario.SQL {
		own = []string{"GUARD_POSTGRES_LEADERS=app", "GUARD_POSTGRES_ALLOW_PREPARED=true"}
	}
	return append(append(s.guardEnviron(coordinator, to), "PATH="+os.Getenv("PATH"),
		"GUARD_POSTGRES_ADMIN="+s.tls.postgres("postgres", at, database)), own...)
}

func (s *System) operate(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.build.Programs.Guard, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
		return out.String(), fmt.Errorf("guard %s: %w: %s",
			strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
