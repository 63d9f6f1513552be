package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/settings"
)

// config is guard's settings; texts.go says what each means.
type config struct {
	Postgres        pgguard.Settings    `envPrefix:"GUARD_POSTGRES_"`
	PostgresServers []string            `env:"GUARD_POSTGRES_SERVERS"`
	RedisServers    []string            `env:"GUARD_REDIS_SERVERS"`
	Redis           redisguard.Settings `envPrefix:"GUARD_REDIS_"`

	servers []server // all of them, once the settings are loaded
	given   []string // the environment, and what GUARD_SETTINGS_FILE adds to it

	TLSCert       string `env:"GUARD_TLS_CERT"`
	TLSKey        string `env:"GUARD_TLS_KEY"`
	TLSRequire    bool   `env:"GUARD_TLS_REQUIRE" envDefault:"false"`
	TLSClientCA   string `env:"GUARD_TLS_CLIENT_CA"`
	TLSClientAuth string `env:"GUARD_TLS_CLIENT_AUTH" envDefault:"verify-ca"`

	ProxyNetworks []string `env:"GUARD_PROXY_NETWORKS"`

	Coordinator settings.URL `env:"GUARD_COORDINATOR"`
	Outage      string       `env:"GUARD_COORDINATOR_OUTAGE" envDefault:"refuse"`
	Issuer      string       `env:"GUARD_ISSUER" envDefault:"unverified"`
	Resources   []string     `env:"GUARD_RESOURCES"`

	HTTPListen    string          `env:"GUARD_HTTP_LISTEN"`
	HTTPToken     settings.Secret `env:"GUARD_HTTP_TOKEN"`
	HTTPTokenFile string          `env:"GUARD_HTTP_TOKEN_FILE"`
	HTTPTLSCert   string          `env:"GUARD_HTTP_TLS_CERT"`
	HTTPTLSKey    string          `env:"GUARD_HTTP_TLS_KEY"`

	MaxConnections int           `env:"GUARD_MAX_CONNECTIONS" envDefault:"10000"`
	MaxUnadmitted  int           `env:"GUARD_MAX_UNADMITTED" envDefault:"1000"`
	MaxLogins      int           `env:"GUARD_MAX_LOGINS" envDefault:"40"`
	LoginTimeout   time.Duration `env:"GUARD_LOGIN_TIMEOUT" envDefault:"30s"`
	AdmitTimeout   time.Duration `env:"GUARD_ADMIT_TIMEOUT" envDefault:"10s"`
	DrainDelay     time.Duration `env:"GUARD_DRAIN_DELAY" envDefault:"0s"`
	IdleTimeout    time.Duration `env:"GUARD_IDLE_TIMEOUT" envDefault:"0s"`
	StaleRecheck   time.Duration `env:"GUARD_STALE_RECHECK" envDefault:"1s"`
	DrainTimeout   time.Duration `env:"GUARD_DRAIN_TIMEOUT" envDefault:"30s"`
	TCPKeepalive   time.Duration `env:"GUARD_TCP_KEEPALIVE" envDefault:"1m"`
	TCPUserTimeout time.Duration `env:"GUARD_TCP_USER_TIMEOUT" envDefault:"0s"`
	Relay          string        `env:"GUARD_RELAY" envDefault:"loops"`
	Log            slog.Level    `env:"GUARD_LOG" envDefault:"info"`

	SettingsFile string `env:"GUARD_SETTINGS_FILE"`
}

// load reads the settings. Its error lists every problem.
func load(env []string) (*config, error) {
	c := &config{}
	if file := settings.Lookup(env, "GUARD_SETTINGS_FILE"); file != "" {
		var err error
		if env, err = settings.WithFile(env, file, "GUARD_"); err != nil {
			return nil, err
		}
	}
	if err := settings.Load(c, "GUARD_", env); err != nil {
		return nil, err
	}
	c.given = env
	return c, nil
}

// Removed implements settings.Shrunk.
func (*config) Removed() map[string]string {
	return map[string]string{
		"GUARD_UNFENCED": "a guard admits no session without a token; readers connect to the " +
			"database's own address, a standby or a pooler, with a role that may only read",
	}
}

