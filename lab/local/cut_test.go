package local

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/lab/system"
)

var cut = system.Shape{HoldUp: true, HoldDown: true, Refuse: true}

func TestALinkOfAWorkerCanBeCut(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	url := s.asApp(s.links[ends{"worker-1", "journal"}][0].Addr())
	open := pgtest.Connect(t, url)
	must.Succeed(t, s.Shape(ctx, "worker-1", "journal", cut))
	written := make(chan error, 1)
	go func() {
		_, err := open.Exec(ctx, "insert into world (key, token) values ('late', 1)")
		written <- err
	}()
	bounded, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(bounded, url); err == nil {
		t.Error("a connection was made over a cut link")
	}
	noToken(t, ctx, s) // the other links still work
	select {
	case err := <-written:
		t.Fatalf("a write over a cut link: %v", err)
	default:
	}
	must.Succeed(t, s.Shape(ctx, "worker-1", "journal", system.Shape{}))
	must.Succeed(t, <-written)
}

func TestAGuardCanBeCutFromTheCoordinator(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	connect := func(limit time.Duration) error {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		url := s.asApp(s.guards["guard-1"].postgres) + "&options=-c%20fence.orders%3D1"
		_, err := pgx.Connect(bounded, url)
		if err == nil {
			t.Fatal("an invented token was admitted")
		}
		return err
	}
	asks := func() bool {
		return strings.Contains(connect(20*time.Second).Error(), "does not lead")
	}
	eventually(t, "an answer of the coordinator", asks)
	must.Succeed(t, s.Shape(ctx, "guard-1", "coordinator", cut))
	if err := connect(2 * time.Second); strings.Contains(err.Error(), "does not lead") {
		t.Errorf("the guard is cut from the coordinator, and has reached it: %v", err)
	}
	must.Succeed(t, s.Shape(ctx, "guard-1", "coordinator", system.Shape{}))
	eventually(t, "an answer of the coordinator again", asks)
}
