package relay

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a connection that a loop watches instead of Go's network poller. It is a net.Conn for
// whoever has a goroutine to wait in; a flow reads from it without one.
//
// Its system calls are raw, because the scheduler would give the processor to another thread when a
// send takes more than 20 µs. They never block, because the socket does not.
type socket struct {
	loop *loop
	id   uint64
	// a short read has read everything: TCP, not Unix, where ancillary data ends one
	drains        bool
	local, remote net.Addr

	// held for reading during each system call, so that fd is not closed and reused
	open   sync.RWMutex
	fd     int
	closed bool

	in      atomic.Pointer[flow] // reads from this socket; nil while a goroutine does
	hungUp  atomic.Bool          // the peer has sent its last byte, or the connection is broken
	writing sync.Mutex           // one Write at a time

	readable, writable chan struct{} // wakes whoever waits; a token may be stale
	readBy, writeBy    deadline
}

var _ net.Conn = (*socket)(nil)

// deadline is when calls end. As in package net, a deadline in the past also ends the calls that
// wait at that moment, whatever is set next.
type deadline struct {
	by   atomic.Pointer[time.Time] // nil for none
	cuts atomic.Uint64             // how often it was set to the past
}

func (d *deadline) set(t time.Time) {
	if t.IsZero() {
		d.by.Store(nil)
		return
	}
	d.by.Store(&t)
	if time.Until(t) <= 0 {
		d.cuts.Add(1)
	}
}

// noLaterThan sets the deadline, unless there is an earlier one.
func (d *deadline) noLaterThan(t time.Time) {
	for {
		before := d.by.Load()
		if before != nil && !before.After(t) || d.by.CompareAndSwap(before, &t) {
			return
		}
	}
}

// left returns the time until the deadline. ok is false if there is none.
func (d *deadline) left() (left time.Duration, ok bool) {
	by := d.by.Load()
	if by == nil {
		return 0, false
	}
	return time.Until(*by), true
}

// passed reports whether a call that began after so many cuts has to end.
func (d *deadline) passed(cuts uint64) bool {
	left, ok := d.left()
	return ok && left <= 0 || d.cuts.Load() != cuts
}

// adopted is a connection that a loop watches.
type adopted interface {
	net.Conn
	// below returns the socket that the loop watches.
	below() *socket
	// look reads without waiting. dry means that the next event tells when there is more.
	look(b []byte, f *flow) (n int, dry bool, err error)
	// write writes all of b. f is the flow that writes, or nil: it leaves its loop before it waits.
	write(b []byte, f *flow) (int, error)
	// closeWrite half-closes the connection.
	closeWrite(f *flow) error
}

func (s *socket) below() *socket { return s }

func (s *socket) Read(b []byte) (int, error) { return read(s, b) }

// read reads as a net.Conn does.
func read(c adopted, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	s := c.below()
	for cuts := s.readBy.cuts.Load(); ; {
		if s.readBy.passed(cuts) {
			return 0, s.failed("read", os.ErrDeadlineExceeded)
		}
		n, dry, err := c.look(b, nil)
		if n > 0 || !dry {
			return n, err
		}
		await(s.readable, &s.readBy)
	}
}

// look implements adopted. A short read has emptied a TCP socket, and whatever comes next is
// another event. Only an end that has come with these bytes is not.
func (s *socket) look(b []byte, _ *flow) (n int, dry bool, err error) {
	n, again, err := s.receive(b)
	return n, again || err == nil && n < len(b) && s.drains && !s.hungUp.Load(), err
}

func (s *socket) Write(b []byte) (int, error) { return s.write(b, nil) }

func (s *socket) write(b []byte, f *flow) (n int, err error) {
	if !s.writing.TryLock() {
		f.yieldLoop()
		s.writing.Lock()
	}
	defer s.writing.Unlock()
	for cuts := s.writeBy.cuts.Load(); n < len(b); {
		if s.writeBy.passed(cuts) {
			return n, s.failed("write", os.ErrDeadlineExceeded)
		}
		m, again, err := s.call("write", unix.SYS_WRITE, b[n:])
		if err != nil {
			return n, err
		}
		n += m
		if again {
			f.yieldLoop()
			await(s.writable, &s.writeBy)
		}
	}
	return n, nil
}

// receive reads once. again means that there is nothing to read yet.
func (s *socket) receive(b []byte) (n int, again bool, err error) {
	n, again, err = s.call("read", unix.SYS_READ, b)
	if n == 0 && !again && err == nil {
		err = io.EOF
	}
	return n, again, err
}

// call makes one system call. again means that the socket is not ready.
func (s *socket) call(name string, number uintptr, b []byte) (n int, again bool, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	for !s.closed {
		r, _, errno := unix.RawSyscall(number, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)))
		switch errno {
		case 0:
			return int(r), false, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, s.failed(name, os.NewSyscallError(name, errno))
		}
	}
	return 0, false, s.failed(name, net.ErrClosed)
}

func (s *socket) failed(operation string, err error) error {
	return &net.OpError{
		Op: operation, Net: s.local.Network(), Source: s.local, Addr: s.remote, Err: err,
	}
}

// await waits for a token or the deadline.
func await(token <-chan struct{}, by *deadline) {
	left, ok := by.left()
	if !ok {
		<-token
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-token:
	case <-timer.C:
	}
}

func wake(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetWriteDeadline(t)
	return s.SetReadDeadline(t)
}

// SetReadDeadline sets the deadline of reads. A flow that reads from the socket ends at the
// deadline, too.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.readBy.set(t)
	wake(s.readable)
	if f := s.in.Load(); f != nil {
		f.wakeAt(t)
	}
	return nil
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeBy.set(t)
	wake(s.writable)
	return nil
}

func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

func (s *socket) CloseWrite() error { return s.closeWrite(nil) }

func (s *socket) closeWrite(*flow) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return net.ErrClosed
	}
	return unix.Shutdown(s.fd, unix.SHUT_WR)
}

// Close closes the connection. Whoever waits for the socket fails.
func (s *socket) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	s.loop.forget(s)
	wake(s.readable)
	wake(s.writable)
	return unix.Close(s.fd)
}

// happened tells those who wait for the socket of its events.
func (s *socket) happened(events uint32, t *turn) {
	const gone = unix.EPOLLHUP | unix.EPOLLERR
	if events&(unix.EPOLLRDHUP|gone) != 0 {
		s.hungUp.Store(true)
	}
	if events&(unix.EPOLLOUT|gone) != 0 {
		wake(s.writable)
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|gone) == 0 {
		return
	}
	if f := s.in.Load(); f != nil {
		f.wake(t)
		return
	}
	wake(s.readable)
}

// descriptor returns a duplicate of a connection's file descriptor, which Go's poller does not
// watch.
func descriptor(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failure error
	err = raw.Control(func(own uintptr) {
		fd, failure = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err == nil {
		err = failure
	}
	return fd, err
}

// Cork has a connection hold back what is written next until it is half-closed, for at most 200 ms.
// So the peer sees the last bytes and the end of the stream at the same time. TCP only.
func Cork(c net.Conn) {
	switch c := c.(type) {
	case *socket:
		c.open.RLock()
		defer c.open.RUnlock()
		if !c.closed {
			cork(c.fd)
		}
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { cork(int(fd)) })
		}
	}
}

func cork(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) }
