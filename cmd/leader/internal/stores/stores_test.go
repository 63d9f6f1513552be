package stores_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/settings"
)

type raiser func(context.Context) error

func (r raiser) Raise(ctx context.Context, _ fence.Claim) error { return r(ctx) }

// table has one store, fake://, that raises with r.
func table(r raiser) stores.Table {
	return stores.Table{"fake": func(string, elector.Observer) fence.Raiser { return r }}
}

func TestAnErrorNamesTheStoreAndContainsNoSecret(t *testing.T) {
	refused := errors.New("password s3cr3t was refused")
	urls := settings.URLs{"fake://u:s3cr3t@one/", "fake://two/"}
	all := table(func(context.Context) error { return refused }).Raisers(urls, nil, time.Minute)
	if len(all) != 2 {
		t.Fatalf("%d raisers", len(all))
	}
	err := all[0].Raise(t.Context(), fence.Claim{})
	failed, ok := errors.AsType[*stores.Error](err)
	if !ok || failed.URL != urls[0] || !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if got, want := err.Error(), "fake://u:xxxxx@one/: password xxxxx was refused"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	err = all[1].Raise(t.Context(), fence.Claim{})
	if !strings.HasPrefix(err.Error(), "fake://two/: ") {
		t.Errorf("got %v", err)
	}
}

func TestAURLThatCannotWorkIsAProblemOfTheSettings(t *testing.T) {
	for url, want := range map[settings.URL]string{
		"mysql://h/db": "there is no store mysql://",
		"postgres://u:s3cret@h1,h2/db?target_session_attrs=standby": "marks are kept at the primary",
		"postgres://u:s3cret@h/db?sslmode=x":                        "sslmode is invalid",
		"redis://u:s3cret@h1,h2:6379":                               "several hosts",
		"redis://u:s3cret@h/zero":                                   "not a Redis URL",
	} {
		problems := stores.All.Check("LEADER_STORES", settings.URLs{"redis://h", url})
		text := fmt.Sprint(problems)
		if len(problems) != 1 || !strings.Contains(text, "LEADER_STORES: number 2: ") ||
			!strings.Contains(text, want) || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", url, text)
		}
	}
}

func TestARaiseTimesOut(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	all := table(silent).Raisers(settings.URLs{"fake://h/"}, nil, time.Millisecond)
	err := all[0].Raise(t.Context(), fence.Claim{})
	if err == nil || !strings.Contains(err.Error(), "no answer within LEADER_RAISE_TIMEOUT=1ms") {
		t.Errorf("got %v", err)
	}
}

func TestASuccessfulRaiseReturnsNoError(t *testing.T) {
	all := table(func(context.Context) error {
		return nil
	}).Raisers(settings.URLs{"fake://h/"}, nil, time.Minute)
	if err := all[0].Raise(t.Context(), fence.Claim{}); err != nil {
		t.Errorf("got %v", err)
	}
}
