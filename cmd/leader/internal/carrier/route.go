package carrier

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
)

// Setting is the value of LEADER_CARRY: what is carried, and where the program finds it.
//
//	postgres,redis
//	postgres=127.0.0.1:5432,redis=unix:/run/app/redis.sock
type Setting []Address

// Address is one entry of a Setting.
type Address struct {
	Kind   string // postgres or redis
	Listen string // a loopback address, or unix:PATH; "" for one that no other term has
}

// UnmarshalText parses the value.
func (s *Setting) UnmarshalText(text []byte) error {
	*s = nil
	for entry := range strings.SplitSeq(string(text), ",") {
		kind, at, said := strings.Cut(strings.TrimSpace(entry), "=")
		a := Address{kind, at}
		if err := a.check(said); err != nil {
			return err
		}
		if slices.ContainsFunc(*s, func(b Address) bool { return b.Kind == kind }) {
			return fmt.Errorf("%s is listed twice", kind)
		}
		*s = append(*s, a)
	}
	return nil
}

// Carries reports whether a store is carried: a program that reaches it through the carrier needs
// no claim.
func (s Setting) Carries(store settings.URL) bool {
	return slices.ContainsFunc(s, func(a Address) bool {
		return slices.Contains(kinds[a.Kind].schemes, store.Scheme())
	})
}

// Fixed reports whether the address was chosen.
func (a Address) Fixed() bool { return a.Listen != "" }

func (a Address) check(said bool) error {
	if kinds[a.Kind] == nil {
		return fmt.Errorf("unsupported kind %q; there is %s", a.Kind,
			strings.Join(slices.Sorted(maps.Keys(kinds)), " and "))
	}
	if !said {
		return nil
	}
	if path, ok := strings.CutPrefix(a.Listen, unixPrefix); ok {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s: %q is no absolute path", a.Kind, path)
		}
		if _, named := strings.CutPrefix(filepath.Base(path), postgresSocket); a.Kind == "postgres" &&
			!named {
			return fmt.Errorf("postgres: clients look for a socket named %s5432, or with another number, "+
				"not %s",
				postgresSocket, filepath.Base(path))
		}
		return nil
	}
	at, err := netip.ParseAddrPort(a.Listen)
	if err != nil {
		return fmt.Errorf("%s: %q is neither an address such as %s nor unix:PATH", a.Kind, a.Listen,
			"127.0.0.1:5432")
	}
	if at.Port() == 0 {
		return fmt.Errorf("%s: %s has no port; without an address, each term has its own", a.Kind,
			a.Listen)
	}
	if !at.Addr().IsLoopback() {
		return fmt.Errorf("%s: %s is no loopback address: whoever reaches it writes as the leader",
			a.Kind, a.Listen)
	}
	return nil
}

const (
	unixPrefix     = "unix:"
	postgresSocket = ".s.PGSQL."
)

// Route is one address, and the guard behind it.
type Route struct {
	Address
	Guard   settings.URL
	Private bool // the program is somebody else's, and does not get the password of Guard
}

// Routes returns the guard of each address: the store of this kind.
func Routes(s Setting, stores settings.URLs) ([]Route, error) {
	var all []Route
	var problems []error
	for _, a := range s {
		guards := slices.DeleteFunc(slices.Clone(stores), func(u settings.URL) bool {
			return !slices.Contains(kinds[a.Kind].schemes, u.Scheme())
		})
		if len(guards) != 1 {
			problems = append(problems, fmt.Errorf("LEADER_CARRY: %s: LEADER_STORES must have one %s://, "+
				"the guard's, and has %d",
				a.Kind, kinds[a.Kind].schemes[0], len(guards)))
			continue
		}
		r := Route{Address: a, Guard: guards[0]}
		if _, err := kinds[a.Kind].open(r, fence.Claim{}); err != nil { // which dials nobody
			problems = append(problems, fmt.Errorf("LEADER_CARRY: %s: %w", r.Guard, scrubbed{r, err}))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(problems...)
}

// where returns how a program names the listener: host and port, or for a Unix socket its path.
func where(l net.Listener) (host, port, path string) {
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		return at.IP.String(), fmt.Sprint(at.Port), ""
	}
	path = l.Addr().String()
	return filepath.Dir(path), strings.TrimPrefix(filepath.Base(path), postgresSocket), path
}