// Validate implements settings.Validator.
func (c *config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	}
	c.checkNames(bad)
	c.checkServers(bad)
	c.checkAddresses(bad)
	if err := c.Coordinator.CheckScheme("GUARD_COORDINATOR",
		coordinators.All.Schemes()...); err != nil {
		bad("%w", err)
	}
	c.checkPages(bad)
	c.checkTLS(bad)
	for _, n := range c.ProxyNetworks {
		if _, err := netip.ParsePrefix(n); err != nil {
			bad("GUARD_PROXY_NETWORKS: %q is not a network such as 10.1.0.0/16", n)
		}
	}
	for _, r := range c.Resources {
		if _, err := fence.ParseResource(r); err != nil {
			bad("GUARD_RESOURCES: %w", err)
		}
	}
	choice := func(setting, value, one, other string) {
		if value != one && value != other {
			bad("%s is %q, neither %s nor %s", setting, value, one, other)
		}
	}
	choice("GUARD_COORDINATOR_OUTAGE", c.Outage, "refuse", "keep")
	choice("GUARD_RELAY", c.Relay, "loops", "goroutines")
	if c.Outage == "keep" && c.Coordinator == "" {
		bad("GUARD_COORDINATOR_OUTAGE=keep needs GUARD_COORDINATOR")
	}
	c.checkNumbers(bad)
	return errors.Join(problems...)
}

func (c *config) checkNumbers(bad func(string, ...any)) {
	for name, d := range map[string]time.Duration{
		"GUARD_LOGIN_TIMEOUT": c.LoginTimeout, "GUARD_ADMIT_TIMEOUT": c.AdmitTimeout,
		"GUARD_DRAIN_TIMEOUT": c.DrainTimeout, "GUARD_TCP_KEEPALIVE": c.TCPKeepalive,
		"GUARD_STALE_RECHECK": c.StaleRecheck,
	} {
		if d <= 0 {
			bad("%s is %s: it must be above 0", name, d)
		}
	}
	for name, d := range map[string]time.Duration{
		"GUARD_TCP_USER_TIMEOUT": c.TCPUserTimeout, "GUARD_DRAIN_DELAY": c.DrainDelay,
		"GUARD_IDLE_TIMEOUT": c.IdleTimeout,
	} {
		if d < 0 {
			bad("%s is %s: it must not be below 0", name, d)
		}
	}
	if c.StaleRecheck > time.Minute {
		bad("GUARD_STALE_RECHECK is %s: it must not be above 1m, because an adoption is not noticed "+
			"before",
			c.StaleRecheck)
	}
	for name, n := range map[string]int{
		"GUARD_MAX_CONNECTIONS": c.MaxConnections, "GUARD_MAX_UNADMITTED": c.MaxUnadmitted,
		"GUARD_MAX_LOGINS": c.MaxLogins,
	} {
		if n <= 0 {
			bad("%s is %d: it must be above 0", name, n)
		}
	}
}

// common returns what all servers of the guard have in common; Validate has checked it.
func (c *config) common() guard.Common {
	all := guard.Common{
		Timeouts:     keepalive.Timeouts{Silence: c.TCPKeepalive, User: c.TCPUserTimeout},
		LoginTimeout: c.LoginTimeout, IdleTimeout: c.IdleTimeout,
		Coordinated: c.Coordinator != "",
	}
	for _, r := range c.Resources {
		all.Resources = append(all.Resources, fence.Resource(r))
	}
	return all
}

// limits returns how many connections each server may have.
func (c *config) limits() guard.Limits {
	return guard.Limits{
		MaxConnections: c.MaxConnections, MaxUnadmitted: c.MaxUnadmitted, MaxLogins: c.MaxLogins,
	}
}

// proxies returns the networks of load balancers; Validate has checked them.
func (c *config) proxies() []netip.Prefix {
	var all []netip.Prefix
	for _, n := range c.ProxyNetworks {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

// scrub removes the secrets of all URLs from a text.
func (c *config) scrub(text string) string {
	for _, s := range c.servers {
		text = s.scrub(text)
	}
	return c.Coordinator.Scrub(text)
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown host"
	}
	return host
}
