package redis

import (
	"encoding"
	"fmt"
	"net"
	"time"
)

// words checks that the driver can send all of these, and has those that write themselves do it now: what fails while
// a command is being sent could have been sent in part.
func words(args []any) ([]any, error) {
	list := make([]any, len(args))
	for i, arg := range args {
		word, err := word(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		list[i] = word
	}
	return list, nil
}

func word(arg any) (any, error) {
	switch v := arg.(type) {
	case string, []byte, bool, float32, float64, time.Time, time.Duration, net.IP, nil,
		int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return v, nil
	case encoding.BinaryMarshaler:
		return v.MarshalBinary()
	}
	return nil, fmt.Errorf("%T cannot be sent to Redis: give text, bytes or a number", arg)
}
