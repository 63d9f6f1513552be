package agent

import (
	"errors"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/store/pgstore"
)

// What says what has happened to a term.
type What string

// The events of a term, in the order in which they can come. After Lost the stream ends.
const (
	Standing  What = "standing"  // in lists only: nothing was sent yet
	Waiting   What = "waiting"   // others are before this candidate
	Leading   What = "leading"   // the mark is raised on each store: begin to work
	Suspended What = "suspended" // the coordinator is out of reach; the term lasts until its deadline
	Resumed   What = "resumed"   // it is back
	Alive     What = "alive"     // the present deadline
	Lost      What = "lost"      // stop: the term is over, or was never won
)

// Event is one message of a stream.
type Event struct {
	Event    What           `json:"event"`
	ID       string         `json:"id"` // of the term at this agent
	Resource fence.Resource `json:"resource"`
	Holder   string         `json:"holder"`

	// Waiting: the place in the queue, 1 for the next one, and who leads.
	Place  int    `json:"place,omitempty"`
	Leader string `json:"leader,omitempty"`

	// Leading. A token is text, since it may exceed what a JSON number holds.
	Token  string       `json:"token,omitempty"`
	Issuer fence.Issuer `json:"issuer,omitempty"`
	Carry  *Carry       `json:"carry,omitempty"`

	// Leading, Resumed, Alive: the term is lost at this time unless another event moves it.
	Until time.Time `json:"until,omitzero"`
	Left  float64   `json:"left,omitempty"` // the seconds until then; compare this where clocks differ

	// Lost.
	Cause Cause `json:"cause,omitempty"`
	// standing again is of no use until somebody acts: a loop stops
	Final bool   `json:"final,omitempty"`
	Error string `json:"error,omitempty"`
}

// Carry is how a program presents the token, ready to paste.
type Carry struct {
	// the startup parameter "options" of Postgres, or the environment's variable
	PGOPTIONS  string `json:"PGOPTIONS"`
	Fence      string `json:"FENCE"` // the first command of a Redis connection through a guard
	ClientName string `json:"client_name"`

	// Pass is what ringfence.enter takes, in a transaction without a guard. It is missing if the term
	// has raised its mark nowhere: enter would refuse it.
	Pass string `json:"pass,omitempty"`

	// Environ has what LEADER_CARRY adds: addresses of this machine through which everything is under
	// the token: PGHOST, PGHOSTADDR, PGPORT, PGSSLMODE, DATABASE_URL, REDIS_URL.
	Environ map[string]string `json:"environ,omitempty"`
}

func carry(c fence.Claim, raised bool, carried *carrier.Carrier) *Carry {
	environ := map[string]string{}
	for _, v := range carried.Environ() {
		environ[v[0]] = v[1]
	}
	all := &Carry{
		Environ:    environ,
		PGOPTIONS:  pgstore.AppendOptions("", c),
		Fence:      "FENCE " + string(c.Resource) + " " + c.Token.String(),
		ClientName: refusal.ClientName(c),
	}
	if raised {
		all.Pass = string(c.Resource) + " " + c.Token.String() + " " + string(c.Issuer) + " " +
			c.Candidate
	}
	return all
}

// Cause says in one word why a term is over.
type Cause string

// final reports whether a program that stands again gets the same answer, or what somebody has just
// ended.
func (c Cause) final() bool { return c == Refused || c == Resigned }

// The causes of Lost.
const (
	Expired    Cause = "expired"    // the coordinator did not answer in time; another one may lead
	Deposed    Cause = "deposed"    // an operator has ended it
	Superseded Cause = "superseded" // a store has a newer mark
	Resigned   Cause = "resigned"   // DELETE
	Stopped    Cause = "stopped"    // the agent stops
	// a store or the coordinator refuses, and will again: an operator acts
	Refused Cause = "refused"
	// the client has not read, or sent no beat, until the last deadline that it has seen
	Silent Cause = "silent"
	Failed Cause = "failed" // a store did not answer, or older sessions did not end: stand again
)

// within adds the deadline of a term.
func (e Event) within(won *fence.Term) Event {
	e.Until = won.Deadline()
	e.Left = max(0, time.Until(e.Until).Seconds())
	return e
}

var (
	errDeleted  = errors.New("the term was given up by DELETE")
	errStopping = errors.New("the agent stops; stand again once it runs")
	errSilent   = errors.New("the program has not read its events, or sent no beat, until the last " +
		"deadline that it has seen")
	errGone = errors.New("the client is gone")
)

// causeOf classifies the error with which a term has ended.
func causeOf(err error) Cause {
	switch {
	case errors.Is(err, errDeleted):
		return Resigned
	case errors.Is(err, errSilent):
		return Silent
	case errors.Is(err, errStopping):
		return Stopped
	case errors.Is(err, fence.ErrSuperseded), errors.Is(err, fence.ErrStale):
		return Superseded
	case errors.Is(err, fence.ErrDeposed):
		return Deposed
	case errors.Is(err, fence.ErrExpired):
		return Expired
	case fence.Permanent(err), errors.Is(err, carrier.ErrNoGuard), errors.Is(err, carrier.ErrListen),
		errors.Is(err, coordinators.ErrCampaign):
		return Refused
	}
	return Failed
}
