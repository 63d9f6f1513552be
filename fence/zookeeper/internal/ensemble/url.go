package ensemble

import (
	"errors"
	"strings"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

var form = campaign.Form{Kind: "ZooKeeper", Scheme: "zk", Port: "2181",
	BadPart: func(name string) bool {
		return name == "." || name == ".." || strings.ContainsFunc(name, badInName)
	}}

// parseURL reads the URL of New. Errors never show a password.
func parseURL(s string) (campaign.Address, error) {
	a, err := form.Parse(s)
	switch {
	case err != nil:
		return campaign.Address{}, err
	case strings.Contains(a.User, ":"):
		return campaign.Address{}, errors.New("the user in the ZooKeeper URL has a colon, which digest " +
			"credentials cannot have")
	case strings.HasPrefix(a.Path+"/", "/zookeeper/"):
		return campaign.Address{}, errors.New("the path /zookeeper in the ZooKeeper URL belongs to " +
			"ZooKeeper itself")
	}
	return a, nil
}

// badInName reports whether no name of a znode may contain the rune. ZooKeeper refuses control
// characters, and a % would look like an encoding, which nobody decodes.
func badInName(r rune) bool {
	return r <= 0x1f || 0x7f <= r && r <= 0x9f || r == '%' || r >= 0xd800
}
