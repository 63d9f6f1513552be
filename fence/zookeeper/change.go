package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// maxFolders is how often a change is sent again because a folder was missing. The ensemble deletes
// an empty one about once a minute.
const maxFolders = 5

// Change implements documents.Store. It is one multi, which first checks the issuer and the
// candidate of each claim.
func (s *store) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	if err := s.check(c); err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		claims, err := s.standings(ctx, c.While)
		if err != nil {
			return nil, err
		}
		ops := s.operations(claims, c.Writes)
		if len(ops) == 0 {
			return []int64{}, nil
		}
		results, err := ensemble.Transact(ctx, s.client, ops...)
		checks := len(ops) - len(c.Writes)
		switch failed := failedAt(results); {
		case err == nil:
			return versions(c, results[checks:]), nil
		case len(results) < len(ops):
			return nil, s.lost(c, err)
		case failed < checks:
			i := failed * len(claims) / checks
			if err := s.refuse(ctx, c.While[i], claims[i], err); err != nil {
				return nil, err
			}
		case missingFolder(c.Writes[failed-checks], err) && tries < maxFolders:
			if err := s.makeFolder(ctx, c.Writes[failed-checks].Path); err != nil {
				return nil, err
			}
		default:
			return nil, s.unchanged(c.Writes[failed-checks], err)
		}
	}
}

func (s *store) check(c documents.Change) error {
	if err := campaign.CheckChange(c, maxData); err != nil {
		return err
	}
	for _, w := range c.Writes {
		if w.Version > math.MaxInt32 {
			return fmt.Errorf("%w: ZooKeeper has never given %s the version %d; nothing was sent",
				documents.ErrConflict, w.Path, w.Version)
		}
	}
	return nil
}

// standings returns what each claim rests on.
func (s *store) standings(ctx context.Context, claims []fence.Claim) ([]standing, error) {
	all := make([]standing, len(claims))
	for i, claim := range claims {
		var err error
		all[i], err = ensemble.Ask(ctx, s.client, func(
			ctx context.Context, session *ensemble.Session,
		) (standing, error) {
			return s.standing(ctx, session, claim)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// operations are the parts of the multi: the checks of each claim, and one for each write.
func (s *store) operations(claims []standing, writes []documents.Write) (all []any) {
	for _, at := range claims {
		all = append(all, s.checks(at)...)
	}
	for _, w := range writes {
		all = append(all, s.operation(w))
	}
	return all
}

// refuse says why a check of a claim has failed. It returns nil if the claim leads after all, under
// an issuer that was read anew; then the change, which was not made, can be sent again.
func (s *store) refuse(ctx context.Context, c fence.Claim, at standing, failed error) error {
	_, err := ensemble.Ask(ctx, s.client,
		func(ctx context.Context, session *ensemble.Session) (any, error) {
			if errors.Is(failed, zk.ErrNoNode) {
				return nil, s.gone(ctx, session, c)
			}
			return nil, s.lookAgain(ctx, session, c, at.issuer)
		})
	return err
}

func (s *store) operation(w documents.Write) any {
	at, stored := s.znode(w.Path), int32(w.Version-1)
	switch {
	case w.Kind == documents.KindCheck:
		return &zk.CheckVersionRequest{Path: at, Version: stored}
	case w.Version == documents.AnyVersion:
		return &zk.DeleteRequest{Path: at, Version: -1}
	case w.Kind == documents.KindDelete:
		return &zk.DeleteRequest{Path: at, Version: stored}
	case w.Version == 0:
		return &zk.CreateRequest{Path: at, Data: w.Data, Flags: zk.FlagPersistent}
	}
	return &zk.SetDataRequest{Path: at, Data: w.Data, Version: stored}
}

// failedAt returns which operation made a multi fail: the first with an error of its own.
func failedAt(results []zk.MultiResponse) int {
	for i, r := range results {
		if r.Error != nil {
			return i
		}
	}
	return len(results)
}

// versions returns the new version of each write.
func versions(c documents.Change, results []zk.MultiResponse) []int64 {
	all := make([]int64, len(c.Writes))
	for i, w := range c.Writes {
		switch {
		case w.Kind != documents.KindPut:
		case w.Version == 0:
			all[i] = 1
		default:
			all[i] = version(results[i].Stat)
		}
	}
	return all
}

// largeChange is a size from which on a server's limit may be the reason for a lost answer.
const largeChange = 64 << 10

// lost explains a multi without results.
func (s *store) lost(c documents.Change, err error) error {
	if errors.Is(err, ensemble.ErrUnanswered) {
		if n := campaign.Size(c); n > largeChange {
			err = fmt.Errorf("%w (the change has %d bytes: a server whose jute.maxbuffer is smaller than "+
				"that breaks the connection)", err, n)
		}
		return fmt.Errorf("%w: %w", documents.ErrUnknown, err)
	}
	if len(c.Writes) > 0 {
		err = s.client.Explain(s.znode(c.Writes[0].Path), err)
	}
	return err
}

// missingFolder reports that a document could not be created because its folder is missing.
func missingFolder(w documents.Write, err error) bool {
	return w.Kind == documents.KindPut && w.Version == 0 && errors.Is(err, zk.ErrNoNode)
}

// makeFolder makes the folder of a document.
func (s *store) makeFolder(ctx context.Context, document string) error {
	_, err := ensemble.Ask(ctx, s.client, func(
		ctx context.Context, session *ensemble.Session,
	) (any, error) {
		return nil, session.EnsureContainer(ctx, path.Dir(s.znode(document)))
	})
	return err
}

// unchanged translates a definite answer that nothing has changed.
func (s *store) unchanged(w documents.Write, err error) error {
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %s; nothing has changed", documents.ErrConflict, w.Path)
	}
	return s.client.Explain(s.znode(w.Path), err)
}
