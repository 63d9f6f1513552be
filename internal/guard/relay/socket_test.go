package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestAConnectionOfALoopBehavesAsAnyOther(t *testing.T) {
	onEachSocket(t, func(t *testing.T, engine engine) {
		inner, far := pair(t)
		near, _ := engine(inner, far)
		if n, err := near.Read(nil); n != 0 || err != nil {
			t.Errorf("reading nothing: %d, %v", n, err)
		}
		if n, err := near.Write(nil); n != 0 || err != nil {
			t.Errorf("writing nothing: %d, %v", n, err)
		}
		_, _ = far.Write([]byte("last"))
		_ = far.CloseWrite()
		if b, err := io.ReadAll(near); err != nil || string(b) != "last" {
			t.Errorf("%q, %v", b, err)
		}

		_ = near.SetReadDeadline(Past)
		_, err := near.Read(make([]byte, 1))
		var network *net.OpError
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &network) || network.Op != "read" {
			t.Errorf("after the deadline: %v", err)
		}
		block := bytes.Repeat([]byte("x"), 32<<20) // more than the buffers of both sockets
		_ = near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := near.Write(block)
		if n == len(block) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d bytes of %d to a peer that does not read, %v", n, len(block), err)
		}

		_ = far.SetLinger(0) // so that closing it resets the connection
		_ = far.Close()
		_ = near.SetDeadline(time.Now().Add(20 * time.Second))
		for err = nil; err == nil; {
			_, err = near.Write([]byte("?"))
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("after a reset: %v", err)
		}
		_ = near.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after closing: %v", err)
		}
	})
}

func TestAWriteToASlowPeerArrivesWhole(t *testing.T) {
	onEachSocket(t, func(t *testing.T, engine engine) {
		inner, far := pair(t)
		near, _ := engine(inner, far)
		sent := bytes.Repeat([]byte("a message."), 2_000_000)
		wrote := make(chan error, 1)
		go func() {
			_, err := near.Write(sent)
			_ = near.Close()
			wrote <- err
		}()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d arrived, %v", len(got), len(sent), err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

// A caller may set a deadline in the past and another one right after it, before the call that
// waits has run again.
func TestADeadlineInThePastEndsTheCallThatWaitsWhateverIsSetNext(t *testing.T) {
	onEachSocket(t, func(t *testing.T, engine engine) {
		inner, far := pair(t)
		near, _ := engine(inner, far)
		defer far.Close()
		read, wrote := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 1))
			read <- err
		}()
		go func() {
			for {
				if _, err := near.Write(make([]byte, 1<<20)); err != nil {
					wrote <- err
					return
				}
			}
		}()
		for ended := 0; ended < 2; {
			var err error
			select {
			case err = <-read:
			case err = <-wrote:
			case <-time.After(20 * time.Millisecond): // until both wait
				_ = near.SetDeadline(Past)
				_ = near.SetDeadline(time.Time{})
				continue
			}
			ended++
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}
