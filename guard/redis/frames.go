package redis

import (
	"bytes"
	"errors"
	"strconv"
)

// frames follows a stream of replies, RESP2 or RESP3, as it comes in pieces, to know where each reply ends. The zero
// value stands before the first.
type frames struct {
	kind  byte  // first byte of the reply under way, or of the last one
	begun bool  // a reply is under way
	skip  int64 // bytes of a bulk string that are still to come, with its CRLF
	line  bool  // in a line whose content does not matter
	cr    bool  // that line's last byte so far is \r
	open  []level
}

// level is an aggregate whose elements are still to come.
type level struct {
	left      int64 // elements; endless for one that says when it ends
	attribute bool  // comes before an element and is none
}

const (
	endless    = -1
	deepest    = 128 // levels; Redis itself goes to ten or so
	headerMost = 32  // bytes of a header line
)

var errReply = errors.New("guard: a reply of the server is not RESP")

// top says that the stream stands between two replies.
func (f *frames) top() bool { return !f.begun }

// scan goes on to the end of the reply under way. n is how many bytes of b are behind it; fewer than all of them when
// the reply has ended, or when b ends within a header, which is to come again with more.
func (f *frames) scan(b []byte) (n int, ended bool, err error) {
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
		if whole && f.element() {
			return n, true, nil
		}
		if !whole && n == len(b) {
			return n, false, nil
		}
	}
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

// header reads what opens a frame. It takes nothing when the header is not all there. whole says that the frame ends
// with its header.
func (f *frames) header(b []byte) (n int, whole bool, err error) {
	switch b[0] {
	case '+', '-', ':', ',', '(', '#', '_':
		f.begin(b[0])
		f.line, f.cr = true, false
		return 1, false, nil
	}
	end := bytes.IndexByte(b[:min(len(b), headerMost)], '\n')
	switch {
	case end < 0 && len(b) < headerMost:
		return 0, false, nil
	case end < 2 || b[end-1] != '\r':
		return 0, false, errReply
	}
	whole, err = f.opens(b[0], b[1:end-1])
	return end + 1, whole, err
}

// opens starts the frame of a complete header.
func (f *frames) opens(kind byte, size []byte) (whole bool, err error) {
	f.begin(kind)
	if kind == '.' {
		return true, f.closeEndless()
	}
	count, ok := length(size)
	if !ok {
		return false, errReply
	}
	switch kind {
	case '$', '=', '!', ';':
		switch {
		case kind == ';' && count == 0:
			return true, f.closeEndless()
		case count == endless && string(size) == "?":
			return false, f.push(level{left: endless})
		case count == endless:
			return true, nil
		}
		f.skip = count + 2
		return false, nil
	case '%', '|':
		if count > 0 {
			count *= 2
		}
	case '*', '~', '>':
	default:
		return false, errReply
	}
	switch {
	case count == endless && string(size) != "?":
		return true, nil
	case count == 0:
		return kind != '|', nil
	}
	return false, f.push(level{left: count, attribute: kind == '|'})
}

// length reads a count: digits, -1, or ? which is endless too.
func length(b []byte) (int64, bool) {
	if string(b) == "?" || string(b) == "-1" {
		return endless, true
	}
	n, err := strconv.ParseUint(string(b), 10, 40)
	return int64(n), err == nil
}

// begin notes the kind of a reply with its first frame. What follows an attribute is the reply itself.
func (f *frames) begin(kind byte) {
	if len(f.open) == 0 {
		f.kind = kind
	}
	f.begun = true
}

func (f *frames) push(l level) error {
	if len(f.open) == deepest {
		return errReply
	}
	f.open = append(f.open, l)
	return nil
}

// closeEndless ends an aggregate, or a string in pieces, that did not say how long it is. As an element it is whole.
func (f *frames) closeEndless() error {
	last := len(f.open) - 1
	if last < 0 || f.open[last].left != endless {
		return errReply
	}
	f.open = f.open[:last]
	return nil
}

// element counts an element that is whole, with all that end with it. It returns true at the end of the reply.
func (f *frames) element() bool {
	for last := len(f.open) - 1; last >= 0; last-- {
		l := &f.open[last]
		if l.left == endless {
			return false
		}
		if l.left--; l.left > 0 {
			return false
		}
		f.open = f.open[:last]
		if l.attribute {
			return false
		}
	}
	f.begun = false
	return true
}
