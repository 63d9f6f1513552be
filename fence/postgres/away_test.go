package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// away makes a database or a role unusable, and usable again.
type away struct{ begin, end []string }

func TestCampaignsAndWatchesOutliveADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	for code, of := range map[string]func(db, role string) away{
		"3D000": func(db, _ string) away {
			return away{
				[]string{"alter database " + db + " allow_connections false", servers.EndSessions("datname = " +
					"'" + db + "'"),
					"alter database " + db + " rename to away_" + db},
				[]string{"alter database away_" + db + " rename to " + db, "alter database " + db +
					" allow_connections true"},
			}
		},
		"28000": func(_, role string) away {
			return away{
				[]string{"alter role " + role + " nologin", servers.EndSessions("usename = '" + role + "'")},
				[]string{"alter role " + role + " login"},
			}
		},
	} {
		t.Run(code, func(t *testing.T) {
			d := fresh(t)
			role := "elects_" + d.name
			d.sql(t, "create role "+role+" login superuser")
			t.Cleanup(func() {
				d.sql(t, "drop owned by "+role)
				d.sql(t, "drop role "+role)
			})
			outlives(t, d, role, code, of(d.name, role))
		})
	}
}

func outlives(t *testing.T, d database, role, code string, a away) {
	url := d.pg.URL(role, d.name)
	c := openWith(t, url, 4*time.Second, nil)
	waiting := openWith(t, url, 4*time.Second, nil)
	old := electiontest.Win(t, c, "orders", "a")
	won := electiontest.Stand(t, waiting, "orders", "b")
	var seen sync.Map // every leader
	watching := make(chan error, 1)
	go func() {
		watching <- waiting.Watch(t.Context(), "orders", func(queue []elector.Candidate) error {
			if len(queue) > 0 {
				seen.Store(queue[0].Token, true)
			}
			return nil
		})
	}()
	d.administer(t, a.begin)
	_, err := waiting.Candidates(t.Context(), "orders")
	electiontest.Ends(t, old, fence.ErrExpired)
	d.administer(t, a.end)
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), code) {
		t.Errorf("while it is away: %v", err)
	}
	token := electiontest.Next(t, won).Token()
	electiontest.Eventually(t, "the watch sees the next leader", func() bool {
		_, sees := seen.Load(token)
		return sees || len(watching) > 0
	})
	if len(watching) > 0 {
		t.Errorf("the watch has ended: %v", <-watching)
	}
}

// administer runs statements from another database.
func (d database) administer(t *testing.T, statements []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.pg.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
