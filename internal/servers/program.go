package servers

import (
	"context"
	"os"
	"syscall"
)

// ProgramOptions say how a [Program] is run.
type ProgramOptions struct {
	Name    string
	Command []string                    // program and arguments
	Env     func() []string             // in addition to PATH, HOME, LC_ALL and TZ; called anew for every start
	Log     string                      // the file that its output is appended to; Close leaves it
	Ready   func(context.Context) error // nil when it is ready; without it a program is ready once it runs

	// Stdout makes what the standard output of one start goes to; the log where it is nil. The program gets a copy, and
	// the file is closed once it runs.
	Stdout func() (*os.File, error)
	// Exited is told how each run has ended, before Kill or Stop return. It must not block.
	Exited func(*os.ProcessState)
}

// Program is any program, run as servers are: it can be killed, stopped (SIGTERM), paused, resumed and started again, and
// dies with the process that has started it.
type Program struct{ Process }

// NewProgram prepares a program, which Start starts.
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

// FreePorts returns n distinct loopback ports on which nobody listens now, and which no outgoing connection takes. This
// process never hands one out twice.
func FreePorts(n int) ([]int, error) { return freePorts(n) }

// FreeAddresses is FreePorts as host:port.
func FreeAddresses(n int) ([]string, error) {
	ports, err := freePorts(n)
	addresses := make([]string, 0, n)
	for _, port := range ports {
		addresses = append(addresses, hostPort(port))
	}
	return addresses, err
}
