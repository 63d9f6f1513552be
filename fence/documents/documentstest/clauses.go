package documentstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/internal/test/must"
)

var clauses = []contract.Clause[*stage]{
	{Name: "a document is created, replaced and deleted", Holds: lifeOfADocument},
	{Name: "data are any bytes, or none", Holds: dataAreAnyBytes},
	{Name: "a change of another version is a conflict", Holds: otherVersionIsConflict},
	{Name: "a change is made as a whole or not at all", Holds: changeIsWhole},
	{Name: "a folder has its own documents only", Holds: folderHasItsOwn},
	{Name: "the most writes are one change", Holds: mostWrites},
	{Name: "what is no change is refused", Holds: badChangesAreRefused},
	{Name: "too much data is refused, and nothing changes", Holds: tooMuchIsRefused},
	{Name: "no concurrent change is lost", Holds: noChangeIsLost},
	{Name: "a leader's change is made", Holds: leadersChangeIsMade},
	{Name: "who does not lead changes nothing", Holds: othersChangeNothing},
	{Name: "one of two terms that is over is enough to refuse", Holds: oneTermOfTwo},
	{Name: "a change of a deposed leader that arrives late changes nothing", Holds: lateChange},
	{Name: "a token of another issuer changes nothing", Holds: otherIssuerChangesNothing},
	{
		Name:  "a renewed issuer ends changes and reads under earlier claims",
		Holds: renewedIssuerEndsClaims,
	},
	{Name: "a leader reads under its term", Holds: leaderReads},
	{Name: "who does not lead reads nothing under its term", Holds: othersReadNothing},
	{Name: "names are watched", Holds: namesAreWatched},
	{Name: "a document is watched", Holds: documentIsWatched},
	{Name: "a watch ends with its context or its callback", Holds: watchEnds},
	{Name: "a closed client reads and changes nothing", Holds: closedClient},
	{Name: "a watch survives a cut", Holds: watchSurvivesACut},
	{Name: "out of reach nothing is read or changed", Holds: outOfReach},
	{Name: "a change whose reply was lost is unknown, and happens once", Holds: lostReply},
}

func lifeOfADocument(s *stage) {
	s.missing("a")
	first := s.change(s.here, documents.Create(s.at("a"), []byte("one")))[0]
	s.holds("a", "one")
	d := s.get(s.there, "a")
	if d.Version != first || first == 0 {
		s.Errorf("version %d was created, %d is read", first, d.Version)
	}
	second := s.change(s.there, documents.Replace(d, []byte("two")))[0]
	s.holds("a", "two")
	if second == first {
		s.Errorf("version %d comes twice", second)
	}
	d = s.get(s.here, "a")
	if kept := s.change(s.here, documents.Check(d))[0]; kept != 0 {
		s.Errorf("keeping returned version %d", kept)
	}
	s.change(s.here, documents.Delete(d))
	s.missing("a")
	s.change(s.here, documents.Replace(documents.Document{Path: s.at("a")}, []byte("three")))
	s.holds("a", "three")
	s.change(s.here, documents.Replace(s.get(s.here, "a"), []byte("four")),
		documents.Create(s.at("b"), nil))
	s.change(s.there, documents.DeleteAny(s.at("b")), documents.Check(s.get(s.here, "a")))
	s.missing("b")
	all, err := s.there.Get(s.ctx, documents.At(s.at("none"), s.at("a"), s.at("none")))
	if err != nil || len(all) != 3 || all[0].Exists() || !all[1].Exists() || all[2].Exists() {
		s.Errorf("%+v, %v", all, err)
	}
	if all, err := s.there.Get(s.ctx, documents.At()); err != nil || len(all) != 0 {
		s.Errorf("no path: %+v, %v", all, err)
	}
	s.change(s.here) // nothing
}

func dataAreAnyBytes(s *stage) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	for i, data := range [][]byte{every, {}, nil, {0}} {
		name := fmt.Sprint(i)
		s.change(s.here, documents.Create(s.at(name), data))
		s.holds(name, string(data))
	}
}

