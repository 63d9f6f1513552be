package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Values of GUARD_TLS_CLIENT_AUTH, named as Postgres names them (pg_hba.conf, clientcert).
const (
	certOptional   = "optional"
	certVerifyCA   = "verify-ca"
	certVerifyFull = "verify-full"
)

func (c *config) checkTLS(bad func(string, ...any)) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("GUARD_TLS_CERT and GUARD_TLS_KEY: set both or neither")
	}
	for name, set := range map[string]bool{
		"GUARD_TLS_REQUIRE": c.TLSRequire, "GUARD_TLS_CLIENT_CA": c.TLSClientCA != "",
	} {
		if set && c.TLSCert == "" {
			bad("%s is set, GUARD_TLS_CERT is not", name)
		}
	}
	modes := []string{certOptional, certVerifyCA, certVerifyFull}
	if !slices.Contains(modes, c.TLSClientAuth) {
		bad("GUARD_TLS_CLIENT_AUTH is %q, none of %s", c.TLSClientAuth, strings.Join(modes, ", "))
	}
}

func (c *config) tlsFiles() tlsconfig.Files {
	return tlsconfig.Files{
		Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA,
		ClientCertOptional: c.TLSClientAuth == certOptional,
	}
}

// tls reads the certificate for the clients.
func (c *config) tls(log *slog.Logger) (guard.TLS, error) {
	if c.TLSCert == "" {
		return guard.TLS{}, nil
	}
	server, err := tlsconfig.NewServer(c.tlsFiles(), func(err error) { log.Error("TLS", "err", err) })
	if err != nil {
		return guard.TLS{}, fmt.Errorf("GUARD_TLS_CERT, GUARD_TLS_KEY, GUARD_TLS_CLIENT_CA: %w", err)
	}
	return guard.TLS{
		Server: server, Require: c.TLSRequire,
		VerifyName: c.TLSClientCA != "" && c.TLSClientAuth == certVerifyFull,
	}, nil
}
