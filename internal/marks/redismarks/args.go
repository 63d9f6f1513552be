package redismarks

import (
	"encoding"
	"fmt"
	"net"
	"time"
)

// encodeArgs checks that the driver can send all of these, and calls every MarshalBinary now. A
// command that fails while the driver sends it could have been sent in part.
func encodeArgs(args []any) ([]any, error) {
	encoded := make([]any, len(args))
	for i, arg := range args {
		var err error
		if encoded[i], err = encodeArg(arg); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return encoded, nil
}

func encodeArg(arg any) (any, error) {
	switch v := arg.(type) {
	case string, []byte, bool, float32, float64, time.Time, time.Duration, net.IP, nil,
		int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return v, nil
	case encoding.BinaryMarshaler:
		return v.MarshalBinary()
	}
	return nil, fmt.Errorf("%T cannot be sent to Redis: give text, bytes or a number", arg)
}
