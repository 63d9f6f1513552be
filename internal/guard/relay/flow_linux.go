package relay

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// inLoop is what a flow between two sockets of a loop has in addition. At any time at most one
// goroutine advances the flow: that of the loop, or another one while the flow's peer is slow.
type inLoop struct {
	src   adopted
	state atomic.Int32 // idle, running, again or over
	turn  *turn        // the loop's, while the loop's goroutine advances the flow; nil otherwise
	done  func()       // called after the end of the flow

	cuts  uint64                     // of the source's read deadline, at the start of the flow
	timer atomic.Pointer[time.Timer] // of the latest deadline
}

// The states of a flow. The package documentation shows how they follow each other.
const (
	idle    = iota // waits for an event
	running        // a goroutine advances it
	again          // the same, and an event has come meanwhile
	over           // has ended
)

// start starts two flows: in a loop if one loop watches both connections, otherwise in goroutines.
func start(client, server net.Conn, upward, downward *flow, toClient *patient) (wait func()) {
	c, s, ok := inOneLoop(client, server)
	if !ok {
		return inGoroutines(client, server, upward, downward, toClient)
	}
	connect(c, s, upward, downward, toClient)
	var both sync.WaitGroup
	both.Add(2)
	upward.attach(both.Done)
	downward.attach(both.Done)
	// A relay does not start in a loop, so the first look at each source has its own goroutine.
	both.Go(func() { downward.advance(nil) })
	both.Go(func() { upward.advance(nil) })
	return func() {
		both.Wait()
		disconnect(c, s)
	}
}

// inOneLoop reports whether one loop watches both connections.
func inOneLoop(client, server net.Conn) (c, s adopted, ok bool) {
	c, ok = client.(adopted)
	if !ok {
		return nil, nil, false
	}
	s, ok = server.(adopted)
	return c, s, ok && c.below().loop == s.below().loop
}

// connect has each flow read from one connection and write to the other one. What goes to the
// client passes the patient. With TLS that is below the encryption (see patiently).
func connect(client, server adopted, upward, downward *flow, toClient *patient) {
	upward.src, downward.src = client, server
	upward.out.w = &outlet{server, upward}
	downstream := &outlet{client, downward}
	if e, ok := client.(*encrypted); ok {
		downward.out.w, toClient.conn = downstream, wire{e}
		e.setPatience(toClient)
		return
	}
	downward.out.w, toClient.conn = toClient, downstream
}

// disconnect undoes what connect and attach have changed on the connections.
func disconnect(client, server adopted) {
	client.below().in.Store(nil)
	server.below().in.Store(nil)
	if e, ok := client.(*encrypted); ok {
		e.setPatience(nil)
	}
}

// attach has the events of the source go to the flow. The caller must advance it.
func (f *flow) attach(done func()) {
	f.done = done
	f.state.Store(running)
	f.cuts = f.src.below().readBy.cuts.Load()
	f.src.below().in.Store(f)
}

// outlet is what a flow writes to.
type outlet struct {
	adopted
	flow *flow
}

func (o *outlet) Write(b []byte) (int, error) { return o.write(b, o.flow) }

// CloseWrite half-closes the connection.
func (o *outlet) CloseWrite() error { return o.closeWrite(o.flow) }

func (o *outlet) waits() { o.flow.yieldLoop() }

// yieldLoop gives the loop to another goroutine. It is called before the flow waits for anything
// but an event. f may be nil.
func (f *flow) yieldLoop() {
	if f != nil && f.turn != nil {
		f.turn.handOver()
		f.turn = nil
	}
}

// wake advances the flow, or tells the goroutine that does so to look once more.
func (f *flow) wake(t *turn) {
	for {
		switch f.state.Load() {
		case idle:
			if f.state.CompareAndSwap(idle, running) {
				f.advance(t)
				return
			}
		case running:
			if f.state.CompareAndSwap(running, again) {
				return
			}
		case again, over:
			return
		}
	}
}

// wakeAt wakes the flow at a deadline, in a new goroutine, because the caller may be in a loop or
// hold a lock.
func (f *flow) wakeAt(deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	left := time.Until(deadline)
	timer := time.AfterFunc(max(0, left), func() { f.wake(nil) })
	if left <= 0 {
		return // a deadline in the past ends the flow even if a later one is set next
	}
	if before := f.timer.Swap(timer); before != nil {
		before.Stop()
	}
	if f.state.Load() == over {
		timer.Stop() // finish may not have seen it
	}
}

// advance relays what has come, in the goroutine that has set the state to running. Afterwards the
// flow waits for an event, waits for its next turn, or has ended.
func (f *flow) advance(t *turn) {
	f.turn = t
	for {
		end, ended, more := f.drain()
		if ended {
			f.finish(end)
			return
		}
		if more {
			f.turn.postpone(f)
			return
		}
		if f.state.CompareAndSwap(running, idle) {
			return
		}
		f.state.Store(running) // it was again: an event came after the last read
	}
}

// turnBytes is how many bytes a flow reads in one turn. Each read counts as at least readBytes: a
// record of TLS may have a single byte.
const (
	turnBytes = 256 << 10
	readBytes = 4 << 10
)

// drain reads and walks until the source is empty or the flow ends. more means that the source may
// have more, and that it is the turn of other flows.
func (f *flow) drain() (end End, ended, more bool) {
	defer f.contain(&end, &ended)
	if end, ended = f.begin(); ended {
		return end, true, false
	}
	for total := 0; total < turnBytes || f.turn == nil; {
		n, dry, err := f.read()
		if n > 0 {
			if end, ended = f.pass(n); ended {
				return end, true, false
			}
		}
		if err != nil {
			return f.endOf(err), true, false
		}
		if dry {
			f.bytes.giveBack()
			return End{}, false, false
		}
		total += max(n, readBytes)
	}
	return End{}, false, true
}

// read reads once, without waiting. dry means that the next event tells when there is more.
func (f *flow) read() (n int, dry bool, err error) {
	if s := f.src.below(); s.readBy.passed(f.cuts) {
		return 0, false, s.failed("read", os.ErrDeadlineExceeded)
	}
	return f.src.look(f.bytes.borrow(), f)
}

// finish ends the flow.
func (f *flow) finish(e End) {
	f.state.Store(over)
	if timer := f.timer.Load(); timer != nil {
		timer.Stop() // or it would keep the session in memory
	}
	f.bytes.held = 0
	f.bytes.giveBack()
	f.ended(e)
	f.done()
}
