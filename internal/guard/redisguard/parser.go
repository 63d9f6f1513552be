package redisguard

import (
	"bytes"
	"slices"
)

// parser reads the first command of a stream that arrives in pieces. It remembers how far it has
// come, so a command costs the same whether it arrives at once or byte by byte. The zero value is
// before a command.
type parser struct {
	at    int    // bytes of the command that were read
	left  int64  // arguments still to come, of an array
	begun bool   // a part of the command was read
	found []span // the arguments
}

// span is where an argument is in the command. The bytes may be elsewhere when more of them have
// come.
type span struct{ from, to int }

// next reads on in b, which holds the stream from the beginning of the command. A command of more
// than most bytes is tooLong. size is the command's length on the wire, or 0 when b does not hold
// all of it yet: then b has to come again with more behind it. next appends the arguments of a
// whole command to args; they alias b where possible. An empty command has none. With the error
// tooLong it returns the arguments before the one that does not fit.
func (p *parser) next(b []byte, most int, args [][]byte) (size int, _ [][]byte, err error) {
	switch {
	case len(b) == 0:
		return 0, args, nil
	case b[0] == '*':
		size, args, err = p.array(b, most, args)
	default:
		size, args, err = p.inline(b, args)
	}
	if p.begun && (size > 0 || err != nil) {
		p.reset()
	}
	return size, args, err
}

// reset goes back to before a command.
func (p *parser) reset() { *p = parser{found: p.found[:0]} }

func (p *parser) array(b []byte, most int, args [][]byte) (size int, _ [][]byte, err error) {
	n, left, first := p.at, p.left, len(args)
	if !p.begun {
		if left, n, err = parseHeader(b, "invalid multibulk length", maxArguments); n == 0 || err != nil {
			return 0, args, err
		}
	}
	for ; left > 0; left-- {
		length, header, err := parseArgument(b[n:])
		if err != nil {
			return 0, args, err
		}
		from := n + header
		if header == 0 || length+2 > int64(len(b)-from) {
			if header > 0 && length+2 > int64(most-from) {
				return 0, p.arguments(b, args, first), tooLong(length)
			}
			p.stop(b, args[first:], n, left)
			return 0, args[:first], nil
		}
		end := from + int(length)
		if b[end] != '\r' || b[end+1] != '\n' {
			return 0, args, protocolError("an argument is longer than it says")
		}
		args = append(args, b[from:end])
		n = end + 2
	}
	return n, p.arguments(b, args, first), nil
}

// stop remembers the arguments that were read now, and where to go on.
func (p *parser) stop(b []byte, args [][]byte, n int, left int64) {
	for _, arg := range args {
		from := cap(b) - cap(arg)
		p.found = append(p.found, span{from, from + len(arg)})
	}
	p.begun, p.at, p.left = true, n, left
}

// arguments inserts those that were read earlier, at first.
func (p *parser) arguments(b []byte, args [][]byte, first int) [][]byte {
	if len(p.found) == 0 {
		return args
	}
	late := slices.Clone(args[first:])
	args = args[:first]
	for _, s := range p.found {
		args = append(args, b[s.from:s.to])
	}
	return append(args, late...)
}

// inline looks for the end of a line in the bytes that are new, and then reads its words.
func (p *parser) inline(b []byte, args [][]byte) (size int, _ [][]byte, err error) {
	fresh := b[p.at:]
	end := bytes.IndexByte(fresh, '\n')
	line := fresh
	if end >= 0 {
		line = fresh[:end]
	}
	if p.at+len(line) > maxInline {
		return 0, args, protocolError("too big inline request")
	}
	if bytes.IndexByte(line, 0) >= 0 { // Redis stops parsing there
		return 0, args, protocolError("a zero byte in an inline request")
	}
	p.begun, p.at = true, p.at+len(line)
	if end < 0 {
		return 0, args, nil
	}
	if args, err = inlineWords(b[:p.at], args); err != nil {
		return 0, args, err
	}
	return p.at + 1, args, nil
}
