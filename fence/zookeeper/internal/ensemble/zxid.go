package ensemble

import (
	"encoding/binary"
	"slices"
)

// hideZxid records the zxid of a reply and replaces it with 0, which the library ignores.
func (s *Session) hideZxid(frame []byte) {
	if int32(binary.BigEndian.Uint32(frame[4:])) < 0 { // a notice or the reply to a ping
		return
	}
	zxid := frame[8:16]
	if seen := int64(binary.BigEndian.Uint64(zxid)); seen > 0 {
		s.lastZxid.Store(seen)
	}
	clear(zxid)
}

// withLastZxid returns the connect request with the last zxid that the session has seen. A server
// that is behind it refuses the connection.
func (s *Session) withLastZxid(connect []byte) []byte {
	const at = 4 + 4 // behind the length and the version of the protocol
	request := slices.Clone(connect)
	binary.BigEndian.PutUint64(request[at:], uint64(s.lastZxid.Load()))
	return request
}
