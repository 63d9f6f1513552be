package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// craftedTwins makes two candidates in one transaction, and returns their names and their token.
func craftedTwins(t *testing.T, admin *zk.Conn, dir string) (names []string, token fence.Token) {
	t.Helper()
	var both []any
	for _, holder := range []string{"one", "other"} {
		names = append(names, candidatePrefix+string(newGUID())+"-0000000000")
		both = append(both, &zk.CreateRequest{
			Path: path.Join(dir, names[len(names)-1]), Data: encode(candidateData{holder}),
			Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral,
		})
	}
	if _, err := admin.Multi(both...); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		_, stat, err := admin.Get(path.Join(dir, name))
		if err != nil || token != 0 && token != fence.Token(stat.Czxid) {
			t.Fatalf("the two have the tokens %v and %v: nothing is shown; %v", token, stat.Czxid, err)
		}
		token = fence.Token(stat.Czxid)
	}
	return names, token
}

func TestNeitherOfTwoCandidatesWithOneTokenLeads(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), freshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	admin := plainConn(t, ensemble)
	old := win(t, c, "orders", "a")
	_, token := craftedTwins(t, admin, c.electionPath("orders"))
	wantNamed(t, c, []fence.Resource{"orders"}, "a") // they wait
	queue, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 3 || queue[0].Holder != "a" {
		t.Errorf("while they wait the queue is %+v, %v", queue, err)
	}
	if err := old.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}

	claim := fence.Claim{Resource: "orders", Token: token, Issuer: old.Claim().Issuer}
	d := c.Documents("docs")
	_, _, leaders := c.Leaders(t.Context(), "orders")
	_, candidates := c.Candidates(t.Context(), "orders")
	watch := c.Watch(t.Context(), "orders", func(queue []fence.Candidate) error {
		return fmt.Errorf("seen is %+v", queue)
	})
	_, _, take := d.Take(t.Context(), claim, "a", 0)
	for call, err := range map[string]error{
		"Leaders": leaders, "Candidates": candidates, "Watch": watch, "Take": take,
		"Confirm": d.Confirm(t.Context(), claim), "Write": d.Write(t.Context(), claim, Document{"a", nil, 1}),
	} {
		if !errors.Is(err, errShared) {
			t.Errorf("%s returned %v", call, err)
		}
	}

	if found, err := c.Depose(t.Context(), "orders", token); !found || err != nil {
		t.Errorf("deposing both: %v, %v", found, err)
	}
	wantNamed(t, c, []fence.Resource{"orders"}, "")
	if next := win(t, c, "orders", "b"); next.Token() <= token {
		t.Errorf("token %v follows %v", next.Token(), token)
	}
}

// TestAnEnrolmentThatSharesItsTokenIsRefused, whatever it is that does that on the way.
func TestAnEnrolmentThatSharesItsTokenIsRefused(t *testing.T) {
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), freshRoot()
	r := newRelay(t, ensemble)
	c := openFor(t, "zk://"+r.addr()+root, 50*time.Second)
	admin := plainConn(t, ensemble)
	if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil { // makes the election
		t.Fatal(err)
	}
	r.set(func() { r.twin = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	term, err := c.Campaign(ctx, "orders", "b")
	if !errors.Is(err, errShared) {
		t.Fatalf("Campaign returned %v, %v", term, err)
	}
	names, _, err := admin.Children(c.electionPath("orders"))
	if err != nil || len(names) != 0 {
		t.Errorf("left behind is %q, %v", names, err)
	}
	win(t, c, "orders", "b")
}

const createOperation, multiOperation = 1, 14

// twinned makes of an enrolment a transaction that creates a second candidate, with another GUID.
func (r *relay) twinned(frame []byte, twins chan uint32) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := bytes.Index(frame, []byte("/"+candidatePrefix))
	if !r.twin || at < 0 || binary.BigEndian.Uint32(frame[8:]) != createOperation {
		return frame
	}
	r.twin = false
	twins <- binary.BigEndian.Uint32(frame[4:])
	create := frame[12:]
	twin := slices.Clone(create)
	copy(twin[at-12+len("/"+candidatePrefix):], newGUID())
	body := binary.BigEndian.AppendUint32(slices.Clone(frame[4:8]), multiOperation)
	for _, one := range [][]byte{create, twin} {
		body = append(multiHeader(body, createOperation, 0), one...)
	}
	return withLength(multiHeader(body, 0xffffffff, 1))
}

// multiHeader is what stands before each operation of a transaction, and after the last.
func multiHeader(body []byte, operation uint32, done byte) []byte {
	body = append(binary.BigEndian.AppendUint32(body, operation), done)
	return binary.BigEndian.AppendUint32(body, 0xffffffff)
}

// untwinned makes the reply to such a transaction one to the create that was asked for.
func untwinned(frame []byte, twins chan uint32) []byte {
	const header, first = 4 + 16, 4 + 16 + 9
	xid := binary.BigEndian.Uint32(frame[4:])
	select {
	case twin := <-twins:
		if twin != xid {
			twins <- twin
			return frame
		}
	default:
		return frame
	}
	size := int(binary.BigEndian.Uint32(frame[first:]))
	return withLength(append(slices.Clone(frame[4:header]), frame[first:first+4+size]...))
}
