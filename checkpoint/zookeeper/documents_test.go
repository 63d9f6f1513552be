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
	elections "github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
	"github.com/ringfence/ringfence/internal/ensemble/ensembletest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// openFor opens a coordinator and closes it with the test.
func openFor(t *testing.T, url string, timeout time.Duration) (c *elections.Coordinator) {
	t.Helper()
	opens(t, func() (err error) {
		c, err = elections.Open(t.Context(), url, elections.Options{SessionTimeout: timeout})
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// openClient opens a client and closes it with the test.
func openClient(t *testing.T, url string, timeout time.Duration) (c *ensemble.Client) {
	t.Helper()
	opens(t, func() (err error) {
		c, err = election.Open(t.Context(), url, ensemble.Options{SessionTimeout: timeout})
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func openDocuments(t *testing.T, url string, timeout time.Duration) *documents {
	t.Helper()
	return newDocuments(openClient(t, url, timeout), "docs", defaultLimit)
}

// opens repeats open while the ensemble is too busy to answer within a short timeout.
func opens(t *testing.T, open func() error) {
	t.Helper()
	ensembletest.Eventually(t, "the ensemble answers", func() bool {
		err := open()
		if err != nil && !errors.Is(err, ensemble.ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// win campaigns, for at most a minute.
func win(t *testing.T, c *elections.Coordinator, r fence.Resource, holder string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	term, err := c.Campaign(ctx, r, holder)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// stored reads a document without a claim.
func stored(t *testing.T, d *documents, name string) string {
	t.Helper()
	doc, err := d.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%s", doc.Version, doc.Data)
}

// made returns the document a.
func made(data string, version int64) document {
	return document{Name: "a", Data: []byte(data), Version: version}
}

func write(t *testing.T, d *documents, term *fence.Term, version int64, data string) {
	t.Helper()
	if err := d.Write(t.Context(), term.Claim(), made(data, version)); err != nil {
		t.Fatalf("write version %d: %v", version, err)
	}
}

// relayed are documents that reach the ensemble through a relay. Elections do not pass the relay.
type relayed struct {
	*documents
	relay   *ensembletest.Relay
	direct  string // the URL without the relay
	elector *elections.Coordinator
}

func openRelayed(t *testing.T, timeout time.Duration) relayed {
	t.Helper()
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r, direct := ensembletest.NewRelay(t, server), "zk://"+server+root
	return relayed{
		documents: openDocuments(t, "zk://"+r.Addr()+root, timeout),
		relay:     r, direct: direct, elector: openFor(t, direct, 50*time.Second),
	}
}

// lead wins a term and writes version 1.
func (d relayed) lead(t *testing.T, data string) *fence.Term {
	t.Helper()
	term := win(t, d.elector, "orders", "a")
	write(t, d.documents, term, 1, data)
	return term
}

// succeed deposes a leader and returns the term of the next one.
func (d relayed) succeed(t *testing.T, old *fence.Term) *fence.Term {
	t.Helper()
	if gone, err := d.elector.Depose(t.Context(), "orders", old.Token()); !gone || err != nil {
		t.Fatal(gone, err)
	}
	return win(t, d.elector, "orders", "b")
}

// failsToWrite writes version 2 and fails the test unless the error matches all of want.
func (d relayed) failsToWrite(ctx context.Context, t *testing.T, term *fence.Term, want ...error) {
	t.Helper()
	err := d.Write(ctx, term.Claim(), made("y", 2))
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("the write returned %v, want %v", err, w)
		}
	}
	if !slices.Contains(want, ensemble.ErrUnanswered) && errors.Is(err, ensemble.ErrUnanswered) {
		t.Errorf("the write returned %v, which says that it may have landed", err)
	}
}

// A packet is delayed; no process pauses.
func TestAWriteOnItsWayWhenItsLeaderIsDeposedDoesNotLand(t *testing.T) {
	overtaken(t, func(d relayed, old fence.Claim) error { return d.Write(t.Context(), old, made("late", 2)) })
}

// overtaken deposes a leader whose change of version 1 is on its way: it changes nothing.
func overtaken(t *testing.T, change func(relayed, fence.Claim) error) {
	t.Helper()
	slow := openRelayed(t, 50*time.Second)
	quick := openDocuments(t, slow.direct, 50*time.Second)
	old := slow.lead(t, "old")

	slow.relay.Hold()
	late := make(chan error, 1)
	go func() { late <- change(slow, old.Claim()) }()
	ensembletest.Eventually(t, "the relay holds the change", slow.relay.Holds)
	fresh := slow.succeed(t, old)
	doc, same, err := quick.Take(t.Context(), fresh.Claim(), "a", 1)
	if err != nil || !same || doc.Version != 1 {
		t.Fatalf("took %+v, same is %v, %v", doc, same, err)
	}
	slow.relay.Pass() // its version would still fit
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late change returned %v", err)
	}
	if got := stored(t, quick, "a"); got != "1:old" {
		t.Errorf("stored is %s", got)
	}
	write(t, quick, fresh, 2, "fresh")
}

// The leader is deposed after it was confirmed and before the read.
func TestTakeAnswersOnlyIfTheClaimLedDuringTheRead(t *testing.T) {
	slow := openRelayed(t, 50*time.Second)
	quick := openDocuments(t, slow.direct, 50*time.Second)
	old := slow.lead(t, "old")
	for n, have := range []int64{0, 2} { // with the data, and without
		slow.relay.Set(func() { slow.relay.Between = true })
		took := make(chan error, 1)
		go func() {
			doc, same, err := slow.Take(t.Context(), old.Claim(), "a", have)
			if err == nil {
				err = fmt.Errorf("took %+v, same is %v", doc, same)
			}
			took <- err
		}()
		ensembletest.Eventually(t, "the relay holds the read", slow.relay.HoldsRequest)
		fresh := slow.succeed(t, old)
		write(t, quick, fresh, int64(n)+2, "fresh")
		slow.relay.Pass()
		if err := <-took; !errors.Is(err, fence.ErrStale) {
			t.Errorf("take, having version %d: %v", have, err)
		}
		old = fresh
	}
}

func TestAWriteWithALostAnswerIsUnanswered(t *testing.T) {
	d := openRelayed(t, 20*time.Second)
	term := d.lead(t, "x")
	for n := int64(2); n < 5; n++ {
		d.relay.Set(func() { d.relay.LoseWrite = true })
		err := d.Write(t.Context(), term.Claim(), made("x", n))
		if !errors.Is(err, ensemble.ErrUnanswered) {
			t.Errorf("write %d returned %v", n, err)
		}
		if d.client.Current() != nil {
			t.Errorf("after write %d the broken connection is still in use", n)
		}
		if got := stored(t, d.documents, "a"); got != fmt.Sprintf("%d:x", n) {
			t.Errorf("after write %d %s is stored", n, got)
		}
		err = d.Write(t.Context(), term.Claim(), made("again", n))
		if !errors.Is(err, errVersion) {
			t.Errorf("write %d once more returned %v", n, err)
		}
	}
	d.relay.Set(func() { d.relay.LoseWrite = true })
	if err := d.Confirm(t.Context(), term.Claim()); err != nil { // tries again
		t.Errorf("confirm: %v", err)
	}
}

// The connection stays open, and the server is silent.
func TestAWriteWithoutAnAnswerInTimeIsUnanswered(t *testing.T) {
	t.Parallel()
	d := openRelayed(t, 10*time.Second)
	term := d.lead(t, "x")
	d.relay.Hold() // the library closes the connection after two thirds of the session timeout
	s := d.client.Current()
	const soon = 1500 * time.Millisecond // late enough for the write to have been sent
	short, cancelShort := context.WithTimeout(t.Context(), soon)
	defer cancelShort()
	d.failsToWrite(short, t, term, ensemble.ErrUnanswered, context.DeadlineExceeded)
	if d.client.Current() != s {
		t.Error("one caller's deadline has ended the connection of all callers")
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), soon, enough)
	defer cancel()
	d.failsToWrite(ctx, t, term, ensemble.ErrUnanswered, enough)

	begin := time.Now()
	d.failsToWrite(t.Context(), t, term, ensemble.ErrUnanswered)
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	d.failsToWrite(t.Context(), t, term, ensemble.ErrUnreachable) // never sent

	d.relay.Pass()
	if got := stored(t, d.documents, "a"); got != "1:x" && got != "2:y" {
		t.Errorf("stored is %s", got)
	}
}

func TestAServerThatAnswersOnlyPingsIsLeft(t *testing.T) {
	t.Parallel()
	d := openRelayed(t, 6*time.Second)
	term := d.lead(t, "x")
	before := d.client.Current()
	d.relay.Set(func() { d.relay.Swallow = true })
	d.failsToWrite(t.Context(), t, term, ensemble.ErrUnanswered, ensemble.ErrSlow)
	d.relay.Set(func() { d.relay.Swallow = false })
	write(t, d.documents, term, 2, "y")
	if d.client.Current() == before {
		t.Error("the connection was kept")
	}
}

func TestAWriteIsOneRequestAndComparingACopySendsNoData(t *testing.T) {
	const getData, multi = 4, 14
	d := openRelayed(t, 50*time.Second)
	term := d.lead(t, "x")
	d.relay.Requested()
	write(t, d.documents, term, 2, "y")
	if got := d.relay.Requested(); len(got) != 1 || got[multi] != 1 {
		t.Errorf("a write made the requests %v", got)
	}
	if _, same, err := d.Take(t.Context(), term.Claim(), "a", 2); err != nil || !same {
		t.Errorf("take: same is %v, %v", same, err)
	}
	if got := d.relay.Requested(); got[getData] != 0 {
		t.Errorf("comparing a copy made the requests %v", got)
	}
}

// A server may lag behind. Without a sync it would refuse a leader that it does not know yet, and
// return what was overwritten long ago.
func TestReadsBeginWithASync(t *testing.T) {
	const sync = 9
	d := openRelayed(t, 50*time.Second)
	term := win(t, d.elector, "orders", "a")
	d.relay.Requested()
	enough := errors.New("enough")
	for _, c := range []struct {
		what string
		read func() error
	}{
		{"a first look at a claim", func() error {
			return d.Write(t.Context(), term.Claim(), made("", 1))
		}},
		{"read", func() error { _, err := d.Read(t.Context(), "a"); return err }},
		{"names", func() error { _, err := d.Names(t.Context()); return err }},
		{"follow", func() error {
			return d.Follow(t.Context(), "a", func(document) error { return enough })
		}},
	} {
		if err := c.read(); err != nil && err != enough {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := d.relay.Requested(); got[sync] != 1 {
			t.Errorf("%s made the requests %v", c.what, got)
		}
	}
}

// A persistent znode neither leads nor keeps the leader from leading.
func TestAPersistentZnodeInAnElectionDoesNotLead(t *testing.T) {
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	d := openDocuments(t, "zk://"+server+root, 50*time.Second)
	if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil { // makes the election
		t.Fatal(err)
	}
	admin := ensembletest.Connect(t, server)
	_, stat, err := admin.Get(ensembletest.Craft(t, admin, election.Dir(root, "orders"), "crafted",
		"0000000000", zk.FlagPersistent))
	if err != nil {
		t.Fatal(err)
	}
	term := win(t, c, "orders", "b")
	forged := term.Claim()
	forged.Token = fence.Token(stat.Czxid)
	if err := d.Write(t.Context(), forged, made("", 1)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write under a persistent znode's number: %v", err)
	}
	write(t, d, term, 1, "b")
}

func TestDocumentsAreListedAndKeptApart(t *testing.T) {
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	client := openClient(t, "zk://"+server+root, 50*time.Second)
	one, two := newDocuments(client, "one", defaultLimit), newDocuments(client, "two", defaultLimit)
	if names, err := one.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("there are %q, %v", names, err)
	}
	term := win(t, c, "orders", "a")
	write(t, one, term, 1, "x")
	if names, err := one.Names(t.Context()); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("there are %q, %v", names, err)
	}
	if got := stored(t, two, "a"); got != "0:" {
		t.Errorf("the document of the other kind is %s", got)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/issuer", "../issuer", "a\x00", "100%"} {
		_, readErr := one.Read(t.Context(), name)
		_, _, takeErr := one.Take(t.Context(), term.Claim(), name, 0)
		writeErr := one.Write(t.Context(), term.Claim(), document{Name: name, Version: 1})
		followErr := one.Follow(t.Context(), name, func(document) error { return nil })
		if readErr == nil || takeErr == nil || writeErr == nil || followErr == nil {
			t.Errorf("%q: read %v, take %v, write %v, follow %v", name, readErr, takeErr,
				writeErr, followErr)
		}
	}
}

// A follower sees changes in spite of lost notices, broken connections, ended sessions, and a
// document that is deleted and created again.
func TestAFollowerSeesEveryChange(t *testing.T) {
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	r := ensembletest.NewRelay(t, server)
	watcher := openDocuments(t, "zk://"+r.Addr()+root, time.Second)
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	d := openDocuments(t, "zk://"+server+root, 50*time.Second)
	term := win(t, c, "orders", "a")
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 10)
	var work sync.WaitGroup
	work.Go(func() {
		err := watcher.Follow(ctx, "a", func(doc document) error {
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
	if err := ensembletest.Connect(t, server).Delete(root+"/docs/a", -1); err != nil {
		t.Fatal(err)
	}
	write(t, d, term, 1, "created again")
	sees("1:created again")

	r.Requested()
	looks := 0
	ensembletest.Eventually(t, "it polls", func() bool {
		looks += r.Requested()[9]
		return looks >= 2
	})
	if len(seen) > 0 {
		t.Errorf("saw %s once more", <-seen)
	}
}

func TestNeitherOfTwoCandidatesWithOneTokenReadsOrWrites(t *testing.T) {
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	d := openDocuments(t, "zk://"+server+root, 50*time.Second)
	old := win(t, c, "orders", "a")
	_, token := ensembletest.CraftTwins(t, ensembletest.Connect(t, server),
		election.Dir(root, "orders"))
	if err := old.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim := fence.Claim{Resource: "orders", Token: token, Issuer: old.Claim().Issuer}
	_, _, take := d.Take(t.Context(), claim, "a", 0)
	for call, err := range map[string]error{
		"Take": take, "Confirm": d.Confirm(t.Context(), claim),
		"Write": d.Write(t.Context(), claim, made("", 1)),
	} {
		if !errors.Is(err, election.ErrShared) {
			t.Errorf("%s returned %v", call, err)
		}
	}
}

func TestAClaimFromBeforeTheIssuerWasRenewedIsRefused(t *testing.T) {
	server, root := serverstest.SharedZooKeeper(t).Addr(), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	d := openDocuments(t, "zk://"+server+root, 50*time.Second)
	old := win(t, c, "orders", "a")
	if now, err := c.RenewIssuer(t.Context()); err != nil || now == old.Claim().Issuer {
		t.Fatalf("issuer %q became %q, %v", old.Claim().Issuer, now, err)
	}
	if err := d.Confirm(t.Context(), old.Claim()); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("a claim from before: %v", err)
	}
}

func TestCredentialsKeepOthersFromDocuments(t *testing.T) {
	server := serverstest.SharedZooKeeper(t).Addr()
	url := "zk://alice:s%3Acret@" + server + "/private/documents"
	term := win(t, openFor(t, url, 20*time.Second), "orders", "a")
	d := openDocuments(t, url, 20*time.Second)
	write(t, d, term, 1, "x")
	nobody, mallory := ensembletest.Connect(t, server), ensembletest.Connect(t, server)
	if err := mallory.AddAuth("digest", []byte("mallory:guess")); err != nil {
		t.Fatal(err)
	}
	for who, conn := range map[string]*zk.Conn{"nobody": nobody, "mallory": mallory} {
		for _, at := range []string{"/private/documents/docs", "/private/documents/docs/a"} {
			ensembletest.MayDoNothing(t, who, conn, at)
		}
	}
	if got := stored(t, d, "a"); got != "1:x" {
		t.Errorf("stored is %s", got)
	}
}
