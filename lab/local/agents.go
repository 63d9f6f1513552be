package local

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// startAgents starts the agents of all workers, if the topology has them.
func (s *System) startAgents(ctx context.Context) (err error) {
	if !s.build.Topology.Agents {
		return nil
	}
	if s.sockets, err = os.MkdirTemp("", "agents"); err != nil {
		// the run's folder may be too long for a socket
		return err
	}
	var starts []func() error
	for _, worker := range s.build.Topology.WorkerNames() {
		to, err := s.linked(worker)
		if err != nil {
			return err
		}
		name := scenario.AgentOf(worker)
		p, err := s.newAgent(name, to)
		if err != nil {
			return err
		}
		s.processes[name] = p
		starts = append(starts, func() error { return p.Start(ctx) })
	}
	return atOnce(starts)
}

// newAgent prepares an agent that reaches everything by its worker's links.
func (s *System) newAgent(name string, to system.Routes) (*servers.Program, error) {
	env := []string{s.tag.value}
	for name, value := range s.build.AgentEnv(to) {
		env = append(env, name+"="+value)
	}
	return servers.NewProgram(servers.ProgramOptions{
		Name: name, Command: []string{s.build.Programs.Leader, "agent", "--listen", "unix:" + to.Agent},
		Log: filepath.Join(s.build.Dir, name+".log"), Env: func() []string { return env },
		Ready: func(ctx context.Context) error {
			c, err := new(net.Dialer).DialContext(ctx, "unix", to.Agent)
			if err != nil {
				return err
			}
			return c.Close()
		},
	})
}

// socketOf returns the socket of a worker's agent; "" if it has none.
func (s *System) socketOf(worker string) string {
	if s.sockets == "" {
		return ""
	}
	return filepath.Join(s.sockets, scenario.AgentOf(worker))
}

// machine returns what is on the machine of a process: the process, and its agent if it has one.
func (s *System) machine(name string) []string {
	if agent := scenario.AgentOf(name); agent != name && s.processes[agent] != nil {
		return []string{name, agent}
	}
	return []string{name}
}
