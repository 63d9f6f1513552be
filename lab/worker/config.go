package worker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/scenario"
)

// Config has a worker's settings, from its environment.
type Config struct {
	Name        string        `env:"LAB_NAME,required"`        // worker-1
	Coordinator string        `env:"LAB_COORDINATOR,required"` // as in LEADER_COORDINATOR
	Session     time.Duration `env:"LAB_SESSION" envDefault:"1s"`
	// Postgres and Redis are URLs of a guard or of the databases, depending on Route, without a token.
	Postgres string `env:"LAB_POSTGRES,required"`
	Redis    string `env:"LAB_REDIS,required"`
	Journal  string `env:"LAB_JOURNAL"` // Tasks: URL of the database for checkpoints
	World    string `env:"LAB_WORLD"`   // Tasks: URL for effects that are not fenced
	Raise    string `env:"LAB_RAISE"`   // URL to raise the mark; Postgres if empty

	Route    scenario.Route   `env:"LAB_ROUTE" envDefault:"guarded"`
	Kind     scenario.Kind    `env:"LAB_KIND" envDefault:"ledger"`
	Manners  scenario.Manners `env:"LAB_MANNERS"`
	Pause    time.Duration    `env:"LAB_PAUSE" envDefault:"5ms"`
	Deadline time.Duration    `env:"LAB_DEADLINE" envDefault:"2s"` // of one operation
	Health   time.Duration    `env:"LAB_HEALTH"`
	Rounds   int64            `env:"LAB_ROUNDS"`
	Seed     uint64           `env:"LAB_SEED"`     // of the shapes of transactions on the path SQL
	Strategy string           `env:"LAB_STRATEGY"` // Jobs: how this worker assigns
	// Failpoint is one of Places or JobPlaces, and a step or a change: "after effect:3". A restarted
	// worker has none.
	Failpoint  string        `env:"LAB_FAILPOINT"`
	Flaw       flaw.Name     `env:"LAB_FLAW"`
	Child      string        `env:"LAB_CHILD"`
	ClockJump  time.Duration `env:"LAB_CLOCK_JUMP"`
	HTTPListen string        `env:"LAB_HTTP_LISTEN"` // /livez, for health checks
	// Agent is the socket of the agent that holds its terms; "": it leads by itself.
	Agent string `env:"LAB_AGENT"`
	// Log makes it write log lines for people instead of a history.
	Log bool `env:"LAB_LOG"`

	// What LEADER_CARRY has opened, in place of Postgres and Redis.
	CarriedPostgres string `env:"DATABASE_URL"`
	CarriedRedis    string `env:"REDIS_URL"`

	// Token is that of the term that `leader run` has won, for Commands.
	Token fence.Token `env:"RINGFENCE_TOKEN"`
}

// Places are where in a step a failpoint can end the process, as kill -9 would (exit code 137).
var Places = []string{"before effect", "after effect", "before publish", "after publish"}

// JobPlaces are the places of the worker that assigns jobs: before or after a change of documents
// that assigns some, or takes some back of a worker that is gone. A failpoint names the number of
// that change. Late ends no process: see lateAssignment. It has the number of a worker.
var JobPlaces = []string{
	"before " + assigning, "after " + assigning, "before " + takingBack, "after " + takingBack, late,
}

const (
	assigning  = "assign"
	takingBack = "take back"
	late       = "late " + assigning
)

// Values of Config.Child.
const (
	IgnoreTerm = "ignore-term" // SIGTERM does nothing
	Fork       = "fork"        // a child process does the writing
)

// Load reads a Config from the environment, in the form of os.Environ. The error names every
// problem.
func Load(environ []string) (Config, error) {
	c, err := env.ParseAsWithOptions[Config](env.Options{Environment: env.ToMap(environ)})
	if c.Route == scenario.Carried {
		c.Postgres, c.Redis = c.CarriedPostgres, c.CarriedRedis
	}
	var several env.AggregateError
	if errors.As(err, &several) {
		return c, errors.Join(append(several.Errors, c.problems()...)...)
	}
	return c, errors.Join(append([]error{err}, c.problems()...)...)
}

// problems returns what is wrong with values that could be parsed.
func (c Config) problems() (all []error) {
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	wrong(!slices.Contains([]scenario.Route{scenario.Guarded, scenario.Embedded, scenario.Direct,
		scenario.SQL, scenario.Carried}, c.Route),
		"LAB_ROUTE: there is no route %q", c.Route)
	wrong(!slices.Contains([]scenario.Kind{scenario.Ledger, scenario.Tasks, scenario.Commands,
		scenario.Jobs}, c.Kind),
		"LAB_KIND: there is no workload %q", c.Kind)
	wrong(c.Manners != scenario.Good && c.Manners != scenario.Reckless,
		"LAB_MANNERS: there are no manners %q", c.Manners)
	wrong(!slices.Contains([]string{"", IgnoreTerm, Fork}, c.Child),
		"LAB_CHILD: there is no child %q", c.Child)
	wrong(!slices.Contains([]flaw.Name{
		"", flaw.FirstToken, flaw.Unconditional, flaw.AnyAttempt, flaw.InParts, flaw.NoEnter, flaw.ByHand,
	}, c.Flaw),
		"LAB_FLAW: a worker has no flaw %q", c.Flaw)
	wrong(c.Session <= 0, "LAB_SESSION: %s is not a timeout", c.Session)
	wrong(c.Deadline <= 0, "LAB_DEADLINE: %s is not a deadline", c.Deadline)
	tasks, commands := c.Kind == scenario.Tasks, c.Kind == scenario.Commands
	wrong(tasks && (c.Journal == "" || c.World == ""),
		"LAB_JOURNAL and LAB_WORLD are required for tasks")
	wrong(tasks && c.Rounds <= 0, "LAB_ROUNDS: a task has at least one round")
	wrong(commands && c.Token <= 0,
		"RINGFENCE_TOKEN is required for commands: start the worker with leader run")
	wrong(commands && c.Route == scenario.Embedded,
		"LAB_ROUTE: commands know no issuer, so they cannot be embedded")
	wrong(c.Route == scenario.Carried && (!commands || c.Postgres == "" || c.Redis == ""),
		"LAB_ROUTE: the carrier is that of leader run, with LEADER_CARRY=postgres,redis")
	wrong(c.Route == scenario.SQL && c.Kind != scenario.Ledger, "LAB_ROUTE: only the ledger is kept "+
		"by SQL functions")
	wrong(c.Agent != "" && c.Kind != scenario.Ledger, "LAB_AGENT: only the ledger is kept under "+
		"terms of an agent")
	_, _, err := c.failpoint()
	wrong(err != nil, "LAB_FAILPOINT: %w", err)
	return all
}

// failpoint returns the place and the number of the step; "" and 0 if there is none.
func (c Config) failpoint() (place string, step int, err error) {
	if c.Failpoint == "" {
		return "", 0, nil
	}
	place, number, _ := strings.Cut(c.Failpoint, ":")
	step, err = strconv.Atoi(number)
	all := append(slices.Clone(Places), JobPlaces...)
	if err != nil || step < 1 || !slices.Contains(all, place) {
		return "", 0, fmt.Errorf("%q is not of the form \"after effect:3\", with one of %q",
			c.Failpoint, all)
	}
	return place, step, nil
}
