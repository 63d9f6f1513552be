package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// filler fills a clogged pipe. It is a byte that no log has, and never gets into the log file.
const filler = 0

// logPipe is a named pipe for the standard error of a process, over all its starts. The lab reads
// it into the log file.
type logPipe struct {
	path string
	from *os.File // the read end
	to   *os.File // a write end of the lab's, so that the pipe does not end between two starts
	log  *os.File

	mu   sync.Mutex    // of Clog, Unclog and Close
	done chan struct{} // closed when the reader has ended; nil while the pipe is clogged
}

// newLogPipe makes the pipe, and begins to read it.
func newLogPipe(log string) (p *logPipe, err error) {
	p = &logPipe{path: log + ".pipe"}
	if err := syscall.Mkfifo(p.path, 0o600); err != nil {
		return nil, fmt.Errorf("make %s: %w", p.path, err)
	}
	if p.log, err = os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err == nil {
		p.from, err = os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		p.to, err = p.open()
	}
	if err == nil {
		err = p.from.SetReadDeadline(time.Time{}) // if it can have one
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	p.read()
	return p, nil
}

// open opens a write end, as a process inherits it: its writes wait for the reader.
func (p *logPipe) open() (*os.File, error) { return os.OpenFile(p.path, os.O_WRONLY, 0) }

// read starts the reader, which ends at its deadline or when no write end is open.
func (p *logPipe) read() {
	_ = p.from.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		_, _ = io.Copy(withoutFiller{p.log}, struct{ io.Reader }{p.from})
	}()
}

// halt ends the reader by a deadline, and waits for it.
func (p *logPipe) halt(at time.Time) error {
	if p.done == nil {
		return nil
	}
	err := p.from.SetReadDeadline(at)
	<-p.done
	p.done = nil
	return err
}

// Clog stops the reader, and fills the pipe.
func (p *logPipe) Clog() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.halt(time.Now()); err != nil {
		return err
	}
	return p.fill()
}

// fill writes as much as the kernel takes. It has an open file of its own, because the flag
// O_NONBLOCK would also hold for processes that share the file.
func (p *logPipe) fill() error {
	fd, err := syscall.Open(p.path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.path, err)
	}
	defer syscall.Close(fd)
	for page := bytes.Repeat([]byte{filler}, 4096); ; {
		_, err := syscall.Write(fd, page)
		switch {
		case err == syscall.EAGAIN && len(page) == 1:
			return nil
		case err == syscall.EAGAIN:
			page = page[:1]
		case err != nil && err != syscall.EINTR:
			return fmt.Errorf("fill %s: %w", p.path, err)
		}
	}
}

// Unclog reads on. It does nothing if the pipe is not clogged.
func (p *logPipe) Unclog() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.read()
	}
}

// Close reads the rest, and removes the pipe. The process must have ended. A command that lives on
// keeps the pipe open, but not longer than closeTime.
func (p *logPipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.read()
	}
	err := p.to.Close()
	p.to = nil
	return errors.Join(err, p.halt(time.Now().Add(closeTime)), p.remove())
}

// remove closes what is open, and removes the pipe.
func (p *logPipe) remove() error {
	err := os.Remove(p.path)
	for _, f := range []*os.File{p.from, p.to, p.log} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// withoutFiller passes on everything but filler.
type withoutFiller struct{ io.Writer }

// Write implements io.Writer.
func (w withoutFiller) Write(b []byte) (int, error) {
	_, err := w.Writer.Write(bytes.ReplaceAll(b, []byte{filler}, nil))
	return len(b), err
}
