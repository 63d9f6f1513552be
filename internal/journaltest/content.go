package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

func corrupt(t *testing.T, f Fixture) {
	c := f.Lead(Orders)
	good := Version(1, c)
	good.Task = "good"
	Publish(t, f.Open(), c, good)
	f.Hand.Put("not a name", "")
	for name, data := range map[string]string{
		"empty":       "",
		"not JSON":    "{",
		"null":        "null",
		"other task":  `{"task":"good","resource":"orders","version":1}`,
		"no resource": `{"task":"nightly","version":1}`,
		"wrong type":  `{"task":"nightly","resource":"orders","steps":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			present := f.Hand.Put(Nightly, data)
			j := f.Open() // a journal with empty caches
			corrupt := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "nightly") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, have := range []int64{0, present} {
				_, same, err := j.Take(t.Context(), c, Nightly, have)
				corrupt("take", err)
				if same {
					t.Error("the copy is said to be right")
				}
			}
			for _, n := range []int64{1, present + 1} {
				corrupt("publish", j.Publish(t.Context(), c, Version(n, c)))
			}
			corrupt("forget", j.Forget(t.Context(), c, Nightly))
			corrupt("follow", j.Follow(t.Context(), Nightly, func(cp checkpoint.Checkpoint) error {
				return fmt.Errorf("shown %+v", cp)
			}))
			all, err := j.Load(t.Context())
			corrupt("load", err)
			if len(all) != 1 || all[0].Nonce != good.Nonce {
				t.Errorf("load: %+v", all)
			}
			if got := f.Hand.Get(Nightly); got != data {
				t.Errorf("it was changed to %q", got)
			}
		})
	}
}

func editByHand(t *testing.T, f Fixture) {
	j := f.Open()
	c := f.Lead(Orders)
	cp := Version(1, c)
	Publish(t, j, c, cp)
	f.Hand.Put(Nightly, f.Hand.Get(Nightly))
	if err := j.Publish(t.Context(), c, Version(2, c)); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a publish over the edit: %v", err)
	}
	got, same, err := j.Take(t.Context(), c, Nightly, 1)
	if err != nil || same || got.Version != 2 || got.Nonce != cp.Nonce {
		t.Errorf("take: %+v, same is %v, %v", got, same, err)
	}
	Publish(t, j, c, Version(3, c))

	// The documented procedure for a task at its last version in ZooKeeper.
	data := f.Hand.Get(Nightly)
	f.Hand.Delete(Nightly)
	if _, same, err := j.Take(t.Context(), c, Nightly, 3); err != nil || same {
		t.Errorf("take of what was deleted: same is %v, %v", same, err)
	}
	f.Hand.Put(Nightly, data)
	if got, _, err := j.Take(t.Context(), c, Nightly, 3); err != nil || got.Version != 1 ||
		string(got.State) != "3" {
		t.Errorf("take after it was created again: %+v, %v", got, err)
	}
	Publish(t, j, c, Version(2, c))
	f.Hand.Delete(Nightly)
	Publish(t, j, c, Version(1, c))
}

func badNames(t *testing.T, f Fixture) {
	j := f.Open()
	c := f.Lead(Orders)
	for _, name := range []checkpoint.Name{"", ".", "..", "a/b", "/", "../issuer", "a b"} {
		cp := Version(1, c)
		cp.Task = name
		_, _, taken := j.Take(t.Context(), c, name, 0)
		_, loaded := j.Load(t.Context(), name)
		for what, err := range map[string]error{
			"take": taken, "publish": j.Publish(t.Context(), c, cp), "load": loaded,
			"forget": j.Forget(t.Context(), c, name),
			"follow": j.Follow(t.Context(), name, func(checkpoint.Checkpoint) error { return nil }),
		} {
			if !errors.Is(err, checkpoint.ErrBadName) {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	for _, r := range []fence.Resource{"", "..", "orders/x", "../elections/orders"} {
		stranger := c
		stranger.Resource = r
		cp := Version(1, c)
		cp.Resource = r
		start := time.Now()
		err := j.Publish(t.Context(), stranger, cp)
		if !errors.Is(err, fence.ErrBadResource) || time.Since(start) > 5*time.Second {
			t.Errorf("publish for %q after %v: %v", r, time.Since(start), err)
		}
	}
}

func closed(t *testing.T, f Fixture) {
	j, standby := f.Open(), f.Open()
	c := f.Lead(Orders)
	Publish(t, j, c, Version(1, c))
	seen, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- standby.Follow(t.Context(), Nightly, func(checkpoint.Checkpoint) error {
			seen <- struct{}{}
			return nil
		})
	}()
	<-seen
	for _, j := range []Journal{j, standby, j} {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, f.Closed) {
		t.Errorf("follow ended with %v", err)
	}
	if err := j.Publish(t.Context(), c, Version(2, c)); !errors.Is(err, f.Closed) ||
		errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish after close: %v", err)
	}
}
