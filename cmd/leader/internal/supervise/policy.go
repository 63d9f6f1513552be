package supervise

import (
	"errors"
	"time"
)

// Policy says what happens to the command while the coordinator is out of reach.
type Policy string

const (
	Pause    Policy = "pause"
	Continue Policy = "continue"
	StopNow  Policy = "stop"
)

// UnmarshalText accepts one of the three.
func (p *Policy) UnmarshalText(text []byte) error {
	given := Policy(text)
	if given != Pause && given != Continue && given != StopNow {
		return errors.New("not one of pause, continue, stop")
	}
	*p = given
	return nil
}

// Reasons to stop a command although its term is not lost yet.
var (
	ErrDisconnected = errors.New("the coordinator is out of reach, and LEADER_ON_DISCONNECT=stop")
	ErrOutOfTime    = errors.New("no answer from the coordinator, and the session could have " +
		"expired soon")
)

// Margin is the time to keep between the KILL and the deadline: for the kernel to end the command,
// and for delays on a busy machine.
func Margin(sessionTimeout time.Duration) time.Duration {
	return min(max(sessionTimeout/20, 20*time.Millisecond), time.Second)
}
