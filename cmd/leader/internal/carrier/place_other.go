//go:build !linux

package carrier

// ownAddress returns an address for one term. A loopback interface may have one address only, whose
// ports come again.
func ownAddress(kind string) (address string, remove func(), err error) { return ownFolder(kind) }
