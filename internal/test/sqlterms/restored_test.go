package sqlterms

import (
	"strings"
	"testing"
)

// A dump of a server that was promoted is restored, or pg_upgrade has moved it: the timeline is
// lower, and so are the tokens.
func TestALowerTimelineIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"pg_restore": "update ringfence_private.issuer set id = id",
		"pg_upgrade": "create or replace function ringfence.prefix() returns text language sql as $$ " +
			"select 'postgres:1:1:'::text $$",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c, admin := s.connect("app"), s.connect("postgres")
			first := s.ready(c, "take('orders', 'host-1', 1)")
			s.exec(admin, "update ringfence_private.election set last = last + (1::bigint << 33); "+change)
			now := s.one(c, "take('orders', 'host-2', 2)")
			if now.Ready || now.Refused == nil || !strings.HasPrefix(*now.Refused, "RF004") ||
				now.Issuer == first.Issuer {
				t.Errorf("%+v", now)
			}
			if now := s.ready(c, "campaign('new', 'host-1')"); now.Token < 1 {
				t.Errorf("%+v", now)
			}
		})
	}
}

// An election that was set back gives nobody a token a second time, nor does a clock that is behind
// the last one.
func TestATokenIsAboveTheLastOneWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, admin := s.connect("app"), s.connect("postgres")
	last := s.ready(c, "take('orders', 'host-1', 1)")
	for n, change := range []string{
		"update ringfence_private.election set last = 1",
		"update ringfence_private.election set last = last + (1::bigint << 33)",
	} {
		s.exec(admin, change)
		next := s.ready(c, "take('orders', 'host-2', $1)", n+2)
		if next.Token <= last.Token {
			t.Errorf("%s: %d follows %d", change, next.Token, last.Token)
		}
		s.fails(s.writes(c, last.Pass), "RF001")
		last = next
	}
}

// A row that a backup brought back is no reason to wait for ever.
func TestAGateThatIsACopyIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	first := s.ready(c, "take('orders', 'host-1', 1)")
	s.exec(s.connect("postgres"), "update ringfence_private.gate set open = open")
	s.fails(s.writes(c, first.Pass), "RF012")
	if err := s.writes(c, s.ready(c, "take('orders', 'host-1', 1)").Pass); err != nil {
		t.Error(err)
	}
}
