package settings

import (
	"errors"
	"regexp"
	"strings"
)

// URL is a setting that may have a password in it. Everything that prints it masks that; Reveal does not.
//
// It is not taken apart with net/url, which refuses several hosts with ports, as coordinators and Postgres have them.
type URL string

var (
	schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://.`)
	schemeAhead   = regexp.MustCompile(`,\s*[a-z][a-z0-9+.-]*://`)
	secretQuery   = regexp.MustCompile(`(?i)([?&][a-z_.-]*(?:pass|secret|token|key)[a-z_.-]*=)[^&#]*`)
)

const mask = "xxxxx"

// UnmarshalText takes scheme://rest. Its error does not quote what it refuses.
func (u *URL) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if !schemePattern.MatchString(s) {
		return errors.New("not a URL of the form scheme://…")
	}
	*u = URL(s)
	return nil
}

// Scheme is what stands before "://".
func (u URL) Scheme() string {
	scheme, _, _ := strings.Cut(string(u), "://")
	return scheme
}

// Reveal is the URL with its secrets, for whoever has to connect.
func (u URL) Reveal() string { return string(u) }

// String is the URL with its secrets masked.
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

// userinfoEnd is where the '@' stands that ends the user and password, or -1. A password may have an '@', '/' or '?'
// that somebody forgot to escape; masking too much is better than too little, so the last '@' before the query counts,
// and where there is none, the last '@' of all.
func (URL) userinfoEnd(rest string) int {
	beforeQuery, _, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(beforeQuery, '@'); at >= 0 {
		return at
	}
	return strings.LastIndexByte(rest, '@')
}

// GoString and MarshalText keep %#v and encoders from printing the secret.
func (u URL) GoString() string { return u.String() }

// MarshalText is the masked form: what was marshalled cannot be loaded again.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Scrub takes the URL's secrets out of a text that somebody else made of it, such as a driver's error.
func (u URL) Scrub(text string) string {
	text = strings.ReplaceAll(text, string(u), u.String())
	_, rest, _ := strings.Cut(string(u), "://")
	if at := u.userinfoEnd(rest); at >= 0 {
		if _, password, ok := strings.Cut(rest[:at], ":"); ok && len(password) > 3 {
			text = strings.ReplaceAll(text, password, mask)
		}
	}
	return text
}

// URLs is a list of them with commas between. A comma within a URL, between the hosts of one database, is kept: only a
// comma before the next scheme separates.
type URLs []URL

// UnmarshalText takes the list apart.
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

// String is the list, masked.
func (us URLs) String() string {
	all := make([]string, len(us))
	for i, u := range us {
		all[i] = u.String()
	}
	return strings.Join(all, ",")
}
