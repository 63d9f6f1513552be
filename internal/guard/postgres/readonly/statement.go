package readonly

import (
	"iter"
	"slices"

	"github.com/ringfence/ringfence/internal/postgres/pglex"
)

// What a session without a token may send. Its transactions are read-only because the guard has set
// default_transaction_read_only for it, and the server refuses everything that writes in them. Here
// is decided what a session may not send, because it could begin a transaction that is not read-only,
// or because it writes in spite of that.
//
// Only a list of statements passes, by their first word. Whatever is not listed needs a token.

// judgement is what the guard makes of a text.
type judgement struct {
	refused string // why it needs a token; empty if it does not
	depends bool   // on settings that a message before it may have changed
	ends    bool   // it may end a transaction
}

const (
	unreadable  = "the guard cannot tell where a string or a comment ends"
	notListed   = "without a token only statements that read pass, and this is none that the guard knows"
	makesTable  = "INTO makes a table"
	opensWrites = "it could begin a transaction that writes"
	tooLong     = "it has more than 100,000 words and signs"
	nothingNext = "nothing may follow the end of a transaction in the same query: " +
		"the next transaction could be one that writes"
)

// maxTokens is the most tokens of one statement. A token takes some 30 times the memory of its character.
const maxTokens = 100_000

// judge decides on a text of one or more statements, of which it holds one at a time.
func judge(text string) (j judgement) {
	l := pglex.New(text)
	var statement []pglex.Token
	var why string
	next := func() {
		switch {
		case len(statement) == 0:
			return
		case j.ends:
			why = nothingNext
		default:
			why, j.ends = judgeOne(statement)
		}
		statement = statement[:0]
	}
	for t := range l.Tokens() {
		switch {
		case t.Is(pglex.Character, ";"):
			next()
		case len(statement) == maxTokens:
			why = tooLong
		default:
			statement = append(statement, t)
		}
		if why != "" {
			return judgement{refused: why}
		}
	}
	if l.Unended != nil || l.Unclear {
		return judgement{refused: unreadable}
	}
	if next(); why != "" {
		return judgement{refused: why}
	}
	j.depends = l.Depends
	return j
}

// judgeOne returns why a statement is refused, or whether it may end a transaction.
func judgeOne(s []pglex.Token) (refused string, ends bool) {
	inner := unwrapped(s)
	wrapped := len(inner) < len(s)
	if len(inner) == 0 || inner[0].Kind != pglex.Word || wrapped && !queries[inner[0].Text] {
		return notListed, false
	}
	switch verb := s[0].Text; {
	case wrapped, queries[verb], verb == "declare":
		return withoutInto(s), false
	case harmless[verb]:
		return "", false
	case verb == "begin", verb == "start":
		return withoutWrite(s), false
	case verb == "commit", verb == "end", verb == "rollback", verb == "abort":
		if has(s, "prepared") {
			return "it would end a prepared transaction", false
		}
		return "", true
	case verb == "discard":
		return "", true
	case verb == "execute":
		return "", true // of a COMMIT, perhaps
	case verb == "set", verb == "reset":
		return judgeSetting(s[1:]), false
	case verb == "prepare":
		return judgePrepare(s), false
	case verb == "explain":
		return judgeExplain(s[1:])
	case verb == "copy":
		return judgeCopy(s), false
	}
	return notListed, false
}

// queries begin with these words. The server refuses those that write.
var queries = map[string]bool{"select": true, "with": true, "values": true, "table": true}

// harmless are statements that pass whatever is in them.
var harmless = map[string]bool{
	"show": true, "fetch": true, "move": true, "close": true, "savepoint": true, "release": true,
	"deallocate": true, "listen": true, "unlisten": true,
}

// has reports whether a word is in a statement.
func has(s []pglex.Token, text string) bool {
	return slices.ContainsFunc(s, func(t pglex.Token) bool { return t.Is(pglex.Word, text) })
}

// unwrapped leaves out the parentheses with which a statement begins.
func unwrapped(s []pglex.Token) []pglex.Token {
	for len(s) > 0 && s[0].Is(pglex.Character, "(") {
		s = s[1:]
	}
	return s
}

