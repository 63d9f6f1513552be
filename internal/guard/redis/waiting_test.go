package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestReadsThatCanTakeLongNeedAToken(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	many := func(n int, words ...string) string {
		return array(append(words, strings.Fields(strings.Repeat("s ", n))...)...)
	}
	long := array("LCS", "a", "b") + array("lcs", "a", "b", "LEN") + many(40, "SINTERCARD", "40") +
		many(40, "SUNION") + array("KEYS", strings.Repeat("a*", 9)) +
		array("SCAN", "0", "MATCH", strings.Repeat("a*", 9))
	for name, readOnly := range map[string]bool{"before a claim": false, "read-only": true} {
		t.Run(name, func(t *testing.T) {
			g := before(t, server, setup{Options: Options{ReadOnly: readOnly}})
			r := g.raw()
			r.says(long, "-NOTOKEN LCS", "-NOTOKEN lcs", "-NOTOKEN SINTERCARD", "-NOTOKEN SUNION", "-NOTOKEN KEYS",
				"-NOTOKEN SCAN")
			r.says(many(3, "SINTERCARD", "3")+many(3, "SUNION")+array("KEYS", "a*b*"), ":0", "*0", "*0")
			r.says("FENCE orders 5\r\n"+long, "+OK", "$0", ":0", ":0", "*0", "*0", "*2")
		})
	}
}

func TestATransactionWithoutATokenHasFewLongReads(t *testing.T) {
	r := reading(t).raw()
	begin := "MULTI\r\n" + strings.Repeat("KEYS a\r\nGET a\r\n", maxLong)
	queued := strings.Fields(strings.Repeat("+QUEUED ", 2*maxLong))
	r.says(begin, append([]string{"+OK"}, queued...)...)
	r.says("EXEC\r\n", fmt.Sprintf("*%d", 2*maxLong))
	r.says(begin, append([]string{"+OK"}, queued...)...) // each transaction counts anew
	r.says("KEYS a\r\nGET a\r\nEXEC\r\n", "-NOTOKEN KEYS", "+QUEUED", "-EXECABORT")
}

// What a subscriber sends is passed on at once, so it cannot give way.
func TestASubscriberWithoutATokenSendsNoLongReads(t *testing.T) {
	r := reading(t).raw()
	r.send("HELLO 3\r\n")
	r.expect("%")
	r.says("SUBSCRIBE c\r\nGET a\r\nKEYS *\r\nMULTI\r\nGET a\r\nEXEC\r\nPING\r\n",
		">3", "_", "-NOTOKEN KEYS", "+OK", "+QUEUED", "*1", "+PONG")
}

// asking is a store whose registrations last until their timeout, and then see what Redis has run.
type asking struct {
	marks.Store
	begun chan struct{}
	ask   func()
}

func (s asking) Register(
	ctx context.Context, _ marks.Session, _ []fence.Claim,
) (marks.Registration, error) {
	close(s.begun)
	<-ctx.Done()
	s.ask()
	return marks.Registration{}, ctx.Err()
}

// While an admission waits for Redis, what clients without a token send next would delay it further.
func TestWhileAnAdmissionWaitsReadersWithoutATokenSendNoLongRead(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	db := driverTo(t, server.Addr(), nil)
	s := asking{begun: make(chan struct{})}
	var ran string
	s.ask = func() {
		var err error
		if ran, err = db.Info(context.WithoutCancel(t.Context()), "commandstats").Result(); err != nil {
			t.Error(err)
		}
	}
	g := before(t, server, setup{
		Options: Options{ReadOnly: true, Admission: &marks.Admission{
			Authority: marks.Unverified{}, Timeout: 2 * time.Second}},
		wrap: func(real marks.Store) marks.Store { s.Store = real; return s },
	})
	patient, other := g.raw(), g.raw()
	other.says("MULTI\r\nGET a\r\n", "+OK", "+QUEUED")
	newer := g.raw()
	newer.send("FENCE orders 6\r\n")
	<-s.begun
	if err := db.ConfigResetStat(t.Context()).Err(); err != nil { // guard install has used EXEC
		t.Fatal(err)
	}
	patient.says("GET a\r\nINFO server\r\n", "$-1", "$") // short ones pass
	patient.send("KEYS *\r\n")
	other.send("EXEC\r\n")
	newer.expect("-REVOKE ")
	patient.expect("*")
	other.expect("*1")
	for _, long := range []string{"cmdstat_keys:", "cmdstat_exec:"} {
		if strings.Contains(ran, long) {
			t.Errorf("%s ran while the admission waited", long)
		}
	}
}

func TestAReaderThatGivesWayHearsOfAShutdown(t *testing.T) {
	s := asking{begun: make(chan struct{}), ask: func() {}}
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 10 * time.Second}},
		wrap:    func(real marks.Store) marks.Store { s.Store = real; return s },
	})
	reader, newer := g.raw(), g.raw()
	newer.send("FENCE orders 6\r\n")
	<-s.begun
	reader.says("GET a\r\nKEYS *\r\n", "$-1") // the guard has read both
	g.Stop()
	reader.expect("-ERR guard: shutting down; this command was not executed")
}
