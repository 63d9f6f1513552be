package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/internal/ensemble"
)

// Follow calls each with the current document, if there is one, and again when it has a newer
// version, until ctx ends or each returns an error, which Follow returns. It may skip versions. A
// document that was deleted and created again counts as newer. Follow survives disconnections and
// the end of its session. It ends if the ensemble refuses a request.
func (d *documents) Follow(ctx context.Context, name string, each func(document) error) error {
	at, err := d.path(name)
	if err != nil {
		return err
	}
	var last zk.Stat
	read := func(ctx context.Context, s *ensemble.Session) (ensemble.Node, <-chan zk.Event, error) {
		return d.watch(ctx, s, at)
	}
	return ensemble.Follow(ctx, d.client, at, read, func(n ensemble.Node) error {
		if n.Stat == nil || n.Stat.Czxid == last.Czxid && n.Stat.Version <= last.Version {
			return nil
		}
		last = *n.Stat
		doc, _ := asDocument(d.client, at, n, nil)
		return each(doc)
	})
}

// watch sets a watch on a document, or on its creation, and reads it. Stat is nil if there is none.
func (d *documents) watch(
	ctx context.Context, s *ensemble.Session, at string,
) (ensemble.Node, <-chan zk.Event, error) {
	if err := s.Sync(ctx, d.client.Root()); err != nil {
		return ensemble.Node{}, nil, err
	}
	for {
		n, changed, err := s.WatchData(ctx, at)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = s.WatchExistence(ctx, at)
			if err == nil && exists {
				continue
			}
		}
		return n, changed, d.client.Explain(at, err)
	}
}
