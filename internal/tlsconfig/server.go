package tlsconfig

import (
	"crypto/tls"
	"fmt"
	"sync"
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
	files Files
	warn  func(error)

	mu     sync.Mutex
	config *tls.Config
	seen   seen
}

// NewServer reads the files. warn is told when a later version of them cannot be used.
func NewServer(f Files, warn func(error)) (*Server, error) {
	s := &Server{files: f, warn: warn, seen: see(f)}
	var err error
	s.config, err = f.read()
	return s, err
}

// Reload reads these files at once, and uses them from now on in place of those before. After an error
// nothing has changed.
func (s *Server) Reload(f Files) error {
	now := see(f)
	config, err := f.read()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.config, s.seen = f, config, now
	return nil
}

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
	s.mu.Lock()
	defer s.mu.Unlock()
	version, changed := s.seen.look(s.files)
	if !changed {
		return s.config
	}
	s.seen.version = version
	c, err := s.files.read()
	if err != nil {
		s.warn(fmt.Errorf("the new certificate cannot be used, keeping the previous one: %w", err))
		return s.config
	}
	s.config = c
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
