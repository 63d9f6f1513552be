package pgguard

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// optionStrings write a token, hide one, or get it wrong.
var optionStrings = []string{
	"", " ", "\t\n\v\f\r",
	"-c fence.orders=5", "-cfence.orders=5", "--fence.orders=5", "-c  fence.orders=5",
	" \t-c\n\v\f\rfence.orders=5  ",
	"-c FENCE.ORDERS=5", "-c Fence.Orders=5", "--FENCE.orders=5", "-c fEnCe.OrDeRs=5",
	"-c fence.my-orders=5", "-c fence.my_orders=5", "--fence.my-orders=5", "-c fence-x.orders=5",
	"-c fence.orders-=5",
	"-c fence.orders=5 -c fence.orders=5", "-c fence.orders=5 -c fence.orders=6",
	"-c fence.orders=5 --FENCE.orders=6",
	"-c fence.orders=5 -c fence.stock=6", "-c fence.orders=5 -c work_mem=5MB",
	"-c work_mem=5MB --fence.orders=5",
	`-c fence.orders=\5`, `-c fence.orders=5\ `, `-c fence.orders=5\ -c\ fence.stock=6`,
	`-c\ fence.orders=5`, `-c fence\.orders=5`,
	`\-c fence.orders=5`, `-\c fence.orders=5`, `-c fence.orders\=5`,
	`-c application_name=a\\ -c fence.orders=5`,
	`-c application_name=a\ -c\ fence.orders=5`, `-c application_name=a\\\ -c\ fence.orders=5`,
	`-c fence.orders=5\`, `-c fence.orders=5 \`,
	`\`, `-c application_name=\ -c fence.orders=5`, `-c application_name=\	-c fence.orders=5`,
	`-c application_name='a b' -c fence.orders=5`,
	`-c application_name="-c fence.stock=6" -c fence.orders=5`,
	"-ec fence.orders=5", "-eEc fence.orders=5", "-ecfence.orders=5", "-esc fence.orders=5",
	"-e -s -c fence.orders=5",
	"-e-fence.orders=5", "-e- fence.orders=5", "-S 500 -c fence.orders=5",
	"-S500 -c fence.orders=5", "-S -c fence.orders=5",
	"-Sc fence.orders=5", "-d 1 -c fence.orders=5", "-d -c fence.orders=5",
	"-f s -c fence.orders=5", "-fs -c fence.orders=5",
	"-f -cfence.orders=5 -c fence.stock=6", "-t pl -c fence.orders=5", "-ta -c fence.orders=5",
	"-O -c fence.orders=5", "-P -c fence.orders=5",
	"-N 5 -c fence.orders=5", "-n -c fence.orders=5", "-b -c fence.orders=5",
	"-i -c fence.orders=5", "-l -c fence.orders=5", "-j -c fence.orders=5",
	"-F -c fence.orders=5", "-T -c fence.orders=5", "-o -c fence.orders=5", "-oc fence.orders=5",
	"-W 0 -c fence.orders=5", "-v 3 -c fence.orders=5",
	"-r -cfence.stock=6 -c fence.orders=5", "-r-cfence.stock=6 -c fence.orders=5",
	"-er -cfence.stock=6 -c fence.orders=5", "-v -cfence.stock=6 -c fence.orders=5",
	"-r out -c fence.orders=5", "-p 5 -c fence.orders=5", "-h host -c fence.orders=5",
	"-k dir -c fence.orders=5", "-D dir -c fence.orders=5",
	"-B 5 -c fence.orders=5", "-C fence.orders -c fence.orders=5", "-a -c fence.orders=5",
	"-x -c fence.orders=5", "-? -c fence.orders=5",
	"-: -c fence.orders=5", "-c: fence.orders=5", "-e: -c fence.orders=5", "-1 -c fence.orders=5",
	"-- -c fence.orders=5", "-c fence.orders=5 --", "-c fence.orders=5 -- -c fence.orders=6",
	"- -c fence.orders=5", "-c fence.orders=5 -",
	"x -c fence.orders=5", "-c fence.orders=5 x", "fence.orders=5", "-c", "-c fence.orders",
	"--fence.orders", "--fence.orders 5", "-c =5", "--=5",
	"-c fence.orders==5", "-c fence.orders=5=6", "-c fence.orders= 5", "-c fence.orders =5",
	"-c fence.orders=05", "-c fence.orders=+5",
	"-c fence.orders=5.0", "-c fence.orders='5'", "-c fence.orders=\"5\"", "-c \"fence.orders\"=5",
	"-c fence.orders=9223372036854775807",
	"-c fence.orders=9223372036854775808", "-c fence.orders=-5", "-c fence.orders=", "-c fence.=5",
	"-c fence=5", "-c .orders=5", "-c fence..orders=5",
	"-c fence.orders.x=5", "-c x.fence.orders=5", "-c fence.1orders=5", "-c fence.orders$=5",
	"-c fence.größe=5", "-c fence.stoc\u212a=5", "-c fence.orders\u00a0=5",
	"-c application_name=a\u0085-c\u00a0fence.orders=5", "-c fence.orders=\u0665",
	"+c fence.orders=5", "-c+fence.orders=5", "-c fence.orders=5;-c fence.stock=6",
	"-c fence.orders=5,fence.stock=6",
	"-c options=-cfence.orders=5", "-c search_path=public,fence.orders=5", "-W -c fence.orders=5",
}

// The oracle is a real server. If the guard admits a claim, the server must have read the same
// claim. If the server reads one, the guard must have read it or refused.
func TestOptionsAreReadAsPostgresReadsThem(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	accepted := 0
	for _, options := range optionStrings {
		claims, refused := (&startup{&wire.Startup{Params: []wire.Param{{
			Name: "options", Value: options,
		}}}}).claims("")
		if refused != nil {
			continue
		}
		accepted++
		read, err := settingsOf(t, pg.URL("app", database), map[string]string{"options": options})
		if err != nil {
			continue // the server refuses the login
		}
		if want := claimsAs(claims); read != want {
			t.Errorf("%q: the server reads %s, the guard %s", options, read, want)
		}
	}
	if accepted < 50 {
		t.Errorf("the guard accepted only %d of %d strings: this proves little",
			accepted, len(optionStrings))
	}
}

// A parser that refuses everything would pass the test above.
func TestUsualWaysToWriteATokenAreAccepted(t *testing.T) {
	t.Parallel()
	const largest = "9223372036854775807"
	for options, want := range map[string]string{
		"-c fence.orders=5":                    "orders=5 ",
		"-cfence.orders=5":                     "orders=5 ",
		"--fence.orders=5":                     "orders=5 ",
		"--fence.my-orders=5":                  "my_orders=5 ",
		"-c FENCE.Orders=5":                    "orders=5 ",
		"-r -cfence.stock=6 -c fence.orders=5": "orders=5 ",
		"-ec fence.orders=5":                   "orders=5 ",
		"-c fence.orders=5 -c fence.orders=5":  "orders=5 ",
		"-c fence.stock=6 -c fence.orders=5":   "orders=5 stock=6 ",
		`-c application_name=a\ -c\ fence.orders=6 -c fence.orders=5`: "orders=5 ",
		"-c work_mem=5MB -c fence.orders=" + largest + " -c jit=on":   "orders=" + largest + " ",
	} {
		claims, err := (&startup{&wire.Startup{Params: []wire.Param{{
			Name: "options", Value: options,
		}}}}).claims("")
		if got := claimsAs(claims); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", options, got, err, want)
		}
	}
}

func TestAStartupParameterCanCarryAClaim(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	for _, test := range []struct {
		params map[string]string
		want   string // empty: refused
	}{
		{map[string]string{"fence.orders": "5"}, "orders=5 "},
		{map[string]string{"FENCE.Orders": "5"}, "orders=5 "},
		{map[string]string{"fence.orders": "5", "options": "-c fence.orders=5"}, "orders=5 "},
		{map[string]string{"fence.orders": "5", "options": "-c fence.orders=6"}, ""},
		{map[string]string{"fence.orders": "5", "options": "-c fence.stock=6"},
			"orders=5 stock=6 "},
		{map[string]string{"fence.orders": "5", "Fence.Orders": "6"}, ""},
		{map[string]string{"fence.orders": "5 "}, ""},
		{map[string]string{"fence.orders": ""}, ""},
	} {
		s := &startup{&wire.Startup{}}
		for name, value := range test.params {
			s.Params = append(s.Params, wire.Param{Name: name, Value: value})
		}
		claims, err := s.claims("")
		if got := claimsAs(claims); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%v: %s, %v; want %s", test.params, got, err, test.want)
		}
		if err != nil {
			continue
		}
		if read, err := settingsOf(t, pg.URL("app", database), test.params); err != nil ||
			read != test.want {
			t.Errorf("%v: the server reads %s, %v; the guard %s", test.params, read, err, test.want)
		}
	}
}

// settingsOf logs in without a guard and returns the tokens that the server has read.
func settingsOf(t *testing.T, url string, params map[string]string) (string, error) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(url)
	must.Succeed(t, err)
	for name, value := range params {
		cfg.RuntimeParams[name] = value
	}
	c, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		return "", err
	}
	defer c.Close(context.Background())
	var read strings.Builder
	for _, r := range []string{"my_orders", "orders", "orders_", "stock"} {
		result := c.ExecParams(t.Context(), "select coalesce(current_setting($1, true), '')",
			[][]byte{[]byte("fence." + r)}, nil, nil, nil).Read()
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if value := string(result.Rows[0][0]); value != "" {
			fmt.Fprintf(&read, "%s=%s ", r, value)
		}
	}
	return read.String(), nil
}

func claimsAs(claims []marks.Presented) string {
	var b strings.Builder
	for _, c := range claims {
		fmt.Fprintf(&b, "%s=%s ", c.Resource, c.Token)
	}
	return b.String()
}

func TestAClaimThatPostgresRejectsFailsTheLoginWithTheServersError(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	cfg, err := pgx.ParseConfig(g.url("app", 5))
	must.Succeed(t, err)
	delete(cfg.RuntimeParams, "options")
	// the server turns dashes into underscores in options only
	cfg.RuntimeParams["fence.my-orders"] = "5"
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	wantCode(t, err, "42602")
	if n := g.markOf("my_orders"); n != 0 {
		t.Errorf("the mark is %d", n)
	}
}
