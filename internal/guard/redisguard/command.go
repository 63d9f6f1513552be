package redisguard

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// A client's command is an array of bulk strings, or an inline line. The guard must split commands
// exactly as Redis does, or a command could hide in another. Where Redis is lax, the guard is
// strict and refuses.

// errProtocol matches the error of every malformed command. The client gets the text of that error.
var errProtocol = errors.New("Protocol error")

type protocolError string

func (e protocolError) Error() string        { return "Protocol error: " + string(e) }
func (e protocolError) Is(target error) bool { return target == errProtocol }

// tooLong is the error for a command that is longer than the reader's buffer: it has an argument of
// this length. The reader may have only the argument's header so far.
type tooLong int64

func (e tooLong) Error() string {
	return fmt.Sprintf("an argument of %d bytes is too long", int64(e))
}

const (
	maxArguments = 1<<31 - 1 // as in Redis
	maxArgument  = 1 << 40   // the limit of Redis is a setting, proto-max-bulk-len
	unlessSet    = 512 << 20 // its default
)

// parseArgument reads the header of an argument.
func parseArgument(b []byte) (length int64, header int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if b[0] != '$' {
		return 0, 0, protocolError("expected '$', got '" + onOneLine(string(b[:1])) + "'")
	}
	length, header, err = parseHeader(b, "invalid bulk length", maxArgument)
	if err == nil && length < 0 {
		return 0, 0, protocolError("invalid bulk length")
	}
	return length, header, err
}

// parseHeader reads a type byte, a number and CRLF. n is 0 until all of it is there. It returns -1
// for every negative number; Redis takes them for an empty array.
func parseHeader(b []byte, invalid protocolError, most int64) (count int64, n int, err error) {
	if count, n := plainHeader(b); n > 0 && count <= most {
		return count, n, nil
	}
	end := 1
	for end < len(b) && b[end] != '\r' {
		if c := b[end]; (c < '0' || c > '9') && (c != '-' || end > 1) || end > 20 {
			return 0, 0, invalid
		}
		end++
	}
	if end+1 >= len(b) {
		return 0, 0, nil
	}
	digits := b[1:end]
	if b[end+1] != '\n' || len(digits) == 0 || digits[0] == '0' && len(digits) > 1 {
		return 0, 0, invalid
	}
	if digits[0] == '-' {
		if _, err := strconv.ParseInt(string(digits), 10, 64); err != nil || digits[1] == '0' {
			return 0, 0, invalid
		}
		return -1, end + 2, nil
	}
	for _, c := range digits {
		count = count*10 + int64(c-'0')
	}
	if len(digits) > 18 || count > most {
		return 0, 0, invalid
	}
	return count, end + 2, nil
}

// plainHeader is parseHeader for up to nine digits that are all there. n is 0 for everything else,
// right or wrong.
func plainHeader(b []byte) (count int64, n int) {
	at := 1
	for at < min(len(b), 10) && b[at]-'0' <= 9 {
		count = count*10 + int64(b[at]-'0')
		at++
	}
	if at == 1 || at+1 >= len(b) || b[at] != '\r' || b[at+1] != '\n' || b[1] == '0' && at > 2 {
		return 0, 0
	}
	return count, at + 2
}

// Redis compares options as C strings, so a zero byte ends them. It looks commands up by a hash of
// all bytes, so it finds FLUSHALL under one in some hundred names that begin with it and a zero
// byte. The guard knows no name with a zero byte in it, so it refuses each of them.

// equalFold compares a client's word with an upper-case one, ignoring case.
func equalFold(b []byte, upper string) bool {
	n := len(upper)
	return len(b) >= n && (len(b) == n || b[n] == 0) && bytes.EqualFold(b[:n], []byte(upper))
}

// upper returns a word in upper case. It uses the space in buf if it fits.
func upper(buf, b []byte) []byte {
	buf = append(buf[:0], b...)
	for i, c := range buf {
		if c >= 'a' && c <= 'z' {
			buf[i] = c - ('a' - 'A')
		}
	}
	return buf
}
