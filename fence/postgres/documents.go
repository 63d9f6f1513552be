package postgres

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Documents returns the documents in the database: rows of ringfence_private.document. A version
// is a number of a sequence, so no document has one twice. All documents of a change may have 8 MB
// together.
func (c *Coordinator) Documents() documents.Store { return c.documents }

// maxData is how many bytes of data a change may have.
const maxData = 8 << 20

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
		rows, err := query(ctx, conn, "read_documents($1, $2, $3, $4, $5, $6)",
			append(claimed(r.While), folders, names)...)
		if err != nil {
			return nil, err
		}
		var version *int64
		var data []byte
		_, err = pgx.ForEachRow(rows,
			[]any{&is.outcome, &is.place, &is.leader, &is.holder, &version, &data},
			func() error {
				if is.outcome == "done" {
					all[is.place-1].Version, all[is.place-1].Data = *version, slices.Clone(data)
				}
				return nil
			})
		return all, err
	})
	if err == nil && is.outcome != "" && is.outcome != "done" {
		return nil, refuse(r.While[is.place-1], is)
	}
	return all, err
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, err
	}
	return ask(ctx, s.c, "list "+folder,
		func(ctx context.Context, conn *pgx.Conn) (names []string, err error) {
			err = row(ctx, conn, []any{&names}, "list_documents($1)", folder)
			return names, err
		})
}

// WatchNames implements documents.Store. Where notices do not arrive it looks once per tick.
func (s *store) WatchNames(ctx context.Context, folder string, each func([]string) error) error {
	tell := campaign.OnOther(each)
	all := func(string) bool { return true }
	return s.c.watch(ctx, "the folder "+folder, channelOf(folder), all, func(
		ctx context.Context,
	) (time.Duration, error) {
		now, err := s.Names(ctx, folder)
		if err == nil {
			err = tell(now)
		}
		return s.c.frame.Timeout, err
	})
}

// Watch implements documents.Store, as WatchNames does.
func (s *store) Watch(ctx context.Context, at string, each func(documents.Document) error) error {
	tell := campaign.OnChange(campaign.SameVersion, each)
	this := func(document string) bool { return document == path.Base(at) }
	return s.c.watch(ctx, "the document "+at, channelOf(path.Dir(at)), this, func(
		ctx context.Context,
	) (time.Duration, error) {
		now, err := s.Get(ctx, documents.At(at))
		if err == nil {
			err = tell(now[0])
		}
		return s.c.frame.Timeout, err
	})
}
