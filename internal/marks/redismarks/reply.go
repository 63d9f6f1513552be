package redismarks

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// reply is the answer of a script: a verdict, and what the script adds to it.
type reply []any

func newReply(fields []any) (reply, error) {
	if len(fields) == 0 {
		return nil, errors.New("redis answered an empty list: guard and scripts do not fit")
	}
	return fields, nil
}

// verdict returns the first field of a reply.
func (r reply) verdict() string { return text(r[verdictField]) }

// decision is a verdict on one of the claims of a script, and the mark of that claim's resource.
type decision struct {
	verdict   string
	claim     int // the index of the claim
	mark      marks.Mark
	installed bool
	lost      bool   // the registry is lost
	kept      bool   // there are records of sessions that may still live at other servers
	basis     string // everything that a raise depends on; the raise compares it
	runID     string // of the server that has answered
	left      string // older sessions that may still live at another server; no script sets it
}

// The fields of a decision, in the order in which the functions answer and answer_for_raise of
// lua/common.lua return them.
const (
	verdictField = iota
	claimField
	tokenField
	issuerField
	holderField
	raisedField
	confirmedField
	installedField
	sessionsField
	continuedField
	adoptionField
	lostField
	basisField
	runField
	candidateField
	rolledBackField
	answerFields // how many the function answer returns

	keptField = answerFields // only answer_for_raise returns it
)

// decision reads a decision. Some verdicts come alone, because the script read no mark.
func (r reply) decision() (decision, error) {
	d := decision{verdict: r.verdict()}
	if len(r) < answerFields {
		return d, nil
	}
	claim, err := strconv.Atoi(text(r[claimField]))
	if err != nil {
		return d, err
	}
	d.claim = claim - 1 // Lua counts from 1
	d.mark, err = parseMark(r)
	d.installed, d.lost = flag(r[installedField]), flag(r[lostField])
	d.kept = len(r) > keptField && flag(r[keptField])
	d.basis, d.runID = text(r[basisField]), text(r[runField])
	return d, err
}

// parseMark reads the mark in the fields of a decision. The fields do not name its resource.
func parseMark(fields []any) (marks.Mark, error) {
	if len(fields) < answerFields {
		return marks.Mark{}, fmt.Errorf("redis answered %d fields for a mark", len(fields))
	}
	m := marks.Mark{
		Issuer:     fence.Issuer(text(fields[issuerField])),
		Holder:     text(fields[holderField]),
		Candidate:  text(fields[candidateField]),
		Adoption:   text(fields[adoptionField]),
		Confirmed:  flag(fields[confirmedField]),
		Continued:  flag(fields[continuedField]),
		RolledBack: flag(fields[rolledBackField]),
	}
	if err := m.Token.UnmarshalText([]byte(text(fields[tokenField]))); err != nil {
		return m, fmt.Errorf("the mark in Redis is not a token: %w", err)
	}
	var err error
	if m.Raised, err = parseTime(text(fields[raisedField])); err != nil {
		return m, fmt.Errorf("the mark in Redis has no time: %w", err)
	}
	m.Sessions, err = strconv.Atoi(text(fields[sessionsField]))
	return m, err
}

// parseTime reads microseconds since 1970; 0 is the zero time.
func parseTime(micros string) (time.Time, error) {
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(n), nil
}

// text returns a field that is a text; "" if it is none.
func text(field any) string {
	s, _ := field.(string)
	return s
}

// flag returns a field that the function flag of lua/common.lua has made.
func flag(field any) bool { return text(field) == "1" }
