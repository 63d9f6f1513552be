package jobstest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/ringfence/ringfence/fence/documents"
)

// Shaky returns a coordinator whose changes of documents often fail, as on a bad network: some are
// not sent, and of some the answer is lost. Jobs keep their contract in spite of it.
func Shaky(c documents.Coordinator) documents.Coordinator { return shaky{c} }

type shaky struct{ documents.Coordinator }

// Documents implements documents.Coordinator.
func (s shaky) Documents() documents.Store { return shakyStore{s.Coordinator.Documents()} }

type shakyStore struct{ documents.Store }

// Change implements documents.Store.
func (s shakyStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	switch n := rand.IntN(10); {
	case n == 0:
		return nil, fmt.Errorf("%w: a shaky network", documents.ErrUnreachable)
	case n == 1:
		return nil, fmt.Errorf("%w: it was not", documents.ErrUnknown)
	case n == 2:
		if _, err := s.Store.Change(ctx, c); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it was", documents.ErrUnknown)
	}
	return s.Store.Change(ctx, c)
}
