package checkpointtest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var takeoverClauses = []contract.Clause[*stage]{
	{Name: "Once a new leader has taken a checkpoint, no older one publishes", Holds: takeEndsOlder},
	{Name: "Of leaders that publish at once, no older one publishes after a newer one",
		Holds: tokensRiseWithVersions},
}

// persist publishes versions as fast as it can, until it is refused or each returns false.
func (k *stage) persist(
	j checkpoint.Journal, c fence.Claim, each func(landed checkpoint.Checkpoint) bool,
) error {
	for at := int64(0); ; {
		cp := version(at+1, c, nightly, "persistent")
		err := k.try(j, c, cp)
		if v := verdict(err); v == checkpoint.ErrConflict || v == checkpoint.ErrUnknown {
			stored, same, terr := k.tryTake(j, c, nightly, at)
			if terr != nil {
				return terr
			}
			if !same {
				at = stored.Version
			}
			if same || stored.Nonce != cp.Nonce {
				continue
			}
			err = nil // it had landed
		}
		if err != nil {
			return err
		}
		at = cp.Version
		if !each(cp) {
			return nil
		}
	}
}

// campaigner is a leader that publishes concurrently with the test.
type campaigner struct {
	begun  chan struct{} // closed when the first has landed
	done   chan error
	landed []checkpoint.Checkpoint // read it after done is closed
}

// campaign starts to publish, at most so many versions.
func (k *stage) campaign(j checkpoint.Journal, c fence.Claim, most int) *campaigner {
	a := &campaigner{begun: make(chan struct{}), done: make(chan error, 1)}
	var running sync.WaitGroup
	k.Cleanup(running.Wait)
	running.Go(func() {
		a.done <- k.persist(j, c, func(cp checkpoint.Checkpoint) bool {
			if a.landed = append(a.landed, cp); len(a.landed) == 1 {
				close(a.begun)
			}
			return len(a.landed) < most
		})
	})
	return a
}

// underway waits until the first version has landed.
func (k *stage) underway(a *campaigner) {
	k.Helper()
	select {
	case <-a.begun:
	case err := <-a.done:
		k.Fatalf("a leader could publish nothing: %v", err)
	case <-k.ctx.Done():
		k.Fatal("a leader could publish nothing in time")
	}
}

const endless = 1 << 30

func takeEndsOlder(k *stage) {
	for range 4 {
		old := k.campaign(k.Second, k.lead(orders), endless)
		k.underway(old)
		fresh := k.lead(orders)
		taken := k.take(k.Journal, fresh, nightly)
		k.endsWith(old.done, fence.ErrStale) // nothing of it can land any more
		k.stays(nightly, taken)
		if last := old.landed[len(old.landed)-1]; last.Version > taken.Version {
			k.Fatalf("an older leader published version %d after the new one had taken version %d",
				last.Version, taken.Version)
		}
		k.publish(fresh, version(taken.Version+1, fresh, nightly, "fresh"))
	}
}

func tokensRiseWithVersions(k *stage) {
	const leaders = 4
	var all []*campaigner
	for i := range leaders {
		most := endless
		if i == leaders-1 {
			most = 10
		}
		a := k.campaign([]checkpoint.Journal{k.Journal, k.Second}[i%2], k.lead(orders), most)
		k.underway(a)
		all = append(all, a)
	}
	var landed []checkpoint.Checkpoint
	for i, a := range all {
		if i < leaders-1 {
			k.endsWith(a.done, fence.ErrStale)
		} else {
			k.endsWith(a.done, nil)
		}
		landed = append(landed, a.landed...)
	}
	slices.SortFunc(landed, func(a, b checkpoint.Checkpoint) int {
		return cmp.Compare(a.Version, b.Version)
	})
	for i := range landed[1:] {
		before, after := landed[i], landed[i+1]
		if before.Version == after.Version || before.Token > after.Token {
			k.Fatalf("token %s published version %d, token %s published version %d", before.Token,
				before.Version, after.Token, after.Version)
		}
	}
	k.stays(nightly, landed[len(landed)-1])
}
