package documentstest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// MemoryLimit is how many bytes of data a change in memory may have.
const MemoryLimit = 1 << 20

// Memory keeps documents in memory. Its clients are Memories with the same contents. It works
// inside a testing/synctest bubble.
type Memory struct {
	*contents
	closed context.Context
	leads  func(fence.Claim) error
	faults faults
}

type contents struct {
	mu      sync.Mutex
	all     map[string]documents.Document
	counter int64
	changed chan struct{} // closed at the next change
}

// NewMemory makes an empty store. leads says whether a claim leads, or refuses it. Calls fail with
// the cause of closed once that has ended.
func NewMemory(closed context.Context, leads func(fence.Claim) error) *Memory {
	return &Memory{closed: closed, leads: leads, contents: &contents{
		all: map[string]documents.Document{}, changed: make(chan struct{}),
	}}
}

// Client returns another client of the same documents.
func (m *Memory) Client(closed context.Context, leads func(fence.Claim) error) *Memory {
	return &Memory{closed: closed, leads: leads, contents: m.contents}
}

// over returns why no call works any more, or nil.
func (m *Memory) over(ctx context.Context) error {
	if m.closed.Err() != nil {
		return context.Cause(m.closed)
	}
	return context.Cause(ctx)
}

// Get implements documents.Store.
func (m *Memory) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	for _, claim := range r.While {
		if err := m.leads(claim); err != nil {
			return nil, err
		}
	}
	var all []documents.Document
	for _, p := range r.Paths {
		all = append(all, m.read(p))
	}
	return all, nil
}

// read reads a document. The caller holds mu.
func (m *Memory) read(p string) documents.Document {
	d := m.all[p]
	return documents.Document{Path: p, Data: slices.Clone(d.Data), Version: d.Version}
}

// Names implements documents.Store.
func (m *Memory) Names(ctx context.Context, folder string) ([]string, error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	return m.list(folder), nil
}

// list lists a folder. The caller holds mu.
func (m *Memory) list(folder string) (names []string) {
	for p := range m.all {
		if name, inside := strings.CutPrefix(p, folder+"/"); inside && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Change implements documents.Store.
func (m *Memory) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	m.travel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	bytes := 0
	for _, w := range c.Writes {
		if bytes += len(w.Data); bytes > MemoryLimit {
			return nil,
				fmt.Errorf("%w: the change has more than %d bytes", documents.ErrTooLarge, MemoryLimit)
		}
	}
	for _, claim := range c.While {
		if err := m.leads(claim); err != nil {
			return nil, err
		}
	}
	for _, w := range c.Writes {
		have := m.all[w.Path].Version
		if have != w.Version && (have == 0 || w.Version != documents.AnyVersion) {
			return nil, fmt.Errorf("%w: %s has version %d, not %d",
				documents.ErrConflict, w.Path, have, w.Version)
		}
	}
	return m.reply(m.make(c))
}

// make makes a change whose conditions hold. The caller holds mu.
func (m *Memory) make(c documents.Change) []int64 {
	versions := make([]int64, len(c.Writes))
	for i, w := range c.Writes {
		switch w.Kind {
		case documents.KindPut:
			m.counter++
			versions[i] = m.counter
			m.all[w.Path] = documents.Document{Data: bytes.Clone(w.Data), Version: m.counter}
		case documents.KindDelete:
			delete(m.all, w.Path)
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return versions
}

// WatchNames implements documents.Store.
func (m *Memory) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	if err := documents.CheckFolder(folder); err != nil {
		return err
	}
	var last []string
	first := true
	return m.watch(ctx, func() (tell func() error) {
		names := m.list(folder)
		if !first && slices.Equal(names, last) {
			return nil
		}
		first, last = false, names
		return func() error { return each(slices.Clone(names)) }
	})
}

// Watch implements documents.Store.
func (m *Memory) Watch(
	ctx context.Context, at string, each func(documents.Document) error,
) error {
	if err := documents.CheckPath(at); err != nil {
		return err
	}
	last := int64(-1)
	return m.watch(ctx, func() (tell func() error) {
		d := m.read(at)
		if d.Version == last {
			return nil
		}
		last = d.Version
		return func() error { return each(d) }
	})
}

// watch calls look now and after each change, and what it returns, until that returns an error. It
// calls look with mu held.
func (m *Memory) watch(ctx context.Context, look func() (tell func() error)) error {
	for {
		if err := m.over(ctx); err != nil {
			return err
		}
		m.mu.Lock()
		changed := m.changed
		var tell func() error
		if !m.faults.cut {
			tell = look()
		}
		m.mu.Unlock()
		if tell != nil {
			if err := tell(); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-m.closed.Done():
		}
	}
}
