package coordinator_test

import (
	"testing"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
)

func TestTheJournalKeepsItsContract(t *testing.T) { journaltest.Run(t, fencetest.Documents()) }

func TestTheJournalKeepsItsContractWhileRepliesAreLost(t *testing.T) {
	journaltest.RunLossy(t, fencetest.Documents())
}
