package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
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
	config  renewed[*tls.Config]
	reports Reports
	told    *x509.Certificate // the last one that was reported; the mutex of config guards it
}

// Reports are told what becomes of the files. Either may be nil.
type Reports struct {
	Failed func(error)             // a later version of them cannot be used
	Used   func(*x509.Certificate) // this certificate is in use from now on, the first one too
}

// NewServer reads the files.
func NewServer(f Files, reports Reports) (*Server, error) {
	s := &Server{reports: reports}
	s.config = renewed[*tls.Config]{read: Files.read, used: s.tell}
	use, err := s.Prepare(f)
	if err != nil {
		return nil, err
	}
	use()
	return s, nil
}

// Prepare reads these files at once. use has them used from now on in place of those before. Until
// then nothing has changed.
func (s *Server) Prepare(f Files) (use func(), err error) {
	return s.config.prepare(f)
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

// Certificate returns the certificate that is in use.
func (s *Server) Certificate() *x509.Certificate { return s.current().Certificates[0].Leaf }

// current returns the configuration of the newest files that can be used.
func (s *Server) current() *tls.Config {
	c, err := s.config.current()
	if err != nil && s.reports.Failed != nil {
		s.reports.Failed(fmt.Errorf("the new certificate cannot be used, keeping the previous one: %w",
			err))
	}
	return c
}

// tell reports the certificate in use, unless it is the one that was reported last: only the key,
// or the authorities, are new then.
func (s *Server) tell(c *tls.Config) {
	leaf := c.Certificates[0].Leaf
	if s.told != nil && s.told.Equal(leaf) {
		return
	}
	s.told = leaf
	if s.reports.Used != nil {
		s.reports.Used(leaf)
	}
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
