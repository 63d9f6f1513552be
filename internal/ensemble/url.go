package ensemble

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
	scheme      = "zk://"
	tlsScheme   = "zks://"
	defaultPort = "2181"
	defaultRoot = "/ringfence"
)

// Address has the parts of a URL.
type Address struct {
	Hosts          []string // host:port
	User, Password string   // digest credentials; none if User is ""
	Root           string   // parent of our znodes, without a final slash

	tls *tls.Config // nil for zk://
}

// ParseURL reads zk://[user:password@]host[:port][,host[:port]…][/root], or the same with zks:// and
// with options of TLS after a question mark (package tlsconfig). Errors never show the URL, because
// it may contain a password.
func ParseURL(s string) (Address, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		if rest, ok = strings.CutPrefix(s, tlsScheme); ok {
			return parseEncrypted(rest)
		}
		return Address{}, errors.New("a ZooKeeper URL starts with zk:// or zks://, as in " +
			"zk://h1:2181,h2:2181/ringfence")
	}
	return parseAddress(rest)
}

// parseEncrypted reads what follows zks://.
func parseEncrypted(rest string) (Address, error) {
	rest, query, _ := strings.Cut(rest, "?")
	a, err := parseAddress(rest)
	if err != nil {
		return Address{}, err
	}
	options, err := url.ParseQuery(query)
	if err != nil || strings.Contains(query, "@") {
		return Address{}, errors.New("the options after ? in the ZooKeeper URL cannot be read")
	}
	a.tls, err = tlsconfig.Client("zks", options)
	return a, err
}

// parseAddress reads what follows the scheme.
func parseAddress(rest string) (Address, error) {
	if strings.ContainsAny(rest, "?#") {
		return Address{}, errors.New("a ZooKeeper URL takes no ? and no #; " +
			"write them as %3F and %23 in a password")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") { // do not show the path: it may be part of a password
		return Address{}, errors.New("a ZooKeeper URL takes no @ after its first /; " +
			"write / in a user or password as %2F")
	}
	a, err := hostlist.Parse(authority, "ZooKeeper", defaultPort)
	if err != nil {
		return Address{}, err
	}
	if strings.Contains(a.User, ":") {
		return Address{}, errors.New("the user in the ZooKeeper URL has a colon, which digest " +
			"credentials cannot have")
	}
	root, err := parseRoot(path)
	if err != nil {
		return Address{}, err
	}
	return Address{Hosts: a.Hosts, User: a.User, Password: a.Password, Root: root}, nil
}

func parseRoot(path string) (string, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return defaultRoot, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, BadInName) {
			return "", fmt.Errorf("path %q in the ZooKeeper URL has a part that cannot name a znode",
				"/"+path)
		}
	}
	if path == "zookeeper" || strings.HasPrefix(path, "zookeeper/") {
		return "", errors.New("the path /zookeeper in the ZooKeeper URL belongs to ZooKeeper itself")
	}
	return "/" + path, nil
}

// BadInName reports whether no name of a znode may contain the rune. ZooKeeper refuses control
// characters, and a % would look like an encoding, which nobody decodes.
func BadInName(r rune) bool {
	return r <= 0x1f || 0x7f <= r && r <= 0x9f ||
		r == '%' || r >= 0xd800
}
