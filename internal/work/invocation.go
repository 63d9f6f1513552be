package work

import (
	"io"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/jobs"
)

// Settings are what applies to every job that runs here.
type Settings struct {
	Holder       string           // the worker's name
	OnDisconnect supervise.Policy // of commands, while the coordinator is out of reach
	Grace        time.Duration    // between TERM and KILL
	Margin       time.Duration    // between KILL and the end of the term
	Patience     time.Duration    // how long a call waits for the coordinator
}

// Invocation is one call of a subcommand.
type Invocation struct {
	Settings    Settings
	Group       string
	Coordinator documents.Coordinator
	Stores      []fence.Raiser
	LoadTask    LoadTask // for Work
	Output      string   // table or json
	Log         *slog.Logger
	Env         []string
	Stdout      io.Writer
	Stderr      io.Writer
}

// queue returns the group's jobs.
func (v *Invocation) queue() (*jobs.Queue, error) { return jobs.New(v.Coordinator, v.Group) }
