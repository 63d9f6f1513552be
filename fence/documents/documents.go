package documents

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Store keeps documents. Its methods may be called from any goroutine. Calls on a store whose
// coordinator is closed fail with the coordinator's ErrClosed.
type Store interface {
	// Get returns the documents at the paths of a Read, in this order. A document that does not exist
	// has version 0. Each is as fresh as the call, but they need not be of one moment. If the Read
	// names terms, they lead during the call, so no change of an earlier leader follows.
	//
	// Errors: a *fence.Refusal, as of Change; ErrBadPath, ErrUnreachable, ctx's cause.
	Get(ctx context.Context, r Read) ([]Document, error)

	// Names returns the names of the documents in a folder, sorted. It shows every change that ended
	// before the call. A folder without documents need not exist.
	//
	// Errors: ErrBadPath, ErrUnreachable, ctx's cause.
	Names(ctx context.Context, folder string) ([]string, error)

	// Change makes a change as a whole, or not at all, and returns the new version of each write, 0
	// for a document that was deleted or only compared. The change is durable then.
	//
	// Errors: ErrConflict if a document has another version; a *fence.Refusal (fence.ErrStale,
	// fence.ErrNotLeader, fence.ErrOtherIssuer) if a term does not lead; ErrTooLarge, ErrBadPath,
	// ErrBadChange, ErrUnreachable, ctx's cause. Nothing has changed then, and nothing will.
	// ErrUnknown: the change may have been made, or may be made later, as long as its versions and
	// terms hold.
	Change(ctx context.Context, c Change) ([]int64, error)

	// WatchNames calls each with the sorted names in a folder now and after every change of them,
	// until ctx ends or each returns an error, which WatchNames returns. It may merge changes in
	// quick succession. It survives disconnections.
	WatchNames(ctx context.Context, folder string, each func([]string) error) error

	// Watch calls each with a document now and after every change, as WatchNames does.
	Watch(ctx context.Context, path string, each func(Document) error) error
}

// Document is a document as it was read.
type Document struct {
	Path string
	Data []byte
	// Version changes with every write, and is 0 if there is no such document. One that is created
	// again may get a version that it has had before.
	Version int64
}

// Exists reports whether the document was there.
func (d Document) Exists() bool { return d.Version != 0 }

// Read names documents to read. The zero value reads nothing.
type Read struct {
	While []fence.Claim // each leads when the documents are read
	Paths []string
}

// At reads the documents at these paths, whoever leads.
func At(paths ...string) Read { return Read{Paths: paths} }

// Change is a change of one or more documents. The zero value changes nothing.
type Change struct {
	While  []fence.Claim // each leads when the change is made
	Writes []Write       // of different documents, at most MaxWrites
}

// MaxWrites is how many writes a Change may have. Every coordinator takes so many in one
// transaction, beside its comparisons of the terms. Package jobs makes its batches as large as that
// allows, so what takes fewer can be added by a lower number here, and nowhere else.
const MaxWrites = 100

// Write is one part of a Change. Create, Replace, Delete, DeleteAny and Check make it.
type Write struct {
	Path    string
	Version int64 // before the change; 0: there is no such document; AnyVersion: of a deletion
	Kind    Kind
	Data    []byte
}

// Kind says what a Write does.
type Kind int

// Kinds of writes.
const (
	KindPut    Kind = iota + 1 // creates or replaces
	KindDelete                 // deletes
	KindCheck                  // compares the version, and changes nothing
)

// Create creates a document that must not exist.
func Create(path string, data []byte) Write { return Write{Path: path, Kind: KindPut, Data: data} }

// Replace replaces the data of a document, which must still have this version. It creates it if
// that version is 0.
func Replace(d Document, data []byte) Write {
	return Write{Path: d.Path, Version: d.Version, Kind: KindPut, Data: data}
}

// Delete deletes a document, which must exist with this version.
func Delete(d Document) Write { return Write{Path: d.Path, Version: d.Version, Kind: KindDelete} }

// AnyVersion is the version of a deletion that does not compare it.
const AnyVersion = -1

// DeleteAny deletes a document, which must exist, whatever its version is.
func DeleteAny(path string) Write {
	return Write{Path: path, Version: AnyVersion, Kind: KindDelete}
}

// Check makes a change fail unless the document exists with this version.
func Check(d Document) Write { return Write{Path: d.Path, Version: d.Version, Kind: KindCheck} }

// Coordinator is a coordinator that also keeps documents, as all of Ringfence's do.
type Coordinator interface {
	elector.Coordinator
	// Documents returns the documents next to the coordinator's elections. They end with the
	// coordinator.
	Documents() Store
}