// outside goes through the tokens that are in no parentheses, with their places.
func outside(s []pglex.Token) iter.Seq2[int, pglex.Token] {
	return func(yield func(int, pglex.Token) bool) {
		depth := 0
		for i, t := range s {
			switch {
			case t.Is(pglex.Character, "("):
				depth++
			case t.Is(pglex.Character, ")"):
				depth--
			case depth == 0 && !yield(i, t):
				return
			}
		}
	}
}

// withoutInto refuses SELECT INTO. The server does, too, but not in EXPLAIN ANALYZE: there it makes the
// table in a read-only transaction.
func withoutInto(s []pglex.Token) string { return without(s, "into", makesTable) }

func withoutWrite(s []pglex.Token) string { return without(s, "write", opensWrites) }

func without(s []pglex.Token, text, why string) string {
	if has(s, text) {
		return why
	}
	return ""
}

// locked are the settings that a session without a token may not name.
var locked = map[string]bool{
	"transaction_read_only": true, "default_transaction_read_only": true, "authorization": true,
}

// judgeSetting decides on SET and RESET, without that word. The name must not be quoted: there are
// many ways to write a quoted name. It must be ASCII: the server folds other letters as the database's
// locale says, and the Turkish capital I with a dot to an i.
func judgeSetting(s []pglex.Token) string {
	for len(s) > 1 && (s[0].Is(pglex.Word, "session") || s[0].Is(pglex.Word, "local")) {
		s = s[1:]
	}
	switch {
	case len(s) == 0 || s[0].Kind != pglex.Word:
		return "the guard reads only names of settings that are not quoted"
	case !pglex.IsASCII(s[0].Text):
		return "the guard reads only names of settings in ASCII"
	case locked[s[0].Text]:
		return opensWrites
	}
	return withoutWrite(s) // SET TRANSACTION and SET SESSION CHARACTERISTICS
}

// judgePrepare decides on PREPARE name (types) AS query.
func judgePrepare(s []pglex.Token) string {
	if len(s) > 1 && s[1].Is(pglex.Word, "transaction") {
		return "a prepared transaction outlives its session"
	}
	for i, t := range outside(s) {
		if t.Is(pglex.Word, "as") {
			return judgeQuery(s[i+1:])
		}
	}
	return notListed
}

// judgeQuery decides on a query that is a part of a statement.
func judgeQuery(s []pglex.Token) string {
	s = unwrapped(s)
	if len(s) == 0 || s[0].Kind != pglex.Word || !queries[s[0].Text] {
		return notListed
	}
	return withoutInto(s)
}

// judgeExplain decides on EXPLAIN, without that word. EXPLAIN ANALYZE runs the query, and makes the
// table of CREATE TABLE AS and SELECT INTO also in a read-only transaction.
func judgeExplain(s []pglex.Token) (refused string, ends bool) {
	if len(s) > 0 && s[0].Is(pglex.Character, "(") && len(s) > 1 && s[1].Kind == pglex.Word && !queries[s[1].Text] {
		depth := 0
		for i, t := range s {
			if t.Is(pglex.Character, "(") {
				depth++
			}
			if t.Is(pglex.Character, ")") {
				if depth--; depth == 0 {
					s = s[i+1:]
					break
				}
			}
		}
	}
	for len(s) > 0 && (s[0].Is(pglex.Word, "analyze") || s[0].Is(pglex.Word, "analyse") || s[0].Is(pglex.Word, "verbose")) {
		s = s[1:]
	}
	if len(s) > 0 && s[0].Is(pglex.Word, "execute") {
		return "", true
	}
	return judgeQuery(s), false
}

// judgeCopy lets only COPY … TO STDOUT pass.
func judgeCopy(s []pglex.Token) string {
	out := false
	for i, t := range outside(s) {
		switch {
		case t.Is(pglex.Word, "from"):
			return "COPY FROM writes"
		case t.Is(pglex.Word, "to"):
			out = i+1 < len(s) && s[i+1].Is(pglex.Word, "stdout")
		}
	}
	if !out {
		return "without a token COPY writes to STDOUT only"
	}
	return withoutInto(s)
}
