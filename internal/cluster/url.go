package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ringfence/ringfence/internal/hostlist"
	"github.com/ringfence/ringfence/internal/tlsconfig"
)

const (
	defaultPort   = "2379"
	defaultPrefix = "/ringfence"
)

// Address is what a URL says.
type Address struct {
	hosts          []string // host:port
	user, password string
	prefix         string // of all keys, without a final slash
	tls            *tls.Config
}

// endpoints are the hosts as the client library wants them.
func (a Address) endpoints() []string {
	scheme := "http://"
	if a.tls != nil {
		scheme = "https://"
	}
	endpoints := make([]string, len(a.hosts))
	for i, h := range a.hosts {
		endpoints[i] = scheme + h
	}
	return endpoints
}

// ParseURL reads an etcd URL; see Open in fence/etcd for its form. Errors never show the URL,
// because it may hold a password.
func ParseURL(s string) (Address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return Address{}, errors.New("an etcd URL starts with etcd:// or etcds://, as in " +
			"etcd://h1:2379,h2:2379/ringfence")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(path, "@#") || strings.Contains(query, "@") {
		// Do not show them: they may be part of a password.
		return Address{}, errors.New("an etcd URL takes no @ and no # after its first / or ?; " +
			"write /, ? and # in a user or password as %2F, %3F and %23")
	}
	list, err := hostlist.Parse(authority, "etcd", defaultPort)
	if err != nil {
		return Address{}, err
	}
	a := Address{hosts: list.Hosts, user: list.User, password: list.Password}
	if a.prefix, err = parsePrefix(path); err != nil {
		return Address{}, err
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return Address{}, errors.New("the options after ? in the etcd URL cannot be read")
	}
	if scheme == "etcds" {
		a.tls, err = tlsconfig.Client("etcds", options)
		return a, err
	}
	for name := range options {
		return Address{}, fmt.Errorf("option %q: an etcd:// URL takes no options; "+
			"those of TLS need etcds://", name)
	}
	return a, nil
}

func parsePrefix(path string) (string, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return defaultPrefix, nil
	}
	bad := func(r rune) bool { return r <= ' ' || r == '%' }
	if strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.ContainsFunc(path, bad) {
		return "", fmt.Errorf("prefix %q in the etcd URL has an empty part, a space or a %%", "/"+path)
	}
	return "/" + path, nil
}
