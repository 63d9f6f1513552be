package checkpoint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
)

func TestParseNameChecksTheForm(t *testing.T) {
	for _, good := range []string{"a", "9", "Settlement-2026-11-21", "a.b:c_d-",
		strings.Repeat("x", 128)} {
		if name, err := checkpoint.ParseName(good); err != nil || string(name) != good {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "-a", "_a", ":", "a b", "a/b", "ä", "a\n", "a\x00",
		strings.Repeat("x", 129)} {
		_, err := checkpoint.ParseName(bad)
		is(t, err, checkpoint.ErrBadName)
	}
}

func TestDifferentStepListsHaveDifferentHashes(t *testing.T) {
	seen := make(map[string][]string)
	for _, steps := range [][]string{{}, {"a"}, {"a", "b"}, {"b", "a"}, {"ab"}, {"a", "b", "c"},
		{"a b"}, {"a,b"}} {
		hash := checkpoint.Hash(steps)
		if other, ok := seen[hash]; ok || len(hash) != 64 {
			t.Errorf("%q and %q have the hash %q", steps, other, hash)
		}
		if again := checkpoint.Hash(slices.Clone(steps)); again != hash {
			t.Errorf("%q has the hashes %q and %q", steps, hash, again)
		}
		seen[hash] = steps
	}
}
