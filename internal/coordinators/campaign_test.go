package coordinators

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
)

func TestAStandbySaysWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fencetest.NewMemory(time.Hour)
		first, second := m.Open(), m.Open()
		defer second.Close()
		defer first.Close()
		var log bytes.Buffer
		announced := func(c elector.Coordinator, holder string) error {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*patience, errors.New("enough"))
			defer cancel()
			log.Reset()
			a := &Announcer{Coordinator: c, Log: slog.New(slog.NewTextHandler(&log, nil))}
			_, err := a.Campaign(ctx, "orders", holder)
			return err
		}
		if err := announced(first, "host-1"); err != nil ||
			strings.Contains(log.String(), "standing by") {
			t.Errorf("the first one: %v, %s", err, &log)
		}
		if err := announced(second, "host-2"); !errors.Is(err, ErrCampaign) ||
			!strings.Contains(log.String(), `"standing by; another one leads" leader=host-1`) {
			t.Errorf("the second one: %v, %s", err, &log)
		}
	})
}
