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

// Version returns a checkpoint with its version as state, so that a lost or repeated one shows.
func Version(n int64, c fence.Claim) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Task: Nightly, Resource: c.Resource, Version: n, Nonce: fmt.Sprint("nonce-", made.Add(1)),
		Token: c.Token, Holder: c.Holder,
		Run: 1, Round: 1, Rounds: checkpoint.Forever, Steps: []string{"only"},
		Status: checkpoint.Running, State: json.RawMessage(strconv.FormatInt(n, 10)),
		Saved: time.Now(),
	}
}

// Sized returns a checkpoint with exactly this size as JSON.
func Sized(t *testing.T, n int64, c fence.Claim, bytes int) checkpoint.Checkpoint {
	t.Helper()
	cp := Version(n, c)
	cp.Saved = time.Unix(1, 0)
	cp.State = json.RawMessage(`""`)
	empty, err := json.Marshal(cp)
	if err != nil {
		t.Fatal(err)
	}
	cp.State = json.RawMessage(`"` + strings.Repeat("x", bytes-len(empty)) + `"`)
	return cp
}

// Publish publishes a checkpoint, which must succeed.
func Publish(t *testing.T, j checkpoint.Journal, c fence.Claim, cp checkpoint.Checkpoint) {
	t.Helper()
	if err := j.Publish(t.Context(), c, cp); err != nil {
		t.Fatalf("publish version %d: %v", cp.Version, err)
	}
}

// Stored fails the test unless exactly this checkpoint is stored, or none if its version is 0.
func Stored(t *testing.T, j checkpoint.Journal, want checkpoint.Checkpoint) {
	t.Helper()
	all, err := j.Load(t.Context(), Nightly)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(all) == 0 && want.Version == 0:
	case len(all) != 1 || all[0].Version != want.Version || all[0].Nonce != want.Nonce ||
		string(all[0].State) != string(want.State):
		t.Fatalf("stored is %+v, want %+v", all, want)
	}
}

// Refused fails the test unless every call under the claim is refused with the sentinel and changes
// nothing.
func Refused(
	t *testing.T, j checkpoint.Journal, c fence.Claim, sentinel error,
	present checkpoint.Checkpoint,
) {
	t.Helper()
	if err := j.Raise(t.Context(), c); !errors.Is(err, sentinel) {
		t.Errorf("raise: got %v, want %v", err, sentinel)
	}
	if _, _, err := j.Take(t.Context(), c, Nightly, present.Version); !errors.Is(err, sentinel) {
		t.Errorf("take: got %v, want %v", err, sentinel)
	}
	for _, cp := range []checkpoint.Checkpoint{Version(1, c), Version(present.Version+1, c)} {
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, sentinel) {
			t.Errorf("publish version %d: got %v, want %v", cp.Version, err, sentinel)
		}
	}
	if err := j.Forget(t.Context(), c, Nightly); !errors.Is(err, sentinel) {
		t.Errorf("forget: got %v, want %v", err, sentinel)
	}
	Stored(t, j, present)
}

// TooLarge fails the test unless the error of a publish is ErrTooLarge and contains these words.
func TooLarge(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, checkpoint.ErrTooLarge) || errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish returned %v", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no %q in %v", word, err)
		}
	}
}

// LimitIsExact fails the test unless a journal accepts this many bytes and not one more. The error
// has both numbers and these words.
func LimitIsExact(
	t *testing.T, j checkpoint.Journal, c fence.Claim, limit int, words ...string,
) {
	t.Helper()
	for n := range int64(3) {
		cp := Sized(t, n+1, c, limit)
		Publish(t, j, c, cp)
		Stored(t, j, cp)
		for _, bytes := range []int{limit + 1, 2 * limit} {
			TooLarge(t, j.Publish(t.Context(), c, Sized(t, n+2, c, bytes)),
				append(words, fmt.Sprint(limit), fmt.Sprint(bytes))...)
		}
		Stored(t, j, cp)
	}
}

// Eventually polls until the condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
