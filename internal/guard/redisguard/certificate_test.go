package redisguard

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/must"
)

// certified is a guard whose clients need a certificate that names their user.
type certified struct {
	*guarded
	e     *encrypted
	admin *driver.Client
}

// certifiedGuard starts one in front of a server with the users alice and bob. Alice may not ask
// the server who she is.
func certifiedGuard(t *testing.T) *certified {
	t.Helper()
	e := encryptedRedis(t, "no")
	admin := driverTo(t, e.server.Addr(), nil)
	for _, rule := range []string{
		"alice on >secret >AUTH ~* &* +@all -acl", "bob on >secret ~* &* +@all",
	} {
		must.Succeed(t, admin.Do(t.Context(), anys("ACL SETUSER "+rule)...).Err())
	}
	option := e.with(t, tlsconfig.Files{ClientCA: e.authority.File})
	option.VerifyName = true
	g := before(t, e.server, setup{Options: Options{TLS: option}})
	return &certified{g, e, admin}
}

// as connects with a certificate of this name.
func (g *certified) as(t *testing.T, name string) *raw {
	t.Helper()
	own := g.e.authority.Issue(name)
	c, err := tls.Dial("tcp", g.Addr, g.e.client(t, &own))
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // for the whole test
	return &raw{t, c, bufio.NewReader(c)}
}

// does sends commands, and expects a reply to each that is no error.
func (r *raw) does(commands string) {
	r.t.Helper()
	r.send(commands)
	for range strings.Count(commands, "\r\n") {
		r.expect(anyReply)
	}
}

// noneIs fails the test if Redis has a session of this user.
func (g *certified) noneIs(t *testing.T, user string) {
	t.Helper()
	list, err := g.admin.ClientList(t.Context()).Result()
	if err != nil || strings.Contains(list, " user="+user+" ") {
		t.Fatalf("a session is one of %s: %v\n%s", user, err, list)
	}
}

// otherUsers are forms in which a client can try to become another user than alice.
func otherUsers() []string {
	long := strings.Repeat("x", relay.BufferSize+4000)
	many := strings.Fields("HELLO 2" + strings.Repeat(" SETNAME a", relay.BufferSize/20) + " AUTH " +
		"bob secret")
	all := []string{
		array("AUTH", "bob", "secret"), "aUtH bob secret\r\n", `"\x41uth" bob 'secret'` + "\r\n",
		array("AUTH", "secret"), array("AUTH", "", "secret"), array("AUTH", "alice\x00", "secret"),
		array("HELLO", "2", "AUTH", "bob", "secret"), "hello 2 setname x auth bob secret\r\n",
		array("HELLO", "2", "AUTH", "alice", "secret", "AUTH", "bob", "secret"),
		array("HELLO", "2", "AUTH", "bob", "secret", "AUTH", "alice", "secret"),
		array("HELLO", "2", "SETNAME", "AUTH", "AUTH", "bob", "secret"),
		array("HELLO", "2", "AUTH\x00", "bob", "secret"),
		array("HELLO", "2", "auth\x00x", "bob", "secret"),
		array("HELLO", "2", "SETNAME", long, "AUTH", "bob", "secret"), array(many...),
		array("HELLO", "2", "AUTH", "bob", long), array("AUTH", "bob", long), array("RESET"),
		array("HELLO", "2", "FUTURE", "SETNAME", "AUTH", "bob", "secret"),
	}
	for i := range 200 { // Redis takes some of them for AUTH
		all = append(all, array(fmt.Sprintf("AUTH\x00%d", i), "bob", "secret"))
	}
	return all
}

func TestACertificateAllowsNoOtherUser(t *testing.T) {
	t.Parallel()
	g := certifiedGuard(t)
	for state, commands := range map[string]string{
		"without a login":  "",
		"logged in":        "AUTH alice secret\r\n",
		"subscribed":       "AUTH alice secret\r\nFENCE orders 5\r\nSUBSCRIBE news\r\n",
		"admitted":         "AUTH alice secret\r\nFENCE orders 5\r\n",
		"in a transaction": "AUTH alice secret\r\nFENCE orders 5\r\nMULTI\r\n",
	} {
		t.Run(state, func(t *testing.T) {
			r := g.as(t, "alice")
			r.does(commands)
			for _, command := range otherUsers() {
				r.send(command)
				if got := r.reply(); !strings.HasPrefix(got, "-NOTALLOWED ") {
					t.Errorf("%.60q: %q", command, got)
				}
				g.noneIs(t, "bob")
			}
		})
	}
}

