package fencetest

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// alone makes two clients of a coordinator that no other test uses, and closes them at the end of
// the test.
func (s *stage) alone() (c, operator elector.Coordinator) {
	s.Helper()
	c, operator = s.Alone(s)
	for _, one := range []elector.Coordinator{c, operator} {
		s.Cleanup(func() {
			if err := one.Close(); err != nil {
				s.Errorf("close the coordinator client: %v", err)
			}
		})
	}
	return c, operator
}

// renew gives the coordinator another issuer.
func (s *stage) renew(operator elector.Coordinator) fence.Issuer {
	s.Helper()
	issuer, err := operator.RenewIssuer(s.ctx)
	if err != nil {
		s.Fatalf("renew the issuer: %v", err)
	}
	return issuer
}

// renewedIssuerIsAnother checks that all clients and later terms have the new issuer. Earlier
// claims keep the old one.
func renewedIssuerIsAnother(s *stage) {
	c, operator := s.alone()
	first, err := c.Issuer(s.ctx)
	must.Succeed(s, err)
	all := []fence.Issuer{first}
	for i := range 3 {
		last := all[len(all)-1]
		old := s.campaign(c, s.resource, "a").term()
		if got := old.Claim().Issuer; got != last {
			s.Errorf("a term is issuer %q's; the issuer is %q", got, last)
		}
		now := s.renew([]elector.Coordinator{operator, c}[i%2])
		if now == "" || slices.Contains(all, now) {
			s.Errorf("issuer %q is no new one; before there were %q", now, all)
		}
		all = append(all, now)
		for _, client := range []elector.Coordinator{c, operator} {
			if got, err := client.Issuer(s.ctx); got != now || err != nil {
				s.Errorf("the issuer was renewed to %q; a client says %q, %v", now, got, err)
			}
			if got, _ := s.leaders(client, s.resource); got != now {
				s.Errorf("the issuer was renewed to %q; with the leaders it is %q", now, got)
			}
		}
		if got := old.Claim().Issuer; got != last {
			s.Errorf("a claim of issuer %q became %q's", last, got)
		}
		_ = old.Resign(s.ctx) // the term may be lost
	}
}

func closedClientRenewsNothing(s *stage) {
	c, operator := s.alone()
	before, err := operator.Issuer(s.ctx)
	must.Succeed(s, err)
	must.Succeed(s, c.Close())
	if issuer, err := c.RenewIssuer(s.ctx); err == nil {
		s.Errorf("a closed client renews the issuer to %q", issuer)
	}
	if now, err := operator.Issuer(s.ctx); now != before || err != nil {
		s.Errorf("the issuer was %q and is %q, %v", before, now, err)
	}
}
