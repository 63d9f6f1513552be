package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestWatchingAndWaitingShareOneConnectionThatListens(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	var log bytes.Buffer // read it after Close
	c, err := Open(t.Context(), d.url(), Options{
		SessionTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must.Succeed(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watching sync.WaitGroup
	for i := range 10 {
		seen := make(chan struct{})
		watching.Go(func() {
			var once sync.Once
			_ = c.Watch(ctx, fence.Resource(fmt.Sprintf("r%d", i)), func([]elector.Candidate) error {
				once.Do(func() { close(seen) })
				return nil
			})
		})
		<-seen
		electiontest.Win(t, c, fence.Resource(fmt.Sprintf("r%d", i)), "a")
	}
	const listening = `select count(*) from pg_stat_activity
	                    where datname = current_database() and query ilike 'listen%'`
	electiontest.Eventually(t, "one connection listens", func() bool {
		return d.number(t, listening) == 1
	})
	stop()
	watching.Wait()
	must.Report(t, c.Close())
	if strings.Contains(log.String(), "cannot listen") {
		t.Errorf("the connection broke:\n%s", log.String())
	}
}

// What the hint says has to help: this pooler refuses options, whether we listen or not.
func TestAPoolerThatRefusesOptions(t *testing.T) {
	d := fresh(t)
	b := serverstest.PgBouncer(t, d.pg, servers.PgBouncerOptions{
		Mode: "transaction", RefuseOptions: true,
	})
	url := b.URL("postgres", d.name) + "&listen=off"
	_, err := Open(t.Context(), url+"&options=-c%20work_mem%3D5MB", Options{})
	wantSetupError(t, err, "ignore_startup_parameters")
	t.Setenv("PGOPTIONS", "-c work_mem=5MB")
	_, err = Open(t.Context(), url, Options{})
	wantSetupError(t, err, "PGOPTIONS")
	t.Setenv("PGOPTIONS", "-c fence.orders=5 --fence.stock=6")
	openWith(t, url, 6*time.Second, nil) // the claims of a command that this process is part of
}

func TestAPoolerInTransactionModeIsUsedWithoutListening(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	b := pooler(t, d.pg)
	_, err := Open(t.Context(), b.URL("postgres", d.name), Options{})
	wantSetupError(t, err, "listen=off")
	url := b.URL("postgres", d.name) + "&listen=off"
	var clients [2]*Coordinator
	for i := range clients {
		clients[i] = openWith(t, url, 6*time.Second, nil)
	}
	var last fence.Token
	for i := range 6 {
		term := electiontest.Win(t, clients[i%2], "orders", "a")
		won := electiontest.Stand(t, clients[(i+1)%2], "orders", "b")
		must.Report(t, term.Acknowledge(t.Context()))
		must.Report(t, term.Resign(t.Context()))
		successor := electiontest.Next(t, won)
		if term.Token() <= last || successor.Token() <= term.Token() {
			t.Errorf("%s, %s and %s", last, term.Token(), successor.Token())
		}
		last = successor.Token()
		must.Report(t, successor.Resign(t.Context()))
	}
	term := electiontest.Win(t, clients[0], "orders", "a")
	first := term.Deadline()
	electiontest.Eventually(t, "the term is confirmed", func() bool {
		return term.Deadline().After(first)
	})
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	host, port, _ := net.SplitHostPort(pg.Addr())
	for _, url := range []string{
		"postgres://app:secret@" + host + ":" + port + "/nowhere?sslmode=disable",
		"postgres://app:secret@" + host + ":" + port + "/nowhere?listen=perhaps",
		"postgres://app:secret@" + host + ":" + port + "/nowhere?sslmode=perhaps",
		"postgres://app:secret@" + host + ":nowhere/x", "mysql://app:secret@" + host,
		"postgres://app:secret@" + host + ":" + port + "/x?a=%zz",
	} {
		c, err := Open(t.Context(), url, Options{})
		if err == nil {
			c.Close()
			t.Errorf("%s was opened", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("%v was tried again", err)
		}
	}
	address := serverstest.FreeAddresses(t, 1)[0]
	_, err := Open(t.Context(), "postgres://app:secret@"+address+"/shop",
		Options{SessionTimeout: time.Second})
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("nobody listens: %v", err)
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

func TestATermOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	c := openWith(t, d.url(), long, nil)
	term := electiontest.Win(t, c, "orders", "a")
	won := electiontest.Stand(t, openWith(t, d.url(), long, nil), "orders", "b")
	must.Succeed(t, d.pg.Kill())
	electiontest.Eventually(t, "the term is suspended", func() bool {
		return term.State() == fence.Suspended
	})
	must.Succeed(t, d.pg.Start(t.Context()))
	electiontest.Eventually(t, "the term is active", func() bool {
		return term.State() == fence.Active
	})
	must.Report(t, term.Resign(t.Context()))
	if newer := electiontest.Next(t, won); newer.Token() <= term.Token() {
		t.Errorf("%s follows %s", newer.Token(), term.Token())
	}
}

// Some programs that speak the protocol leave the SQLSTATE out.
func TestAnErrorWithoutASQLStateIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = l.Close() })
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte("E\x00\x00\x00\x21SFATAL\x00Mno more connections\x00\x00"))
			_ = conn.Close()
		}
	})
	_, err = Open(t.Context(), "postgres://app@"+l.Addr().String()+"/shop?sslmode=disable",
		Options{SessionTimeout: time.Second})
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no more connections") {
		t.Errorf("got %v", err)
	}
}
