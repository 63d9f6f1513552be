package readonly

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/postgres/pglex"
)

// settings are what a session must not have otherwise when its next batch is looked at: the first makes
// its transactions read-only, the second is what judge relies on.
var settings = []wire.Param{
	{Name: "default_transaction_read_only", Value: "on"}, {Name: "standard_conforming_strings", Value: "on"},
}

// unsafeEncodings have characters whose second byte is a backslash in ASCII, so a string can end where
// the lexer does not see it.
var unsafeEncodings = []string{"SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004"}

// Login returns the startup parameters of a session without a token. Its settings come last, so they
// replace those of the client's options.
func Login(client []wire.Param) []wire.Param {
	return slices.Concat(slices.DeleteFunc(slices.Clone(client), func(p wire.Param) bool {
		name := strings.ReplaceAll(strings.Map(pglex.Lower, p.Name), "-", "_")
		return name == "transaction_read_only" || strings.HasPrefix(p.Name, "_pq_.") ||
			slices.ContainsFunc(settings, func(s wire.Param) bool { return s.Name == name })
	}), settings)
}

// Changed returns a setting that is not as it has to be, of those that the server has reported; no name
// if there is none.
func Changed(reported map[string]string) (name, value string) {
	for _, s := range settings {
		if reported[s.Name] != s.Value {
			return s.Name, reported[s.Name]
		}
	}
	if reported["is_superuser"] != "off" { // the session has set the role to a superuser
		return "is_superuser", reported["is_superuser"]
	}
	if slices.Contains(unsafeEncodings, strings.ToUpper(reported["client_encoding"])) {
		return "client_encoding", reported["client_encoding"]
	}
	return "", ""
}