func otherVersionIsConflict(s *stage) {
	s.change(s.here, documents.Create(s.at("a"), []byte("one")))
	old := s.get(s.here, "a")
	s.change(s.there, documents.Replace(old, []byte("two")))
	for _, w := range []documents.Write{
		documents.Create(s.at("a"), []byte("bad")),
		documents.Replace(old, []byte("bad")),
		documents.Delete(old),
		documents.Check(old),
		documents.Delete(documents.Document{Path: s.at("none"), Version: 1}),
		documents.Check(documents.Document{Path: s.at("none"), Version: 1}),
		documents.DeleteAny(s.at("none")),
		documents.Replace(documents.Document{Path: s.at("none"), Version: 1}, []byte("bad")),
	} {
		s.fails(documents.ErrConflict, documents.Change{Writes: []documents.Write{w}})
	}
	s.holds("a", "two")
	s.missing("none")
}

func changeIsWhole(s *stage) {
	s.change(s.here, documents.Create(s.at("a"), nil), documents.Create(s.at("b"), nil))
	a, b := s.get(s.here, "a"), s.get(s.here, "b")
	s.change(s.there, documents.Replace(b, []byte("changed")))
	good := []documents.Write{
		documents.Replace(a, []byte("bad")), documents.Create(s.at("c"), nil),
	}
	for _, bad := range []documents.Write{
		documents.Check(b), documents.Delete(b), documents.Create(s.at("b"), nil),
	} {
		s.fails(documents.ErrConflict, documents.Change{Writes: append([]documents.Write{bad}, good...)})
		s.fails(documents.ErrConflict, documents.Change{Writes: append(slices.Clone(good), bad)})
	}
	s.holds("a", "")
	s.missing("c")
	b = s.get(s.here, "b")
	s.change(s.here, documents.Delete(a), documents.Check(b),
		documents.Create(s.at("moved/a"), a.Data))
	s.missing("a")
	s.holds("moved/a", "")
}

func folderHasItsOwn(s *stage) {
	names := func(folder string) []string {
		s.Helper()
		names, err := s.there.Names(s.ctx, folder)
		must.Succeed(s, err)
		return names
	}
	if got := names(s.folder); len(got) != 0 {
		s.Errorf("a folder that nobody made has %q", got)
	}
	for _, name := range []string{"b", "a", "A=1_2.3-4", "inner/deep", "inner/deeper/still"} {
		s.change(s.here, documents.Create(s.at(name), nil))
	}
	s.change(s.here, documents.Create(s.folder+"x/other", nil))
	if got, want := names(s.folder), []string{"A=1_2.3-4", "a", "b"}; !slices.Equal(got, want) {
		s.Errorf("the folder has %q, want %q", got, want)
	}
	if got := names(s.at("inner")); !slices.Equal(got, []string{"deep"}) {
		s.Errorf("the inner folder has %q", got)
	}
	for _, name := range []string{"a", "b"} {
		s.change(s.here, documents.Delete(s.get(s.here, name)))
	}
	if got := names(s.folder); !slices.Equal(got, []string{"A=1_2.3-4"}) {
		s.Errorf("after two deletions the folder has %q", got)
	}
}

func mostWrites(s *stage) {
	var create, remove []documents.Write
	for i := range documents.MaxWrites {
		create = append(create, documents.Create(s.at(fmt.Sprintf("%03d", i)), []byte("x")))
	}
	term := s.lead()
	versions, err := s.here.Change(s.ctx,
		documents.Change{While: []fence.Claim{term.Claim()}, Writes: create})
	if err != nil || len(versions) != documents.MaxWrites {
		s.Fatal(versions, err)
	}
	for i, w := range create {
		remove = append(remove, documents.Delete(documents.Document{Path: w.Path, Version: versions[i]}))
	}
	s.change(s.there, remove...)
	if names, err := s.here.Names(s.ctx, s.folder); err != nil || len(names) != 0 {
		s.Errorf("%q, %v", names, err)
	}
}

