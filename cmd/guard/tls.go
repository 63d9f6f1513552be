package main

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/settings"
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
func (c *config) tls(log *slog.Logger, m *guard.Metrics) (guard.TLS, error) {
	server, err := certificate("clients", c.tlsFiles(), log, m)
	if err != nil {
		return guard.TLS{}, fmt.Errorf("GUARD_TLS_CERT, GUARD_TLS_KEY, GUARD_TLS_CLIENT_CA: %w", err)
	}
	return guard.TLS{
		Server: server, Require: c.TLSRequire,
		VerifyName: c.TLSClientCA != "" && c.TLSClientAuth == certVerifyFull,
	}, nil
}

// certificate reads a certificate, logs each new one, and has the metrics show when it expires. It
// returns nil if there is none. whose says who sees it: clients or pages.
func certificate(
	whose string, f tlsconfig.Files, log *slog.Logger, m *guard.Metrics,
) (*tlsconfig.Server, error) {
	if f.Cert == "" {
		return nil, nil
	}
	server, err := tlsconfig.NewServer(f, tlsconfig.Reports{
		Failed: func(err error) { log.Error("TLS", "certificate", whose, "err", err) },
		Used: func(x *x509.Certificate) {
			log.Info("certificate in use", "certificate", whose, "serial", fmt.Sprintf("%X", x.SerialNumber),
				"subject", x.Subject.String(), "names", namesIn(x), "not_after", x.NotAfter.UTC())
		},
	})
	if err != nil {
		return nil, err
	}
	m.Certificate(whose, func() time.Time { return server.Certificate().NotAfter })
	return server, nil
}

// ownCertificates has the metrics show when the certificates expire with which the guard logs in,
// to its servers and to the coordinator.
func (c *config) ownCertificates(m *guard.Metrics) {
	showOwn(m, "coordinator", c.Coordinator)
	for _, s := range c.configured() {
		if _, upstream := s.Addresses(); upstream != "" {
			showOwn(m, s.name(), upstream)
		}
	}
}

// showOwn has the metrics show when the certificate of a URL expires. One that cannot be read is
// for the connection to report; a driver may have a password for its key.
func showOwn(m *guard.Metrics, whose string, u settings.URL) {
	cert := u.Option("sslcert")
	if cert == "" {
		return
	}
	current, err := tlsconfig.ClientCertificate(cert, u.Option("sslkey"))
	if err != nil {
		return
	}
	m.Certificate(whose, func() time.Time {
		pair, _ := current(nil) // the last one that could be read
		return pair.Leaf.NotAfter
	})
}

// namesIn returns the names and addresses for which a certificate is valid.
func namesIn(x *x509.Certificate) []string {
	names := append([]string{}, x.DNSNames...)
	for _, ip := range x.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range x.URIs {
		names = append(names, uri.String())
	}
	return names
}
