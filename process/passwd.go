package process

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// loginShell is the shell that the password file names for this user, /bin/sh if it
// names none.
func loginShell() string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return scriptShell
	}
	defer f.Close()
	if shell := shellOf(f, os.Getuid()); shell != "" {
		return shell
	}
	return scriptShell
}

// shellOf finds the shell of uid in a password file, "" if there is none.
func shellOf(passwd io.Reader, uid int) string {
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) {
			return fields[6]
		}
	}
	return ""
}
