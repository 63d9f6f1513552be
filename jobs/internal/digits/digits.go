// Package digits writes bytes as text that sorts as they do.
package digits

import "encoding/base32"

// encoding has digits that keep the order of the bits that they stand for, and are legal in names
// of resources.
var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Text writes bytes in these digits, five bits each.
func Text(b []byte) string { return encoding.EncodeToString(b) }

// Valid reports whether a text has only these digits.
func Valid(text string) bool { _, err := encoding.DecodeString(text); return err == nil }
