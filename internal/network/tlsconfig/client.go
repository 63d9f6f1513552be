package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
)

// clientOptions are the names of the options of a URL, which are those of a Postgres URL.
var clientOptions = []string{"sslmode", "sslrootcert", "sslcert", "sslkey"}

// Client returns the configuration that the options of a URL ask for:
//
//	sslmode      verify-full (the default), verify-ca, which accepts any host name, or require,
//	             which accepts any certificate unless sslrootcert is set
//	sslrootcert  file with the certificates of the authorities; those of the system by default
//	sslcert      file with the client's certificate; a new one is used without a restart
//	sslkey       file with its key
//
// The caller sets ServerName. name is the kind of URL, for messages; an option of another name is
// an error.
func Client(name string, options url.Values) (*tls.Config, error) {
	for option := range options {
		if !slices.Contains(clientOptions, option) {
			return nil, fmt.Errorf("option %q in the %s URL is none of sslmode, sslrootcert, sslcert and "+
				"sslkey",
				option, name)
		}
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if file := options.Get("sslrootcert"); file != "" {
		if cfg.RootCAs, err = authorities(file); err != nil {
			return nil, fmt.Errorf("sslrootcert: %w", err)
		}
	}
	if err := setMode(cfg, options.Get("sslmode")); err != nil {
		return nil, fmt.Errorf("%w in the %s URL", err, name)
	}
	cert, key := options.Get("sslcert"), options.Get("sslkey")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("the %s URL needs both sslcert and sslkey, or neither", name)
	}
	if cert != "" {
		if cfg.GetClientCertificate, err = ClientCertificate(cert, key); err != nil {
			return nil, fmt.Errorf("sslcert, sslkey: %w", err)
		}
	}
	return cfg, nil
}

// setMode sets how a server's certificate is checked (libpq, "SSL Mode Descriptions").
func setMode(cfg *tls.Config, mode string) error {
	switch mode {
	case "", "verify-full":
		return nil
	case "verify-ca":
	case "require":
		if cfg.RootCAs == nil {
			cfg.InsecureSkipVerify = true
			return nil
		}
	default:
		return errors.New("sslmode is none of verify-full, verify-ca and require")
	}
	cfg.InsecureSkipVerify = true // of the name; the chain is verified below
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		others := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			others.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: cfg.RootCAs, Intermediates: others,
		})
		return err
	}
	return nil
}

// authorities reads certificates in PEM form.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(file + " has no certificate in PEM form")
	}
	return pool, nil
}

// ClientCertificate reads a certificate and its key, and returns a function for
// tls.Config.GetClientCertificate that uses the newest files which can be used. It looks whether
// they have changed at a handshake, once a second at most. Connections keep the certificate that
// they have begun with.
func ClientCertificate(cert, key string) (
	func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error,
) {
	r := &renewed[*tls.Certificate]{read: func(f Files) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		return &pair, err
	}}
	use, err := r.prepare(Files{Cert: cert, Key: key})
	if err != nil {
		return nil, err
	}
	use()
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, _ := r.current() // the server says so when the previous one has expired
		return pair, nil
	}, nil
}
