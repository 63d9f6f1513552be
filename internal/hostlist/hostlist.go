// Package hostlist reads the part of a coordinator's URL that both ZooKeeper and etcd have, and
// net/url cannot read: user:password@host:port,host:port. Its errors never show a password.
package hostlist

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Authority is what stands between :// and the path.
type Authority struct {
	Hosts          []string // host:port
	User, Password string   // no user: none
}

// Parse reads an authority. kind names the URL in errors, such as "ZooKeeper". A host without a
// port gets the default one. IPv6 addresses are in brackets.
func Parse(s, kind, defaultPort string) (Authority, error) {
	var a Authority
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		var err error
		if a.User, a.Password, err = parseCredentials(s[:at], kind); err != nil {
			return Authority{}, err
		}
		s = s[at+1:]
	}
	for one := range strings.SplitSeq(s, ",") {
		host, err := parseHost(one, kind, defaultPort)
		if err != nil {
			return Authority{}, err
		}
		a.Hosts = append(a.Hosts, host)
	}
	return a, nil
}

func parseCredentials(s, kind string) (user, password string, err error) {
	rawUser, rawPassword, ok := strings.Cut(s, ":")
	if !ok || rawUser == "" || rawPassword == "" {
		return "", "", fmt.Errorf("credentials in the %s URL have the form user:password@", kind)
	}
	user, userErr := url.PathUnescape(rawUser)
	password, passwordErr := url.PathUnescape(rawPassword)
	if userErr != nil || passwordErr != nil {
		return "", "", fmt.Errorf("user or password in the %s URL has a %% that is not followed by "+
			"two hexadecimal digits; write %% as %%25", kind)
	}
	return user, password, nil
}

func parseHost(s, kind, defaultPort string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("the %s URL has no host, or an empty one in its list", kind)
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if net.ParseIP(bare) != nil && (bare != s || !strings.Contains(s, ":")) {
		return net.JoinHostPort(bare, defaultPort), nil // an address without a port
	}
	if !strings.Contains(s, ":") {
		s += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, " \t@%") {
		return "", fmt.Errorf("host %q in the %s URL is not of the form host or host:port "+
			"(IPv6 in brackets)", s, kind)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q of host %q in the %s URL is not a number from 1 to 65535",
			port, host, kind)
	}
	return net.JoinHostPort(host, port), nil
}
