package checkpointtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// verdicts are the answers that a caller must be able to distinguish. The first match counts.
var verdicts = []error{
	fence.ErrStale, fence.ErrOtherIssuer, fence.ErrNotRaised, fence.ErrNotLeader,
	checkpoint.ErrConflict,
	checkpoint.ErrOtherResource,
	checkpoint.ErrTooLarge, checkpoint.ErrTransient, checkpoint.ErrUnknown, checkpoint.ErrCorrupt,
}

// verdict returns the class of an answer: nil, one of verdicts, or the error itself.
func verdict(err error) error {
	for _, v := range verdicts {
		if errors.Is(err, v) {
			return v
		}
	}
	return err
}

// refused fails the test unless err is a complete refusal, and matches the sentinel if there is
// one.
func (k *stage) refused(err, sentinel error) {
	k.Helper()
	r, ok := errors.AsType[*fence.Refusal](err)
	switch {
	case !ok:
		k.Fatalf("got %v, want a *fence.Refusal", err)
	case sentinel != nil && !errors.Is(err, sentinel):
		k.Fatalf("got %v, want a refusal: %v", err, sentinel)
	case r.Message == "" || r.Detail == "" || r.Hint == "":
		k.Fatalf("the refusal does not say what, why and what to do: %+v", r)
	}
}

// answered fails the test unless err has this verdict.
func (k *stage) answered(err, want error) {
	k.Helper()
	if verdict(err) != want {
		k.Fatalf("got %v, want %v", err, want)
	}
}

// equal fails the test unless a reader sees no difference between the two.
func (k *stage) equal(got, want checkpoint.Checkpoint) {
	k.Helper()
	if bytes.Equal(got.State, want.State) {
		got.State, want.State = nil, nil // decoding a large state takes long
	}
	if !reflect.DeepEqual(plain(k, got), plain(k, want)) {
		k.Fatalf("got %+v\nwith the state %s,\nwant %+v\nwith the state %s", got, got.State,
			want, want.State)
	}
}

// plain returns a checkpoint in a form in which equal ones are DeepEqual: JSON without loss of
// digits, times in UTC.
func plain(k *stage, c checkpoint.Checkpoint) map[string]any {
	k.Helper()
	c.Saved = c.Saved.UTC()
	if c.Failure != nil {
		f := *c.Failure
		f.At = f.At.UTC()
		c.Failure = &f
	}
	b, err := json.Marshal(c)
	if err != nil {
		k.Fatalf("checkpoint %+v: %v", c, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		k.Fatal(err)
	}
	return m
}
