//go:build !linux

package carrier

import "github.com/ringfence/ringfence/internal/network/peeruser"

const tellsProcess = false

func (*Command) owns(int) bool { return false }

func (*Command) holds(peeruser.Peer) bool { return false }
