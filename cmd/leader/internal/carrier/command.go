package carrier

import (
	"errors"
	"os"
	"sync"

	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/process"
)

// ErrOtherProcess is why a connection is closed.
var ErrOtherProcess = errors.New("it is no process of this term's command, or the system does " +
	"not tell: it was not started by the command, and does not have its variable " + process.Mark)

// Command admits the processes of one command: the command, its process group, what these have
// started, and whatever has inherited its environment. On Linux that is certain: an address that
// comes again helps no process of an earlier term. Elsewhere the processes of the user are
// admitted.
type Command struct {
	mark string // of process.NewMark, in its environment

	mu     sync.Mutex
	pid    int   // 0: not started
	recent []int // processes that have connected
}

// NewCommand returns a command that is not started yet, and will have this mark.
func NewCommand(mark string) *Command { return &Command{mark: mark} }

// Started says which process it is, and the number of its process group.
func (c *Command) Started(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

// Admit returns an error unless the peer is a process of the command.
func (c *Command) Admit(p peeruser.Peer) error {
	if !tellsProcess {
		return peeruser.OnlyUser(os.Getuid())(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Inode == "" && c.owns(p.Pid) || p.Inode != "" && c.holds(p) {
		return nil
	}
	return ErrOtherProcess
}
