package settings

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL is a setting that may contain a password. Everything that prints it masks the password,
// except Reveal.
//
// It is not parsed with net/url, which rejects several hosts with ports, as coordinators and
// Postgres use them.
type URL string

var (
	schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://.`)
	schemeAhead   = regexp.MustCompile(`,\s*[a-z][a-z0-9+.-]*://`)
	secretQuery   = regexp.MustCompile(`(?i)([?&][a-z_.-]*(?:pass|secret|token|key)[a-z_.-]*=)[^&#]*`)
)

const mask = "xxxxx"

// UnmarshalText accepts scheme://rest. Its error does not quote the text.
func (u *URL) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if !schemePattern.MatchString(s) {
		return errors.New("not a URL of the form scheme://…")
	}
	if URL(s).ambiguous() {
		return errors.New("more than one @: write @ in a user, password or database as %40, and / as %2F")
	}
	*u = URL(s)
	return nil
}

// ambiguous reports whether the driver would take a part of the password for the host or the
// database, and print it: it ends the user and password of Postgres at the first '@', those of
// Redis at the last one before a '/'. The parser of zk:// and etcd:// prints neither. Nobody has
// looked up what the drivers of other schemes do, so they are taken for one like that of Postgres:
// a new scheme need not be named here.
func (u URL) ambiguous() bool {
	_, rest, _ := strings.Cut(string(u), "://")
	at, slash := strings.Index(rest, "@"), strings.Index(rest, "/")
	if at < 0 || slash >= 0 && slash < at {
		return false
	}
	after := rest[at+1:]
	switch u.Scheme() {
	case "zk", "zks", "etcd", "etcds":
		return false
	case "redis", "rediss", "redis+sentinel", "rediss+sentinel":
		after = ""
		if slash >= 0 {
			after = rest[slash:]
		}
	}
	after, _, _ = strings.Cut(after, "?")
	return strings.Contains(after, "@")
}

// Scheme returns the part before "://".
func (u URL) Scheme() string {
	scheme, _, _ := strings.Cut(string(u), "://")
	return scheme
}

// Option returns an option of the URL's query; empty if there is none.
func (u URL) Option(name string) string {
	_, query, _ := strings.Cut(string(u), "?")
	options, _ := url.ParseQuery(query)
	return options.Get(name)
}

// Check returns an error if the URL is set and has none of these schemes, or parse fails. setting
// is its name. The error of parse must have no secrets; parse may be nil.
func (u URL) Check(setting string, parse func(url string) error, schemes ...string) error {
	switch {
	case u == "":
		return nil
	case !slices.Contains(schemes, u.Scheme()):
		return fmt.Errorf("%s is a URL of scheme %q, not of %s", setting, u.Scheme(),
			strings.Join(schemes, " or "))
	}
	if parse == nil {
		return nil
	}
	if err := parse(u.Reveal()); err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	return nil
}

// Reveal returns the URL with its secrets, for connecting.
func (u URL) Reveal() string { return string(u) }

// String returns the URL with its secrets masked.
func (u URL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok {
		return string(u)
	}
	if at := u.userinfoEnd(rest); at >= 0 {
		if user, _, hasPassword := strings.Cut(rest[:at], ":"); hasPassword {
			rest = user + ":" + mask + rest[at:]
		}
	}
	return scheme + "://" + secretQuery.ReplaceAllString(rest, "${1}"+mask)
}

// userinfoEnd returns the index of the '@' that ends the user and password, or -1. A password may
// contain an '@', '/' or '?' that somebody forgot to escape. To mask too much is better than too
// little, so the last '@' before the query counts, or, if there is none, the last '@' of all.
func (URL) userinfoEnd(rest string) int {
	beforeQuery, _, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(beforeQuery, '@'); at >= 0 {
		return at
	}
	return strings.LastIndexByte(rest, '@')
}

// GoString and MarshalText keep %#v and encoders from printing the secret.
func (u URL) GoString() string { return u.String() }

// MarshalText returns the masked form, which cannot be loaded again.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Scrub removes the URL's secrets from a text that quotes it, such as a driver's error. A password
// that is the user's name is masked in the whole URL only: the name stands in many texts, and is no
// secret.
func (u URL) Scrub(text string) string {
	text = strings.ReplaceAll(text, string(u), u.String())
	_, rest, _ := strings.Cut(string(u), "://")
	if at := u.userinfoEnd(rest); at >= 0 {
		if user, password, ok := strings.Cut(rest[:at], ":"); ok && len(password) > 3 &&
			password != user {
			text = strings.ReplaceAll(text, password, mask)
		}
	}
	return text
}

// URLs is a comma-separated list of URLs. Only a comma before the next scheme separates, so a URL
// may have commas between its hosts.
type URLs []URL

// UnmarshalText splits the list.
func (us *URLs) UnmarshalText(text []byte) error {
	rest := string(text)
	*us = nil
	for rest != "" {
		one := rest
		rest = ""
		if at := schemeAhead.FindStringIndex(one); at != nil {
			one, rest = one[:at[0]], one[at[0]+1:]
		}
		var u URL
		if err := u.UnmarshalText([]byte(one)); err != nil {
			return err
		}
		*us = append(*us, u)
	}
	return nil
}

// String returns the list with secrets masked.
func (us URLs) String() string {
	all := make([]string, len(us))
	for i, u := range us {
		all[i] = u.String()
	}
	return strings.Join(all, ",")
}
