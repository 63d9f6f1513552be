package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// config is guard's settings; `guard -h` is made of these tags.
type config struct {
	PostgresListen        string       `env:"GUARD_POSTGRES_LISTEN" help:"address to take Postgres clients on, such as :6432, or unix:/dir/.s.PGSQL.6432, a socket with mode 0666 that is removed at the end. Unset: no Postgres"`
	PostgresUpstream      settings.URL `env:"GUARD_POSTGRES_UPSTREAM" help:"URL of the Postgres server behind the guard, postgres://guard@host:5432/database. The guard's control connections log in with it; clients' own logins are relayed to the same host"`
	PostgresAdmin         settings.URL `env:"GUARD_POSTGRES_ADMIN" defaultText:"GUARD_POSTGRES_UPSTREAM" help:"URL of a role that may make the schema; used by guard install only"`
	PostgresLeaders       []string     `env:"GUARD_POSTGRES_LEADERS" help:"roles of programs that keep checkpoints of tasks in the database, with commas between; guard install lets them. Used by guard install only"`
	PostgresAllowPrepared bool         `env:"GUARD_POSTGRES_ALLOW_PREPARED" envDefault:"false" help:"serve although max_prepared_transactions is above 0. A prepared transaction outlives its session, so a deposed leader's could still be committed"`

	RedisListen      string        `env:"GUARD_REDIS_LISTEN" help:"address to take Redis clients on, such as :7379, or unix:/path. Unset: no Redis"`
	RedisUpstream    settings.URL  `env:"GUARD_REDIS_UPSTREAM" help:"URL of the Redis server behind the guard, redis://guard@host:6379/0. Marks live in database 0, whatever number it names: sessions can select any"`
	RedisIdleTimeout time.Duration `env:"GUARD_REDIS_IDLE_TIMEOUT" envDefault:"5m" help:"how long a Redis client without a token may send nothing. Each command renews it"`

	Coordinator settings.URL `env:"GUARD_COORDINATOR" help:"where elections are held, such as zk://host1:2181,host2:2181/root. A token is then admitted only while its holder leads. Unset: the mark alone decides and every higher token raises it, which is weaker"`
	Issuer      string       `env:"GUARD_ISSUER" envDefault:"unverified" help:"name of the issuer of tokens when there is no coordinator to ask"`
	Resources   []string     `env:"GUARD_RESOURCES" help:"the only resources that clients may name, with commas between. Unset: any"`
	Unfenced    string       `env:"GUARD_UNFENCED" envDefault:"refuse" help:"what becomes of a session without a token: refuse. (read-only is not built yet)"`

	HTTPListen     string        `env:"GUARD_HTTP_LISTEN" help:"address of /livez, /readyz and /metrics, such as 127.0.0.1:9090. Unset: none"`
	MaxConnections int           `env:"GUARD_MAX_CONNECTIONS" envDefault:"10000" help:"admitted sessions at once, for each protocol. What is not admitted never takes their place"`
	MaxUnadmitted  int           `env:"GUARD_MAX_UNADMITTED" envDefault:"1000" help:"connections at once that are not admitted, besides those, for each protocol: half open, logging in, Redis clients without a token. Four times as many wait for room. While one waits, connections that have kept the guard waiting for their client for more than a second are ended, first those of the client address that has most of them. Behind a balancer all clients have one address"`
	MaxLogins      int           `env:"GUARD_MAX_LOGINS" envDefault:"40" help:"Postgres logins under way at the server at once; the next ones wait in order. Keep it well below the server's max_connections, less what is used in normal times. While one waits, logins that have kept the guard waiting for their client are ended in the same way"`
	LoginTimeout   time.Duration `env:"GUARD_LOGIN_TIMEOUT" envDefault:"30s" help:"how long a client may take to log in, waits for room included. A Redis client without a token has logged in with the first answer that is no error"`
	AdmitTimeout   time.Duration `env:"GUARD_ADMIT_TIMEOUT" envDefault:"10s" help:"how long one admission may take as a whole: to identify the session, ask the coordinator, raise the mark and see older sessions end. After that the newcomer is refused"`
	DrainTimeout   time.Duration `env:"GUARD_DRAIN_TIMEOUT" envDefault:"30s" help:"how long open transactions may go on after SIGTERM. A second signal ends the guard at once"`
	Log            slog.Level    `env:"GUARD_LOG" envDefault:"info" help:"debug, info, warn or error. The log goes to stderr: text on a terminal, JSON elsewhere"`
}

// load reads the settings. Its error lists every problem.
func load(env []string) (*config, error) {
	c := &config{}
	if err := settings.Load(c, "GUARD_", env); err != nil {
		return nil, err
	}
	if c.PostgresAdmin.Reveal() == "" {
		c.PostgresAdmin = c.PostgresUpstream
	}
	return c, nil
}

