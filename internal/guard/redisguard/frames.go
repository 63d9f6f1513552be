package redisguard

import (
	"bytes"
	"errors"
	"strconv"
)

// frames follows a stream of RESP2 or RESP3 replies that arrives in pieces, to know where each
// reply ends. The zero value is before the first reply.
//
// It counts a value when the value begins, not when it ends. So it forgets an aggregate once the
// last element has begun, and a reply that nests in its last elements needs no memory, however deep
// it is.
type frames struct {
	kind   byte  // first byte of the reply under way, or of the last one
	begun  bool  // a reply is under way
	inside bool  // the reply itself has begun, and not only attributes before it
	skip   int64 // bytes of a bulk string that are still to come, with its CRLF
	line   bool  // inside a line; its content does not matter
	cr     bool  // the last byte of that line so far is \r
	open   []levels
}

// levels are aggregates, each an element of the one before it, with the same number of elements
// still to begin.
type levels struct {
	left int64 // elements that have not begun, at least 1; endless when an end marker ends it
	same int64 // number of aggregates, at least 1
}

const (
	endless   = -1
	maxHeader = 32 // bytes of a header line

	// maxOpen limits the memory of one stream to 512 KiB. A script's reply nests to 7995 levels at
	// most, where Lua's stack ends. No reply of Redis is deeper, except an EXEC around it.
	maxOpen  = 32 << 10
	openKept = 64 // capacity kept for the next reply
)

var errReply = errors.New("guard: a reply of the server is not RESP, or nests too deep")

// betweenReplies reports whether the stream is between two replies.
func (f *frames) betweenReplies() bool { return !f.begun }

// scan advances to the end of the current reply. n is how many bytes of b it has used. It uses all
// of them unless the reply has ended, or b ends within a header: then the caller passes the rest
// again, with more.
func (f *frames) scan(b []byte) (n int, ended bool, err error) {
	if !f.begun {
		if n := f.plain(b); n > 0 {
			return n, true, nil
		}
	}
	for {
		var whole bool
		switch {
		case f.skip > 0:
			took := int(min(f.skip, int64(len(b)-n)))
			n, f.skip = n+took, f.skip-int64(took)
			whole = f.skip == 0
		case f.line:
			n, whole = f.endOfLine(b, n)
		case n < len(b):
			var took int
			took, whole, err = f.header(b[n:])
			if n += took; took == 0 || err != nil {
				return n, false, err
			}
		default:
			return n, false, nil
		}
		if whole && f.ends() {
			return n, true, nil
		}
		if !whole && n == len(b) {
			return n, false, nil
		}
	}
}

// plain is the length of a reply that is a bulk string, short and all there, as most replies are.
// It is 0 for everything else.
func (f *frames) plain(b []byte) int {
	if len(b) == 0 || b[0] != '$' {
		return 0
	}
	size, n := plainHeader(b)
	if end := int64(n) + size + 2; n > 0 && end <= int64(len(b)) {
		f.kind = '$'
		return int(end)
	}
	return 0
}

// endOfLine looks for the CRLF of a line.
func (f *frames) endOfLine(b []byte, from int) (n int, found bool) {
	for n = from; n < len(b); {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			break
		}
		after := f.cr
		if i > 0 {
			after = b[n+i-1] == '\r'
		}
		n += i + 1
		f.cr = false
		if after {
			f.line = false
			return n, true
		}
	}
	if len(b) > from {
		f.cr = b[len(b)-1] == '\r'
	}
	return len(b), false
}

// header reads the header of a frame. It uses nothing if the header is incomplete. whole means that
// the frame ends with its header.
func (f *frames) header(b []byte) (n int, whole bool, err error) {
	switch b[0] {
	case '+', '-', ':', ',', '(', '#', '_':
		f.begin(b[0])
		f.line, f.cr = true, false
		return 1, false, f.count()
	}
	end := bytes.IndexByte(b[:min(len(b), maxHeader)], '\n')
	switch {
	case end < 0 && len(b) < maxHeader:
		return 0, false, nil
	case end < 2 || b[end-1] != '\r':
		return 0, false, errReply
	}
	f.begin(b[0])
	whole, err = f.openFrame(b[0], b[1:end-1])
	return end + 1, whole, err
}

// openFrame starts the frame of a complete header.
func (f *frames) openFrame(kind byte, size []byte) (whole bool, err error) {
	count, ok := length(size)
	switch {
	case kind == '.', kind == ';' && ok && count == 0:
		return true, f.closeEndless()
	case !ok:
		return false, errReply
	case kind != '|' && kind != ';': // an attribute is no value, and a piece is part of one
		if err := f.count(); err != nil {
			return false, err
		}
	}
	null := count == endless && string(size) != "?"
	switch kind {
	case '$', '=', '!', ';':
		if count != endless {
			f.skip = count + 2
			return false, nil
		}
	case '%', '|':
		if count != endless {
			count *= 2
		}
	case '*', '~', '>':
	default:
		return false, errReply
	}
	if null || count == 0 {
		return true, nil
	}
	return false, f.push(levels{left: count, same: 1})
}

// length reads a count: digits, -1, or ?, which means endless too.
func length(b []byte) (int64, bool) {
	if string(b) == "?" || string(b) == "-1" {
		return endless, true
	}
	n, err := strconv.ParseUint(string(b), 10, 40)
	return int64(n), err == nil
}

// begin notes the kind of a reply at its first frame. After an attribute the reply itself follows.
func (f *frames) begin(kind byte) {
	if !f.inside && len(f.open) == 0 {
		f.kind = kind
	}
	f.begun = true
}

// count counts a value that begins as one element of the aggregate that it is in.
func (f *frames) count() error {
	last := len(f.open) - 1
	if last < 0 {
		f.inside = true
		return nil
	}
	top := &f.open[last]
	left := top.left - 1
	if top.left == endless {
		return nil
	}
	if top.same--; top.same == 0 {
		f.open = f.open[:last]
	}
	if left == 0 {
		return nil
	}
	return f.push(levels{left: left, same: 1})
}

func (f *frames) push(l levels) error {
	last := len(f.open) - 1
	if last >= 0 && f.open[last].left == l.left {
		f.open[last].same += l.same
		return nil
	}
	if len(f.open) == maxOpen {
		return errReply
	}
	f.open = append(f.open, l)
	return nil
}

// closeEndless ends an aggregate, or a string in pieces, that did not give its length. As an
// element it is then complete.
func (f *frames) closeEndless() error {
	last := len(f.open) - 1
	if last < 0 || f.open[last].left != endless {
		return errReply
	}
	if f.open[last].same--; f.open[last].same == 0 {
		f.open = f.open[:last]
	}
	return nil
}

// ends reports, after a value is complete, whether the reply has ended with it.
func (f *frames) ends() bool {
	if !f.inside || len(f.open) > 0 {
		return false
	}
	f.begun, f.inside = false, false
	if cap(f.open) > openKept {
		f.open = nil
	}
	return true
}
