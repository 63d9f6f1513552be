package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Authority signs certificates, which are good for a day.
type Authority struct {
	File string // its own certificate

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its key, in PEM form and in files.
type Pair struct {
	Cert, Key         []byte
	CertFile, KeyFile string
}

// NewAuthority makes an authority, which keeps its files in a directory.
func NewAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir, cert: certificate("authority")}
	a.cert.IsCA, a.cert.BasicConstraintsValid = true, true
	a.cert.KeyUsage = x509.KeyUsageCertSign
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	pair, err := a.sign(a.cert, a.key)
	a.File = pair.CertFile
	return a, err
}

// Issue makes a certificate with this common name, for servers on this machine and for clients.
func (a *Authority) Issue(name string) (Pair, error) {
	template := certificate(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return a.sign(template, key)
}

func certificate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // the reader cannot fail
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (p Pair, err error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return p, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return p, err
	}
	file := filepath.Join(a.dir,
		fmt.Sprintf("%s-%x", strings.ReplaceAll(template.Subject.CommonName, " ", "-"),
			template.SerialNumber))
	p = Pair{
		Cert:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:      pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		CertFile: file + ".crt", KeyFile: file + ".key",
	}
	return p, p.WriteTo(p.CertFile, p.KeyFile)
}

// WriteTo writes the certificate and its key to files.
func (p Pair) WriteTo(certFile, keyFile string) error {
	if err := os.WriteFile(keyFile, p.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, p.Cert, 0o600)
}
