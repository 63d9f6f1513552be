package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// sorted is a server whose texts have the order of a locale that a test can replace, as an upgrade of
// the C library does.
type sorted struct {
	database
	locales string
}

// sortedServer returns a database in which "aa" comes before "z". In Danish it comes after "z".
func sortedServer(t *testing.T) sorted {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rf-locale-") // the server's account can enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, locale := range []string{"en_US", "da_DK"} {
		compile := exec.Command("localedef", "-i", locale, "-f", "UTF-8", filepath.Join(dir, locale))
		if out, err := compile.CombinedOutput(); err != nil {
			t.Skipf("the locale cannot be compiled (apt-get install locales): %v\n%s", err, out)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := sorted{locales: dir}
	s.order(t, "en_US")
	pg := serverstest.Postgres(t, servers.PostgresOptions{Locales: dir})
	s.database = database{pg, "postgres"}
	s.sql(t, "create database sorted template template0 lc_collate 'own.UTF-8' lc_ctype 'own.UTF-8'")
	s.name = "sorted"
	s.roles(t)
	return s
}

// order makes this locale the server's. The server must not be running.
func (s sorted) order(t *testing.T, locale string) {
	t.Helper()
	own := filepath.Join(s.locales, "own.UTF-8")
	_ = os.Remove(own)
	if err := os.Symlink(locale, own); err != nil {
		t.Fatal(err)
	}
}

// upgradeSystem changes the order of texts, and no index.
func (s sorted) upgradeSystem(t *testing.T) {
	t.Helper()
	if err := s.pg.Stop(); err != nil {
		t.Fatal(err)
	}
	s.order(t, "da_DK")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.pg.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// moved are names of resources that the two locales sort differently.
func moved() (all []fence.Resource) {
	for n := range 30 {
		all = append(all, fence.Resource(fmt.Sprintf("aa%d", n)), fence.Resource(fmt.Sprintf("z%d", n)))
	}
	return all
}

func TestAMarkIsFoundAfterTheOrderOfTextsHasChanged(t *testing.T) {
	d := sortedServer(t)
	if err := Install(t.Context(), d.url("postgres"), guardRole); err != nil {
		t.Fatal(err)
	}
	s := d.open(t, Options{})
	for _, r := range moved() {
		if _, err := raiseTo(t.Context(), s, fence.Claim{Resource: r, Token: 100, Issuer: "zk:a", Holder: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	d.upgradeSystem(t)

	s = d.open(t, Options{})
	for _, r := range moved() {
		found, err := s.Marks(t.Context(), r)
		if err != nil || len(found) != 1 || found[0].Token != 100 {
			t.Fatalf("the mark of %s: %v, %v", r, found, err)
		}
		if _, err := raiseTo(t.Context(), s, fence.Claim{Resource: r, Token: 50, Issuer: "zk:a", Holder: "b"}); err == nil {
			t.Fatalf("%s: a token of 50 was accepted after 100", r)
		}
	}
}

// An installation finds what happened before it in the order of a database.
func TestAnInstallationRefusesAKeyWithTwoRowsAndRepairsTheOrder(t *testing.T) {
	d := sortedServer(t)
	d.sql(t, version8)
	raised := ""
	for _, r := range moved() {
		raised += fmt.Sprintf("select ringfence.raise('%s', 100, 'zk:a', 'a', '', (ringfence.look('%[1]s')).basis);", r)
	}
	d.sql(t, raised)
	d.upgradeSystem(t)
	const again = "insert into ringfence.mark (resource, token, issuer, holder, server) values ('aa1', 50, 'zk:a', 'b', '')"
	d.sql(t, again)
	err := Install(t.Context(), d.url("postgres"), guardRole)
	if err == nil || !strings.Contains(err.Error(), "REINDEX") || !strings.Contains(err.Error(), "aa1") {
		t.Fatalf("an installation with two marks of one resource: %v", err)
	}
	d.sql(t, "delete from ringfence.mark where token = 50")
	if err := Install(t.Context(), d.url("postgres"), guardRole); err != nil {
		t.Fatal(err)
	}
	s := d.open(t, Options{})
	for _, r := range moved() {
		if found, err := s.Marks(t.Context(), r); err != nil || len(found) != 1 {
			t.Fatalf("the mark of %s: %v, %v", r, found, err)
		}
	}
	if found := d.list(t, unordered); len(found) > 0 {
		t.Errorf("in the order of the database: %v", found)
	}
}

// unordered lists the columns whose order may change.
const unordered = `select a.attrelid::regclass || '.' || a.attname
  from pg_attribute a join pg_class c on c.oid = a.attrelid
 where c.relnamespace in (to_regnamespace('ringfence'), to_regnamespace('ringfence_elections')) and c.relkind in ('r', 'i')
   and a.attcollation not in (0, 'pg_catalog."C"'::regcollation)`

func TestEveryTextIsInTheOrderOfItsBytes(t *testing.T) {
	d := installed(t)
	if found := d.list(t, unordered); len(found) > 0 {
		t.Errorf("in the order of the database: %v", found)
	}
}
