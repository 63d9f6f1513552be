package redisguard

// hello is what the options of HELLO ask for.
type hello struct {
	users   [][]byte // whom it logs in; Redis 7 only the last one, Redis 6 one after the other
	name    []byte   // of the connection
	named   bool
	unknown bool // there is an option that the guard does not know
}

func parseHello(args [][]byte) (h hello) {
	for i := 2; i < len(args); i++ {
		switch behind := len(args) - 1 - i; {
		case behind >= 2 && equalFold(args[i], "AUTH"):
			h.users = append(h.users, args[i+1])
			i += 2
		case behind >= 1 && equalFold(args[i], "SETNAME"):
			h.name, h.named = args[i+1], true
			i++
		default:
			h.unknown = true
		}
	}
	return h
}

// clientName returns the name that a command gives to its connection.
func clientName(args [][]byte) (name []byte, ok bool) {
	switch {
	case len(args) == 3 && equalFold(args[0], "CLIENT") && equalFold(args[1], "SETNAME"):
		return args[2], true
	case equalFold(args[0], "HELLO"):
		h := parseHello(args)
		return h.name, h.named
	}
	return nil, false
}

// loginUser returns the user that a command logs in as: AUTH, or HELLO with AUTH.
func loginUser(args [][]byte) (user string, ok bool) {
	switch {
	case equalFold(args[0], "AUTH") && len(args) == 2:
		return defaultUser, true
	case equalFold(args[0], "AUTH") && len(args) == 3:
		return string(args[1]), true
	case equalFold(args[0], "HELLO"):
		if h := parseHello(args); len(h.users) > 0 {
			return string(h.users[len(h.users)-1]), true
		}
	}
	return "", false
}
