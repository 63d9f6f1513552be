package systemd

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// firstSocket is the descriptor of the first socket that is passed (sd_listen_fds(3)).
const firstSocket = 3

// Sockets are the listening sockets that a process was started with.
type Sockets struct {
	files map[string][]*os.File // by name; of those that nobody has taken
}

// Inherited takes over the sockets that environ, as os.Environ returns it, says were passed to this
// process. It removes what says so from the process's own environment, so a child does not look for
// them.
func Inherited(environ []string) (*Sockets, error) {
	all := &Sockets{files: make(map[string][]*os.File)}
	pid, count := settings.Lookup(environ, "LISTEN_PID"), settings.Lookup(environ, "LISTEN_FDS")
	names := strings.Split(settings.Lookup(environ, "LISTEN_FDNAMES"), ":")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return all, nil // for another process, from which this one has its environment
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS is %q, not a number of sockets", count)
	}
	for i := range n {
		name := "unknown"
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		all.files[name] = append(all.files[name], inherited(firstSocket+i, name))
	}
	return all, nil
}

// Listener returns the only socket of this name. Close it; what it listens on stays open.
func (s *Sockets) Listener(name string) (net.Listener, error) {
	files := s.files[name]
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("no socket named %q was passed to this process, but %s: it has to be "+
			"started by a .socket unit with FileDescriptorName=%s", name, s.list(), name)
	case len(files) > 1:
		return nil,
			fmt.Errorf("%d sockets named %q were passed to this process, not one", len(files), name)
	}
	if err := mustListen(files[0]); err != nil {
		return nil, fmt.Errorf("the socket %q: %w", name, err)
	}
	l, err := net.FileListener(files[0]) // a duplicate
	if err != nil {
		return nil, fmt.Errorf("the socket %q: %w", name, err)
	}
	delete(s.files, name)
	_ = files[0].Close()
	return l, nil
}

// Left returns the names of the sockets that nobody has taken.
func (s *Sockets) Left() []string { return slices.Sorted(maps.Keys(s.files)) }

func (s *Sockets) list() string {
	if len(s.files) == 0 {
		return "none"
	}
	return strings.Join(s.Left(), ", ")
}

// Close closes the sockets that nobody has taken.
func (s *Sockets) Close() {
	for _, files := range s.files {
		for _, f := range files {
			_ = f.Close()
		}
	}
	clear(s.files)
}
