package documentstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
)

// seen is what a watch has shown last.
type seen struct {
	s     *stage
	shown chan string
	now   string
}

// watch runs a watch until the end of the test.
func (s *stage) watch(run func(ctx context.Context, tell func(string) error) error) *seen {
	w := &seen{s: s, shown: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		err := run(ctx, func(what string) error { w.shown <- what; return nil })
		if ctx.Err() == nil {
			s.Errorf("the watch ended: %v", err)
		}
	})
	s.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (s *stage) watchNames() *seen {
	return s.watch(func(ctx context.Context, tell func(string) error) error {
		return s.there.WatchNames(ctx, s.folder, func(names []string) error {
			if !slices.IsSorted(names) {
				s.Errorf("%q are not sorted", names)
			}
			return tell(strings.Join(names, " "))
		})
	})
}

func (s *stage) watchDocument(name string) *seen {
	return s.watch(func(ctx context.Context, tell func(string) error) error {
		return s.there.Watch(ctx, s.at(name), func(d documents.Document) error {
			if d.Path != s.at(name) {
				s.Errorf("the document of %s has path %s", s.at(name), d.Path)
			}
			if !d.Exists() {
				return tell("none")
			}
			return tell("data " + string(d.Data))
		})
	})
}

// shows waits until the watch has shown something.
func (w *seen) shows(want string) {
	w.s.Helper()
	limit := time.After(w.s.f.patience)
	for w.now != want {
		select {
		case w.now = <-w.shown:
		case <-limit:
			w.s.Fatalf("the watch shows %q, not %q", w.now, want)
		}
	}
}

func namesAreWatched(s *stage) {
	w := s.watchNames()
	s.eventually("the first notice", func() bool { return len(w.shown) > 0 })
	w.shows("") // an empty folder is shown, too
	s.change(s.here, documents.Create(s.at("b"), nil))
	w.shows("b")
	s.change(s.here, documents.Create(s.at("a"), nil), documents.Create(s.at("inner/c"), nil))
	w.shows("a b")
	s.change(s.here, documents.Delete(s.get(s.here, "b")), documents.Create(s.at("d"), nil))
	w.shows("a d")
	for i := range 20 {
		s.change(s.here, documents.Create(s.at(fmt.Sprint("x", i)), nil))
		s.change(s.here, documents.Delete(s.get(s.here, fmt.Sprint("x", i))))
	}
	s.change(s.here, documents.Delete(s.get(s.here, "a")), documents.Delete(s.get(s.here, "d")))
	w.shows("")
}

func documentIsWatched(s *stage) {
	w := s.watchDocument("a")
	w.shows("none")
	s.change(s.here, documents.Create(s.at("a"), []byte("1")))
	w.shows("data 1")
	for i := range 20 {
		s.change(s.here, documents.Replace(s.get(s.here, "a"), []byte(fmt.Sprint(i))))
	}
	w.shows("data 19")
	s.change(s.here, documents.Create(s.at("b"), []byte("other")))
	s.change(s.here, documents.Delete(s.get(s.here, "a")))
	w.shows("none")
	s.change(s.here, documents.Create(s.at("a"), nil))
	w.shows("data ")
}

