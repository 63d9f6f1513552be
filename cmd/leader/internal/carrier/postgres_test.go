package carrier

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

// environ returns what a program gets for a store's URL.
func environ(t *testing.T, guard string, private bool) map[string]string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	p, err := openPostgres(Route{
		Guard: settings.URL(guard), Private: private,
	}, fence.Claim{Resource: "orders", Token: 5})
	must.Succeed(t, err)
	all, err := p.environ(t.Context(), l)
	must.Succeed(t, err)
	got := map[string]string{"at": l.Addr().String()}
	for _, v := range all {
		got[v[0]] = v[1]
	}
	return got
}

func TestAnotherUsersProgramGetsNoPassword(t *testing.T) {
	t.Setenv("PGPASSWORD", "")
	for _, guard := range []string{
		"postgres://app:s3cret@guard:6432/shop?sslmode=require",
		"postgres://app@guard/shop?password_command=echo%20s3cret",
		"postgres://guard/shop?user=app&password=s3cret", "postgres://app@guard/shop",
	} {
		if guard == "postgres://app@guard/shop" {
			t.Setenv("PGPASSWORD", "s3cret")
		}
		for _, private := range []bool{false, true} {
			got := environ(t, guard, private)
			u, err := url.Parse(got["DATABASE_URL"])
			must.Succeed(t, err)
			if password, _ := u.User.Password(); (password == "s3cret") == private {
				t.Errorf("%s, private %t: the password is %q", guard, private, password)
			}
			if private && strings.Contains(fmt.Sprint(got), "s3cret") {
				t.Errorf("%s: %v", guard, got)
			}
			if u.Host != got["at"] || u.Path != "/shop" || u.Query().Get("sslmode") != "disable" {
				t.Errorf("%s became %s", guard, u)
			}
			if name := u.User.Username() + u.Query().Get("user"); name != "app" {
				t.Errorf("%s: user %q", guard, name)
			}
		}
	}
}
