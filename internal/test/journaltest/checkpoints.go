package journaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

const (
	orders  = "orders"
	nightly = "nightly"
)

// version returns a checkpoint with its version as state, so that a lost or repeated one shows.
func version(n int64, c fence.Claim) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Task: nightly, Resource: c.Resource, Version: n, Nonce: fmt.Sprint("nonce-", made.Add(1)),
		Token: c.Token, Holder: c.Holder,
		Run: 1, Round: 1, Rounds: checkpoint.Forever, Steps: []string{"only"},
		Status: checkpoint.Running, State: json.RawMessage(strconv.FormatInt(n, 10)),
		Saved: time.Now(),
	}
}

// sized returns a checkpoint with a state of this size.
func sized(t *testing.T, n int64, c fence.Claim, bytes int) checkpoint.Checkpoint {
	t.Helper()
	cp := version(n, c)
	cp.State = json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)
	return cp
}

// publish publishes a checkpoint, which must succeed.
func publish(t *testing.T, j checkpoint.Journal, c fence.Claim, cp checkpoint.Checkpoint) {
	t.Helper()
	if err := j.Publish(t.Context(), c, cp); err != nil {
		t.Fatalf("publish version %d: %v", cp.Version, err)
	}
}

// stored fails the test unless exactly this checkpoint is stored, or none if its version is 0.
func stored(t *testing.T, j checkpoint.Journal, want checkpoint.Checkpoint) {
	t.Helper()
	all, err := j.Load(t.Context(), nightly)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(all) == 0 && want.Version == 0:
	case len(all) != 1 || all[0].Version != want.Version || all[0].Nonce != want.Nonce ||
		string(all[0].State) != string(want.State):
		t.Fatalf("stored is %+v, want %+v", all, want)
	}
}

// refused fails the test unless every call under the claim is refused with the sentinel and changes
// nothing.
func refused(
	t *testing.T, j checkpoint.Journal, c fence.Claim, sentinel error, present checkpoint.Checkpoint,
) {
	t.Helper()
	if err := j.Raise(t.Context(), c); !errors.Is(err, sentinel) {
		t.Errorf("raise: got %v, want %v", err, sentinel)
	}
	if _, _, err := j.TakeOver(t.Context(), c, nightly, present.Version); !errors.Is(err, sentinel) {
		t.Errorf("take: got %v, want %v", err, sentinel)
	}
	for _, cp := range []checkpoint.Checkpoint{version(1, c), version(present.Version+1, c)} {
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, sentinel) {
			t.Errorf("publish version %d: got %v, want %v", cp.Version, err, sentinel)
		}
	}
	if err := j.Forget(t.Context(), c, nightly); !errors.Is(err, sentinel) {
		t.Errorf("forget: got %v, want %v", err, sentinel)
	}
	stored(t, j, present)
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
