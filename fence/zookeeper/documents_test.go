package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble/ensembletest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// document reads one, without a claim.
func document(t *testing.T, d *Documents, name string) string {
	t.Helper()
	doc, err := d.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%s", doc.Version, doc.Data)
}

func write(t *testing.T, d *Documents, term *fence.Term, version int64, data string) {
	t.Helper()
	if err := d.Write(t.Context(), term.Claim(), Document{"a", []byte(data), version}); err != nil {
		t.Fatalf("write version %d: %v", version, err)
	}
}

// TestAWriteUnderWayWhenItsLeaderIsDeposedDoesNotLand, however late it arrives: the paused packet, without any pause of a
// process.
func TestAWriteUnderWayWhenItsLeaderIsDeposedDoesNotLand(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	elector := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	slow := openFor(t, "zk://"+r.Addr()+root, 50*time.Second).Documents("docs")
	quick := openFor(t, "zk://"+ensemble+root, 50*time.Second).Documents("docs")
	old := win(t, elector, "orders", "old")
	write(t, slow, old, 1, "old")

	r.Hold()
	late := make(chan error, 1)
	go func() {
		late <- slow.Write(t.Context(), old.Claim(), Document{"a", []byte("late"), 2})
	}()
	ensembletest.Eventually(t, "the write is held up", func() bool { return r.Holds() })
	if gone, err := elector.Depose(t.Context(), "orders", old.Token()); !gone || err != nil {
		t.Fatal(gone, err)
	}
	fresh := win(t, elector, "orders", "fresh")
	doc, same, err := quick.Take(t.Context(), fresh.Claim(), "a", 1)
	if err != nil || !same || doc.Version != 1 {
		t.Fatalf("took %+v, same is %v, %v", doc, same, err)
	}
	r.Pass() // its version would still fit
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late write returned %v", err)
	}
	if got := document(t, quick, "a"); got != "1:old" {
		t.Errorf("stored is %s", got)
	}
	write(t, quick, fresh, 2, "fresh")
}

// TestTakeAnswersOnlyIfTheClaimLedWhenItRead: the leader is deposed after it was confirmed and before the read.
func TestTakeAnswersOnlyIfTheClaimLedWhenItRead(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	elector := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	slow := openFor(t, "zk://"+r.Addr()+root, 50*time.Second).Documents("docs")
	quick := elector.Documents("docs")
	old := win(t, elector, "orders", "old")
	write(t, slow, old, 1, "old")
	for n, have := range []int64{0, 2} { // with the data, and without
		r.Set(func() { r.Between = true })
		took := make(chan error, 1)
		go func() {
			doc, same, err := slow.Take(t.Context(), old.Claim(), "a", have)
			if err == nil {
				err = fmt.Errorf("took %+v, same is %v", doc, same)
			}
			took <- err
		}()
		ensembletest.Eventually(t, "the read is held up", func() bool { return r.HoldsRequest() })
		if gone, err := elector.Depose(t.Context(), "orders", old.Token()); !gone || err != nil {
			t.Fatal(gone, err)
		}
		fresh := win(t, elector, "orders", "fresh")
		write(t, quick, fresh, int64(n)+2, "fresh")
		r.Pass()
		if err := <-took; !errors.Is(err, fence.ErrStale) {
			t.Errorf("take, having version %d: %v", have, err)
		}
		old = fresh
	}
}

func TestALostAnswerIsSaidSo(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, 20*time.Second)
	d := c.Documents("docs")
	term := win(t, openFor(t, "zk://"+ensemble+root, 20*time.Second), "orders", "a")
	write(t, d, term, 1, "x")
	for n := int64(2); n < 5; n++ {
		r.Set(func() { r.LoseWrite = true })
		err := d.Write(t.Context(), term.Claim(), Document{"a", []byte("x"), n})
		if !errors.Is(err, ErrUnanswered) {
			t.Errorf("write %d returned %v", n, err)
		}
		if c.eyes.s != nil {
			t.Errorf("after write %d the broken connection is kept for the next", n)
		}
		if got := document(t, d, "a"); got != fmt.Sprintf("%d:x", n) {
			t.Errorf("after write %d %s is stored", n, got)
		}
		if err := d.Write(t.Context(), term.Claim(), Document{"a", []byte("again"), n}); !errors.Is(err, ErrVersion) {
			t.Errorf("write %d once more returned %v", n, err)
		}
	}
	r.Set(func() { r.LoseWrite = true })
	if err := d.Confirm(t.Context(), term.Claim()); err != nil { // asks again
		t.Errorf("confirm: %v", err)
	}
}

