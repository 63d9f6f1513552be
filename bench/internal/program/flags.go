package program

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// Numbers declares a flag for a list of positive numbers, such as 10,100. It replaces the default.
func Numbers(f *flag.FlagSet, all *[]int, name, usage string) {
	f.Func(name, fmt.Sprintf("%s (default %s)", usage, text(*all)), func(list string) (err error) {
		*all, err = numbers(list)
		return err
	})
}

func text(all []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
}

func numbers(list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		all = append(all, n)
	}
	return all, nil
}
