package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// crontab is when the rounds of a job are due, as crontab(5) has it.
type crontab struct {
	minute, hour, day, month, weekday uint64 // bit n is set: the value n

	// both: a day is one of day and of weekday; else it is one of either. It is so if one of the two
	// fields begins with a star.
	both bool
	// fixed: neither minute nor hour begins with a star. The rounds are at times of the day, and none
	// of them is lost, or repeated, when clocks change.
	fixed bool

	zone *time.Location
}

// crontabField is one of the five.
type crontabField struct {
	name     string
	min, max uint64
	names    []string // of the values from min on
}

var crontabFields = [5]crontabField{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{
		name: "month", min: 1, max: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct " +
			"nov dec"),
	},
	{name: "day of week", max: 7, names: strings.Fields("sun mon tue wed thu fri sat")},
}

var crontabWords = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCrontab reads five fields or a word such as @daily. They are in UTC, or in the zone that
// stands before them.
func parseCrontab(text string) (*crontab, error) {
	texts := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	zone := time.UTC
	if name, value, ok := strings.Cut(texts[0], "="); ok && (name == "TZ" || name == "CRON_TZ") {
		var err error
		if zone, err = parseZone(value); err != nil {
			return nil, err
		}
		texts = texts[1:]
	}
	if len(texts) > 0 && strings.HasPrefix(texts[0], "@") {
		word := strings.Join(texts, " ")
		if crontabWords[word] == "" {
			return nil, fmt.Errorf("%q is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly "+
				"and @annually; a period is written as 15m", word)
		}
		texts = strings.Fields(crontabWords[word])
	}
	if len(texts) != len(crontabFields) {
		return nil, fmt.Errorf("there are %d fields and not 5: minute, hour, day of month, month, day "+
			"of week",
			len(texts))
	}
	var sets [len(crontabFields)]uint64
	var problems []error
	for i, f := range crontabFields {
		var err error
		if sets[i], err = f.parse(texts[i]); err != nil {
			problems = append(problems,
				fmt.Errorf("%s %q (%d to %d): %w", f.name, texts[i], f.min, f.max, err))
		}
	}
	const sunday = 1 << 7
	if sets[4]&sunday != 0 {
		sets[4] = sets[4]&^sunday | 1
	}
	star := func(i int) bool { return texts[i][0] == '*' }
	return &crontab{
		minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		both: star(2) || star(4), fixed: !star(0) && !star(1), zone: zone,
	}, errors.Join(problems...)
}

// parseZone reads the name of a time zone.
func parseZone(name string) (*time.Location, error) {
	switch name {
	case "":
		return nil, errors.New("the time zone is empty: name one, or leave TZ= out for UTC")
	case "Local":
		return nil, errors.New("the local time of a machine is not that of the others: name the zone")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}
	return zone, nil
}

// parse reads a list of numbers and ranges.
func (f crontabField) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, step, err := f.span(part)
		if err != nil {
			return 0, err
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

// span reads a number, or a range such as * or 1-5, which a step such as /2 may follow.
func (f crontabField) span(part string) (from, to, step uint64, err error) {
	span, every, stepped := strings.Cut(part, "/")
	first, last, ranged := strings.Cut(span, "-")
	switch {
	case part == "":
		return 0, 0, 0, errors.New("a part of the list is empty")
	case span == "*":
		from, to = f.min, f.max
	default:
		if from, err = f.value(first); err != nil {
			return 0, 0, 0, err
		}
		to = from
	}
	if ranged {
		if to, err = f.value(last); err != nil {
			return 0, 0, 0, err
		}
	}
	if from > to && strings.EqualFold(last, "sun") {
		to = f.max
	}
	step = 1
	switch {
	case from > to:
		return 0, 0, 0,
			fmt.Errorf("the range %s ends before it begins: write %d-%d,%d-%d", span, from, f.max, f.min, to)
	case stepped && !ranged && span != "*":
		return 0, 0, 0,
			fmt.Errorf("a step follows a range or *, not one number: write %s-%d/%s", span, f.max, every)
	case stepped:
		if step, err = number(every); err != nil || step == 0 {
			return 0, 0, 0, fmt.Errorf("the step %q is not a number from 1 on", every)
		}
	}
	return from, to, min(step, f.max+1), nil
}

// value reads a number or a name.
func (f crontabField) value(text string) (uint64, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + uint64(i), nil
	}
	n, err := number(text)
	switch {
	case err != nil && f.names != nil:
		return 0, fmt.Errorf("%q is neither a number nor one of %s", text, strings.Join(f.names, ", "))
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", text)
	case n < f.min || n > f.max:
		return 0, fmt.Errorf("%s is not %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// number reads a number without a sign. One that is too large is the largest one.
func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return n, err
}
