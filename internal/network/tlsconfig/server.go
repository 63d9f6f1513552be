package tlsconfig

import (
	"crypto/tls"
	"fmt"
)

// Files are what a server proves its identity with, and what it checks its clients with.
type Files struct {
	Cert, Key string // in PEM form; Cert may hold a chain

	// ClientCA has the authorities whose certificates clients may have; empty if none is requested.
	ClientCA string
	// ClientCertOptional lets in clients without a certificate, too.
	ClientCertOptional bool
}

// Server is the TLS configuration of a server, whose files may be replaced while it runs. It may be
// used from any goroutine.
type Server struct {
	config renewed[*tls.Config]
	warn   func(error)
}

// NewServer reads the files. warn is told when a later version of them cannot be used.
func NewServer(f Files, warn func(error)) (*Server, error) {
	s := &Server{config: renewed[*tls.Config]{read: Files.read}, warn: warn}
	return s, s.config.use(f)
}

// Reload reads these files at once, and uses them from now on in place of those before. After an error
// nothing has changed.
func (s *Server) Reload(f Files) error { return s.config.use(f) }

// Config returns a configuration that always uses the newest files. protocols are the names that a
// client may ask for (ALPN).
func (s *Server) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := s.current().Clone()
			c.NextProtos = protocols
			return c, nil
		},
	}
}

// Certificate returns the certificate that is in use, in DER form.
func (s *Server) Certificate() []byte { return s.current().Certificates[0].Certificate[0] }

// current returns the configuration of the newest files that can be used.
func (s *Server) current() *tls.Config {
	c, err := s.config.current()
	if err != nil {
		s.warn(fmt.Errorf("the new certificate cannot be used, keeping the previous one: %w", err))
	}
	return c
}

func (f Files) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		SessionTicketsDisabled: true, // every handshake checks the certificates anew, as in Postgres
	}
	if f.ClientCA == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if f.ClientCertOptional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.ClientCAs, err = authorities(f.ClientCA)
	return c, err
}