func badChangesAreRefused(s *stage) {
	for _, bad := range []string{
		"", "/", "alone", "a//b", "a/", "/a", "a/../b", "./a", "a/.", "a/b c", "a/ü", "a/b\x00", "a/\n",
		"a/" + strings.Repeat("x", 129), strings.Repeat("x/", 300) + "x",
	} {
		s.fails(documents.ErrBadPath,
			documents.Change{Writes: []documents.Write{documents.Create(bad, nil)}})
		if _, err := s.here.Get(s.ctx, documents.At(bad)); !errors.Is(err, documents.ErrBadPath) {
			s.Errorf("get %.20q: %v", bad, err)
		}
		if bad == "alone" {
			continue
		}
		if _, err := s.here.Names(s.ctx, bad); !errors.Is(err, documents.ErrBadPath) {
			s.Errorf("names of %.20q: %v", bad, err)
		}
	}
	var many []documents.Write
	for i := range documents.MaxWrites + 1 {
		many = append(many, documents.Create(s.at(fmt.Sprint(i)), nil))
	}
	for _, bad := range [][]documents.Write{
		many,
		{documents.Create(s.at("a"), nil), documents.Create(s.at("a"), nil)},
		{documents.Delete(documents.Document{Path: s.at("a")})},
		{documents.Check(documents.Document{Path: s.at("a")})},
		{{Path: s.at("a")}},
		{{Path: s.at("a"), Kind: documents.KindPut, Version: -1}},
	} {
		s.fails(documents.ErrBadChange, documents.Change{Writes: bad})
	}
	s.fails(fence.ErrBadResource, documents.Change{While: []fence.Claim{{Resource: "Bad"}}})
	s.missing("a")
}

func tooMuchIsRefused(s *stage) {
	most := bytes.Repeat([]byte("x"), s.f.Limit)
	s.change(s.here, documents.Create(s.at("a"), most))
	if d := s.get(s.there, "a"); !bytes.Equal(d.Data, most) {
		s.Errorf("%d bytes were written and %d are read", len(most), len(d.Data))
	}
	s.fails(documents.ErrTooLarge, documents.Change{Writes: []documents.Write{
		documents.Create(s.at("small"), nil), documents.Create(s.at("b"), make([]byte, 20<<20)),
	}})
	s.missing("small")
	s.missing("b")
}

func noChangeIsLost(s *stage) {
	const each, workers = 20, 4
	s.change(s.here, documents.Create(s.at("counter"), []byte("0")))
	var all sync.WaitGroup
	for i := range workers {
		store := []documents.Store{s.here, s.there}[i%2]
		all.Go(func() {
			for range each {
				s.increment(store)
			}
		})
	}
	all.Wait()
	s.holds("counter", fmt.Sprint(each*workers))
}

// increment counts one up.
func (s *stage) increment(in documents.Store) {
	for s.ctx.Err() == nil {
		d := s.get(in, "counter")
		n, err := strconv.Atoi(string(d.Data))
		if err != nil {
			s.Error(err)
			return
		}
		_, err = in.Change(s.ctx, documents.Change{Writes: []documents.Write{
			documents.Replace(d, []byte(fmt.Sprint(n+1))),
		}})
		if err == nil {
			return
		}
		if !errors.Is(err, documents.ErrConflict) {
			s.Error(err)
			return
		}
	}
	s.Error("no increment in time")
}

func leadersChangeIsMade(s *stage) {
	a, b := s.lead(), s.lead()
	for i, store := range []documents.Store{s.here, s.there, s.here} { // any client may carry a claim
		c := documents.Change{
			While:  []fence.Claim{a.Claim(), b.Claim()},
			Writes: []documents.Write{documents.Create(s.at(fmt.Sprint(i)), nil)},
		}
		if _, err := store.Change(s.ctx, c); err != nil {
			s.Error(err)
		}
		s.holds(fmt.Sprint(i), "")
	}
	if _, err := s.here.Change(s.ctx, documents.Change{While: []fence.Claim{a.Claim()}}); err != nil {
		s.Errorf("a change without writes: %v", err)
	}
}

