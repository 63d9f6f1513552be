package sqlterms

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/sql.md")
	must.Succeed(t, err)
	return string(text)
}

func (s *stage) texts(c *pgx.Conn, sql string) []string {
	s.Helper()
	rows, err := c.Query(s.ctx, sql)
	must.Succeed(s, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Succeed(s, err)
	return all
}

func TestArgumentsHaveTheirDocumentedNames(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin := s.connect("postgres")
	const callable = ` from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and has_function_privilege('app', p.oid, 'execute')`
	for _, f := range s.texts(admin, "select p.oid::regprocedure || ' ' || p.proargnames::text"+
		callable+" and p.proargnames::text ~ '[{,]p_'") {
		t.Error(f)
	}
	actual := s.texts(admin, "select p.proname || '(' || pg_get_function_arguments(p.oid) || ')'"+
		callable)
	normal := regexp.MustCompile(`(?i) default [^,)]*`)
	for i, f := range actual {
		actual[i] = normal.ReplaceAllString(f, "")
	}
	documented := regexp.MustCompile("`ringfence\\.([a-z_]+\\([a-z]+ [^`]*\\))").FindAllStringSubmatch(
		document(t), -1,
	)
	if len(documented) < 7 {
		t.Fatalf("%d functions are documented", len(documented))
	}
	c := s.connect("app")
	for _, d := range documented {
		f := normal.ReplaceAllString(d[1], "")
		if !slices.Contains(actual, f) {
			t.Errorf("no function is %s", f)
		}
		name, arguments, _ := strings.Cut(strings.TrimSuffix(f, ")"), "(")
		var named []string
		for _, a := range strings.Split(arguments, ", ") {
			argument, kind, _ := strings.Cut(a, " ")
			named = append(named, fmt.Sprintf("%s => null::%s", argument, kind))
		}
		if _, err := c.Prepare(s.ctx, "",
			fmt.Sprintf("select ringfence.%s(%s)", name, strings.Join(named, ", "))); err != nil {
			t.Errorf("%s by name: %v", f, err)
		}
	}
}

func TestCallsWithNamedArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin := s.connect("postgres")
	c := s.connect("app")
	s.exec(admin, "select ringfence.allow('app', 'brought')")
	term := s.ready(c, "take(resource => 'orders', holder => 'host-1', attempt => 3)")
	s.ready(c, "campaign(resource => 'led', holder => 'host-1', ttl => '1 minute')")
	s.ready(c, "campaign(resources => array['more'], holder => 'host-1')")
	s.ready(c, "bring(resource => 'brought', token => 5, issuer => 'zk:a', holder => 'host-1')")
	claim := fmt.Sprintf("resource => 'orders', token => %d, issuer => '%s'", term.Token, term.Issuer)
	for _, call := range []string{
		"enter(pass => '" + *term.Pass + "')", "enter(" + claim + ", candidate => '')", "is_open(" +
			claim + ", candidate => '')",
		"holds(resource => 'orders', token => 3)", "enter_and_publish(" + claim + ", task => 'night', " +
			"version => 1, checkpoint => '{}', candidate => '')",
		"resume(" + claim + ", task => 'night', have => 0, candidate => '')", "checkpoints(tasks => " +
			"array['night'])",
		"attach(pid => pg_backend_pid(), " + claim + ", candidate => '')",
		"publish(" + claim + ", task => 'night', version => 2, checkpoint => '{}') from " +
			"set_config('ringfence.orders', 'attached " +
			fmt.Sprintf("%d %s", term.Token, term.Issuer) + "', false)",
		"enter_and_forget(" + claim + ", task => 'night', candidate => '')", "leave(pass => '" +
			*term.Pass + "')",
	} {
		if _, err := c.Exec(s.ctx, "select ringfence."+call); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// A name has one meaning. These two have a shorter form, which does the same.
func TestNoNameOfAFunctionHasTwoMeanings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	twice := s.texts(s.connect("postgres"), `select p.proname::text from pg_proc p where p.pronamespace = 'ringfence'::regnamespace
		group by p.proname having count(*) > 1 order by 1`)
	if !slices.Equal(twice, []string{"campaign", "enter"}) {
		t.Errorf("overloaded: %v", twice)
	}
}

// The SQL of docs/sql.md runs from top to bottom in one database, and says what it is said to.
func TestTheSQLOfTheDocumentRunsFromTopToBottom(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	s.exec(s.connect("postgres"), `create table ledger (line text); create table account (balance int); insert into account values (0);
		grant all on ledger, account to app; grant create on schema public to app`)
	d := documentRun{stage: s, c: c, passes: map[string]string{}}
	for _, block := range regexp.MustCompile("(?s)```(sql|)\n(.*?)```").FindAllStringSubmatch(
		document(t), -1,
	) {
		switch {
		case block[1] == "sql":
			d.program(block[2])
		case strings.HasPrefix(block[2], "shop=> "):
			d.console(block[2])
		}
	}
	if got := s.texts(c, "select string_agg(line, ', ' order by line) from ledger"); got[0] != "a "+
		"line, a line, a line, from host-1" {
		t.Errorf("the ledger has %q", got)
	}
	if got := s.texts(c, "select balance::text from account"); got[0] != "10" {
		t.Errorf("the balance is %s", got)
	}
}

type documentRun struct {
	*stage
	c      *pgx.Conn
	passes map[string]string // by the prefix of \gset; "" is the last one of a block of SQL
}

var (
	comment = regexp.MustCompile(`(?m) *-- .*$`)
	gset    = regexp.MustCompile(` *\\gset (\w*)`)
	token   = regexp.MustCompile(`\d{9,}`)
)

// program runs statements, and repeats a take until the term has begun. What ends with a line is
// one message.
func (d *documentRun) program(block string) {
	d.Helper()
	var message string
	for line := range strings.Lines(comment.ReplaceAllString(block, "")) {
		message += line
		if !strings.HasSuffix(strings.TrimSpace(line), ";") || strings.Count(message, "$$")%2 > 0 {
			continue
		}
		if _, call, isTake := strings.Cut(message, " from ringfence.take"); isTake {
			d.passes[""] = *d.ready(d.c, "take"+call).Pass
		} else if err := d.run(strings.NewReplacer("'PASS'", "$1").Replace(message)); err != nil {
			d.Fatalf("%s: %v", message, err)
		}
		message = ""
	}
	if strings.TrimSpace(message) != "" {
		d.Fatalf("not a statement: %s", message)
	}
}

// run runs a message. $1 is the last pass, and :'first_pass' that of \gset first_.
func (d *documentRun) run(message string) error {
	message = strings.ReplaceAll(message, "$1", "'"+d.passes[""]+"'")
	for prefix, pass := range d.passes {
		message = strings.ReplaceAll(message, ":'"+prefix+"pass'", "'"+pass+"'")
	}
	_, err := d.c.PgConn().Exec(d.ctx, message).ReadAll()
	return err
}

// console runs lines with a prompt, each once, as shown. What follows an error is its text.
func (d *documentRun) console(block string) {
	d.Helper()
	for entry := range strings.SplitSeq(block, "shop=> ") {
		line, shows, _ := strings.Cut(comment.ReplaceAllString(entry, ""), "\n")
		if line == "" {
			continue
		}
		if set := gset.FindStringSubmatch(line); set != nil {
			_, call, _ := strings.Cut(line, " from ringfence.")
			d.passes[set[1]] = *d.one(d.c, strings.Replace(call, set[0], "", 1)).Pass
			continue
		}
		err := d.run(line)
		message, failed := strings.CutPrefix(shows, "ERROR:  ")
		if !failed {
			if err != nil {
				d.Fatalf("%s: %v", line, err)
			}
			continue
		}
		d.fails(err, "RF001")
		message, _, _ = strings.Cut(message, "\n")
		if !strings.Contains(token.ReplaceAllString(err.Error(), "N"),
			token.ReplaceAllString(message, "N")) {
			d.Errorf("%s: got %v, and the document shows %s", line, err, message)
		}
		must.Succeed(d, d.run("rollback"))
	}
}
