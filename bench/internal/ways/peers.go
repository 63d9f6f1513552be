package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// closer is a server.
type closer interface{ Close() error }

// set has the servers of a stage and the ways to its database.
type set struct {
	Ways     []*Way
	Programs []string // the versions of everything, for the reader

	servers []closer  // in the order of their start
	tls     *tlsFiles // nil: no TLS
}

// tlsFiles are what encrypted connections need.
type tlsFiles struct {
	dir       string
	authority *servers.Authority
	pair      servers.Pair // of server and proxies
}

// encrypt makes the certificates of a stage with TLS.
func (s *set) encrypt() error {
	dir, err := os.MkdirTemp("", "bench-tls")
	if err != nil {
		return err
	}
	s.tls = &tlsFiles{dir: dir}
	s.servers = append(s.servers, s.tls)
	if s.tls.authority, err = servers.NewAuthority(dir); err != nil {
		return err
	}
	s.tls.pair, err = s.tls.authority.Issue("localhost")
	return err
}

// Close removes the files.
func (t *tlsFiles) Close() error { return os.RemoveAll(t.dir) }

// forProxy returns the certificate of a proxy; nil without TLS.
func (t *tlsFiles) forProxy() *servers.Pair {
	if t == nil {
		return nil
	}
	return &t.pair
}

// forGuard returns the settings of a guard.
func (t *tlsFiles) forGuard(settings map[string]string) map[string]string {
	if t == nil {
		return settings
	}
	all := map[string]string{"GUARD_TLS_CERT": t.pair.CertFile, "GUARD_TLS_KEY": t.pair.KeyFile}
	maps.Copy(all, settings)
	return all
}

// Close ends all servers, the last one first.
func (s *set) Close() (err error) {
	for i := len(s.servers) - 1; i >= 0; i-- {
		err = errors.Join(err, s.servers[i].Close())
	}
	return err
}

// proxy is a peer that has started.
type proxy interface {
	closer
	Addr() string
	PID() int
}

// add adds a way through a peer. A peer that is not installed is named and left out.
func (s *set) add(name string, progress io.Writer, p proxy, err error) error {
	if missing, ok := errors.AsType[*servers.MissingError](err); ok {
		fmt.Fprintf(progress, "without %s: %v\n", name, missing)
		return nil
	}
	if err != nil {
		return err
	}
	s.servers = append(s.servers, p)
	s.Ways = append(s.Ways, &Way{
		Name: name, Addr: p.Addr(), TLS: s.tls != nil, Database: database, pid: p.PID,
	})
	return nil
}

// started is for the results of functions that return a nil pointer with their error.
func started[P proxy](p P, err error) (proxy, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// version adds the name and the version that a program prints.
func (s *set) version(ctx context.Context, program string, args ...string) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return // the figures do not need it
	}
	if name := parseVersion(string(out)); name != "" {
		s.Programs = append(s.Programs, name)
	}
}

var upToVersion = regexp.MustCompile(`^[^\n]*?\d+\.\d+(\.\d+)?`)

// parseVersion returns the first line as far as its first version number.
func parseVersion(out string) string {
	return strings.TrimPrefix(upToVersion.FindString(out), "This is ")
}
