package main

import (
	"regexp"
	"slices"
	"strings"
	"time"

	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/settings"
)

// postgresServer is the settings of one Postgres server of GUARD_POSTGRES_SERVERS.
type postgresServer struct {
	Listen        string       `env:"LISTEN"`
	Upstream      settings.URL `env:"UPSTREAM"`
	Admin         settings.URL `env:"ADMIN"`
	Databases     []string     `env:"DATABASES"`
	MaxDatabases  int          `env:"MAX_DATABASES" envDefault:"20"`
	Leaders       []string     `env:"LEADERS"`
	Operators     []string     `env:"OPERATORS"`
	AllowPrepared bool         `env:"ALLOW_PREPARED" envDefault:"false"`

	name string
}

// redisServer is the settings of one Redis server of GUARD_REDIS_SERVERS.
type redisServer struct {
	Listen      string        `env:"LISTEN"`
	Upstream    settings.URL  `env:"UPSTREAM"`
	IdleTimeout time.Duration `env:"IDLE_TIMEOUT" envDefault:"5m"`

	name string
}

// named is the servers that have a name, in the order of the settings.
type named struct {
	postgres []*postgresServer
	redis    []*redisServer
}

func (n named) none() bool { return len(n.postgres)+len(n.redis) == 0 }

func (n named) urls() (all []settings.URL) {
	for _, s := range n.postgres {
		all = append(all, s.Upstream, s.Admin)
	}
	for _, s := range n.redis {
		all = append(all, s.Upstream)
	}
	return all
}

// prefix returns what the names of a server's settings begin with.
func prefix(protocol, server string) string {
	if server == "" {
		return "GUARD_" + strings.ToUpper(protocol) + "_"
	}
	return "GUARD_" + strings.ToUpper(protocol) + "_" + strings.ToUpper(server) + "_"
}

// Groups implements settings.Grouped.
func (c *config) Groups() (groups []settings.Group) {
	for i, name := range distinct(c.PostgresServers) {
		if i == len(c.named.postgres) {
			c.named.postgres = append(c.named.postgres, &postgresServer{name: name})
		}
		groups = append(groups, settings.Group{Prefix: prefix("postgres", name), Into: c.named.postgres[i]})
	}
	for i, name := range distinct(c.RedisServers) {
		if i == len(c.named.redis) {
			c.named.redis = append(c.named.redis, &redisServer{name: name})
		}
		groups = append(groups, settings.Group{Prefix: prefix("redis", name), Into: c.named.redis[i]})
	}
	return groups
}

// distinct returns each name once, in the order of the settings. checkServers reports those that come
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

