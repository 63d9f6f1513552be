package settings

// Secret is a text that no log and no help shows.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String returns "" or a placeholder.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