func watchEnds(s *stage) {
	enough := errors.New("enough")
	err := s.here.WatchNames(s.ctx, s.folder, func([]string) error { return enough })
	if !errors.Is(err, enough) {
		s.Errorf("WatchNames returned %v", err)
	}
	err = s.here.Watch(s.ctx, s.at("a"), func(documents.Document) error { return enough })
	if !errors.Is(err, enough) {
		s.Errorf("Watch returned %v", err)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	err = s.here.WatchNames(ctx, s.folder, func([]string) error { cancel(enough); return nil })
	if !errors.Is(err, enough) {
		s.Errorf("WatchNames returned %v", err)
	}
	err = s.here.Watch(ctx, s.at("a"), func(documents.Document) error { return nil })
	if !errors.Is(err, enough) {
		s.Errorf("Watch returned %v", err)
	}
	err = s.here.WatchNames(s.ctx, "a//b", func([]string) error { return nil })
	if !errors.Is(err, documents.ErrBadPath) {
		s.Errorf("WatchNames returned %v", err)
	}
	err = s.here.Watch(s.ctx, "alone", func(documents.Document) error { return nil })
	if !errors.Is(err, documents.ErrBadPath) {
		s.Errorf("Watch returned %v", err)
	}
}

func closedClient(s *stage) {
	c := s.f.Open(s)
	docs := c.Documents()
	ended := make(chan error, 1)
	shown := make(chan struct{}, 1)
	go func() {
		ended <- docs.WatchNames(s.ctx, s.folder, func([]string) error {
			shown <- struct{}{}
			return nil
		})
	}()
	<-shown
	if err := c.Close(); err != nil {
		s.Error(err)
	}
	if err := <-ended; err == nil {
		s.Error("a closed client's watch ended without an error")
	}
	if _, err := docs.Get(s.ctx, documents.At(s.at("a"))); err == nil {
		s.Error("a closed client reads")
	}
	if _, err := docs.Names(s.ctx, s.folder); err == nil {
		s.Error("a closed client lists")
	}
	c2 := documents.Change{Writes: []documents.Write{documents.Create(s.at("a"), nil)}}
	if _, err := docs.Change(s.ctx, c2); err == nil {
		s.Error("a closed client changes")
	}
	s.missing("a")
}

func watchSurvivesACut(s *stage) {
	watcher := s.cuttable()
	s.there = watcher.Documents()
	names, document := s.watchNames(), s.watchDocument("a")
	names.shows("")
	document.shows("none")
	s.f.Cut(s, watcher)
	s.change(s.here, documents.Create(s.at("a"), []byte("1")))
	s.f.Heal(s, watcher)
	names.shows("a")
	document.shows("data 1")
	s.change(s.here, documents.Delete(s.get(s.here, "a")))
	names.shows("")
	document.shows("none")
}

// cuttable opens one more client, or skips the test if it cannot be cut off.
func (s *stage) cuttable() documents.Coordinator {
	if s.f.Cut == nil || s.f.Heal == nil {
		s.Skip("the fixture has no Cut and Heal")
	}
	return open(s, s.f)
}

func outOfReach(s *stage) {
	c := s.cuttable()
	docs := c.Documents()
	if _, err := docs.Names(s.ctx, s.folder); err != nil {
		s.Fatal(err)
	}
	s.f.Cut(s, c)
	defer s.f.Heal(s, c)
	create := documents.Change{Writes: []documents.Write{documents.Create(s.at("a"), nil)}}
	unknown := func(err error) bool { // the request may have been sent
		return errors.Is(err, documents.ErrUnknown)
	}
	_, names := docs.Names(s.ctx, s.folder)
	_, get := docs.Get(s.ctx, documents.At(s.at("a")))
	_, change := docs.Change(s.ctx, create)
	if !errors.Is(names, documents.ErrUnreachable) || !errors.Is(get, documents.ErrUnreachable) {
		s.Errorf("out of reach: names %v, get %v", names, get)
	}
	if !errors.Is(change, documents.ErrUnreachable) && !unknown(change) {
		s.Errorf("out of reach: change %v", change)
	}
}

func lostReply(s *stage) {
	if s.f.LoseReply == nil {
		s.Skip("the fixture has no LoseReply")
	}
	c := open(s, s.f)
	docs := c.Documents()
	s.change(docs, documents.Create(s.at("before"), nil))
	s.f.LoseReply(s, c)
	_, err := docs.Change(s.ctx, documents.Change{Writes: []documents.Write{
		documents.Create(s.at("a"), []byte("1")),
	}})
	if !errors.Is(err, documents.ErrUnknown) {
		s.Errorf("a change whose reply was lost returned %v", err)
	}
	s.eventually("the change", func() bool { return s.get(s.here, "a").Exists() })
	s.holds("a", "1")
}
