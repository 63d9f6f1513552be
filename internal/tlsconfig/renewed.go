package tlsconfig

import (
	"crypto/tls"
	"sync"
)

// ClientCertificate reads a certificate and its key, and returns a function for
// tls.Config.GetClientCertificate that uses the newest files which can be used. It looks whether they
// have changed at a handshake, once a second at most. Connections keep the certificate that they
// have begun with.
func ClientCertificate(cert, key string) (
	func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error,
) {
	r := &renewed{files: Files{Cert: cert, Key: key}}
	r.seen = see(r.files)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	r.pair = &pair
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.current(), nil }, nil
}

// renewed is a certificate of a client whose files may be replaced.
type renewed struct {
	files Files

	mu   sync.Mutex
	pair *tls.Certificate
	seen seen
}

// current returns the newest certificate. Files that cannot be used, such as a certificate whose key
// is still to come, leave the one before in use: the server says so when it has expired.
func (r *renewed) current() *tls.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, changed := r.seen.look(r.files)
	if !changed {
		return r.pair
	}
	if pair, err := tls.LoadX509KeyPair(r.files.Cert, r.files.Key); err == nil {
		r.pair, r.seen.version = &pair, version
	}
	return r.pair
}
