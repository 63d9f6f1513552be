package fence

import "fmt"

// Resource is the name of what is protected, such as "orders": lower-case letters, digits and '_',
// starting with a letter, at most 48 characters. Such a name is legal in Postgres settings, in
// znodes and in Redis keys.
type Resource string

const maxResource = 48

// ParseResource checks a name. Anything but the form above is ErrBadResource.
func ParseResource(s string) (Resource, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("%w: it is empty", ErrBadResource)
	case len(s) > maxResource:
		return "", fmt.Errorf("%w: %s is longer than %d characters", ErrBadResource,
			excerpt(s), maxResource)
	case s[0] < 'a' || s[0] > 'z':
		return "", fmt.Errorf("%w: %s does not start with a lower-case letter",
			ErrBadResource, excerpt(s))
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return "", fmt.Errorf("%w: %s has a character other than a-z, 0-9 and _",
				ErrBadResource, excerpt(s))
		}
	}
	return Resource(s), nil
}