// under is a change of a leader.
func (s *stage) under(claims ...fence.Claim) documents.Change {
	return documents.Change{
		While: claims, Writes: []documents.Write{documents.Create(s.at("bad"), nil)},
	}
}

func othersChangeNothing(s *stage) {
	r := s.resource()
	earlier := s.win(r, "earlier")
	must.Succeed(s, earlier.Resign(s.ctx))
	claim := s.win(r, "leader").Claim()
	_, err := s.here.Change(s.ctx, documents.Change{While: []fence.Claim{claim}})
	must.Succeed(s, err)
	ctx, cancel := context.WithCancel(s.ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = s.leader.Campaign(ctx, r, "waiting") })
	defer waiting.Wait()
	defer cancel()
	next := claim
	s.eventually("a second candidate", func() bool {
		queue, err := s.leader.Candidates(s.ctx, r)
		if err == nil && len(queue) == 2 {
			next.Token, next.Candidate = queue[1].Token, queue[1].ID
		}
		return err == nil && len(queue) == 2
	})
	future := claim
	future.Token = claim.Token + 1<<40
	s.fails(fence.ErrNotLeader, s.under(next))
	s.fails(fence.ErrNotLeader, s.under(future))
	s.fails(fence.ErrStale, s.under(earlier.Claim()))
	s.missing("bad")

	if gone, err := s.leader.Depose(s.ctx, r, claim.Token); !gone || err != nil {
		s.Fatal(gone, err)
	}
	for _, store := range []documents.Store{s.here, s.there} { // one has seen it lead, one has not
		if _, err := store.Change(s.ctx, s.under(claim)); !errors.Is(err, fence.ErrStale) {
			s.Errorf("a deposed leader's change: %v", err)
		}
	}
	s.missing("bad")
}

// reads reads the document a under terms.
func (s *stage) reads(in documents.Store, claims ...fence.Claim) ([]documents.Document, error) {
	return in.Get(s.ctx, documents.Read{While: claims, Paths: []string{s.at("a"), s.at("none")}})
}

func leaderReads(s *stage) {
	a, b := s.lead(), s.lead()
	s.change(s.here, documents.Create(s.at("a"), []byte("1")))
	for _, store := range []documents.Store{s.here, s.there, s.here} { // any client may carry a claim
		all, err := s.reads(store, a.Claim(), b.Claim())
		if err != nil || len(all) != 2 || string(all[0].Data) != "1" || all[1].Exists() {
			s.Errorf("a leader reads %+v, %v", all, err)
		}
	}
	if all, err := s.here.Get(s.ctx, documents.Read{While: []fence.Claim{a.Claim()}}); err != nil ||
		len(all) != 0 {
		s.Errorf("a read without paths: %+v, %v", all, err)
	}
}

func othersReadNothing(s *stage) {
	s.change(s.here, documents.Create(s.at("a"), []byte("1")))
	r := s.resource()
	earlier := s.win(r, "earlier")
	must.Succeed(s, earlier.Resign(s.ctx))
	leader := s.win(r, "leader").Claim()
	future, foreign := leader, leader
	future.Token, future.Candidate = leader.Token+1<<40, ""
	foreign.Issuer += "x"
	refused := func(want error, claims ...fence.Claim) {
		s.Helper()
		for _, store := range []documents.Store{s.here, s.there} { // one has seen it lead, one has not
			if all, err := s.reads(store, claims...); !errors.Is(err, want) || all != nil {
				s.Errorf("a read under %v: %+v, %v; want %v", claims, all, err, want)
			}
			_, err := store.Get(s.ctx, documents.Read{While: claims})
			if !errors.Is(err, want) {
				s.Errorf("a read without paths under %v: %v; want %v", claims, err, want)
			}
		}
	}
	refused(fence.ErrStale, earlier.Claim())
	refused(fence.ErrStale, leader, earlier.Claim())
	refused(fence.ErrNotLeader, future)
	refused(fence.ErrOtherIssuer, foreign)
	if gone, err := s.leader.Depose(s.ctx, r, leader.Token); !gone || err != nil {
		s.Fatal(gone, err)
	}
	refused(fence.ErrStale, leader)
}

