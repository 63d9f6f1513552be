package guard

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerTime bounds how long a load balancer may take to name its client.
const headerTime = 5 * time.Second

// maxHeader is the longest header that is read, in bytes. An address takes 52, the rest are
// extensions.
const maxHeader = 4 << 10

// inNetworks reports whether an address is in one of these networks.
func inNetworks(remote net.Addr, networks []netip.Prefix) bool {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return false // a Unix socket
	}
	for _, network := range networks {
		if network.Contains(at.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// announced reads the header of the PROXY protocol, version 2, and not a byte more. It returns the
// address of the client; the load balancer's own, if the connection is one of its own, such as a
// health check.
func announced(c net.Conn) (net.Addr, error) {
	_ = c.SetReadDeadline(time.Now().Add(headerTime))
	header := make([]byte, 16)
	if _, err := io.ReadFull(c, header); err != nil {
		return nil, fmt.Errorf("no header of the PROXY protocol: %w", err)
	}
	if !bytes.HasPrefix(header, proxyproto.SIGV2) {
		return nil, errors.New("no header of the PROXY protocol, version 2, from an address in " +
			"GUARD_PROXY_NETWORKS")
	}
	rest := make([]byte, binary.BigEndian.Uint16(header[14:]))
	if len(rest) > maxHeader {
		return nil, fmt.Errorf("a header of the PROXY protocol of %d bytes", len(rest))
	}
	if _, err := io.ReadFull(c, rest); err != nil {
		return nil, fmt.Errorf("the header of the PROXY protocol: %w", err)
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(append(header, rest...))))
	if err != nil {
		return nil, fmt.Errorf("the header of the PROXY protocol: %w", err)
	}
	if h.Command.IsLocal() || h.SourceAddr == nil {
		return c.RemoteAddr(), nil
	}
	return h.SourceAddr, c.SetReadDeadline(time.Time{})
}
