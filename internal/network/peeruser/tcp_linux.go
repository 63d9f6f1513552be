package peeruser

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// TellsTCP: this system tells whose a connection to a loopback address is.
const TellsTCP = true

// Where the kernel lists the connections of this network namespace (proc_pid_net(5)).
var tables = map[bool]string{true: "/proc/self/net/tcp", false: "/proc/self/net/tcp6"}

// overTCP finds the socket of the peer, which is the one from its address to ours.
func overTCP(from, to netip.AddrPort) (p Peer, err error) {
	from, to = unmap(from), unmap(to)
	v4 := from.Addr().Is4()
	p, err = find(v4, from, to)
	if v4 && errors.Is(err, errNoSocket) { // a socket for both kinds of addresses, as Java's
		return find(false, mapped(from), mapped(to))
	}
	return p, err
}

var errNoSocket = errors.New("its socket is not in the kernel's list: it is gone, or in another " +
	"network namespace")

func find(v4 bool, from, to netip.AddrPort) (Peer, error) {
	f, err := os.Open(tables[v4])
	if err != nil {
		return Peer{User: -1}, err
	}
	defer f.Close()
	return search(f, hex(from)+" "+hex(to))
}

// search returns the user and the inode of the socket between these addresses. A socket that its
// process has closed has no inode, and no user: it looks like one of root.
func search(table io.Reader, pair string) (p Peer, err error) {
	p.User = -1
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), pair) {
			continue
		}
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[1]+" "+fields[2] != pair {
			continue
		}
		if fields[9] == "0" {
			return p, errNoSocket
		}
		p.Inode = fields[9]
		p.User, err = strconv.Atoi(fields[7])
		return p, err
	}
	if err := lines.Err(); err != nil {
		return p, err
	}
	return p, errNoSocket
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func mapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
}

// hex is how the kernel prints an address: as numbers of 32 bits in the byte order of the machine.
func hex(a netip.AddrPort) string {
	var b strings.Builder
	for bytes := a.Addr().AsSlice(); len(bytes) > 0; bytes = bytes[4:] {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(bytes))
	}
	return fmt.Sprintf("%s:%04X", b.String(), a.Port())
}
