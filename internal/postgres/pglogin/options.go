package pglogin

import (
	"net/url"
	"strings"
)

// Parse parses a URL of Postgres. It may name several hosts with ports, which package url refuses:
// then Host has all of them.
func Parse(s string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	hosts := authority[strings.LastIndexByte(authority, '@')+1:]
	if !strings.Contains(hosts, ",") {
		return url.Parse(s)
	}
	before := scheme + "://" + strings.TrimSuffix(authority, hosts)
	u, err := url.Parse(before + "several" + rest[len(authority):])
	if err == nil {
		u.Host = hosts
	}
	return u, err
}

// Options reads the options of a URL, as libpq and the driver do: a + is no blank.
func Options(query string) (url.Values, error) {
	return url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
}

// Query writes options so that Options, libpq and the driver read them.
func Query(options url.Values) string {
	return strings.ReplaceAll(options.Encode(), "+", "%20")
}
