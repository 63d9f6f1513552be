package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

func TestADeletionOnItsWayWhenItsLeaderIsDeposedDeletesNothing(t *testing.T) {
	overtaken(t, func(d relayed, old fence.Claim) error { return d.Delete(t.Context(), old, made("", 1)) })
}

func TestADeletionNamesItsVersionAndWithALostAnswerIsUnanswered(t *testing.T) {
	d := openRelayed(t, 20*time.Second)
	term := d.lead(t, "x")
	write(t, d.documents, term, 2, "y")
	for _, other := range []int64{1, 3} {
		err := d.Delete(t.Context(), term.Claim(), made("", other))
		if got := stored(t, d.documents, "a"); !errors.Is(err, errVersion) || got != "2:y" {
			t.Errorf("deletion of version %d returned %v; stored is %s", other, err, got)
		}
	}
	d.relay.Set(func() { d.relay.LoseWrite = true })
	err := d.Delete(t.Context(), term.Claim(), made("", 2))
	if got := stored(t, d.documents, "a"); !errors.Is(err, ensemble.ErrUnanswered) || got != "0:" {
		t.Errorf("the deletion returned %v; stored is %s", err, got)
	}
}
