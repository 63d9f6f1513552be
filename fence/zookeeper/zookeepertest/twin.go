package zookeepertest

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// twinned turns an enrolment into a transaction that creates a second candidate with another GUID.
func (r *Relay) twinned(frame []byte, twins chan uint32) []byte {
	r.Lock()
	defer r.Unlock()
	at := bytes.Index(frame, []byte("/"+candidatePrefix))
	if !r.Twin || at < 0 || binary.BigEndian.Uint32(frame[8:]) != Create {
		return frame
	}
	r.Twin = false
	twins <- binary.BigEndian.Uint32(frame[4:])
	create := frame[12:]
	twin := slices.Clone(create)
	copy(twin[at-12+len("/"+candidatePrefix):], newGUID())
	body := binary.BigEndian.AppendUint32(slices.Clone(frame[4:8]), Multi)
	for _, one := range [][]byte{create, twin} {
		body = append(multiHeader(body, Create, 0), one...)
	}
	return withLength(multiHeader(body, 0xffffffff, 1))
}

// multiHeader returns the header of an operation in a transaction, or its end.
func multiHeader(body []byte, operation uint32, done byte) []byte {
	body = append(binary.BigEndian.AppendUint32(body, operation), done)
	return binary.BigEndian.AppendUint32(body, 0xffffffff)
}

// untwinned turns the reply to such a transaction into a reply to the original create.
func untwinned(frame []byte, twins chan uint32) []byte {
	const header, first = 4 + 16, 4 + 16 + 9
	xid := binary.BigEndian.Uint32(frame[4:])
	select {
	case twin := <-twins:
		if twin != xid {
			twins <- twin
			return frame
		}
	default:
		return frame
	}
	size := int(binary.BigEndian.Uint32(frame[first:]))
	return withLength(append(slices.Clone(frame[4:header]), frame[first:first+4+size]...))
}
