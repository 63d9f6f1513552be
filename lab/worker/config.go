package worker

import (
	"time"

	"github.com/ringfence/ringfence/lab"
)

// Config is what a worker is told, through its environment.
type Config struct {
	Name        string        `env:"LAB_NAME,required"`        // worker-1
	Coordinator string        `env:"LAB_COORDINATOR,required"` // as in LEADER_COORDINATOR
	Session     time.Duration `env:"LAB_SESSION" envDefault:"1s"`
	Postgres    string        `env:"LAB_POSTGRES,required"` // URL of guard or database, by Route; no token in it
	Redis       string        `env:"LAB_REDIS,required"`    // URL, likewise
	Journal     string        `env:"LAB_JOURNAL"`           // URL of the database that keeps checkpoints, for Tasks
	World       string        `env:"LAB_WORLD"`             // URL for the unfenced effects of asynchronous steps, for Tasks

	Route      lab.Route     `env:"LAB_ROUTE" envDefault:"guarded"`
	Kind       lab.Kind      `env:"LAB_KIND" envDefault:"ledger"`
	Manners    lab.Manners   `env:"LAB_MANNERS"`
	Pause      time.Duration `env:"LAB_PAUSE" envDefault:"5ms"`
	Health     time.Duration `env:"LAB_HEALTH"`
	Rounds     int64         `env:"LAB_ROUNDS"`
	Failpoint  string        `env:"LAB_FAILPOINT"` // "after effect:3"; see Places. It is passed once: not after a restart
	Flaw       string        `env:"LAB_FLAW"`
	Child      string        `env:"LAB_CHILD"`
	ClockJump  time.Duration `env:"LAB_CLOCK_JUMP"`
	HTTPListen string        `env:"LAB_HTTP_LISTEN"` // /livez, for health checks
	// Log writes log lines for people instead of a history.
	Log bool `env:"LAB_LOG"`
}

// Places are where a failpoint can end the process, as kill -9 would (exit code 137): of the n-th step that it begins.
var Places = []string{"before effect", "after effect", "before publish", "after publish"}
