package election

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// Names of the znodes in an election.
const (
	prefix     = "c-" // of a candidate
	LeaderName = "leader"
)

// IssuerPath returns the path of the issuer's znode.
func IssuerPath(root string) string { return root + "/issuer" }

// Dir returns the path of a resource's election.
func Dir(root string, r fence.Resource) string { return electionsPath(root) + "/" + string(r) }

func electionsPath(root string) string { return root + "/elections" }

// GUID marks a candidate as one campaign's own, so that the campaign finds it again when the reply
// to its creation was lost.
type GUID string

// NewGUID returns a random GUID.
func NewGUID() GUID {
	var b [16]byte
	rand.Read(b[:])
	return GUID(hex.EncodeToString(b[:]))
}

// ParseName reads a candidate's name, c-<32 hexadecimal digits>-<sequence>. Anything else in an
// election is foreign. The sequence may be negative: the server's counter wraps.
func ParseName(name string) (GUID, bool) {
	id, _, ok := parseName(name)
	return id, ok
}

func parseName(name string) (id GUID, sequence int32, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	guid, suffix, cut := strings.Cut(rest, "-")
	if !ok || !cut || len(guid) != 32 || strings.Trim(guid, "0123456789abcdef") != "" {
		return "", 0, false
	}
	n, err := strconv.ParseInt(suffix, 10, 32)
	if err != nil || suffix[0] == '+' {
		return "", 0, false
	}
	return GUID(guid), int32(n), true
}

// SeemsOlder guesses from the sequence numbers of two candidates of one election whether the first
// is older. The guess is right unless the counter of the election has made half a turn between the
// two, or somebody else has made up a name.
func SeemsOlder(one, other string) bool {
	_, a, _ := parseName(one)
	_, b, _ := parseName(other)
	return a-b < 0 // also if the counter has wrapped
}

// NamePrefix begins the candidate's name. The server appends a sequence number.
func (id GUID) NamePrefix() string { return prefix + string(id) + "-" }

// IsCandidate reports that ParseName can read the name.
func IsCandidate(name string) bool {
	_, ok := ParseName(name)
	return ok
}

// EntryData is what a candidate's znode holds, as JSON.
type EntryData struct {
	Holder string `json:"holder"`
}

// Acknowledgement is what the leader's acknowledgement holds, as JSON.
type Acknowledgement struct {
	Token  fence.Token `json:"token"`
	Holder string      `json:"holder"`
}

// Parse decodes data that another program may have written. What does not fit becomes the zero
// value.
func Parse[T any](data []byte) T {
	var v, none T
	if json.Unmarshal(data, &v) != nil {
		return none
	}
	return v
}

// Encode cannot fail for the types above.
func Encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
