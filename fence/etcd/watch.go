package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/cluster"
)

// WatchNames implements documents.Store. It lists the folder once and then follows the changes. It
// lists it again when the watch ends, as after a compaction or when a member has lost its leader.
func (s *store) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	var told []string
	first := true
	tell := func(names map[string]bool) error {
		now := slices.Sorted(maps.Keys(names))
		if !first && slices.Equal(now, told) {
			return nil
		}
		first, told = false, now
		return each(slices.Clone(now))
	}
	return s.follow(ctx, folder, func(ctx context.Context) error {
		list, revision, err := s.list(ctx, folder)
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, name := range list {
			names[name] = true
		}
		if err := tell(names); err != nil {
			return stopped{err}
		}
		return s.changes(ctx, s.key(folder)+"/", revision+1, func(events []*clientv3.Event) error {
			for _, e := range events {
				if name, inside := s.nameIn(folder, e.Kv); inside && e.Type == clientv3.EventTypeDelete {
					delete(names, name)
				} else if inside {
					names[name] = true
				}
			}
			return tell(names)
		}, clientv3.WithPrefix())
	})
}

// Watch implements documents.Store.
func (s *store) Watch(
	ctx context.Context, path string, each func(documents.Document) error,
) error {
	told := int64(-1)
	tell := func(d documents.Document) error {
		if d.Version == told {
			return nil
		}
		told = d.Version
		return each(d)
	}
	return s.follow(ctx, path, func(ctx context.Context) error {
		now, revision, err := s.getAt(ctx, path)
		if err != nil {
			return err
		}
		if err := tell(now); err != nil {
			return stopped{err}
		}
		return s.changes(ctx, s.key(path), revision+1, func(events []*clientv3.Event) error {
			last := events[len(events)-1]
			if last.Type == clientv3.EventTypeDelete {
				return tell(documents.Document{Path: path})
			}
			return tell(document(path, last.Kv))
		})
	})
}

// getAt reads a document, and returns the revision at which it was so.
func (s *store) getAt(ctx context.Context, path string) (documents.Document, int64, error) {
	if err := documents.CheckPath(path); err != nil {
		return documents.Document{}, 0, err
	}
	resp, err := cluster.Ask(ctx, s.c.client, "read "+path, func(
		ctx context.Context,
	) (*clientv3.GetResponse, error) {
		return s.c.client.Get(ctx, s.key(path))
	})
	switch {
	case err != nil:
		return documents.Document{}, 0, documentError(err)
	case len(resp.Kvs) == 0:
		return documents.Document{Path: path}, resp.Header.Revision, nil
	}
	return document(path, resp.Kvs[0]), resp.Header.Revision, nil
}

// stopped is an error of the caller's function, which ends a watch.
type stopped struct{ error }

// follow repeats a watch, which reads and then follows changes, until ctx ends, the caller's
// function returns an error, or etcd refuses.
func (s *store) follow(ctx context.Context, what string, watch func(context.Context) error) error {
	if err := s.c.begin(); err != nil {
		return err
	}
	defer s.c.work.Done()
	ctx, stop := s.c.client.WithEnd(ctx)
	defer stop()
	for failures := 0; ctx.Err() == nil; {
		err := watch(ctx)
		if ended, ok := errors.AsType[stopped](err); ok {
			return ended.error
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failures = 0
		case errors.Is(err, documents.ErrUnreachable):
			failures++
			s.c.log.Warn("cannot watch a document or a folder", "path", what, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		default:
			return err
		}
	}
	return context.Cause(ctx)
}

// changes calls each with the changes of a key, or of a prefix, from a revision on. It returns nil
// when the watch has ended, and after a while in any case, in case a notice was lost.
func (s *store) changes(
	ctx context.Context, key string, from int64, each func([]*clientv3.Event) error,
	o ...clientv3.OpOption,
) error {
	ctx, stop := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.c.client.RequestTimeout())
	defer stop()
	defer cluster.Calm(ctx)()
	for change := range s.c.client.Watch(ctx, key, append(o, clientv3.WithRev(from))...) {
		if change.Err() != nil {
			return nil
		}
		if len(change.Events) == 0 {
			continue
		}
		if err := each(change.Events); err != nil {
			return stopped{err}
		}
	}
	return nil
}
