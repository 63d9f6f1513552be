package pgoptions_test

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/postgres/pgoptions"
)

// That Split reads as the server does is tested by the guard, against a server.
func TestJoinIsTheInverseOfSplit(t *testing.T) {
	for _, options := range []string{
		"", "-c a=b", " \t-c\n\va=b  ", `-c a=b\ c\\ -c d=\	`, `-c a=b\`, "-c größe=5", `\-c`,
	} {
		words := pgoptions.Split(options)
		joined := pgoptions.Join(words)
		if again := pgoptions.Split(joined); !slices.Equal(again, words) {
			t.Errorf("%q is %q, and %q is %q", options, words, joined, again)
		}
	}
}
