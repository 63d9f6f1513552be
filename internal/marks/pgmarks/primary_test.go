package pgmarks

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// One that was a primary before may not know that it is none any more.
func TestWhichOfSeveralServersIsThePrimary(t *testing.T) {
	t.Parallel()
	const now, other = 0, 1
	down := errors.New("connection refused")
	for name, test := range map[string]struct {
		servers [2]followed // the first is the primary now
		want    int
	}{
		"both are primaries": {
			[2]followed{{primary: true, timeline: 2}, {primary: true, timeline: 2}}, now},
		"the other is on a later timeline": {
			[2]followed{{primary: true, timeline: 2}, {primary: true, timeline: 3}}, other},
		"the other is on an older timeline": {
			[2]followed{{primary: true, timeline: 3}, {primary: true, timeline: 2}}, now},
		"this one is silent": {
			[2]followed{{timeline: 2, err: down, since: time.Now()}, {}}, now},
		"this one is silent, and the other was promoted": {
			[2]followed{{timeline: 2, err: down, since: time.Now()}, {primary: true, timeline: 3}}, other},
		"this one is silent, and the other was one before": {
			[2]followed{{timeline: 3, err: down, since: time.Now()}, {primary: true, timeline: 2}}, now},
		"this one has been silent for long, and the other was one before": {
			[2]followed{{timeline: 3, err: down, since: time.Now().Add(-doubtTime)},
				{primary: true, timeline: 2}}, other},
		"this one was demoted": {[2]followed{{timeline: 2}, {err: down}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := follow([]*pgx.ConnConfig{{}, {}}, nil, nil)
			for i := range test.servers {
				*p.servers[i] = test.servers[i]
			}
			p.now = p.servers[now]
			got := -1
			for i, s := range p.servers {
				if s == p.choose() {
					got = i
				}
			}
			if got != test.want {
				t.Errorf("server %d is the primary, want %d", got, test.want)
			}
		})
	}
}
