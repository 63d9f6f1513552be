package succession

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const (
	hotRounds    = 40
	coordination = "RINGFENCE_COORDINATOR"
)

// stand runs a hot copy: it stands for election until the task is done.
func (e job) stand(ctx context.Context) error {
	co, err := zookeeper.Open(ctx, os.Getenv(coordination),
		zookeeper.Options{SessionTimeout: longSession})
	if err != nil {
		return err
	}
	defer co.Close()
	o, err := openPostgres(ctx, e)
	if err != nil {
		return err
	}
	defer o.close()
	c := checkpoint.Runner[tally]{
		Lead:     fence.Lead{Elector: co, Resource: resource, Holder: holder(os.Getpid())},
		Journal:  o.journal,
		Observer: co,
		Task: checkpoint.Task[tally]{Name: taskName, Rounds: hotRounds, Steps: []checkpoint.Step[tally]{
			book("book", e), book("close", e),
		},
			Notify: func(n checkpoint.Event) {
				switch n.Kind {
				case taskevent.TookOver:
					fmt.Printf("took version %d: %+v\n", n.Checkpoint.Version, n.TakeOver)
				case taskevent.Began:
					e.Ending.begun++
				}
			}},
	}
	_, err = c.Run(ctx)
	return err
}

func TestTenHotCopiesWhoseLeadersAreKilledWriteEachRowOnce(t *testing.T) {
	w := postgresWorld(t)
	zk := serverstest.SharedZooKeeper(t)
	t.Setenv(coordination, fmt.Sprintf("zk://%s/%s", zk.Addr(), strings.ToLower(crand.Text())))
	depose := deposer(t, os.Getenv(coordination))
	r := seed(t)
	var copies []*leader
	var listening sync.WaitGroup
	var mu sync.Mutex
	var takeOvers []string
	// Until all are enrolled nobody is deposed, since a candidate that disappears too early is not
	// counted.
	allStand := make(chan struct{})
	for n := range 10 {
		e := end(r, syscall.SIGKILL)
		e.Step += 3
		if n == 9 {
			e.At = "" // the last in the queue is not killed
			enrolled(t, 9)
			close(allStand)
		}
		w.kind = "hot"
		l := w.start(e, false)
		copies = append(copies, l)
		listening.Go(func() {
			for in := bufio.NewScanner(l.said); in.Scan(); {
				mu.Lock()
				takeOvers = append(takeOvers, in.Text())
				mu.Unlock()
			}
			select {
			case <-allStand:
			case <-t.Context().Done(): // the test has failed
				return
			}
			if err := depose(l.cmd.Process.Pid); err != nil { // see succeed
				t.Error(err)
			}
		})
	}
	listening.Wait() // until every copy has ended
	killed := 0
	for _, l := range copies {
		switch code := l.wait(); code {
		case -1:
			killed++
		case exitDone:
		default:
			t.Errorf("a copy ended with %d: %s", code, l.log)
		}
	}
	var want []string
	for i := range 2 * hotRounds {
		want = append(want, fmt.Sprintf("%s %d", []string{"book", "close"}[i%2], i+1))
	}
	if got := w.exactlyOnce(); !slices.Equal(got, want) {
		t.Errorf("the ledger holds %q", got)
	}
	if status := w.stored().Status; status != checkpoint.Done {
		t.Errorf("the task is %s", status)
	}
	if killed < 5 { // a leader that loses its term on a busy machine is enrolled again, after the last
		t.Errorf("%d leaders were killed", killed)
	}
	for _, line := range takeOvers {
		t.Log(line)
	}
}

// enrolled waits until n candidates, including killed ones, have been enrolled.
func enrolled(t *testing.T, n int) {
	t.Helper()
	// less than a session, so killed candidates stay
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	co, err := zookeeper.Open(ctx, os.Getenv(coordination), zookeeper.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer co.Close()
	seen := map[fence.Token]bool{}
	enough := errors.New("enough")
	err = co.Watch(ctx, resource, func(queue []elector.Candidate) error {
		for _, c := range queue {
			seen[c.Token] = true
		}
		if len(seen) >= n {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("%d candidates have been enrolled: %v", len(seen), err)
	}
}
