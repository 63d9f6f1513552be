package relay

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// encrypted is a TLS connection on a socket of a loop, with records below the tls.Conn. No call of
// the tls.Conn waits (package documentation).
type encrypted struct {
	*tls.Conn
	socket *socket

	turn    sync.Mutex // one call of the tls.Conn at a time
	emptied bool       // the next event tells when there is more to read from the socket
	unsent  *[]byte    // records to send; nil if there are none

	sending sync.Mutex // one goroutine sends at a time, and takes what is unsent then
	patient *patient   // nil if there is none
	flow    *flow      // that sends; nil if it is none
	failed  error      // of a send: TLS cannot go on after a gap
}

var _ adopted = (*encrypted)(nil)

// records is what a tls.Conn reads from and writes to.
type records struct {
	*socket
	of *encrypted
}

// errAgain says that there is nothing to read yet. For a tls.Conn it is no error to end with, since
// it is temporary: what it has of a record stays.
var errAgain net.Error = nothingYet{}

type nothingYet struct{}

func (nothingYet) Error() string   { return "relay: nothing to read yet" }
func (nothingYet) Timeout() bool   { return true }
func (nothingYet) Temporary() bool { return true }

// Read does not wait.
func (r records) Read(b []byte) (int, error) {
	if r.of.emptied {
		return 0, errAgain
	}
	n, dry, err := r.look(b, nil)
	r.of.emptied = dry
	if n == 0 && dry {
		return 0, errAgain
	}
	return n, err
}

// unsents has memory for records of as many bytes as a flow passes at once.
var unsents = sync.Pool{New: func() any {
	b := make([]byte, 0, BufferSize+1<<10)
	return &b
}}

// Write keeps a record.
func (r records) Write(b []byte) (int, error) {
	if r.of.unsent == nil {
		r.of.unsent = unsents.Get().(*[]byte)
	}
	*r.of.unsent = append(*r.of.unsent, b...)
	return len(b), nil
}

// SetWriteDeadline does nothing, because nothing waits. A tls.Conn calls it for its last record.
func (records) SetWriteDeadline(time.Time) error { return nil }

func (e *encrypted) below() *socket { return e.socket }

// look implements adopted. It also sends what TLS itself answers.
func (e *encrypted) look(b []byte, f *flow) (n int, dry bool, err error) {
	e.turn.Lock()
	n, err = e.Conn.Read(b)
	if err == errAgain {
		dry, err = true, nil
		e.emptied = false // by the time of the next look
	}
	answers := e.unsent != nil // only an answer of TLS is left behind
	e.turn.Unlock()
	if answers {
		if failed := e.send(f, func() error { return nil }); err == nil {
			err = failed
		}
	}
	return n, dry, err
}

func (e *encrypted) Read(b []byte) (int, error) {
	e.turn.Lock()
	e.emptied = false // a flow may have got the event
	e.turn.Unlock()
	return read(e, b)
}

func (e *encrypted) Write(b []byte) (int, error) { return e.write(b, nil) }

func (e *encrypted) write(b []byte, f *flow) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		part := b[n:min(len(b), n+BufferSize)]
		err = e.send(f, func() (err error) {
			m, err = e.Conn.Write(part)
			return err
		})
		n += m
	}
	return n, err
}

// send sends what compose has TLS write, and what TLS has answered before.
func (e *encrypted) send(f *flow, compose func() error) error {
	if !e.sending.TryLock() {
		f.yieldLoop()
		e.sending.Lock()
	}
	defer e.sending.Unlock()
	if e.failed != nil {
		return e.failed
	}
	e.turn.Lock()
	err := compose()
	unsent := e.unsent
	e.unsent = nil
	e.turn.Unlock()
	if unsent == nil {
		return err
	}
	e.flow = f
	if e.patient != nil {
		_, e.failed = e.patient.Write(*unsent)
	} else {
		_, e.failed = e.socket.write(*unsent, f)
	}
	*unsent = (*unsent)[:0]
	unsents.Put(unsent)
	if e.failed != nil {
		return e.failed
	}
	return err
}

// wire is what a patient writes records to.
type wire struct{ *encrypted }

func (w wire) Write(b []byte) (int, error) { return w.socket.write(b, w.flow) }

// byePatience bounds the last record, as in crypto/tls.
const byePatience = 5 * time.Second

// CloseWrite tells the peer that no more comes.
func (e *encrypted) CloseWrite() error { return e.closeWrite(nil) }

func (e *encrypted) closeWrite(f *flow) error {
	e.socket.writeBy.noLaterThan(time.Now().Add(byePatience))
	return e.send(f, e.Conn.CloseWrite)
}

// Close closes the connection. As with a tls.Conn, a Write that waits fails, and then nobody tells
// the peer.
func (e *encrypted) Close() error {
	if e.sending.TryLock() {
		e.sending.Unlock()
		_ = e.SetWriteDeadline(time.Now().Add(byePatience))
		_ = e.CloseWrite()
	}
	return e.socket.Close()
}

func (e *encrypted) SetDeadline(t time.Time) error      { return e.socket.SetDeadline(t) }
func (e *encrypted) SetReadDeadline(t time.Time) error  { return e.socket.SetReadDeadline(t) }
func (e *encrypted) SetWriteDeadline(t time.Time) error { return e.socket.SetWriteDeadline(t) }

// setPatience has p write the records; nobody if it is nil.
func (e *encrypted) setPatience(p *patient) {
	e.sending.Lock()
	defer e.sending.Unlock()
	e.patient = p
}
