package proxies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

// The load runs like redis-benchmark: all clients in one thread, which waits with epoll. A
// goroutine for each client would need so much of the CPU that the proxies could not show their
// speed.

// loadClient is a client of a load.
type loadClient struct {
	file    *os.File
	fd      int
	missing int // bytes of replies that have not arrived
}

// run makes one measurement, in commands per second. It returns an error if a reply is another one
// than expected.
func (l load) run(ctx context.Context, w *ways.Way) (o outcome, err error) {
	g := &generator{load: l, request: bytes.Repeat(l.command, l.depth), buffer: make([]byte, 64<<10)}
	g.expected = bytes.Repeat(l.reply, l.depth)
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.open(ctx, w); err != nil {
		return o, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	commands, err := g.generate(ctx, start.Add(l.time))
	if err != nil {
		return o, err
	}
	return outcome{
		value: float64(commands) / time.Since(start).Seconds(), operations: float64(commands),
	}, nil
}

// generator runs a load.
type generator struct {
	load
	epoll    int
	clients  []*loadClient
	byFD     map[int32]*loadClient
	request  []byte
	expected []byte // the replies to it
	buffer   []byte
}

func (g *generator) open(ctx context.Context, w *ways.Way) (err error) {
	if g.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	g.byFD = map[int32]*loadClient{}
	for range g.load.clients {
		conn, err := w.DialRedis(ctx, ways.Resource, 1)
		if err != nil {
			return err
		}
		file, err := blocking(conn)
		conn.Close()
		if err != nil {
			return err
		}
		c := &loadClient{file: file, fd: int(file.Fd())}
		g.clients = append(g.clients, c)
		g.byFD[int32(c.fd)] = c
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.fd)}
		err = errors.Join(syscall.SetNonblock(c.fd, true),
			syscall.EpollCtl(g.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event))
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) close() (err error) {
	for _, c := range g.clients {
		err = errors.Join(err, c.file.Close())
	}
	if g.epoll > 0 {
		err = errors.Join(err, syscall.Close(g.epoll))
	}
	return err
}

// generate sends pipelines until the deadline, waits for the last replies, and returns the number
// of commands that were answered.
func (g *generator) generate(ctx context.Context, deadline time.Time) (commands int, err error) {
	for _, c := range g.clients {
		if err := g.send(c); err != nil {
			return 0, err
		}
	}
	events := make([]syscall.EpollEvent, len(g.clients))
	for waiting := len(g.clients); waiting > 0; {
		n, err := syscall.EpollWait(g.epoll, events, int(replyLimit.Milliseconds()))
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("no reply within %s", replyLimit)
		}
		more := time.Now().Before(deadline) && ctx.Err() == nil
		for _, e := range events[:n] {
			c := g.byFD[e.Fd]
			if err := g.receive(c); err != nil {
				return 0, err
			}
			if c.missing > 0 {
				continue
			}
			commands += g.depth
			if !more {
				waiting--
			} else if err := g.send(c); err != nil {
				return 0, err
			}
		}
	}
	return commands, ctx.Err()
}

// send sends a pipeline. It is so short that the kernel always takes it at once.
func (g *generator) send(c *loadClient) error {
	n, err := raw(syscall.SYS_WRITE, c.fd, g.request)
	if err == nil && n != len(g.request) {
		err = fmt.Errorf("only %d of %d bytes were sent", n, len(g.request))
	}
	c.missing = len(g.expected)
	return err
}

// receive reads what has arrived, and compares it with what is expected.
func (g *generator) receive(c *loadClient) error {
	n, err := raw(syscall.SYS_READ, c.fd, g.buffer)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil
	case err != nil:
		return err
	case n == 0:
		return errors.New("the connection was closed")
	}
	at := len(g.expected) - c.missing
	got := g.buffer[:n]
	if n > c.missing || !bytes.Equal(got, g.expected[at:at+n]) {
		return fmt.Errorf("the reply is %q", got[:min(n, 200)])
	}
	c.missing -= n
	return nil
}

// raw makes a system call that does not block, without telling Go's scheduler.
func raw(call uintptr, fd int, buffer []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&buffer[0])),
		uintptr(len(buffer)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
