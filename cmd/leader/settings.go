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
	"github.com/ringfence/ringfence/internal/settings"
)

// config is leader's settings; texts.go says what each means.
type config struct {
	Coordinator    settings.URL     `env:"LEADER_COORDINATOR,required"`
	Stores         settings.URLs    `env:"LEADER_STORES"`
	SessionTimeout time.Duration    `env:"LEADER_SESSION_TIMEOUT" envDefault:"10s"`
	OnDisconnect   supervise.Policy `env:"LEADER_ON_DISCONNECT" envDefault:"pause"`
	Grace          time.Duration    `env:"LEADER_GRACE"`
	RaiseTimeout   time.Duration    `env:"LEADER_RAISE_TIMEOUT" envDefault:"30s"`
	DrainTimeout   time.Duration    `env:"LEADER_DRAIN_TIMEOUT" envDefault:"20s"`
	Journal        taskfile.Journal `env:"LEADER_JOURNAL"`
	Redis          settings.URL     `env:"LEADER_REDIS"`
	Holder         string           `env:"LEADER_HOLDER"`
	Carry          carrier.Setting  `env:"LEADER_CARRY"`
	Export         environ.Setting  `env:"LEADER_EXPORT"`
	HTTPListen     string           `env:"LEADER_HTTP_LISTEN"`
	HTTPToken      settings.Secret  `env:"LEADER_HTTP_TOKEN"`
	Log            slog.Level       `env:"LEADER_LOG" envDefault:"info"`

	electors, journals []string // the known schemes
	stores             stores.Table
}

// settings loads the config. Its error lists every problem.
func (p *program) settings() (*config, error) {
	c := &config{
		electors: p.electors.Schemes(), stores: p.stores, journals: p.journals.Schemes(),
	}
	if err := settings.Load(c, "LEADER_", p.Env); err != nil {
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
	report(c.Redis != "" && c.Redis.Scheme() != "redis" && c.Redis.Scheme() != "rediss",
		"LEADER_REDIS is a URL of scheme %q, not of redis or rediss", c.Redis.Scheme())
	report(c.SessionTimeout <= 0, "LEADER_SESSION_TIMEOUT=%s must be above 0", c.SessionTimeout)
	report(c.RaiseTimeout <= 0, "LEADER_RAISE_TIMEOUT=%s must be above 0", c.RaiseTimeout)
	report(c.DrainTimeout < 0, "LEADER_DRAIN_TIMEOUT=%s must not be below 0", c.DrainTimeout)
	report(c.Grace < 0, "LEADER_GRACE=%s must not be below 0", c.Grace)
	report(c.SessionTimeout > 0 && c.Grace > c.maxGrace(),
		"LEADER_GRACE=%s does not fit into LEADER_SESSION_TIMEOUT=%s: the command must have "+
			"stopped before the session can expire, and the coordinator confirms the session only "+
			"every third of that time; at most %s fits",
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

// maxGrace leaves room for the interval between two confirmations from the coordinator. A longer
// grace would stop the command although nothing is wrong.
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
