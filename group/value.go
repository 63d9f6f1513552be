package group

import (
	"context"

	"github.com/ringfence/ringfence/documents"
)

// Value is a small value that a group shares, such as its configuration. Every version of it is
// written on top of one that the writer has seen.
type Value struct {
	path  string
	store documents.Store
}

// Value returns the group's value of this name, which need not exist. A name has letters, digits,
// '.', '_' and '-'; calls on any other fail with documents.ErrBadPath.
func (g *Group) Value(name string) Value {
	return Value{path: "groups/" + g.name + "/" + name, store: g.coordinator.Documents()}
}

// Get returns the value. Its version is 0 if nobody has set it.
func (v Value) Get(ctx context.Context) (documents.Document, error) {
	all, err := v.store.Get(ctx, documents.At(v.path))
	if err != nil {
		return documents.Document{}, err
	}
	return all[0], nil
}

// Set replaces the value that was read before, and returns what it is then. The error matches
// documents.ErrConflict if somebody else has set it meanwhile; documents.Store has the others.
func (v Value) Set(
	ctx context.Context, before documents.Document, data []byte,
) (documents.Document, error) {
	before.Path = v.path
	versions, err := v.store.Change(ctx, documents.Change{
		Writes: []documents.Write{documents.Replace(before, data)},
	})
	if err != nil {
		return documents.Document{}, err
	}
	return documents.Document{Path: v.path, Data: data, Version: versions[0]}, nil
}

// Watch calls each with the value now and after every change, until ctx ends or each returns an
// error, which Watch returns.
func (v Value) Watch(ctx context.Context, each func(documents.Document) error) error {
	return v.store.Watch(ctx, v.path, each)
}