// TestAnAnswerThatDoesNotComeInTime: the connection stands, and the server is silent.
func TestAnAnswerThatDoesNotComeInTime(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, 10*time.Second)
	d := c.Documents("docs")
	term := win(t, openFor(t, "zk://"+ensemble+root, 50*time.Second), "orders", "a")
	write(t, d, term, 1, "x")
	r.Hold() // the library gives the connection up after two thirds of the session timeout
	s := c.eyes.s
	const soon = 1500 * time.Millisecond // and late enough for the write to have been sent
	short, cancelShort := context.WithTimeout(t.Context(), soon)
	defer cancelShort()
	if err := d.Write(short, term.Claim(), Document{"a", []byte("y"), 2}); !errors.Is(err, ErrUnanswered) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write with a short deadline: %v", err)
	}
	if c.eyes.s != s {
		t.Error("a caller's own deadline has ended the connection of all")
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), soon, enough)
	defer cancel()
	if err := d.Write(ctx, term.Claim(), Document{"a", []byte("y"), 2}); !errors.Is(err, ErrUnanswered) || !errors.Is(err, enough) {
		t.Errorf("a write whose context ended: %v", err)
	}
	begin := time.Now()
	if err := d.Write(t.Context(), term.Claim(), Document{"a", []byte("y"), 2}); !errors.Is(err, ErrUnanswered) {
		t.Errorf("a write without an answer: %v", err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := d.Write(t.Context(), term.Claim(), Document{"a", []byte("y"), 2}); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnanswered) {
		t.Errorf("a write that could not be sent: %v", err)
	}
	r.Pass()
	if got := document(t, d, "a"); got != "1:x" && got != "2:y" {
		t.Errorf("stored is %s", got)
	}
}

// TestAServerThatAnswersOnlyPingsIsLeft: the next write goes over another connection.
func TestAServerThatAnswersOnlyPingsIsLeft(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, 6*time.Second)
	term := win(t, openFor(t, "zk://"+ensemble+root, 50*time.Second), "orders", "a")
	write(t, c.Documents("docs"), term, 1, "x")
	before := c.eyes.s
	r.Set(func() { r.Swallow = true })
	if err := c.Documents("docs").Write(t.Context(), term.Claim(), Document{"a", nil, 2}); !errors.Is(err, ErrUnanswered) || !errors.Is(err, errSlow) {
		t.Errorf("a write without an answer: %v", err)
	}
	r.Set(func() { r.Swallow = false })
	write(t, c.Documents("docs"), term, 2, "y")
	if c.eyes.s == before {
		t.Error("the connection was kept")
	}
}

// TestAWriteIsOneRequest, and comparing a copy sends no data.
func TestAWriteIsOneRequest(t *testing.T) {
	const getData, multi = 4, 14
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	d := openFor(t, "zk://"+r.Addr()+root, 50*time.Second).Documents("docs")
	term := win(t, openFor(t, "zk://"+ensemble+root, 50*time.Second), "orders", "a")
	write(t, d, term, 1, "x")
	r.Requested()
	write(t, d, term, 2, "y")
	if got := r.Requested(); len(got) != 1 || got[multi] != 1 {
		t.Errorf("a write made the requests %v", got)
	}
	if _, same, err := d.Take(t.Context(), term.Claim(), "a", 2); err != nil || !same {
		t.Errorf("take: same is %v, %v", same, err)
	}
	if got := r.Requested(); got[getData] != 0 {
		t.Errorf("comparing a copy made the requests %v", got)
	}
}

