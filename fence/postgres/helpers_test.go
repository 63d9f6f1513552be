package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

const long = time.Minute // a session timeout that no test waits for

func wantSetupError(t *testing.T, err error, says ...string) {
	t.Helper()
	var setup *fence.SetupError
	if !errors.As(err, &setup) {
		t.Fatalf("%v is no SetupError", err)
	}
	for _, s := range says {
		if !strings.Contains(setup.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, setup)
		}
	}
}