// Validate is settings.Validator's: rules across settings.
func (c *config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.PostgresUpstream.Reveal() == "" && c.RedisUpstream.Reveal() == "" {
		bad("nothing to guard: set GUARD_POSTGRES_UPSTREAM, GUARD_REDIS_UPSTREAM or both")
	}
	for _, scheme := range []struct {
		url  settings.URL
		name string
		are  []string
	}{
		{c.PostgresUpstream, "GUARD_POSTGRES_UPSTREAM", []string{"postgres", "postgresql"}},
		{c.PostgresAdmin, "GUARD_POSTGRES_ADMIN", []string{"postgres", "postgresql"}},
		{c.RedisUpstream, "GUARD_REDIS_UPSTREAM", []string{"redis"}},
		{c.Coordinator, "GUARD_COORDINATOR", coordinators.All.Schemes()},
	} {
		if got := scheme.url.Scheme(); scheme.url.Reveal() != "" && !contains(scheme.are, got) {
			bad("%s is a URL of scheme %q, not of %s", scheme.name, got, strings.Join(scheme.are, " or "))
		}
	}
	c.checkListeners(bad)
	for name, u := range map[string]settings.URL{"GUARD_POSTGRES_UPSTREAM": c.PostgresUpstream, "GUARD_REDIS_UPSTREAM": c.RedisUpstream} {
		if wantsTLS(u.Reveal()) {
			bad("%s asks for TLS, which is not built yet: use a network that you trust, or a Unix socket, and sslmode=disable", name)
		}
	}
	for _, r := range c.Resources {
		if _, err := fence.ParseResource(r); err != nil {
			bad("GUARD_RESOURCES: %w", err)
		}
	}
	for i, role := range c.PostgresLeaders {
		if strings.TrimSpace(role) != role || role == "" {
			bad("GUARD_POSTGRES_LEADERS: role %d is %q: write the names with a comma and nothing else between", i+1, role)
		}
	}
	switch c.Unfenced {
	case "refuse":
	case "read-only":
		bad("GUARD_UNFENCED=read-only is not built yet: use refuse")
	default:
		bad("GUARD_UNFENCED is %q, not refuse", c.Unfenced)
	}
	c.checkNumbers(bad)
	return errors.Join(problems...)
}

func (c *config) checkListeners(bad func(string, ...any)) {
	for _, pair := range []struct{ name, listen, need, upstream string }{
		{"GUARD_POSTGRES_LISTEN", c.PostgresListen, "GUARD_POSTGRES_UPSTREAM", c.PostgresUpstream.Reveal()},
		{"GUARD_REDIS_LISTEN", c.RedisListen, "GUARD_REDIS_UPSTREAM", c.RedisUpstream.Reveal()},
		{"GUARD_HTTP_LISTEN", c.HTTPListen, "", "-"},
	} {
		if pair.listen == "" {
			continue
		}
		if err := checkListen(pair.listen); err != nil {
			bad("%s: %w", pair.name, err)
		}
		if pair.upstream == "" {
			bad("%s is set, %s is not", pair.name, pair.need)
		}
	}
	if strings.HasPrefix(c.HTTPListen, unixPrefix) {
		bad("GUARD_HTTP_LISTEN: %q: the pages are not served on a Unix socket", c.HTTPListen)
	}
}

func (c *config) checkNumbers(bad func(string, ...any)) {
	for name, d := range map[string]time.Duration{
		"GUARD_LOGIN_TIMEOUT": c.LoginTimeout, "GUARD_ADMIT_TIMEOUT": c.AdmitTimeout, "GUARD_DRAIN_TIMEOUT": c.DrainTimeout,
		"GUARD_REDIS_IDLE_TIMEOUT": c.RedisIdleTimeout,
	} {
		if d <= 0 {
			bad("%s is %s: it has to be above 0", name, d)
		}
	}
	for name, n := range map[string]int{
		"GUARD_MAX_CONNECTIONS": c.MaxConnections, "GUARD_MAX_UNADMITTED": c.MaxUnadmitted, "GUARD_MAX_LOGINS": c.MaxLogins,
	} {
		if n <= 0 {
			bad("%s is %d: it has to be above 0", name, n)
		}
	}
}

// wantsTLS tells whether a URL asks for more than the guard can do: its legs to the server are not encrypted yet.
func wantsTLS(url string) bool {
	_, query, _ := strings.Cut(url, "?")
	for _, mode := range []string{"sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"} {
		if strings.Contains(query, mode) {
			return true
		}
	}
	return strings.HasPrefix(url, "rediss:")
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// resources are those that clients may name; Validate has checked them.
func (c *config) resources() []fence.Resource {
	var all []fence.Resource
	for _, r := range c.Resources {
		all = append(all, fence.Resource(r))
	}
	return all
}

// scrub takes the secrets of all URLs out of a text.
func (c *config) scrub(text string) string {
	for _, u := range []settings.URL{c.PostgresUpstream, c.PostgresAdmin, c.RedisUpstream, c.Coordinator} {
		text = u.Scrub(text)
	}
	return text
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown host"
	}
	return host
}
