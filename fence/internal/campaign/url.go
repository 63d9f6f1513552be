package campaign

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Address is what the URL of a coordinator says.
type Address struct {
	Hosts          []string         // host:port
	User, Password string           // no user: none
	Changing       *password.Source // where the password is instead; nil: it is Password
	Path           string           // without a final slash
	TLS            *tls.Config      // nil without
}

// Form is the form of a coordinator's URL, which net/url cannot read:
//
//	SCHEME://[user:password@]host[:port][,host[:port]…][/path]
//	SCHEMEs://…[?options of TLS]
//	SCHEME[s]://user@…?password_file=FILE
//	SCHEME[s]://user@…?password_command=COMMAND
type Form struct {
	Kind    string                 // of coordinator, for messages
	Scheme  string                 // without TLS
	Port    string                 // the default
	BadPart func(part string) bool // a part of the path that no name can be
}

// Parse reads a URL. The default path is /ringfence. Errors never show a password.
func (f Form) Parse(s string) (a Address, err error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != f.Scheme && scheme != f.Scheme+"s" {
		return Address{}, fmt.Errorf("a URL of %s starts with %[2]s:// or %[2]ss://, as in "+
			"%[2]s://h1:%[3]s,h2:%[3]s/ringfence", f.Kind, f.Scheme, f.Port)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(path, "@#") || strings.Contains(query, "@") {
		// Do not show them: they may be part of a password.
		return Address{}, fmt.Errorf("the %s URL takes no @ and no # after its first / or ?; "+
			"write /, ? and # in a user or password as %%2F, %%3F and %%23", f.Kind)
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return Address{}, fmt.Errorf("the options after ? in the %s URL cannot be read", f.Kind)
	}
	if a.Changing, err = password.Cut(options); err != nil {
		return Address{}, fmt.Errorf("the %s URL: %w", f.Kind, err)
	}
	at := strings.LastIndexByte(authority, '@')
	if a.User, a.Password, err = f.credentials(authority[:max(at, 0)], at >= 0,
		a.Changing); err != nil {
		return Address{}, err
	}
	authority = authority[at+1:]
	for one := range strings.SplitSeq(authority, ",") {
		host, err := parseHost(one, f.Kind, f.Port)
		if err != nil {
			return Address{}, err
		}
		a.Hosts = append(a.Hosts, host)
	}
	if a.Path, err = f.parsePath(path); err != nil {
		return Address{}, err
	}
	if scheme != f.Scheme {
		a.TLS, err = tlsconfig.Client(scheme, options)
		return a, err
	}
	for name := range options {
		return Address{}, fmt.Errorf("option %q: a URL with %[2]s:// takes no options but those of a "+
			"password; those of TLS need %[2]ss://", name, f.Scheme)
	}
	return a, nil
}

func (f Form) parsePath(path string) (string, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return "/ringfence", nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || f.BadPart(part) {
			return "", fmt.Errorf("path %q in the %s URL has a part that cannot be a name", "/"+path, f.Kind)
		}
	}
	return "/" + path, nil
}

// credentials reads what is before the @, if there is one.
func (f Form) credentials(
	s string, set bool, changing *password.Source,
) (user, fixed string, err error) {
	switch {
	case changing == nil && !set:
		return "", "", nil
	case changing == nil:
		return parseCredentials(s, f.Kind)
	case s == "":
		return "", "", fmt.Errorf("the %s URL has %s, and no user", f.Kind, changing)
	case strings.Contains(s, ":"):
		return "", "", fmt.Errorf("the %s URL has a password, and %s", f.Kind, changing)
	}
	if user, err = url.PathUnescape(s); err != nil {
		return "", "", badEscape(f.Kind)
	}
	return user, "", nil
}

func badEscape(kind string) error {
	return fmt.Errorf("user or password in the %s URL has a %% that is not followed by "+
		"two hexadecimal digits; write %% as %%25", kind)
}

func parseCredentials(s, kind string) (user, fixed string, err error) {
	rawUser, rawPassword, ok := strings.Cut(s, ":")
	if !ok || rawUser == "" || rawPassword == "" {
		return "", "", fmt.Errorf("credentials in the %s URL have the form user:password@", kind)
	}
	user, userErr := url.PathUnescape(rawUser)
	fixed, passwordErr := url.PathUnescape(rawPassword)
	if userErr != nil || passwordErr != nil {
		return "", "", badEscape(kind)
	}
	return user, fixed, nil
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
	if err != nil || host == "" || strings.ContainsAny(host, " \t@#%") {
		return "", fmt.Errorf("host %q in the %s URL is not of the form host or host:port "+
			"(IPv6 in brackets)", s, kind)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q of host %q in the %s URL is not a number from 1 to 65535",
			port, host, kind)
	}
	return net.JoinHostPort(host, port), nil
}
