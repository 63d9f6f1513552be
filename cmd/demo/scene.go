package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// route says how workers reach the databases.
type route struct {
	postgres, redis string
	fenced          bool
}

func direct(s *stage) route {
	return route{postgres: s.pg.URL("app", "postgres"), redis: s.redis.Addr()}
}

func guarded(s *stage) route {
	return route{
		postgres: fmt.Sprintf("postgres://app@%s/postgres", s.guardPg), redis: s.guardRedis, fenced: true,
	}
}

// outcome holds the balances after a scene, and the right one.
type outcome struct{ postgres, redis, want int }

func (o outcome) corrupt() bool { return o.postgres != o.want || o.redis != o.want }

// scene runs this story: A leads, reads, checks and is paused; B takes over and writes; A wakes up
// and writes.
func scene(ctx context.Context, p printer, s *stage, r route) (outcome, error) {
	a, err := enter(ctx, s, r, "A", 10, true, time.Second)
	if err != nil {
		return outcome{}, err
	}
	defer a.kill()
	if err := a.until(ctx, p, "paused"); err != nil {
		return outcome{}, err
	}
	if err := a.pause(); err != nil {
		return outcome{}, err
	}
	since := time.Now()
	// A long session, since B has to lead to the end even on a busy machine.
	b, err := enter(ctx, s, r, "B", 50, false, 20*time.Second)
	if err != nil {
		return outcome{}, err
	}
	defer b.kill()
	if err := b.until(ctx, p, "elected"); err != nil {
		return outcome{}, err
	}
	p.remark(fmt.Sprintf("%.1f s after A fell silent: its session at ZooKeeper has expired",
		time.Since(since).Seconds()))
	if err := b.until(ctx, p, ""); err != nil {
		return outcome{}, err
	}
	p.remark("A wakes, in the line after its check, and writes")
	if err := a.wake(); err != nil {
		return outcome{}, err
	}
	if err := a.until(ctx, p, ""); err != nil {
		return outcome{}, err
	}
	o := outcome{want: startBalance + 50}
	o.postgres, o.redis, err = s.balances(ctx)
	p.balance(o)
	return o, err
}

// actor is a worker process.
type actor struct {
	name   string
	cmd    *exec.Cmd
	in     io.Writer
	lines  *bufio.Scanner
	waited bool
}

func enter(
	ctx context.Context, s *stage, r route, name string, add int, pause bool, session time.Duration,
) (*actor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "worker",
		"-name", name, "-coordinator", "zk://"+s.zk.Addr()+"/demo",
		"-postgres", r.postgres, "-redis", r.redis, "-add", fmt.Sprint(add),
		fmt.Sprintf("-fenced=%t", r.fenced), fmt.Sprintf("-pause=%t", pause),
		"-session", session.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &actor{name: name, cmd: cmd, in: in, lines: bufio.NewScanner(out)}, cmd.Start()
}

// until prints the actor's events up to and including what, or up to the actor's end.
func (a *actor) until(ctx context.Context, p printer, what string) error {
	for a.lines.Scan() {
		var e event
		if err := json.Unmarshal(a.lines.Bytes(), &e); err != nil {
			return err
		}
		p.event(a.name, e)
		if e.What == what {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.waited = true
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	if what != "" {
		return fmt.Errorf("%s ended before it was %s", a.name, what)
	}
	return nil
}

// pause stops the process, like a long garbage collection or a frozen host, and returns when it has
// stopped.
func (a *actor) pause() error {
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(a.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped():
			a.waited = true
			return fmt.Errorf("%s ended before it could be paused", a.name)
		default:
			return nil
		}
	}
}

// wake lets the process continue with the next line of its code.
func (a *actor) wake() error {
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_, err := a.in.Write([]byte{'\n'})
	return err
}

func (a *actor) kill() {
	if a.waited {
		return
	}
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}
