package marks_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
)

// overtaken is a store that somebody uses after its marks were read, and before the reader has
// them.
type overtaken struct {
	*markstest.Model
	meanwhile func()
}

func (o *overtaken) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	read, err := o.Model.Marks(ctx, only...)
	if use := o.meanwhile; use != nil {
		o.meanwhile = nil
		use()
	}
	return read, err
}

// The guard's follower raises a mark while the deposed leader asks for the last time. An operator
// who reads that the store has lost its mark would look for a failure that there was not.
func TestAMarkThatIsRaisedWhileItIsReadIsNotLost(t *testing.T) {
	f := follow(t)
	s := &overtaken{Model: markstest.NewModel()}
	first := f.elect()
	a := f.admit(s, s.Model, first)
	f.resign(first)
	second := f.elect()
	s.meanwhile = func() {
		if err := a.Admit(t.Context(), s.Connect().Session(), claimed(second.Token())); err != nil {
			t.Error(err)
		}
	}
	err := a.Admit(t.Context(), s.Connect().Session(), claimed(first.Token()))
	if !errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v, want a refusal as stale", err)
	}
	if strings.Contains(err.Error(), "lost") {
		t.Errorf("the store has lost nothing: %v", err)
	}
}
