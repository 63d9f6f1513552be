package local

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/system"
)

// encryption has what connections with TLS need: one certificate for all servers and guards, and
// the authority that clients check it with. nil means no TLS.
type encryption struct {
	authority string // file
	pair      servers.Pair
}

// encrypt makes the certificate, if the topology wants TLS.
func (s *System) encrypt(b system.Build) error {
	if !b.Topology.TLS {
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(b.Dir, "tls")) // servers run in directories of their own
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	a, err := servers.NewAuthority(dir)
	if err != nil {
		return err
	}
	s.tls = &encryption{authority: a.File}
	s.tls.pair, err = a.Issue("localhost")
	return err
}

// forServer returns the certificate of a server; nil: no TLS.
func (e *encryption) forServer() *servers.Pair {
	if e == nil {
		return nil
	}
	return &e.pair
}

// ofPostgres returns the options of a Postgres with these settings. With TLS it takes no other
// connections than those of the lab itself, as the superuser.
func (e *encryption) ofPostgres(settings map[string]string) servers.PostgresOptions {
	if e == nil {
		return servers.PostgresOptions{Settings: settings}
	}
	if settings == nil {
		settings = map[string]string{}
	}
	settings["ssl"] = "on"
	return servers.PostgresOptions{
		Settings: settings,
		Files:    map[string][]byte{"server.crt": e.pair.Cert, "server.key": e.pair.Key},
		HBA: "local all all trust\n" +
			"host all postgres 127.0.0.1/32 trust\n" +
			"hostssl all all 127.0.0.1/32 trust\n" +
			"host replication all 127.0.0.1/32 trust\n",
	}
}

// ofGuard returns settings of a guard. Without a certificate its clients cannot use TLS.
func (e *encryption) ofGuard() []string {
	if e == nil {
		return nil
	}
	return []string{
		"GUARD_TLS_CERT=" + e.pair.CertFile, "GUARD_TLS_KEY=" + e.pair.KeyFile, "GUARD_TLS_REQUIRE=true",
	}
}

// ofRedis returns arguments of a Redis that also listens on a port with TLS.
func (e *encryption) ofRedis(port string) []string {
	if e == nil {
		return nil
	}
	return []string{
		"--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", e.pair.CertFile, "--tls-key-file", e.pair.KeyFile,
	}
}

// scheme returns the scheme of a URL: with TLS that of encrypted connections.
func (e *encryption) scheme(plain, encrypted string) string {
	if e == nil {
		return plain
	}
	return encrypted
}

// options returns what a URL of any kind has behind its path, other than that of Postgres.
func (e *encryption) options() string {
	if e == nil {
		return ""
	}
	return "?sslrootcert=" + url.QueryEscape(e.authority)
}

// postgres returns a URL of a Postgres, or of a guard. Of several addresses it leads to the
// primary.
func (e *encryption) postgres(role, address, database string) string {
	u := "postgres://" + role + "@" + address + "/" + database
	if e == nil {
		u += "?sslmode=disable"
	} else {
		u += "?sslmode=verify-full&sslrootcert=" + url.QueryEscape(e.authority)
	}
	if strings.Contains(address, ",") {
		u += "&target_session_attrs=primary&connect_timeout=2"
	}
	return u
}

// redis returns a URL of a Redis, or of a guard.
func (e *encryption) redis(address, database string) string {
	return e.scheme("redis", "rediss") + "://" + address + "/" + database + e.options()
}
