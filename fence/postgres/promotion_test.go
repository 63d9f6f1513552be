package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// standbyOf makes a standby that has what the primary has now, and nothing of what comes later.
func standbyOf(t *testing.T, primary *servers.Postgres) database {
	t.Helper()
	standby, err := primary.StartCopy(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Report(t, standby.Close())
	})
	must.Succeed(t, standby.Stop())
	signal := filepath.Join(standby.Dir(), "data", "standby.signal")
	must.Succeed(t, os.WriteFile(signal, nil, 0o600))
	run(t, "chown", "--reference="+filepath.Dir(signal), signal)
	must.Succeed(t, standby.Start(t.Context()))
	return database{standby, "postgres"}
}

func (d database) promote(t *testing.T) {
	t.Helper()
	d.sql(t, "select pg_promote()")
}

func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	must.Succeed(t, Install(t.Context(), d.url()))
	standby := standbyOf(t, d.pg)
	_, err := Open(t.Context(), standby.url(), Options{})
	wantSetupError(t, err, "standby", "primary")
	wantSetupError(t, Install(t.Context(), standby.url()), "standby", "primary")
	hosts := standby.pg.Addr() + "," + d.pg.Addr()
	both := "postgres://postgres@" + hosts + "/postgres?sslmode=disable"
	electiontest.Win(t, openWith(t, both, long, nil), "orders", "a") // on the primary
}

// The primary dies with enrolments and deletions that the standby has not heard of.
func TestAPromotionEndsEveryTermAndTokensRise(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	r := serverstest.NewRelay(t, d.pg.Addr())
	url := "postgres://postgres@" + r.Addr() + "/postgres?sslmode=disable"
	c, other := openWith(t, url, long, nil), openWith(t, url, long, nil)
	issuer, err := c.Issuer(t.Context())
	must.Succeed(t, err)
	kept := electiontest.Win(t, c, "orders", "kept")
	resigned := electiontest.Win(t, c, "stock", "resigned")
	standby := standbyOf(t, d.pg)

	must.Succeed(t, resigned.Resign(t.Context()))
	for range 3 {
		must.Succeed(t, electiontest.Win(t, other, "stock", "b").Resign(t.Context()))
	}
	lost := electiontest.Win(t, other, "stock", "lost")
	must.Succeed(t, d.pg.Kill())
	r.To(standby.pg.Addr())
	electiontest.Eventually(t, "the term is suspended", func() bool { // a standby confirms nothing
		return lost.State() != fence.Active
	})
	standby.promote(t)

	electiontest.Ends(t, kept, fence.ErrExpired)
	electiontest.Ends(t, lost, fence.ErrExpired)
	_, leaders, err := c.Leaders(t.Context(), "orders", "stock")
	if err != nil || leaders[0].Token != 0 || leaders[1].Token != 0 {
		t.Errorf("on the new timeline %v lead, %v", leaders, err)
	}
	for resource, before := range map[fence.Resource]*fence.Term{"orders": kept, "stock": lost} {
		term := electiontest.Win(t, other, resource, "new")
		if term.Token() <= before.Token() {
			t.Errorf("%s: %s follows %s", resource, term.Token(), before.Token())
		}
		if term.Claim().Issuer != issuer {
			t.Errorf("the issuer was %s and is %s", issuer, term.Claim().Issuer)
		}
	}
}

// Both have the same past and choose the same timeline. Two leaders with one number could not be
// told apart. Then they are lost, and the old primary goes on, on its older timeline, without a
// restart, as one does that was frozen.
func TestTwoStandbysThatArePromotedGiveOutNoNumberTwice(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	old := openWith(t, d.url(), long, nil)
	first := electiontest.Win(t, old, "orders", "before")
	before, last := first.Token(), fence.Token(0)
	given := map[string]string{}
	for name, standby := range map[string]database{"a": standbyOf(t, d.pg), "b": standbyOf(t, d.pg)} {
		standby.promote(t)
		for _, resource := range []fence.Resource{"orders", "stock"} { // stock has no election before
			token := electiontest.Win(t, openWith(t, standby.url(), long, nil), resource, name).Token()
			if token <= before {
				t.Errorf("%s: %s follows %s", name, token, before)
			}
			id := string(resource) + " " + token.String()
			if other, twice := given[id]; twice {
				t.Errorf("%s and %s have %s", other, name, id)
			}
			given[id], last = name, max(last, token)
		}
	}
	must.Succeed(t, first.Resign(t.Context()))
	if token := electiontest.Win(t, old, "orders", "after").Token(); token <= last {
		t.Errorf("on the older timeline %s follows %s, which other stores know", token, last)
	}
}