// TestReadsBeginWithASync, for a server may lag behind: it would refuse a leader that it has not heard of yet, and show
// what was overwritten long ago.
func TestReadsBeginWithASync(t *testing.T) {
	const sync = 9
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	d := openFor(t, "zk://"+r.Addr()+root, 50*time.Second).Documents("docs")
	term := win(t, openFor(t, "zk://"+ensemble+root, 50*time.Second), "orders", "a")
	r.Requested()
	enough := errors.New("enough")
	for _, c := range []struct {
		what string
		read func() error
	}{
		{"a first look at a claim", func() error { return d.Write(t.Context(), term.Claim(), Document{"a", nil, 1}) }},
		{"read", func() error { _, err := d.Read(t.Context(), "a"); return err }},
		{"names", func() error { _, err := d.Names(t.Context()); return err }},
		{"follow", func() error { return d.Follow(t.Context(), "a", func(Document) error { return enough }) }},
	} {
		if err := c.read(); err != nil && err != enough {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := r.Requested(); got[sync] != 1 {
			t.Errorf("%s made the requests %v", c.what, got)
		}
	}
}

// TestAPersistentZnodeInAnElectionDoesNotLead, nor does it keep the leader from leading.
func TestAPersistentZnodeInAnElectionDoesNotLead(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	d := c.Documents("docs")
	if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil { // makes the election
		t.Fatal(err)
	}
	admin := ensembletest.Connect(t, ensemble)
	_, stat, err := admin.Get(ensembletest.Craft(t, admin, c.electionPath("orders"), "crafted", "0000000000", zk.FlagPersistent))
	if err != nil {
		t.Fatal(err)
	}
	term := win(t, c, "orders", "b")
	forged := term.Claim()
	forged.Token = fence.Token(stat.Czxid)
	if err := d.Write(t.Context(), forged, Document{"a", nil, 1}); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write under a persistent znode's number: %v", err)
	}
	write(t, d, term, 1, "b")
}

func TestDocumentsAreListedAndKeptApart(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	one, two := c.Documents("one"), c.Documents("two")
	if names, err := one.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("there are %q, %v", names, err)
	}
	term := win(t, c, "orders", "a")
	write(t, one, term, 1, "x")
	if names, err := one.Names(t.Context()); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("there are %q, %v", names, err)
	}
	if got := document(t, two, "a"); got != "0:" {
		t.Errorf("of the other kind is %s", got)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/issuer", "../issuer", "a\x00", "100%"} {
		_, readErr := one.Read(t.Context(), name)
		_, _, takeErr := one.Take(t.Context(), term.Claim(), name, 0)
		writeErr := one.Write(t.Context(), term.Claim(), Document{name, nil, 1})
		followErr := one.Follow(t.Context(), name, func(Document) error { return nil })
		if readErr == nil || takeErr == nil || writeErr == nil || followErr == nil {
			t.Errorf("%q: read %v, take %v, write %v, follow %v", name, readErr, takeErr, writeErr, followErr)
		}
	}
}

// TestAFollowerSeesWhatChanges through lost notices, broken connections, ended sessions, and a document made anew.
func TestAFollowerSeesWhatChanges(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, ensemble)
	watcher := openFor(t, "zk://"+r.Addr()+root, time.Second).Documents("docs")
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	d := c.Documents("docs")
	term := win(t, c, "orders", "a")
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 10)
	var work sync.WaitGroup
	work.Go(func() {
		err := watcher.Follow(ctx, "a", func(doc Document) error {
			seen <- fmt.Sprintf("%d:%s", doc.Version, doc.Data)
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("follow ended with %v", err)
		}
	})
	defer work.Wait()
	defer cancel()
	sees := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("saw %s, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("did not see %s", want)
		}
	}
	write(t, d, term, 1, "made")
	sees("1:made")
	write(t, d, term, 2, "watched")
	sees("2:watched")
	r.Set(func() { r.Mute = true })
	write(t, d, term, 3, "notice lost")
	sees("3:notice lost")
	write(t, d, term, 4, "notice lost again")
	sees("4:notice lost again")
	r.Set(func() { r.Mute = false })
	r.Hold()
	r.DropAll()
	write(t, d, term, 5, "cut off")
	r.Pass()
	sees("5:cut off")
	r.ExpireSessions()
	write(t, d, term, 6, "session ended")
	sees("6:session ended")
	if err := ensembletest.Connect(t, ensemble).Delete(root+"/docs/a", -1); err != nil {
		t.Fatal(err)
	}
	write(t, d, term, 1, "made anew")
	sees("1:made anew")

	r.Requested()
	looks := 0
	ensembletest.Eventually(t, "it looks for itself", func() bool { looks += r.Requested()[9]; return looks >= 2 })
	if len(seen) > 0 {
		t.Errorf("saw %s once more", <-seen)
	}
}
