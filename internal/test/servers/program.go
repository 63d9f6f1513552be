package servers

import (
	"context"
	"os"
	"syscall"
)

// ProgramOptions say how to run a [Program].
type ProgramOptions struct {
	Name    string
	Command []string // program and arguments

	// Env is called for each start, and returns variables in addition to PATH, HOME, LC_ALL and TZ.
	Env   func() []string
	Log   string                      // the file for its output, in append mode; Close keeps it
	Ready func(context.Context) error // nil when ready; a program without it is ready once it runs

	// Stdout opens the standard output of one start; nil: the log. The program gets a copy, and the
	// file is closed once it runs.
	Stdout func() (*os.File, error)
	// Stderr opens the standard error of one start in the same way; nil: the log.
	Stderr func() (*os.File, error)
	// Exited is called with the state of each run that has ended, before Kill or Stop return. It must
	// not block.
	Exited func(*os.ProcessState)
}

// Program is any program that is run like a server: it can be killed, stopped (SIGTERM), paused,
// resumed and started again, and dies with the process that has started it.
type Program struct{ Process }

// NewProgram prepares a program. Start starts it.
func NewProgram(o ProgramOptions) (*Program, error) {
	dir, err := newDir("program", nil)
	if err != nil {
		return nil, err
	}
	p := &Program{}
	p.spec = spec{
		name: o.Name, dir: dir, log: o.Log,
		command: func() []string { return o.Command },
		env:     o.Env,
		stdout:  o.Stdout,
		stderr:  o.Stderr,
		exited:  o.Exited,
		ready:   o.Ready,
		stop:    syscall.SIGTERM,
		quit:    syscall.SIGKILL,
	}
	if p.spec.ready == nil {
		p.spec.ready = func(context.Context) error { return nil }
	}
	return p, nil
}

// FreePorts returns n distinct loopback ports on which nobody listens now, and which no outgoing
// connection takes. This process never returns a port twice.
func FreePorts(n int) ([]int, error) { return freePorts(n) }

// FreeAddresses returns FreePorts as host:port.
func FreeAddresses(n int) ([]string, error) {
	ports, err := freePorts(n)
	addresses := make([]string, 0, n)
	for _, port := range ports {
		addresses = append(addresses, hostPort(port))
	}
	return addresses, err
}
