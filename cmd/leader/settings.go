package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
)

// What a command may use of the settings, as their tags have it. Those without a tag are for every
// command.
const (
	useStores   = "stores"
	useCommands = "commands"
	useCarrier  = "carrier"
	useJournal  = "journal"
	useWork     = "work"
	useMonitor  = "monitor"
	useToken    = "token"
)

// config is leader's settings; texts.go says what each means.
type config struct {
	Coordinator    settings.URL     `env:"LEADER_COORDINATOR,required"`
	Stores         settings.URLs    `env:"LEADER_STORES" use:"stores"`
	SessionTimeout time.Duration    `env:"LEADER_SESSION_TIMEOUT" envDefault:"10s"`
	OnDisconnect   supervise.Policy `env:"LEADER_ON_DISCONNECT" envDefault:"pause" use:"commands"`
	Grace          time.Duration    `env:"LEADER_GRACE" use:"commands"`
	RaiseTimeout   time.Duration    `env:"LEADER_RAISE_TIMEOUT" envDefault:"30s" use:"stores"`
	DrainTimeout   time.Duration    `env:"LEADER_DRAIN_TIMEOUT" envDefault:"20s" use:"work"`
	Journal        taskfile.Journal `env:"LEADER_JOURNAL" use:"journal"`
	Redis          settings.URL     `env:"LEADER_REDIS" use:"journal"`
	Holder         string           `env:"LEADER_HOLDER" use:"stores"`
	Carry          carrier.Setting  `env:"LEADER_CARRY" use:"carrier"`
	Export         environ.Setting  `env:"LEADER_EXPORT" use:"commands"`
	HTTPListen     string           `env:"LEADER_HTTP_LISTEN" use:"monitor"`
	HTTPToken      settings.Secret  `env:"LEADER_HTTP_TOKEN" use:"token"`
	Log            slog.Level       `env:"LEADER_LOG" envDefault:"info"`

	uses               []string // of the command
	electors, journals []string // the known schemes
	stores             stores.Table
}

// settings loads what a command uses. Its error lists every problem with that.
func (p *program) settings(uses ...string) (*config, error) {
	c := &config{
		uses: uses, electors: p.electors.Schemes(), stores: p.stores, journals: p.journals.Schemes(),
	}
	if err := settings.Load(c, "LEADER_", p.Env, uses...); err != nil {
		return nil, err
	}
	if c.Grace == 0 {
		c.Grace = min(c.SessionTimeout/5, c.maxGrace())
	}
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return c, nil
}

// Validate implements settings.Validator.
func (c *config) Validate() error {
	var problems []error
	report := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	scheme := c.Coordinator.Scheme()
	if _, err := carrier.Routes(c.Carry, c.Stores); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.claims(c.Carry); err != nil {
		problems = append(problems, err)
	}
	report(c.Coordinator != "" && !slices.Contains(c.electors, scheme),
		"LEADER_COORDINATOR: there is no coordinator %s://; there is %s", scheme, list(c.electors))
	problems = append(problems, c.stores.Check("LEADER_STORES", c.Stores)...)
	report(c.Journal.URL != "" && !slices.Contains(c.journals, c.Journal.Scheme()),
		"LEADER_JOURNAL: %s", tasks.NoJournal(c.Journal, c.journals))
	report(c.Redis != "" && !slices.Contains(redismarks.Schemes, c.Redis.Scheme()),
		"LEADER_REDIS is a URL of scheme %q, not of %s", c.Redis.Scheme(),
		strings.Join(redismarks.Schemes, ", "))
	report(c.SessionTimeout <= 0, "LEADER_SESSION_TIMEOUT=%s must be above 0", c.SessionTimeout)
	report(c.RaiseTimeout <= 0, "LEADER_RAISE_TIMEOUT=%s must be above 0", c.RaiseTimeout)
	report(c.DrainTimeout < 0, "LEADER_DRAIN_TIMEOUT=%s must not be below 0", c.DrainTimeout)
	report(c.Grace < 0, "LEADER_GRACE=%s must not be below 0", c.Grace)
	report(c.SessionTimeout > 0 && c.Grace > c.maxGrace(),
		"LEADER_GRACE=%s does not fit into LEADER_SESSION_TIMEOUT=%s: the command must have "+
			"stopped before the session can expire, and two thirds of that time are for confirmations "+
			"of the session that come late; at most %s fits",
		c.Grace, c.SessionTimeout, c.maxGrace())
	report(len(c.Holder) > 200 || strings.ContainsFunc(c.Holder, isControl),
		"LEADER_HOLDER must be at most 200 bytes without control characters")
	if _, _, err := net.SplitHostPort(c.HTTPListen); c.HTTPListen != "" {
		report(err != nil, "LEADER_HTTP_LISTEN: %q is not an address such as 127.0.0.1:9091: %w",
			c.HTTPListen, err)
	}
	return errors.Join(problems...)
}

// claims returns what a command gets of the claim beside a carrier.
func (c *config) claims(carry carrier.Setting) (environ.Claims, error) {
	return c.Export.Claims(c.Stores, carry.Carries)
}

// margin is the time between the KILL and the deadline.
func (c *config) margin() time.Duration {
	return supervise.Margin(c.SessionTimeout)
}

// maxGrace keeps two thirds of the session for confirmations that come late. With a longer grace, a
// short outage of the coordinator would stop the command.
func (c *config) maxGrace() time.Duration {
	return max(0, c.SessionTimeout/3-c.margin()).Truncate(time.Millisecond)
}

// tasks returns the settings that package tasks needs.
func (c *config) tasks() tasks.Settings {
	claims, _ := c.claims(nil) // checked
	return tasks.Settings{
		Coordinator: c.Coordinator, Stores: c.Stores, Journal: c.Journal, Redis: c.Redis,
		SessionTimeout: c.SessionTimeout, RaiseTimeout: c.RaiseTimeout,
		OnDisconnect: c.OnDisconnect, Grace: c.Grace, Margin: c.margin(), Holder: c.Holder,
		DrainTimeout: c.DrainTimeout, Claims: claims,
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func list(schemes []string) string { return strings.Join(schemes, "://, ") + "://" }
