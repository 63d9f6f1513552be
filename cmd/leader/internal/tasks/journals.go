package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
)

// JournalOptions are the options of every journal.
type JournalOptions struct {
	Coordinator documents.Coordinator
	Holder      string
	Logger      *slog.Logger
}

// OpenJournal opens a journal whose Raise only checks the mark, and raises nothing.
type OpenJournal func(
	ctx context.Context, url string, o JournalOptions,
) (j checkpoint.Journal, closeJournal func(), err error)

// Journals maps the schemes of taskfile.Journal to journals.
type Journals map[string]OpenJournal

// AllJournals lists every journal.
var AllJournals = Journals{
	"postgres":   openPostgresJournal,
	"postgresql": openPostgresJournal,
	"redis":      openRedisJournal,
	"rediss":     openRedisJournal,

	"redis+sentinel":  openRedisJournal,
	"rediss+sentinel": openRedisJournal,

	taskfile.InCoordinator: openCoordinatorJournal,
}

// Schemes returns the known schemes, sorted.
func (j Journals) Schemes() []string { return slices.Sorted(maps.Keys(j)) }

// NoJournal says that a journal is not one of those with the known schemes.
func NoJournal(j taskfile.Journal, known []string) string {
	var all []string
	for _, scheme := range known {
		if scheme != taskfile.InCoordinator {
			all = append(all, scheme+"://")
		}
	}
	return fmt.Sprintf("there is no journal %s://; there is %s, and the word %s for the coordinator "+
		"of the elections",
		j.Scheme(), strings.Join(all, ", "), taskfile.InCoordinator)
}

func openRedisJournal(
	ctx context.Context, url string, _ JournalOptions,
) (checkpoint.Journal, func(), error) {
	j, err := redisjournal.Open(ctx, url, redisjournal.Options{Raiser: unraised{}})
	if err != nil {
		return nil, nil, err
	}
	return j, j.Close, nil
}

func openCoordinatorJournal(
	_ context.Context, _ string, o JournalOptions,
) (checkpoint.Journal, func(), error) {
	return coordinator.New(o.Coordinator.Documents()), func() {}, nil
}

// unraised is the Raiser of a Redis journal. It raises nothing and reports that the mark is not
// raised, so that raiser tries the stores.
type unraised struct{}

// Raise implements fence.Raiser.
func (unraised) Raise(_ context.Context, c fence.Claim) error {
	return &fence.Refusal{
		Reason: fence.ErrNotRaised, Claim: c,
		Message: fmt.Sprintf("the mark of %q is not raised to token %s in the journal", c.Resource,
			c.Token),
	}
}

// journalAt returns where the task's checkpoints are, and where that is set, for messages.
func (inv *Invocation) journalAt() (j taskfile.Journal, from string) {
	c := inv.Settings
	switch {
	case c.Journal.URL != "":
		return c.Journal, "LEADER_JOURNAL"
	case inv.File != nil && inv.File.Journal.URL != "":
		return inv.File.Journal, "journal in " + inv.Path
	}
	if j.URL = c.first("postgres", "postgresql"); j.URL == "" {
		j.URL = c.first(redismarks.Schemes...)
	}
	if j.URL != "" {
		return j, "the journal, a store of LEADER_STORES,"
	}
	return taskfile.Journal{URL: taskfile.InCoordinator}, "the journal, which has no setting,"
}

// journal opens the journal. Call closeJournal at the end.
func (inv *Invocation) journal(
	ctx context.Context,
) (j checkpoint.Journal, closeJournal func(), err error) {
	if err := inv.unknownJournal(); err != nil {
		return nil, nil, err
	}
	at, _ := inv.journalAt()
	o := JournalOptions{inv.Coordinator, inv.Settings.Holder, inv.Log}
	if j, closeJournal, err = inv.Journals[at.Scheme()](ctx, at.Reveal(), o); err != nil {
		return nil, nil, fmt.Errorf("the journal %s: %w", at, err)
	}
	return inv.withRaiser(at.URL, j), closeJournal, nil
}

// unknownJournal returns an error if there is no such journal.
func (inv *Invocation) unknownJournal() error {
	at, from := inv.journalAt()
	if _, known := inv.Journals[at.Scheme()]; known {
		return nil
	}
	return fmt.Errorf("%s: %s", from, NoJournal(at, inv.Journals.Schemes()))
}

// withRaiser adds to a journal that checks its mark the stores that raise it.
func (inv *Invocation) withRaiser(u settings.URL, j checkpoint.Journal) checkpoint.Journal {
	r := inv.raiser(u, j)
	if t, ok := j.(pgJournal); ok {
		return raisedPostgres{t, r}
	}
	return raisedJournal{j, r}
}

// raiser raises the mark at a URL: through the stores of the same kind, which may log in with a
// role that has the privilege, or else at the URL itself. For a URL that is not in the table of
// stores there is no mark to raise.
func (inv *Invocation) raiser(u settings.URL, check fence.Raiser) raiser {
	r := raiser{check: check, timeout: inv.Settings.RaiseTimeout, url: u}
	open, ok := inv.Stores[u.Scheme()]
	if !ok {
		return r
	}
	for i, store := range inv.raisers() {
		if kindOf(inv.Settings.Stores[i]) == kindOf(u) {
			r.others = append(r.others, store)
		}
	}
	own := open(u.Reveal(), inv.Coordinator)
	inv.opened = append(inv.opened, own)
	r.others = append(r.others, own)
	return r
}

func kindOf(u settings.URL) string { return strings.TrimSuffix(u.Scheme(), "ql") }

// raisedJournal is a journal with another Raise.
type raisedJournal struct {
	checkpoint.Journal
	raiser
}

// Raise implements fence.Raiser.
func (j raisedJournal) Raise(ctx context.Context, c fence.Claim) error {
	return j.raiser.Raise(ctx, c)
}

// raiser raises the mark in one place. It tries one store after the other, since only a try shows
// which of them has the privilege.
type raiser struct {
	check   fence.Raiser // raises nothing, and returns ErrNotRaised while the mark is not raised
	others  []fence.Raiser
	url     settings.URL
	timeout time.Duration
}

// Raise implements fence.Raiser. Its error is a *stores.Error.
func (r raiser) Raise(ctx context.Context, c fence.Claim) error {
	return stores.Bounded(ctx, r.url, r.timeout, func(ctx context.Context) error {
		err := r.check.Raise(ctx, c)
		for _, other := range r.others {
			// ErrNotInstalled: Redis may have lost the installation as well.
			if !errors.Is(err, fence.ErrNotRaised) && !errors.Is(err, fence.ErrNotInstalled) {
				break
			}
			if err = other.Raise(ctx, c); err == nil {
				err = r.check.Raise(ctx, c)
			}
		}
		return err
	})
}