// checkServers checks what the servers with a name have of their own, and the databases of all.
func (c *config) checkServers(bad func(string, ...any)) {
	for setting, names := range map[string][]string{
		"GUARD_POSTGRES_SERVERS": c.PostgresServers, "GUARD_REDIS_SERVERS": c.RedisServers,
	} {
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
	checkDatabases(bad, prefix("postgres", ""), c.PostgresDatabases, c.PostgresMaxDatabases)
	for _, s := range c.named.postgres {
		p := prefix("postgres", s.name)
		checkUpstream(bad, p, s.Listen, s.Upstream, "postgres", "postgresql")
		if s.Admin.Reveal() != "" {
			checkScheme(bad, p+"ADMIN", s.Admin, "postgres", "postgresql")
		}
		checkDatabases(bad, p, s.Databases, s.MaxDatabases)
		checkNames(bad, p+"LEADERS", "role", s.Leaders)
		checkNames(bad, p+"OPERATORS", "role", s.Operators)
	}
	for _, s := range c.named.redis {
		p := prefix("redis", s.name)
		checkUpstream(bad, p, s.Listen, s.Upstream, "redis", "rediss")
		if s.IdleTimeout <= 0 {
			bad("%sIDLE_TIMEOUT is %s: it must be above 0", p, s.IdleTimeout)
		}
	}
}

// checkAddresses finds servers that would listen on one address.
func (c *config) checkAddresses(bad func(string, ...any)) {
	taken := make(map[string]string)
	take := func(setting, address string) {
		switch other, twice := taken[address]; {
		case address == "" || strings.HasSuffix(address, ":0"):
		case twice:
			bad("%s and %s are both %s", other, setting, address)
		default:
			taken[address] = setting
		}
	}
	take("GUARD_POSTGRES_LISTEN", c.PostgresListen)
	take("GUARD_REDIS_LISTEN", c.RedisListen)
	take("GUARD_HTTP_LISTEN", c.HTTPListen)
	for _, s := range c.named.postgres {
		take(prefix("postgres", s.name)+"LISTEN", s.Listen)
	}
	for _, s := range c.named.redis {
		take(prefix("redis", s.name)+"LISTEN", s.Listen)
	}
}

func checkDatabases(bad func(string, ...any), prefix string, names []string, most int) {
	checkNames(bad, prefix+"DATABASES", "database", names)
	if most <= 0 {
		bad("%sMAX_DATABASES is %d: it must be above 0", prefix, most)
	}
}

// checkUpstream checks the URL of a server that has a name, and the address for its clients.
func checkUpstream(
	bad func(string, ...any), prefix, listen string, upstream settings.URL, schemes ...string,
) {
	if upstream.Reveal() == "" {
		bad("%sUPSTREAM is not set", prefix)
	} else {
		checkScheme(bad, prefix+"UPSTREAM", upstream, schemes...)
	}
	if listen == "" {
		return
	}
	if err := checkListen(listen); err != nil {
		bad("%sLISTEN: %w", prefix, err)
	}
}

func checkScheme(bad func(string, ...any), name string, u settings.URL, known ...string) {
	if !slices.Contains(known, u.Scheme()) {
		bad("%s is a URL of scheme %q, not of %s", name, u.Scheme(), strings.Join(known, " or "))
	}
}

// server is a server that the settings name, with the settings as they are for it: its own are in
// the place of those without a name.
type server struct {
	protocol
	name   string // of the protocol, with the server's own: postgres/archive
	config *config
}

// ofServer is the settings for a server that has a name.
type ofServer struct {
	name   string
	config *config
}

// configured returns the servers for which the settings name an upstream.
func (c *config) configured() (all []server) {
	for _, p := range protocols {
		if p.upstream(c) != "" {
			all = append(all, server{p, p.name, p.home(c)})
		}
		for _, own := range p.named(c) {
			all = append(all, server{p, p.name + "/" + own.name, p.home(own.config)})
		}
	}
	return all
}

// namedPostgres returns the settings for each Postgres server that has a name.
func (c *config) namedPostgres() (all []ofServer) {
	for _, s := range c.named.postgres {
		own := *c
		own.PostgresListen, own.PostgresUpstream, own.PostgresAdmin = s.Listen, s.Upstream, s.Admin
		own.PostgresDatabases, own.PostgresMaxDatabases = s.Databases, s.MaxDatabases
		own.PostgresLeaders, own.PostgresOperators = s.Leaders, s.Operators
		own.PostgresAllowPrepared = s.AllowPrepared
		all = append(all, ofServer{s.name, &own})
	}
	return all
}

// namedRedis returns the settings for each Redis server that has a name.
func (c *config) namedRedis() (all []ofServer) {
	for _, s := range c.named.redis {
		own := *c
		own.RedisListen, own.RedisUpstream, own.RedisIdleTimeout = s.Listen, s.Upstream, s.IdleTimeout
		all = append(all, ofServer{s.name, &own})
	}
	return all
}

// in returns the settings for another database of the Postgres server.
func (c *config) in(database string) *config {
	own := *c
	own.PostgresUpstream = settings.URL(pgstore.ForDatabase(c.PostgresUpstream.Reveal(), database))
	own.PostgresAdmin = settings.URL(pgstore.ForDatabase(c.PostgresAdmin.Reveal(), database))
	return &own
}

// homeDatabase returns the settings for the database of a Postgres server that is served all the
// time: that of the URL, unless the guard may not serve it.
func (c *config) homeDatabase() *config {
	names := c.PostgresDatabases
	if len(names) == 0 || slices.Contains(names, c.database()) {
		return c
	}
	return c.in(names[0])
}

// database returns the database that the URL names; "" if it cannot be parsed, which open reports.
func (c *config) database() string {
	name, _ := pgstore.DatabaseOf(c.PostgresUpstream.Reveal())
	return name
}

// namesOf returns the names of servers, for people.
func namesOf(all []server) string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}
