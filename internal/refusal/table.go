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
	{fence.ReasonStale, "RF001", "STALETOKEN"},
	{fence.ReasonNoToken, "RF002", "NOTOKEN"},
	{fence.ReasonMalformed, "RF003", "BADTOKEN"},
	{fence.ReasonOtherIssuer, "RF004", "ISSUER"},
	{fence.ReasonNotInstalled, "RF005", "NOTINSTALLED"},
	{fence.ReasonUnrevoked, "RF006", "REVOKE"},
	{fence.ReasonNotLeader, "RF007", "NOTLEADER"},
	{fence.ReasonNotAllowed, "", "NOTALLOWED"},
	{fence.ReasonNotAuthorized, "RF010", "NOTAUTHORIZED"},
	{fence.ReasonNoCoordinator, "RF007", "NOTLEADER"}, // clients try again, as after ReasonNotLeader
}

// SQLState is the code of a reason in Postgres: a SQLSTATE of class RF.
func SQLState(r fence.Reason) string {
	for _, row := range table {
		if row.reason == r && row.sqlState != "" {
			return row.sqlState
		}
	}
	return SQLState(fence.ReasonMalformed)
}

// OfSQLState is the reason with this code; 0 when it is no code of a refusal.
func OfSQLState(code string) fence.Reason {
	for _, row := range table {
		if code != "" && row.sqlState == code {
			return row.reason
		}
	}
	return 0
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

// OfWord is the reason with this word; 0 when it is no word of a refusal.
func OfWord(word string) fence.Reason {
	for _, row := range table {
		if row.word == word {
			return row.reason
		}
	}
	return 0
}
