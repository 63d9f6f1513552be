package postgres

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Documents returns the documents in the database: rows of ringfence_elections.document. A version
// is a number of a sequence, so no document has one twice. All documents of a change may have 8 MB
// together.
func (c *Coordinator) Documents() documents.Store { return c.documents }

var _ documents.Coordinator = (*Coordinator)(nil)

// documentsLimit is how many bytes of data a change may have.
const documentsLimit = 8 << 20

type store struct{ c *Coordinator }

// split returns folders and names of documents.
func split(paths []string) (folders, names []string) {
	folders, names = []string{}, []string{} // nil would be null
	for _, p := range paths {
		folder, name := path.Split(p)
		folders, names = append(folders, strings.TrimSuffix(folder, "/")), append(names, name)
	}
	return folders, names
}

// Get implements documents.Store. It is one statement.
func (s *store) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.While)+len(r.Paths) == 0 {
		return nil, nil
	}
	folders, names := split(r.Paths)
	var is standing
	all, err := ask(ctx, s.c, "read documents", func(
		ctx context.Context, conn *pgx.Conn,
	) ([]documents.Document, error) {
		is = standing{}
		all := make([]documents.Document, len(r.Paths))
		for i, p := range r.Paths {
			all[i].Path = p
		}
		rows, err := conn.Query(ctx, "select * from ringfence_elections.read_documents($1, $2, $3, $4, $5, $6)",
			append(claimed(r.While), folders, names)...)
		if err != nil {
			return nil, err
		}
		var version *int64
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&is.outcome, &is.place, &is.leader, &is.holder, &version, &data},
			func() error {
				if is.outcome == "done" {
					all[is.place-1].Version, all[is.place-1].Data = *version, slices.Clone(data)
				}
				return nil
			})
		return all, err
	})
	if err == nil && is.outcome != "" && is.outcome != "done" {
		return nil, doesNotLead(r.While[is.place-1], is)
	}
	return all, documentError(err)
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, err
	}
	names, err := ask(ctx, s.c, "list "+folder, func(
		ctx context.Context, conn *pgx.Conn,
	) (names []string, err error) {
		err = row(ctx, conn, []any{&names}, "list_documents($1)", folder)
		return names, err
	})
	return names, documentError(err)
}

// documentError translates an error of a call that has changed nothing.
func documentError(err error) error {
	if errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", documents.ErrUnreachable, err)
	}
	return err
}

// WatchNames implements documents.Store. Where notices do not arrive it looks once per tick.
func (s *store) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	first := true
	var told []string
	any := func(string) bool { return true }
	return s.watch(ctx, folder, folder, any, func(ctx context.Context) (tell func() error, err error) {
		now, err := s.Names(ctx, folder)
		if err != nil || !first && slices.Equal(now, told) {
			return nil, err
		}
		return func() error { first, told = false, now; return each(slices.Clone(now)) }, nil
	})
}

// Watch implements documents.Store, as WatchNames does.
func (s *store) Watch(
	ctx context.Context, at string, each func(documents.Document) error,
) error {
	told := int64(-1)
	folder, name := path.Dir(at), path.Base(at)
	this := func(document string) bool { return document == name }
	return s.watch(ctx, at, folder, this, func(ctx context.Context) (tell func() error, err error) {
		now, err := s.Get(ctx, documents.At(at))
		if err != nil || now[0].Version == told {
			return nil, err
		}
		return func() error { told = now[0].Version; return each(now[0]) }, nil
	})
}

// watch looks now, and after each notice of a document of the folder that concerns it, until ctx ends,
// what look returns fails, or the server refuses.
func (s *store) watch(
	ctx context.Context, what, folder string, concerns func(string) bool,
	look func(context.Context) (tell func() error, err error),
) error {
	c := s.c
	if err := c.begin(); err != nil {
		return err
	}
	defer c.work.Done()
	ctx, stop := c.withClose(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	notices := c.listener.subscribe(channelOf(folder), func(document string) {
		if document == "" || concerns(document) {
			kick(changed)
		}
	})
	defer notices.stop()
	for failures := 0; ctx.Err() == nil; {
		tell, err := look(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, documents.ErrUnreachable):
			failures++
			c.log.Warn("cannot watch a document or a folder", "path", what, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		case err != nil:
			return err
		default:
			failures = 0
			if tell != nil {
				if err := tell(); err != nil {
					return err
				}
			}
			s.await(ctx, notices, changed)
		}
	}
	return context.Cause(ctx)
}

// await waits until it is time to look again: after a notice, or after a while in case one was lost.
// Where notices do not arrive, after a tick.
func (s *store) await(ctx context.Context, notices *subscription, changed <-chan struct{}) {
	wait := s.c.tick()
	if notices.listening() {
		wait = s.c.timeout
	}
	next := time.NewTimer(wait)
	defer next.Stop()
	select {
	case <-next.C:
	case <-changed:
	case <-ctx.Done():
	}
}
