package main

import (
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

func TestStatusKeepsWhatThePatternsFitUpToTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		patterns               []string
		limit                  int
		shown, found, sessions int
	}{
		{nil, -1, 6, 6, 15},
		{nil, 0, 6, 6, 15},
		{nil, 2, 2, 6, 15},
		{[]string{"orders_1"}, 2, 1, 1, 1},
		{[]string{"orders_*"}, 2, 2, 3, 3},
		{[]string{"orders_*", "stock_2"}, 0, 4, 4, 8},
		{[]string{"*_1"}, 0, 2, 2, 5},
		{[]string{"none"}, 0, 0, 0, 0},
	} {
		var s storeStatus
		for i, resource := range []string{"orders", "stock"} {
			for j := range 3 {
				s.Marks = append(s.Marks, marks.Mark{
					Resource: fence.Resource(fmt.Sprintf("%s_%d", resource, j)), Sessions: 3*i + j,
				})
			}
		}
		s.keep(c.patterns, c.limit)
		if len(s.Marks) != c.shown || s.Found != c.found || s.Sessions != c.sessions {
			t.Errorf("%v, %d: %d of %d marks with %d sessions, want %d of %d with %d", c.patterns,
				c.limit, len(s.Marks), s.Found, s.Sessions, c.shown, c.found, c.sessions)
		}
	}
}
