package refusal

import "github.com/ringfence/ringfence/fence"

// Codes of refusals that only a checkpoint in Postgres has.
const (
	CheckpointConflict = "RF008" // the checkpoint has another version
	OtherResource      = "RF009" // the task belongs to another resource
)

// table has every reason once. A reason without a SQLSTATE of its own is reported as malformed.
var table = []struct {
	reason   fence.Reason
	sqlState string
	word     string
}{
	{fence.ErrStale, "RF001", "STALETOKEN"},
	{fence.ErrNoToken, "RF002", "NOTOKEN"},
	{fence.ErrMalformed, "RF003", "BADTOKEN"},
	{fence.ErrOtherIssuer, "RF004", "ISSUER"},
	{fence.ErrNotInstalled, "RF005", "NOTINSTALLED"},
	{fence.ErrUnrevoked, "RF006", "REVOKE"},
	{fence.ErrNotLeader, "RF007", "NOTLEADER"},
	{fence.ErrNotAllowed, "", "NOTALLOWED"},
	{fence.ErrNotAuthorized, "RF010", "NOTAUTHORIZED"},
	{fence.ErrNoCoordinator, "RF011", "NOCOORDINATOR"},
	{fence.ErrNotRaised, "RF012", "NOTRAISED"},
	{fence.ErrMarkInDoubt, "RF013", "INDOUBT"},
}

// Reasons yields every reason.
func Reasons(yield func(fence.Reason) bool) {
	for _, row := range table {
		if !yield(row.reason) {
			return
		}
	}
}

// SQLState is the code of a reason in Postgres: a SQLSTATE of class RF.
func SQLState(r fence.Reason) string {
	for _, row := range table {
		if row.reason == r && row.sqlState != "" {
			return row.sqlState
		}
	}
	return SQLState(fence.ErrMalformed)
}

// OfSQLState is the reason with this code; empty when it is no code of a refusal.
func OfSQLState(code string) fence.Reason {
	for _, row := range table {
		if code != "" && row.sqlState == code {
			return row.reason
		}
	}
	return ""
}

// Word is the code of a reason in Redis: the first word of the error.
func Word(r fence.Reason) string {
	for _, row := range table {
		if row.reason == r {
			return row.word
		}
	}
	return ""
}

// OfWord is the reason with this word; empty when it is no word of a refusal.
func OfWord(word string) fence.Reason {
	for _, row := range table {
		if row.word == word {
			return row.reason
		}
	}
	return ""
}
