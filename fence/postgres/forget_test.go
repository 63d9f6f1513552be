package postgres

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/electiontest"
)

func TestAnElectionWithoutCandidatesIsForgotten(t *testing.T) {
	d := fresh(t)
	open := func() fence.Coordinator { return openWith(t, d.url(), time.Minute, nil) }
	electiontest.Forgets(t, open, "orders", func() bool {
		return d.number(t, "select count(*) from ringfence_elections.election") > 0
	})
}

func TestSeveralElectionsAreForgotten(t *testing.T) {
	d := fresh(t)
	electiontest.ForgetsSeveral(t, openWith(t, d.url(), time.Minute, nil), func(r fence.Resource) bool {
		return d.number(t, "select count(*) from ringfence_elections.election where resource = $1", string(r)) > 0
	})
}
