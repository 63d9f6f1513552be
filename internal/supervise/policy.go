package supervise

import "errors"

// Policy is what happens to the command while the coordinator is out of reach.
type Policy string

const (
	Pause   Policy = "pause"
	GoOn    Policy = "continue"
	StopNow Policy = "stop"
)

// UnmarshalText takes one of the three.
func (p *Policy) UnmarshalText(text []byte) error {
	given := Policy(text)
	if given != Pause && given != GoOn && given != StopNow {
		return errors.New("not one of pause, continue, stop")
	}
	*p = given
	return nil
}

// Why a command is made to stop although its term is not lost yet.
var (
	ErrDisconnected = errors.New("the coordinator is out of reach, and LEADER_ON_DISCONNECT=stop")
	ErrOutOfTime    = errors.New("the coordinator was not heard from, and the session could have expired soon")
)
