package logging

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Output is where a program writes its results. Unlike a log it waits for a slow reader, until its
// context has ended: then for a second more.
type Output struct {
	to  io.Writer
	ctx context.Context

	mu  sync.Mutex
	err error
}

// NewOutput returns an Output that writes to a file, such as standard output. If to is a Writer, it
// writes behind the lines of the log.
func NewOutput(ctx context.Context, to io.Writer) *Output { return &Output{to: to, ctx: ctx} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	written := make(chan result, 1)
	go o.write(bytes.Clone(b), written) // it stays behind if nothing reads, and ends with the program
	select {
	case r := <-written:
		return o.ended(r)
	case <-o.ctx.Done():
	}
	end := time.NewTimer(patience)
	defer end.Stop()
	select {
	case r := <-written:
		return o.ended(r)
	case <-end.C:
		return 0, fmt.Errorf("nothing reads the output: %w", context.Cause(o.ctx))
	}
}

type result struct {
	n   int
	err error
}

func (o *Output) write(b []byte, written chan<- result) {
	if w, ok := o.to.(*Writer); ok {
		w.await(o.ctx, func() bool { return len(w.text) == 0 && !w.busy })
	}
	n, err := Direct(o.to).Write(b)
	written <- result{n, err}
}

func (o *Output) ended(r result) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, r.err)
	return r.n, r.err
}

// Until has o wait for its reader until ctx ends. Call it before the first Write.
func (o *Output) Until(ctx context.Context) { o.ctx = ctx }

// Err returns the first error of the file.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Direct returns the file behind a Writer or an Output, which a command can inherit; else w itself.
func Direct(w io.Writer) io.Writer {
	switch of := w.(type) {
	case *Writer:
		return of.file
	case *Output:
		return Direct(of.to)
	}
	return w
}

// Paced returns a writer for the output of a command. It writes to w, which in the end writes to
// log. If log is a Writer, each Write waits for room there, but a second at most. So a command that
// is faster than its reader loses nothing, and a reader that has stopped does not stop the command.
func Paced(w, log io.Writer) io.Writer {
	if of, ok := log.(*Writer); ok {
		return paced{w, of}
	}
	return w
}

type paced struct {
	io.Writer
	log *Writer
}

// Write implements io.Writer.
func (p paced) Write(b []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.log.await(ctx, func() bool { return p.log.room(len(b)) })
	return p.Writer.Write(b)
}
