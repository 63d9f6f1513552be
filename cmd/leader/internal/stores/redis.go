package stores

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/store/redisstore"
)

var redis = kind{
	Schemes: redismarks.Schemes,
	Form:    "redis://..., rediss://... with TLS, redis+sentinel://host1,host2,host3/NAME",
	Open:    func(url string, c elector.Observer) fence.Raiser { return redisstore.NewRaiser(url, c) },
	check:   redismarks.CheckURL,
	logTo:   redismarks.LogTo, loginRefused: driver.IsAuthError, foreign: foreignRedis,
}

var foreignRedisOptions = []string{"db", "protocol", "sslmode"}

func foreignRedis(u settings.URL) (settings.URL, error) {
	_, query, _ := strings.Cut(u.Reveal(), "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("the options behind the ? are no URL query")
	}
	for name := range options {
		if !slices.Contains(foreignRedisOptions, name) {
			return "", fmt.Errorf("a client's Redis URL may have the options %s, not %q",
				strings.Join(foreignRedisOptions, ", "), name)
		}
	}
	return u, nil
}
