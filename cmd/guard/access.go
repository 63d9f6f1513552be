package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// checkPages checks the settings of GUARD_HTTP_LISTEN, without reading a file.
func (c *config) checkPages(bad func(string, ...any)) {
	if strings.HasPrefix(c.HTTPListen, unixPrefix) {
		bad("GUARD_HTTP_LISTEN: %q: the pages are not served on a Unix socket", c.HTTPListen)
	}
	if c.HTTPToken != "" && c.HTTPTokenFile != "" {
		bad("GUARD_HTTP_TOKEN and GUARD_HTTP_TOKEN_FILE: set one of them")
	}
	if (c.HTTPTLSCert == "") != (c.HTTPTLSKey == "") {
		bad("GUARD_HTTP_TLS_CERT and GUARD_HTTP_TLS_KEY: set both or neither")
	}
	for name, value := range map[string]string{
		"GUARD_HTTP_TOKEN": c.HTTPToken.Reveal(), "GUARD_HTTP_TOKEN_FILE": c.HTTPTokenFile,
		"GUARD_HTTP_TLS_CERT": c.HTTPTLSCert,
	} {
		if value != "" && c.HTTPListen == "" {
			bad("%s is set, GUARD_HTTP_LISTEN is not", name)
		}
	}
}

// httpFiles are the certificate and the key of the pages.
func (c *config) httpFiles() tlsconfig.Files {
	return tlsconfig.Files{Cert: c.HTTPTLSCert, Key: c.HTTPTLSKey}
}

// maxToken is the longest token in a file, in bytes. A header with more would be refused.
const maxToken = 4096

// token returns what a request for a page has to bring, or "".
func (c *config) token() (string, error) {
	if c.HTTPTokenFile == "" {
		return c.HTTPToken.Reveal(), nil
	}
	text, err := os.ReadFile(c.HTTPTokenFile)
	if err != nil {
		return "", fmt.Errorf("GUARD_HTTP_TOKEN_FILE: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(token) > maxToken {
		return "",
			fmt.Errorf("GUARD_HTTP_TOKEN_FILE: %s has %d bytes; a token has 1 to %d", c.HTTPTokenFile,
				len(token), maxToken)
	}
	return token, nil
}

// accessWith returns who may read the pages, under a token, at an address. A browser can ask for
// the token and keep it, since a page changes nothing.
func accessWith(token string, at net.Addr) *webpage.Access {
	return &webpage.Access{
		Token: token, Basic: true, Setting: "GUARD_HTTP_TOKEN", Local: webpage.Loopback(at.String()),
	}
}

// warnOfReaders logs what somebody on the network can read.
func warnOfReaders(log *slog.Logger, a *webpage.Access, encrypted bool) {
	switch {
	case a.Local:
	case a.Token == "":
		log.Warn("whoever reaches GUARD_HTTP_LISTEN can read the status page: set GUARD_HTTP_TOKEN")
	case !encrypted:
		log.Warn("the token of the status page crosses the network in clear text: set " +
			"GUARD_HTTP_TLS_CERT, unless a proxy on this machine adds TLS")
	}
}
