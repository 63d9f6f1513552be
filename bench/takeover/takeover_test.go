package takeover

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
)

// opened counts the sessions of each guard.
type opened struct {
	sync.Mutex
	guards []int
}

func (o *opened) open(_ context.Context, guard int, _ int64, _ bool) (session, error) {
	o.Lock()
	defer o.Unlock()
	o.guards = append(o.guards, guard)
	return closed{}, nil
}

func (*opened) login(context.Context) (session, error) { return closed{}, nil }
func (*opened) check(context.Context, []session) error { return nil }
func (*opened) Close() error                           { return nil }

type closed struct{}

func (closed) close() {}

func TestRowsAreChosenByName(t *testing.T) {
	db := &opened{}
	k := kind{"fake", func(context.Context, report.Options) (database, error) { return db, nil }}
	names := func(rows string) (all []string) {
		o := report.Options{Rounds: 1, Rows: regexp.MustCompile(rows)}
		cells, err := k.cells(t.Context(), report.New("take-over", o), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			all = append(all, c.row.Name)
		}
		return all
	}
	if n := len(names("")); n != 1+3*2*2 {
		// none older once; three numbers, two states, one or two guards
		t.Errorf("%d rows", n)
	}
	want := []string{"fake older=100 writing guards=1", "fake older=100 writing guards=2"}
	if got := names("older=100 writing"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := names("nothing"); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestOlderSessionsAreSpreadOverTheGuards(t *testing.T) {
	db := &opened{}
	c := cell{older: 10, guards: 2}
	all, err := c.openOlder(t.Context(), db, 1)
	if err != nil || len(all) != 10 {
		t.Fatal(len(all), err)
	}
	slices.Sort(db.guards)
	if !slices.Equal(db.guards, []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}) {
		t.Errorf("got %v", db.guards)
	}
}

func TestASessionThatAnswersIsNotGone(t *testing.T) {
	client, server := net.Pipe()
	var guard sync.WaitGroup
	defer guard.Wait()
	defer server.Close()
	guard.Go(func() {
		_, _ = bufio.NewReader(server).ReadString('\n')
		_, _ = io.WriteString(server, ":1\r\n") // and it stays open
	})
	s := &redisSession{Conn: client, reader: bufio.NewReader(client), limit: 50 * time.Millisecond}
	if err := s.cannotWrite(); err == nil || !strings.Contains(err.Error(), "still open") {
		t.Errorf("got %v", err)
	}
}

func TestASessionWhoseConnectionEndsIsGone(t *testing.T) {
	client, server := net.Pipe()
	server.Close()
	s := &redisSession{Conn: client, reader: bufio.NewReader(client), limit: replyLimit}
	if err := s.cannotWrite(); err != nil {
		t.Error(err)
	}
}
