package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Follow calls each with the document as it is, if there is one, and again when it has a newer version, until ctx ends or
// each returns an error, which it returns. Versions in between may be left out; one that was deleted and made anew counts
// as newer. It rides out disconnections and the end of its session, and ends with a refusal of the ensemble.
func (d *Documents) Follow(ctx context.Context, name string, each func(Document) error) error {
	at, err := d.path(name)
	if err != nil {
		return err
	}
	var last zk.Stat
	look := func(ctx context.Context, s *session) (sight[node], error) { return d.watch(ctx, s, at) }
	return follow(ctx, d.c, at, look, func(n node) error {
		if n.stat == nil || n.stat.Czxid == last.Czxid && n.stat.Version <= last.Version {
			return nil
		}
		last = *n.stat
		doc, _ := d.c.asDocument(at, n, nil)
		return each(doc)
	})
}

// watch arms a watch on a document, or on its coming into being, and reads it; no stat when there is none.
func (d *Documents) watch(ctx context.Context, s *session, at string) (sight[node], error) {
	if err := s.sync(ctx, d.c.address.root); err != nil {
		return sight[node]{}, err
	}
	for {
		n, changed, err := s.watchData(ctx, at)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = s.watchExistence(ctx, at)
			if err == nil && exists {
				continue
			}
		}
		return sight[node]{n, changed, s.over}, d.c.explain(at, err)
	}
}

// watchData arms a watch on a znode; when it does not exist the error is zk.ErrNoNode, and there is no watch.
func (s *session) watchData(ctx context.Context, at string) (node, <-chan zk.Event, error) {
	return watched(ctx, s, "data "+at, at, getter(at), func(conn *zk.Conn) (node, <-chan zk.Event, error) {
		data, stat, armed, err := conn.GetW(at)
		return node{data, stat}, armed, err
	})
}
