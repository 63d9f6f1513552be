package elector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence/elector"
)

func TestCheckHolder(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{"", true},
		{"host-7 (pid 42)\n漢字", true},
		{strings.Repeat("a", elector.MaxHolder), true},

		{strings.Repeat("a", elector.MaxHolder+1), false},
		{strings.Repeat("é", elector.MaxHolder/2+1), false}, // it counts bytes
		{"host\xff", false},
		{"host\x00", false},
	} {
		err := elector.CheckHolder(c.in)
		if c.ok && err != nil || !c.ok && !errors.Is(err, elector.ErrBadHolder) {
			t.Errorf("CheckHolder(%.40q, %d bytes) = %v", c.in, len(c.in), err)
		}
	}
}