func oneTermOfTwo(s *stage) {
	a, b := s.lead(), s.lead()
	must.Succeed(s, b.Resign(s.ctx))
	s.fails(fence.ErrStale, s.under(a.Claim(), b.Claim()))
	s.fails(fence.ErrStale, s.under(b.Claim(), a.Claim()))
	s.missing("bad")
}

// lateChange is about a change that is sent while its leader leads, and arrives when another one
// does.
func lateChange(s *stage) {
	if s.f.Hold == nil {
		s.Skip("the fixture has no Hold")
	}
	r := s.resource()
	claim := s.win(r, "first").Claim()
	slow := open(s, s.f)
	docs := slow.Documents()
	if _, err := docs.Change(s.ctx, documents.Change{
		While: []fence.Claim{claim}, Writes: []documents.Write{documents.Create(s.at("a"), []byte("1"))},
	}); err != nil {
		s.Fatal(err)
	}
	a := s.get(docs, "a")
	held, release := s.f.Hold(s, slow)
	late := make(chan error, 1)
	go func() {
		_, err := docs.Change(s.ctx,
			documents.Change{While: []fence.Claim{claim}, Writes: []documents.Write{
				documents.Replace(a, []byte("bad")), documents.Create(s.at("bad"), nil),
			}})
		late <- err
	}()
	held()
	if gone, err := s.leader.Depose(s.ctx, r, claim.Token); !gone || err != nil {
		s.Error(gone, err)
	}
	next := s.win(r, "next").Claim()
	release() // the versions would still fit
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		s.Errorf("the late change returned %v", err)
	}
	s.holds("a", "1")
	s.missing("bad")
	if _, err := s.there.Change(s.ctx, documents.Change{
		While: []fence.Claim{next}, Writes: []documents.Write{documents.Replace(a, []byte("2"))},
	}); err != nil {
		s.Errorf("the next leader's change: %v", err)
	}
}

func otherIssuerChangesNothing(s *stage) {
	claim := s.lead().Claim()
	claim.Issuer += "x"
	s.fails(fence.ErrOtherIssuer, s.under(claim))
	s.missing("bad")
}

// renewedIssuerEndsClaims uses each claim before the issuer is renewed, so that a store may
// remember it.
func renewedIssuerEndsClaims(s *stage) {
	if s.f.Alone == nil {
		s.Skip("the fixture has no Alone")
	}
	c, operator := s.f.Alone(s)
	closed(s, c)
	closed(s, operator)
	s.leader, s.here, s.there = c, c.Documents(), operator.Documents()
	s.change(s.here, documents.Create(s.at("a"), []byte("1")))
	for _, renews := range []documents.Coordinator{operator, c} {
		claim := s.lead().Claim()
		_, err := s.here.Change(s.ctx, documents.Change{While: []fence.Claim{claim}})
		must.Succeed(s, err)
		_, err = s.reads(s.here, claim)
		must.Succeed(s, err)
		_, err = renews.RenewIssuer(s.ctx)
		must.Succeed(s, err)
		if all, err := s.reads(s.here, claim); !errors.Is(err, fence.ErrOtherIssuer) || all != nil {
			s.Errorf("a read under the earlier issuer: %+v, %v", all, err)
		}
		claim = s.lead().Claim()
		if _, err := s.here.Change(s.ctx, documents.Change{While: []fence.Claim{claim}}); err != nil {
			s.Errorf("a change under the renewed issuer: %v", err)
		}
		_, err = renews.RenewIssuer(s.ctx)
		must.Succeed(s, err)
		s.fails(fence.ErrOtherIssuer, s.under(claim))
		s.missing("bad")
	}
}

// eventually waits until something holds.
func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(s.f.patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not in time: %s", what)
		}
	}
}
