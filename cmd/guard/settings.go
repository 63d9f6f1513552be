package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/settings"
)

// What a command may use of the settings, as their tags have it. Those without a tag are for every
// command.
const (
	useStores      = "stores"
	useRoles       = "roles"
	useCoordinator = "coordinator"
	useResources   = "resources"
	usePages       = "pages"
	useServing     = "serving"
)

// config is guard's settings; texts.go says what each means.
type config struct {
	uses      []string // of the command
	Upstreams upstreams

	servers []server // all of them, once the settings are loaded
	given   []string // the environment, and what GUARD_SETTINGS_FILE adds to it

	TLSCert       string `env:"GUARD_TLS_CERT" use:"serving"`
	TLSKey        string `env:"GUARD_TLS_KEY" use:"serving"`
	TLSRequire    bool   `env:"GUARD_TLS_REQUIRE" envDefault:"false" use:"serving"`
	TLSClientCA   string `env:"GUARD_TLS_CLIENT_CA" use:"serving"`
	TLSClientAuth string `env:"GUARD_TLS_CLIENT_AUTH" envDefault:"verify-ca" use:"serving"`

	ProxyNetworks []string `env:"GUARD_PROXY_NETWORKS" use:"serving"`

	Coordinator settings.URL `env:"GUARD_COORDINATOR" use:"coordinator"`
	Outage      string       `env:"GUARD_COORDINATOR_OUTAGE" envDefault:"refuse" use:"serving"`
	Issuer      string       `env:"GUARD_ISSUER" envDefault:"unverified" use:"coordinator"`
	Resources   []string     `env:"GUARD_RESOURCES" use:"resources"`

	HTTPListen    string          `env:"GUARD_HTTP_LISTEN" use:"pages"`
	HTTPToken     settings.Secret `env:"GUARD_HTTP_TOKEN" use:"serving"`
	HTTPTokenFile string          `env:"GUARD_HTTP_TOKEN_FILE" use:"serving"`
	HTTPTLSCert   string          `env:"GUARD_HTTP_TLS_CERT" use:"pages"`
	HTTPTLSKey    string          `env:"GUARD_HTTP_TLS_KEY" use:"pages"`

	MaxConnections int           `env:"GUARD_MAX_CONNECTIONS" envDefault:"10000" use:"serving"`
	MaxUnadmitted  int           `env:"GUARD_MAX_UNADMITTED" envDefault:"1000" use:"serving"`
	MaxLogins      int           `env:"GUARD_MAX_LOGINS" envDefault:"40" use:"serving"`
	LoginTimeout   time.Duration `env:"GUARD_LOGIN_TIMEOUT" envDefault:"30s" use:"serving"`
	AdmitTimeout   time.Duration `env:"GUARD_ADMIT_TIMEOUT" envDefault:"10s" use:"serving"`
	DrainDelay     time.Duration `env:"GUARD_DRAIN_DELAY" envDefault:"0s" use:"serving"`
	IdleTimeout    time.Duration `env:"GUARD_IDLE_TIMEOUT" envDefault:"0s" use:"serving"`
	StaleRecheck   time.Duration `env:"GUARD_STALE_RECHECK" envDefault:"1s" use:"serving"`
	DrainTimeout   time.Duration `env:"GUARD_DRAIN_TIMEOUT" envDefault:"30s" use:"serving"`
	TCPKeepalive   time.Duration `env:"GUARD_TCP_KEEPALIVE" envDefault:"1m" use:"stores"`
	TCPUserTimeout time.Duration `env:"GUARD_TCP_USER_TIMEOUT" envDefault:"0s" use:"stores"`
	Relay          string        `env:"GUARD_RELAY" envDefault:"loops" use:"serving"`
	Log            slog.Level    `env:"GUARD_LOG" envDefault:"info"`

	SettingsFile string `env:"GUARD_SETTINGS_FILE"`
}

// load reads the settings that a command uses. Its error lists every problem with them.
func load(env []string, uses ...string) (*config, error) {
	c := &config{uses: uses}
	if file := settings.Lookup(env, "GUARD_SETTINGS_FILE"); file != "" {
		var err error
		if env, err = settings.WithFile(env, file, "GUARD_"); err != nil {
			return nil, err
		}
	}
	if err := settings.Load(c, "GUARD_", env, uses...); err != nil {
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
	if slices.Contains(c.uses, useStores) {
		c.checkServers(bad)
	}
	c.checkAddresses(bad)
	if err := c.Coordinator.Check("GUARD_COORDINATOR", nil,
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
