package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

func TestAServerThatRefusesTLSIsToldAtOnce(t *testing.T) {
	t.Setenv("PGSSLMODE", "require")
	d := fresh(t)
	_, err := Open(t.Context(), strings.Replace(d.url(), "?sslmode=disable", "", 1),
		Options{SessionTimeout: time.Hour})
	var setup *fence.SetupError
	if !errors.As(err, &setup) || errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
