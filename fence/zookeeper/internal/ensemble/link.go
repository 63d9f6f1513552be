package ensemble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

const (
	maxFrame = 64 << 20 // bytes; a larger frame is not ZooKeeper's
	minFrame = 16       // bytes; link reads so many of a greeting, the library of any other frame
)

// link is one TCP connection of a session. It inspects the stream frame by frame, because the
// library
//
//   - does not report the timeout that the server granted,
//   - accepts any session in the server's greeting, and runs its queued requests in it,
//   - sets its watches again after a reconnection, and only logs a failure,
//   - reads the last zxid it saw for that, while replies already change it (go-zookeeper/zk#35).
//     That is a data race. If it sends a later zxid, the server believes that it has seen a change,
//     and the watch stays silent,
//   - answers a request twice if sending it fails, and waits for ever for somebody to take the
//     second answer if the caller has gone. So it may never end if it is closed while requests are
//     under way, as by a process that wakes after its session has expired, or while it gives its
//     credentials again (go-zookeeper/zk#163).
//
// So the session sees the first frame, the server's greeting, before the library does. When the
// connection breaks, link tells the library that every watch has fired: the library then has none
// to set again, and every waiting caller reads again. Only Read reports that the connection broke.
//
// The library still sets a watch again if it set it on the new connection already, because a
// request had waited for that. So link hides the zxids of replies: the library has none to change,
// and sends
//  0. The server then fires the watch at once if the znode exists, and callers read again. The
//     session
//
// keeps the last zxid instead. link writes it into the connect request, so that a server that is
// behind refuses the connection.
type link struct {
	net.Conn
	s       *Session
	greeted bool
	frame   []byte // what the library has not read yet
	broken  error
}

// greeting is the part of ZooKeeper's ConnectResponse that matters.
type greeting struct {
	timeout time.Duration
	session int64
}

// newLink takes over the connection. The greeting must come within the limit.
func newLink(c net.Conn, s *Session, limit time.Duration) (*link, error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &link{Conn: c, s: s}, nil
}

// SetReadDeadline does nothing before the greeting: the library would wait for many session
// timeouts.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

// Read implements net.Conn; only the library's one reader calls it.
func (l *link) Read(p []byte) (int, error) {
	if len(l.frame) == 0 && l.broken == nil {
		l.advance()
	}
	if len(l.frame) == 0 {
		return 0, l.broken
	}
	n := copy(p, l.frame)
	l.frame = l.frame[n:]
	return n, nil
}

// Write implements net.Conn. On a failure it closes the connection, and Read reports it. The
// library writes each request at once, and only the connect request before the greeting.
func (l *link) Write(p []byte) (int, error) {
	request := p
	if !l.greeted {
		request = l.s.withLastZxid(p)
	}
	if _, err := l.Conn.Write(request); err != nil {
		_ = l.Conn.Close()
	}
	return len(p), nil
}

// advance reads the next frame whole. The library sees nothing of a frame that breaks off.
func (l *link) advance() {
	frame, err := readFrame(l.Conn)
	switch {
	case err != nil:
	case len(frame) < 4+minFrame:
		err = fmt.Errorf("a frame of %d bytes: is another service on the port?", len(frame)-4)
	case !l.greeted:
		err = l.greet(frame[4:])
	default:
		l.s.hideZxid(frame)
	}
	switch {
	case err == nil:
		l.frame = frame
	case l.greeted:
		l.frame, l.broken = l.s.firedWatches(), err
	default:
		l.broken = err
		l.s.Client.noteFailure(err)
	}
}

// greet lets the session judge the first frame.
func (l *link) greet(body []byte) error {
	g := greeting{
		timeout: time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond,
		session: int64(binary.BigEndian.Uint64(body[8:])),
	}
	if err := l.s.greeted(g); err != nil {
		return err
	}
	l.greeted = true
	return l.Conn.SetReadDeadline(time.Time{})
}

// readFrame returns length and body.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes: is another service on the port?", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, head[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, err
	}
	return frame, nil
}

// fired returns the frame with which a server reports that a watch on the path has fired.
func fired(path string) []byte {
	const notice, deleted, connected = -1, 2, 3
	body := binary.BigEndian.AppendUint32(nil, 0xffffffff) // xid -1: a notice, no reply
	body = binary.BigEndian.AppendUint64(body, 0xffffffffffffffff)
	body = binary.BigEndian.AppendUint32(body, 0)
	body = binary.BigEndian.AppendUint32(body, deleted) // fires every kind of watch
	body = binary.BigEndian.AppendUint32(body, connected)
	body = binary.BigEndian.AppendUint32(body, uint32(len(path)))
	body = append(body, path...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// hideZxid records the zxid of a reply and replaces it with 0, which the library ignores.
func (s *Session) hideZxid(frame []byte) {
	if int32(binary.BigEndian.Uint32(frame[4:])) < 0 { // a notice or the reply to a ping
		return
	}
	zxid := frame[8:16]
	if seen := int64(binary.BigEndian.Uint64(zxid)); seen > 0 {
		s.lastZxid.Store(seen)
	}
	clear(zxid)
}

// withLastZxid returns the connect request with the last zxid that the session has seen. A server
// that is behind it refuses the connection.
func (s *Session) withLastZxid(connect []byte) []byte {
	const at = 4 + 4 // behind the length and the version of the protocol
	request := slices.Clone(connect)
	binary.BigEndian.PutUint64(request[at:], uint64(s.lastZxid.Load()))
	return request
}
