package relay

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// inLoop is what a flow between two sockets of a loop has in addition. At any time at most one
// goroutine runs it: that of the loop, or one of its own while the peer that it writes to is slow.
type inLoop struct {
	src   adopted
	cuts  uint64                     // of the source's deadline when the flow began
	state atomic.Int32               // idle, running, …
	timer atomic.Pointer[time.Timer] // of the deadline that was set last
	left  func()                     // called when nothing more is done for it
	shift *turn                      // of the goroutine that runs it; nil if that is not the loop's
}

const (
	idle    = iota // waits for an event
	running        // a goroutine runs it
	again          // so does one, which has to look once more before it stops
	over           // it has ended
)

// turnBytes is how many bytes a flow reads before it is the turn of other flows. Each read counts
// as at least readBytes: a record of TLS may have a single byte.
const (
	turnBytes = 256 << 10
	readBytes = 4 << 10
)

// start starts two flows.
func start(client, server net.Conn, upward, downward *flow, toClient *patient) (wait func()) {
	c, ok := client.(adopted)
	s, ok2 := server.(adopted)
	if !ok || !ok2 || c.below().loop != s.below().loop {
		return inGoroutines(client, server, upward, downward, toClient)
	}
	upward.src, downward.src = c, s
	upward.out.w = &outlet{s, upward}
	toClient.conn = &outlet{c, downward}
	downward.out.w = toClient
	e, _ := client.(*encrypted)
	if e != nil {
		toClient.conn, downward.out.w = wire{e}, toClient.conn
		e.setPatience(toClient)
	}
	var both sync.WaitGroup
	for _, f := range []*flow{upward, downward} {
		both.Add(1)
		f.left = both.Done
		f.state.Store(running)
		f.cuts = f.src.below().readBy.cuts.Load()
		f.src.below().in.Store(f)
	}
	both.Go(func() { downward.run(nil) }) // not in the loop, because the peer may be slow to read
	both.Go(func() { upward.run(nil) })
	return func() {
		both.Wait()
		c.below().in.Store(nil)
		s.below().in.Store(nil)
		if e != nil {
			e.setPatience(nil)
		}
	}
}

// outlet is where a flow of a loop writes to.
type outlet struct {
	adopted
	flow *flow
}

func (o *outlet) Write(b []byte) (int, error) { return o.write(b, o.flow) }

func (o *outlet) waits() { o.flow.leaveLoop() }

// CloseWrite half-closes the connection.
func (o *outlet) CloseWrite() error { return o.closeWrite(o.flow) }

// leaveLoop is called before the flow waits for anything but an event. It may be nil.
func (f *flow) leaveLoop() {
	if f != nil && f.shift != nil {
		f.shift.handOver()
		f.shift = nil
	}
}

// wake runs the flow, or tells the goroutine that runs it to look once more.
func (f *flow) wake(t *turn) {
	for {
		switch f.state.Load() {
		case idle:
			if f.state.CompareAndSwap(idle, running) {
				f.run(t)
				return
			}
		case running:
			if f.state.CompareAndSwap(running, again) {
				return
			}
		default:
			return
		}
	}
}

// wakeAt wakes the flow at a deadline, in a goroutine of its own, because the caller may be in a
// loop or hold a lock.
func (f *flow) wakeAt(t time.Time) {
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	timer := time.AfterFunc(max(0, left), func() { f.wake(nil) })
	if left <= 0 {
		return // it counts even if a later deadline comes first
	}
	if before := f.timer.Swap(timer); before != nil {
		before.Stop()
	}
	if f.state.Load() == over {
		timer.Stop() // end may not have seen it
	}
}

// run moves bytes until there are none, in the goroutine that has set the state to running.
func (f *flow) run(t *turn) {
	f.shift = t
	for {
		end, ended, more := f.move()
		switch {
		case ended:
			f.end(end)
			return
		case more:
			f.shift.loop.ready = append(f.shift.loop.ready, f)
			return
		case f.state.CompareAndSwap(running, idle):
			return
		}
		f.state.Store(running) // it was again
	}
}

func (f *flow) end(e End) {
	f.state.Store(over)
	if timer := f.timer.Load(); timer != nil {
		timer.Stop() // or it would keep the session in memory
	}
	f.bytes.held = 0
	f.bytes.giveBack()
	f.ended(e)
	f.left()
}

// move reads and walks until nothing is left to read. more means that there may be more to read,
// but that others come first.
func (f *flow) move() (end End, ended, more bool) {
	defer f.contain(&end, &ended)
	if end, ended = f.begin(); ended {
		return end, true, false
	}
	for total := 0; ; {
		if s := f.src.below(); s.readBy.passed(f.cuts) {
			return f.endOf(s.failed("read", os.ErrDeadlineExceeded)), true, false
		}
		n, dry, err := f.src.look(f.bytes.borrow(), f)
		if n > 0 {
			if end, ended = f.pass(n); ended {
				return end, true, false
			}
		}
		if err != nil {
			return f.endOf(err), true, false
		}
		if dry {
			break
		}
		if total += max(n, readBytes); total >= turnBytes && f.shift != nil {
			return End{}, false, true
		}
	}
	f.bytes.giveBack()
	return End{}, false, false
}
