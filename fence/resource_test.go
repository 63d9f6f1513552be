package fence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestParseResource(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{"orders", true},
		{"a", true},
		{"a0_b", true},
		{strings.Repeat("a", 48), true},

		{"", false},
		{strings.Repeat("a", 49), false},
		{"Orders", false},
		{"_orders", false},
		{"1orders", false},
		{"orders-eu", false}, // Postgres would read it as orders_eu
		{"orders.eu", false},
		{"orders/eu", false}, // a znode path
		{"..", false},
		{"orders eu", false},
		{"orders\x00", false},
		{"ördërs", false},
	} {
		got, err := fence.ParseResource(c.in)
		switch {
		case c.ok && (err != nil || string(got) != c.in):
			t.Errorf("ParseResource(%q) = %q, %v", c.in, got, err)
		case !c.ok && (!errors.Is(err, fence.ErrBadResource) || got != ""):
			t.Errorf("ParseResource(%q) = %q, %v; want ErrBadResource", c.in, got, err)
		}
	}
}
