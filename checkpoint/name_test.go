package checkpoint_test

import (
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
