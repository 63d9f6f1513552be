package carrier

import (
	"crypto/rand"
	"fmt"
)

// ownAddress returns an address for one term: one of 16 million of this machine, 127.1.0.1 to
// 127.254.255.254, with a port that the kernel chooses at random. Two terms have the same address
// and port with a probability of 1 in 2^38, so a process of an earlier term that tries its own for
// a year, with a new term every ten seconds, meets one with a probability of 1 in 100,000. Then
// [Command] refuses it.
func ownAddress(string) (address string, remove func(), err error) {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("127.%d.%d.%d:0", 1+int(b[0])%254, b[1], 1+int(b[2])%254), func() {}, nil
}