// A clock that is behind the last token of an election says nothing of when this one was lost.
func TestWithAWrongClockTokensRiseAtRandom(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	must.Succeed(t, Install(t.Context(), d.url()))
	const last = int64(8e15)
	given := map[int64]bool{}
	for range 20 {
		token := d.number(t, "select ringfence.next_token($1)", last)
		if token <= last || token > last+1<<24 {
			t.Errorf("%d follows %d", token, last)
		}
		given[token] = true
	}
	if len(given) < 20 {
		t.Errorf("of 20 tokens %d differ", len(given))
	}
}

// The clock of a standby that was promoted is an hour behind that of the primary, which has given
// out a token that the standby does not know. Another standby may have heard the same, and may be
// promoted, too.
func TestAPromotedServerKnowsTheClockOfItsPrimary(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	must.Succeed(t, Install(t.Context(), d.url()))
	replayed := func(when time.Time) {
		d.sql(t, fmt.Sprintf(`create or replace function ringfence.replayed() returns timestamptz
			language sql as $$ select to_timestamp(%d) $$`, when.Unix()))
	}
	replayed(time.Now().Add(time.Hour))
	given := map[int64]bool{}
	for range 20 {
		token := d.number(t, "select ringfence.next_token(1)")
		if hence := time.Until(time.UnixMicro(token)); hence < 59*time.Minute {
			t.Errorf("the token is of a time %v from now", hence)
		}
		given[token] = true
	}
	if len(given) < 20 {
		t.Errorf("of 20 tokens %d differ", len(given))
	}

	// A clock that is right says more: who is promoted later gives out the higher tokens.
	replayed(time.Now().Add(-time.Second))
	token := d.number(t, "select ringfence.next_token(1)")
	if now := d.number(t, "select extract(epoch from clock_timestamp()) * 1000000"); token > now {
		t.Errorf("the token %d is of a time that is still to come: now is %d", token, now)
	}
}

// A copy of an earlier state takes the server's place and shows nothing of that: same system
// identifier, same timeline. Tokens go on above those that were lost.
func TestAServerThatWasSetBackGivesOutNoNumberTwice(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	d := database{pg, "postgres"}
	must.Succeed(t, Install(t.Context(), d.url()))
	must.Succeed(t, pg.Backup(t.Context())) // nobody has stood yet
	given := map[fence.Token]bool{}
	var lost fence.Token
	for range 3 {
		c := openWith(t, d.url(), long, nil)
		for _, resource := range []fence.Resource{"orders", "stock"} {
			token := electiontest.Win(t, c, resource, "a").Token()
			if given[token] {
				t.Errorf("%s was given out twice", token)
			}
			if token <= lost {
				t.Errorf("%s follows %s", token, lost)
			}
			given[token], lost = true, max(lost, token)
		}
		must.Succeed(t, c.Close())
		must.Succeed(t, pg.Restore(t.Context()))
	}
}

// pg_dump knows neither which transaction wrote a row nor who has led since.
func TestADumpThatIsRestoredIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	serverstest.NotOlder(t, d.pg, "pg_dump")
	c := openWith(t, d.url(), long, nil)
	old := electiontest.Win(t, c, "orders", "a")
	file := filepath.Join(t.TempDir(), "dump")
	run(t, "pg_dump", "-Fc", "-f", file, d.url())
	newer := electiontest.Win(t, openWith(t, d.url(), long, nil), "stock", "b")
	run(t, "pg_restore", "--clean", "--if-exists", "-d", d.url(), file)
	_, leaders, err := c.Leaders(t.Context(), "orders")
	if err != nil || leaders[0].Token != 0 {
		t.Errorf("%v leads, %v", leaders, err)
	}
	electiontest.Ends(t, old, fence.ErrExpired)
	electiontest.Ends(t, newer, fence.ErrExpired)
	if term := electiontest.Win(t, c, "orders", "c"); term.Claim().Issuer == old.Claim().Issuer {
		t.Errorf("%v and %v have one issuer", old.Claim(), term.Claim())
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// A server that is frozen accepts connections and is silent.
func TestASilentHostDoesNotHideThePrimary(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer silent.Close()
	hosts := silent.Addr().String() + "," + pg.Addr()
	url := strings.Replace(pg.URL("postgres", serverstest.FreshDatabase(t, pg)), pg.Addr(), hosts, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Open(ctx, url, Options{SessionTimeout: 4 * time.Second})
	must.Succeed(t, err)
	defer c.Close()
	term, err := c.Campaign(ctx, "orders", "a")
	must.Succeed(t, err)
	first := term.Deadline()
	electiontest.Eventually(t, "the term is confirmed", func() bool {
		return term.Deadline().After(first)
	})
}
