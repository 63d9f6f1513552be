package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	redisjournal "github.com/ringfence/ringfence/checkpoint/redis"
	zkjournal "github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// journalOptions is what every journal is opened with.
type journalOptions struct {
	coordinators.Options
	Holder string
}

// openJournal opens a journal that looks whether its mark is raised, and raises none itself.
type openJournal func(ctx context.Context, url string, o journalOptions) (j checkpoint.Journal, shut func(), err error)

// journals is every journal there is, by the scheme of LEADER_JOURNAL.
var journals = map[string]openJournal{
	"postgres":   openPostgresJournal,
	"postgresql": openPostgresJournal,
	"redis":      openRedisJournal,
	"zk":         openZooKeeperJournal,
}

func openRedisJournal(ctx context.Context, url string, _ journalOptions) (checkpoint.Journal, func(), error) {
	j, err := redisjournal.Open(ctx, url, redisjournal.Options{Raiser: unraised{}})
	if err != nil {
		return nil, nil, err
	}
	return j, j.Close, nil
}

func openZooKeeperJournal(ctx context.Context, url string, o journalOptions) (checkpoint.Journal, func(), error) {
	j, err := zkjournal.Open(ctx, url, zkjournal.Options{SessionTimeout: o.SessionTimeout, Logger: o.Logger})
	if err != nil {
		return nil, nil, err
	}
	return j, func() { _ = j.Close() }, nil
}

// unraised is the Raiser of a journal that is to say that its mark is not raised, so that somebody else raises it.
type unraised struct{}

// Raise implements fence.Raiser.
func (unraised) Raise(_ context.Context, c fence.Claim) error {
	return &fence.Refusal{Reason: fence.NotLeader, Claim: c, Message: fmt.Sprintf("the mark of %q is not raised to token %s in the journal", c.Resource, c.Token)}
}

// journalURL is where the task's checkpoints are, and which setting says so.
func (s *session) journalURL() (u settings.URL, from string) {
	c := s.config
	switch {
	case c.Journal != "":
		return c.Journal, "LEADER_JOURNAL"
	case s.file != nil && s.file.Journal != "":
		return s.file.Journal, "journal in " + s.task.path
	}
	if u = c.first("postgres", "postgresql"); u == "" {
		u = c.first("redis")
	}
	if u != "" {
		return u, "the journal, a store of LEADER_STORES,"
	}
	return c.Coordinator, "the journal, which is LEADER_COORDINATOR,"
}

// journal opens the session's. Call shut at last.
func (p *program) journal(ctx context.Context, s *session) (j checkpoint.Journal, shut func(), err error) {
	u, _ := s.journalURL()
	o := journalOptions{coordinators.Options{SessionTimeout: s.config.SessionTimeout, Logger: s.log}, s.config.Holder}
	open, known := p.journals[u.Scheme()]
	if !known {
		return nil, nil, p.unknownJournal(s)
	}
	if j, shut, err = open(ctx, u.Reveal(), o); err != nil {
		return nil, nil, fmt.Errorf("the journal %s: %w", u, err)
	}
	return p.raising(s, u, j), shut, nil
}

// unknownJournal says that there is no journal of the URL's kind, or nil if there is.
func (p *program) unknownJournal(s *session) error {
	u, from := s.journalURL()
	if _, known := p.journals[u.Scheme()]; known {
		return nil
	}
	return fmt.Errorf("%s: there is no journal %s://; there is %s", from, u.Scheme(), list(slices.Sorted(maps.Keys(p.journals))))
}

// raising makes a journal one that has its mark raised.
func (p *program) raising(s *session, u settings.URL, j checkpoint.Journal) checkpoint.Journal {
	r := p.raiser(s, u, j)
	if t, ok := j.(pgJournal); ok {
		return raisedPostgres{t, r}
	}
	return raisedJournal{j, r}
}

// raiser raises the mark at a URL: by the stores of its kind, which may log in as a role that is allowed to, or else at
// the URL itself. What is not in the table of stores has nothing to raise.
func (p *program) raiser(s *session, u settings.URL, look fence.Raiser) raiser {
	r := raiser{look: look, timeout: s.config.RaiseTimeout, url: u}
	open, ok := p.stores[u.Scheme()]
	if !ok {
		return r
	}
	for i, store := range p.raisers(s) {
		if kindOf(s.config.Stores[i]) == kindOf(u) {
			r.others = append(r.others, store)
		}
	}
	r.others = append(r.others, open(u.Reveal(), s.coordinator))
	return r
}

func kindOf(u settings.URL) string { return strings.TrimSuffix(u.Scheme(), "ql") }

// raisedJournal is a journal with another Raise.
type raisedJournal struct {
	checkpoint.Journal
	raiser
}

// Raise implements fence.Raiser.
func (j raisedJournal) Raise(ctx context.Context, c fence.Claim) error { return j.raiser.Raise(ctx, c) }

// raiser raises the mark in one place. Who may do that is known only by trying.
type raiser struct {
	look    fence.Raiser // raises nothing, and says ErrNotLeader while it is not raised
	others  []fence.Raiser
	url     settings.URL
	timeout time.Duration
}

// Raise implements fence.Raiser. Its error is a *raiseError.
func (r raiser) Raise(ctx context.Context, c fence.Claim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within LEADER_RAISE_TIMEOUT=%s", r.timeout))
	defer cancel()
	err := r.look.Raise(ctx, c)
	for _, other := range r.others {
		if !errors.Is(err, fence.ErrNotLeader) && !errors.Is(err, fence.ErrNotInstalled) { // Redis may have lost even that
			break
		}
		if err = other.Raise(ctx, c); err == nil {
			err = r.look.Raise(ctx, c)
		}
	}
	if err == nil {
		return nil
	}
	return &raiseError{url: r.url, err: err}
}
