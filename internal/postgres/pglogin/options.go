package pglogin

import (
	"net/url"
	"strings"
)

// Options reads the options of a URL, as libpq and the driver do: a + is no blank.
func Options(query string) (url.Values, error) {
	return url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
}

// Query writes options so that Options, libpq and the driver read them.
func Query(options url.Values) string {
	return strings.ReplaceAll(options.Encode(), "+", "%20")
}
