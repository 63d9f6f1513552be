package redismarks

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
)

// functionsText is the code of the functions for other languages, without what makes it callable.
var functionsText = luaText("common") + luaText("gate") + luaText("commands") + luaText("functions")

// Library is the text of the functions for FUNCTION LOAD. Redis knows that from 7.0 on.
func Library() string { return "#!lua name=ringfence\n" + functionsText + luaText("library") }

// FunctionScript is the same for EVAL, and its hash for EVALSHA. Its first argument is the name of
// the function.
func FunctionScript() (text, sha string) {
	text = functionsText + luaText("call")
	sum := sha1.Sum([]byte(text))
	return text, hex.EncodeToString(sum[:])
}

// LoadFunctions loads the library into the server at url, in the place of an earlier version. The
// server replicates and saves it. missing says why the server has no library now although nothing
// failed: it is older than 7.0, or the user lacks the right.
func LoadFunctions(ctx context.Context, url string) (missing string, err error) {
	s, err := Open(ctx, url, Options{Connections: 1})
	if err != nil {
		return "", err
	}
	defer s.Close()
	err = retry(ctx, func() error {
		return s.db.Do(ctx, "FUNCTION", "LOAD", "REPLACE", Library()).Err()
	})
	switch {
	case err == nil:
		return "", nil
	case denied(err):
		return "the user may not load functions (FCALL): give it +function|load, or let an " +
			"administrator run guard install", nil
	case isUnknown(err):
		return "this Redis has no functions (FCALL): programs in other languages call " +
			"docs/ringfence.lua with EVALSHA", nil
	}
	return "", fmt.Errorf("load the functions: %w", err)
}

// isUnknown reports whether the server lacks a command.
func isUnknown(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "unknown command")
}