// The server says who the session is, after each of many commands that log in.
func TestNoLoginLeadsToAnotherUser(t *testing.T) {
	t.Parallel()
	g := certifiedGuard(t)
	phrases := []string{
		"AUTH bob secret", "AUTH bob secret", "auth\x00 bob secret", "AUTH alice secret", "SETNAME x",
		"SETNAME AUTH",
		"SETNAME " + strings.Repeat("x", relay.BufferSize), "AUTH", "bob", "secret", "2",
	}
	rnd := rand.New(rand.NewPCG(23, 11))
	r := g.as(t, "alice")
	r.does("HELLO 2 AUTH alice secret SETNAME fence.orders.5\r\nCLIENT ID\r\n")
	passed := 0
	for range 1000 {
		text := []string{"HELLO 2", "HELLO 2", "HELLO", "AUTH", "RESET"}[rnd.IntN(5)]
		for range rnd.IntN(4) {
			text += " " + phrases[rnd.IntN(len(phrases))]
		}
		r.send(array(strings.Split(text, " ")...))
		if got := r.reply(); got == "" {
			t.Fatalf("%.80q has ended the session", text)
		} else if got[0] != '-' {
			passed++
		}
		g.noneIs(t, "bob")
		if list := g.admin.ClientList(t.Context()).Val(); !strings.Contains(list, " user=alice ") {
			t.Fatalf("after %.80q:\n%s", text, list)
		}
	}
	if passed < 50 {
		t.Errorf("only %d logins passed", passed)
	}
}

func TestACertificateCountsBehindAClaim(t *testing.T) {
	t.Parallel()
	g := certifiedGuard(t)
	for _, claim := range []string{
		"AUTH alice secret\r\nFENCE orders 5\r\n",
		"HELLO 2 AUTH alice secret\r\nCLIENT SETNAME fence.orders.5\r\n",
	} {
		r := g.as(t, "alice")
		r.says(claim+"AUTH bob secret\r\nSET k v\r\nHELLO 2 AUTH bob secret\r\n", // in one packet
			anyReply, anyReply, "-NOTALLOWED ", "+OK", "-NOTALLOWED ")
		g.noneIs(t, "bob")
	}
	r := g.as(t, "alice")
	r.says("HELLO 2 AUTH bob secret SETNAME fence.orders.9\r\nHELLO 2 SETNAME fence.orders.9\r\nSET "+
		"k w\r\n",
		"-NOTALLOWED ", "-NOTALLOWED ", "-NOTALLOWED ")
	if marks, err := g.store.Marks(t.Context(), "orders"); err != nil || marks[0].Token != 5 {
		t.Errorf("marks %+v, %v", marks, err)
	}
}

func TestNothingIsReadBeforeTheLoginOfACertificatesUser(t *testing.T) {
	t.Parallel()
	g := certifiedGuard(t)
	must.Succeed(t, g.admin.Set(t.Context(), "k", "v", 0).Err())
	r := g.as(t, "alice")
	for _, command := range []string{
		"GET k", "KEYS *", "INFO", "PING", "MULTI", "GET k", "EXEC", "SUBSCRIBE news", "WATCH k",
		"CLIENT ID",
		"CLIENT SETNAME fence.orders.5", "FENCE orders 5", "COMMAND COUNT", "RESET", "NOSUCH",
	} {
		r.says(command+"\r\nAUTH alice wrong\r\n", "-NOTALLOWED ", "-WRONGPASS ")
	}
	r.says("HELLO 2\r\nINFO\r\n", anyReply, "-NOTALLOWED ")
	r.says("HELLO 2 AUTH alice AUTH SETNAME AUTH\r\nINFO\r\nAUTH alice wrong\r\nPING\r\n",
		anyReply, "$", "-WRONGPASS ", "+PONG")
	r.says("FENCE orders 5\r\nGET k\r\nAUTH alice secret\r\nSET k w\r\n", "+OK", "$1\r\nv", "+OK",
		"+OK")
	// Redis starts each session as one of default, who needs no password here.
	r = g.as(t, "default")
	r.says("INFO\r\nAUTH alice secret\r\nRESET\r\nPING\r\nFENCE orders 6\r\nSET k x\r\nRESET\r\nGET "+
		"k\r\n",
		"$", "-NOTALLOWED ", "+RESET", "+PONG", "+OK", "+OK", "+RESET", "$1\r\nx")
	g.noneIs(t, "alice")
}

func TestACertificateWithoutACommonNameIsRefused(t *testing.T) {
	t.Parallel()
	g := certifiedGuard(t)
	for _, first := range []string{"GET k", "AUTH bob secret", "HELLO 2 AUTH bob secret", "FENCE " +
		"orders 5", "QUIT"} {
		r := g.as(t, "")
		r.says(first+"\r\nFENCE orders 5\r\nSET k v\r\n", "-NOTALLOWED the client's certificate has no "+
			"common name",
			"-NOTALLOWED ", "-NOTALLOWED ")
		g.noneIs(t, "bob")
	}
	if marks, err := g.store.Marks(t.Context()); err != nil || len(marks) > 0 {
		t.Errorf("marks %+v, %v", marks, err)
	}
}
