package ensemble

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const (
	scheme      = "zk://"
	defaultPort = "2181"
	defaultRoot = "/ringfence"
)

// Address has the parts of a URL.
type Address struct {
	Hosts          []string // host:port
	User, Password string   // digest credentials; none if User is ""
	Root           string   // parent of our znodes, without a final slash
}

// ParseURL reads zk://[user:password@]host[:port][,host[:port]…][/root]. Errors never show the URL,
// because it may contain a password.
func ParseURL(s string) (Address, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return Address{}, errors.New("a ZooKeeper URL starts with zk://, as in " +
			"zk://h1:2181,h2:2181/ringfence")
	}
	if strings.ContainsAny(rest, "?#") {
		return Address{}, errors.New("a ZooKeeper URL takes no ? and no #; " +
			"write them as %3F and %23 in a password")
	}
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") { // do not show the path: it may be part of a password
		return Address{}, errors.New("a ZooKeeper URL takes no @ after its first /; " +
			"write / in a user or password as %2F")
	}
	var a Address
	var err error
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if a.User, a.Password, err = parseCredentials(authority[:at]); err != nil {
			return Address{}, err
		}
		authority = authority[at+1:]
	}
	if a.Hosts, err = parseHosts(authority); err != nil {
		return Address{}, err
	}
	if a.Root, err = parseRoot(path); err != nil {
		return Address{}, err
	}
	return a, nil
}

func parseCredentials(s string) (user, password string, err error) {
	rawUser, rawPassword, ok := strings.Cut(s, ":")
	if !ok || rawUser == "" || rawPassword == "" {
		return "", "", errors.New("credentials in a ZooKeeper URL have the form user:password@")
	}
	user, userErr := url.PathUnescape(rawUser)
	password, passwordErr := url.PathUnescape(rawPassword)
	if userErr != nil || passwordErr != nil {
		return "", "", errors.New("user or password in the ZooKeeper URL has a % that is not " +
			"followed by two hexadecimal digits; write % as %25")
	}
	if strings.Contains(user, ":") {
		return "", "", errors.New("the user in the ZooKeeper URL has a colon, which digest " +
			"credentials cannot have")
	}
	return user, password, nil
}

func parseHosts(s string) ([]string, error) {
	var hosts []string
	for one := range strings.SplitSeq(s, ",") {
		host, err := parseHost(one)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

func parseHost(s string) (string, error) {
	if s == "" {
		return "", errors.New("the ZooKeeper URL has no host, or an empty one in its list")
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if net.ParseIP(bare) != nil && (bare != s || !strings.Contains(s, ":")) {
		return net.JoinHostPort(bare, defaultPort), nil // an address without a port; IPv6 in brackets
	}
	if !strings.Contains(s, ":") {
		s += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, " \t@%") {
		return "", fmt.Errorf("host %q in the ZooKeeper URL is not of the form host or host:port "+
			"(IPv6 in brackets)", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q of host %q in the ZooKeeper URL is not a number "+
			"from 1 to 65535", port, host)
	}
	return net.JoinHostPort(host, port), nil
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
