package servers

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the OS user of a server; nil is the caller's.
type account struct{ uid, gid uint32 }

// unprivileged returns the account for servers that refuse to run as root. It is nil unless the
// caller is root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return newAccount(u)
		}
	}
	return nil, errors.New("the server cannot run as root, and there is no OS user postgres or nobody")
}

func newAccount(u *user.User) (*account, error) {
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("OS user %s: %w", u.Username, err)
	}
	return &account{uid: uint32(uid), gid: uint32(gid)}, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own makes the account the owner of the file or directory.
func (a *account) own(name string) error {
	if a == nil {
		return nil
	}
	return os.Chown(name, int(a.uid), int(a.gid))
}

// writeFile writes a file that the account can read.
func (a *account) writeFile(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	return a.own(name)
}
