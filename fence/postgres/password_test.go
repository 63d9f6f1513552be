package postgres

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestThePasswordOfTheRoleMayChange(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: "local all all trust\n" +
		"host all elects 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"})
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	d.sql(t, "create role elects login superuser password 'p0'")
	file := filepath.Join(t.TempDir(), "password")
	changeFile := func(password string) {
		must.Succeed(t, os.WriteFile(file+".new", []byte(password+"\n"), 0o600))
		must.Succeed(t, os.Rename(file+".new", file))
	}
	changeServer := func(password string) { d.sql(t, "alter role elects password '"+password+"'") }
	changeFile("p0")
	address := pg.URL("elects", d.name) + "&password_file=" + url.QueryEscape(file)
	must.Succeed(t, Install(t.Context(), address))
	c, err := Open(t.Context(), address, Options{SessionTimeout: 20 * time.Second})
	must.Succeed(t, err)
	defer c.Close()
	term := electiontest.Win(t, c, "orders", "a")
	for _, password := range []string{"p1", "p2"} {
		first, second := changeFile, changeServer
		if password == "p2" {
			first, second = changeServer, changeFile
		}
		first(password)
		d.sql(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'elects'")
		done := make(chan error)
		go func() {
			_, leaders, err := c.Leaders(t.Context(), "orders")
			if err == nil && leaders[0].Token != term.Token() {
				t.Errorf("%v lead", leaders)
			}
			done <- err
		}()
		time.Sleep(300 * time.Millisecond) // what file and server are apart
		second(password)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", password, err)
		}
	}
	changeFile("wr0ng")
	d.sql(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'elects'")
	if _, _, err := c.Leaders(t.Context(), "orders"); err == nil ||
		!strings.Contains(err.Error(), file) ||
		strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("got %v", err)
	}
}
