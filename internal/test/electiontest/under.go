package electiontest

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// ClaimedDocument is the document f/a, as it is read and written under a claim.
type ClaimedDocument struct {
	store documents.Store
	Claim fence.Claim
}

// Under returns the document f/a of a store under a claim.
func Under(s documents.Store, c fence.Claim) ClaimedDocument { return ClaimedDocument{s, c} }

// Get reads the document.
func (d ClaimedDocument) Get(ctx context.Context) ([]documents.Document, error) {
	return d.store.Get(ctx, documents.Read{While: []fence.Claim{d.Claim}, Paths: []string{"f/a"}})
}

// Put writes data after a version, and returns the new one.
func (d ClaimedDocument) Put(ctx context.Context, version int64, data string) (int64, error) {
	before := documents.Document{Path: "f/a", Version: version}
	versions, err := d.store.Change(ctx, documents.Change{
		While: []fence.Claim{d.Claim}, Writes: []documents.Write{documents.Replace(before, []byte(data))},
	})
	if err != nil {
		return 0, err
	}
	return versions[0], nil
}
