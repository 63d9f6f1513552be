package documentstest_test

import (
	"testing"

	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/fencetest"
)

func TestMemoryKeepsTheContract(t *testing.T) { documentstest.Run(t, fencetest.Documents()) }

func TestTheContractFindsFlaws(t *testing.T) { documentstest.RunFlaws(t, fencetest.Documents()) }
