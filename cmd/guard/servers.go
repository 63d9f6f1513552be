package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/settings"
)

// server is a server for which there are settings, or one of its databases: a store.
type server struct {
	guard.Upstream
	protocol string
	own      string // its name in the settings, such as archive; "" if it has none
}

// name returns the name for people: postgres, or postgres/archive.
func (s server) name() string {
	if s.own == "" {
		return s.protocol
	}
	return s.protocol + "/" + s.own
}

// prefix returns what the names of the server's settings begin with.
func (s server) prefix() string {
	p := "GUARD_" + strings.ToUpper(s.protocol) + "_"
	if s.own == "" {
		return p
	}
	return p + strings.ToUpper(s.own) + "_"
}

// in returns the store that is another database of the server.
func (s server) in(database string) server {
	if several, ok := s.Upstream.(guard.Databases); ok {
		s.Upstream = several.In(database)
	}
	return s
}

// scrub removes the server's secrets from a text.
func (s server) scrub(text string) string {
	for _, u := range s.URLs() {
		text = u.Scrub(text)
	}
	return text
}

// scrubbed removes the server's secrets from an error.
func (s server) scrubbed(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(s.scrub(err.Error()))
}

// Groups implements settings.Grouped. It also makes the list of servers: of each protocol the one
// without a name, then those with one.
func (c *config) Groups() (groups []settings.Group) {
	if c.servers == nil {
		for _, p := range protocols {
			c.servers = append(c.servers, server{p.first(&c.Upstreams), p.name, ""})
			for _, own := range distinct(p.names(&c.Upstreams)) {
				c.servers = append(c.servers, server{p.fresh(), p.name, own})
			}
		}
	}
	for _, s := range c.servers {
		if s.own != "" {
			groups = append(groups, settings.Group{Prefix: s.prefix(), Into: s.Upstream, Use: useStores})
		}
	}
	return groups
}

// distinct returns each name once, in the order of the settings. checkNames reports those that come
// twice.
func distinct(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

var serverName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,29}$`)

// checkNames checks the names of servers.
func (c *config) checkNames(bad func(string, ...any)) {
	for _, p := range protocols {
		setting, names := server{protocol: p.name}.prefix()+"SERVERS", p.names(&c.Upstreams)
		if len(distinct(names)) < len(names) {
			bad("%s names a server twice: %s", setting, strings.Join(names, ","))
		}
		for _, name := range names {
			if !serverName.MatchString(name) {
				bad("%s: %q is not a name such as archive: a letter, then letters, digits and _, in lower case",
					setting, name)
			}
		}
	}
}

// checkServers checks the settings of each server.
func (c *config) checkServers(bad func(string, ...any)) {
	none := true
	for _, s := range c.servers {
		p := s.prefix()
		for _, problem := range s.Check(p) {
			bad("%w", problem)
		}
		listen, url := s.Addresses()
		none = none && url == "" && s.own == ""
		switch {
		case url == "" && s.own != "":
			bad("%sUPSTREAM is not set", p)
		case url == "" && listen != "":
			bad("%sLISTEN is set, %sUPSTREAM is not", p, p)
		}
	}
	if none {
		bad("nothing to guard: set %s", oneOfEach("UPSTREAM"))
	}
}

// oneOfEach names a setting of each protocol, of which one must be given.
func oneOfEach(setting string) string {
	var names []string
	for _, p := range protocols {
		names = append(names, server{protocol: p.name}.prefix()+setting)
	}
	return strings.Join(names, " or ")
}

// checkAddresses checks the addresses to listen on, and that no two are the same.
func (c *config) checkAddresses(bad func(string, ...any)) {
	taken := make(map[string]string)
	take := func(setting, address string) {
		if address == "" {
			return
		}
		if err := checkListen(address); err != nil {
			bad("%s: %w", setting, err)
		}
		if other := taken[address]; other != "" && !strings.HasSuffix(address, ":0") {
			bad("%s and %s are both %s", other, setting, address)
		}
		taken[address] = cmp.Or(taken[address], setting)
	}
	servers := func(named bool) {
		for _, s := range c.servers {
			if listen, _ := s.Addresses(); named == (s.own != "") {
				take(s.prefix()+"LISTEN", listen)
			}
		}
	}
	servers(false)
	take("GUARD_HTTP_LISTEN", c.HTTPListen)
	servers(true)
}

// configured returns the servers for which the settings name an upstream, each as the database that
// is served all the time.
func (c *config) configured() (all []server) {
	for _, s := range c.servers {
		if _, url := s.Addresses(); url == "" {
			continue
		}
		if several, ok := s.Upstream.(guard.Databases); ok {
			s.Upstream = several.Home()
		}
		all = append(all, s)
	}
	return all
}

// namesOf returns the names of servers, for people.
func namesOf(all []server) string {
	var names []string
	for _, s := range all {
		names = append(names, s.name())
	}
	return strings.Join(names, ", ")
}

// String returns the store for people.
func (s server) String() string {
	if s.Database() == "" {
		return s.name()
	}
	return fmt.Sprintf("%s, database %s", s.name(), cli.PrintableText(s.Database()))
}

// among returns the name of one of so many stores: that of the server suffices if it is the only
// one.
func (s server) among(stores int) string {
	if stores == 1 {
		return s.name()
	}
	return s.String()
}
