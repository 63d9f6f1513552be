package local

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// newProgram prepares a guard or worker. Its log is in the run's directory, behind a pipe if the
// topology has pipes.
func (s *System) newProgram(o servers.ProgramOptions) (*servers.Program, error) {
	o.Log = filepath.Join(s.build.Dir, o.Name+".log")
	if s.build.Topology.LogPipes {
		p, err := newLogPipe(o.Log)
		if err != nil {
			return nil, err
		}
		s.logs[o.Name], o.Stderr = p, p.open
	}
	return servers.NewProgram(o)
}

// Clog implements system.Logs.
func (s *System) Clog(_ context.Context, name string) error {
	return s.onLog(name, (*logPipe).Clog)
}

// Unclog implements system.Logs.
func (s *System) Unclog(_ context.Context, name string) error {
	return s.onLog(name, func(p *logPipe) error { p.Unclog(); return nil })
}

func (s *System) onLog(name string, do func(*logPipe) error) error {
	p, ok := s.logs[name]
	if !ok {
		return fmt.Errorf("the lab does not read the log of %s through a pipe: Topology.LogPipes", name)
	}
	return do(p)
}
