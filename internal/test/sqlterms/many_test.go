package sqlterms

import (
	"fmt"
	"testing"
	"time"
)

// One holder gets ten thousand resources with one call, and renews them with another one.
func TestOneCallIsForTenThousandResources(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const many = 10_000
	s := newStage(t)
	c := s.connect("app")
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("tenant_%d", i))
	}
	for _, what := range []string{"won", "renewed"} {
		start := time.Now()
		all, err := s.call(c, "campaign($1::text[], 'host-1', '1 hour')", names)
		if err != nil || len(all) != many {
			t.Fatalf("%d rows, %v", len(all), err)
		}
		for _, one := range all {
			if !one.Ready {
				t.Fatalf("%+v", one)
			}
		}
		t.Logf("%d terms are %s in %s", many, what, time.Since(start).Round(time.Millisecond))
	}
}
