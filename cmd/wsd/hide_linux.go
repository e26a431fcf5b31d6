package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxStartBytes bounds the arguments and the environment that are looked through; the
// system has a lower one.
const maxStartBytes = 8 << 20

// hideSecrets overwrites the values of --secret and of the variables with secrets of ours
// where ps and /proc/PID/environ show what this program was started with: the commands
// that it runs could read them there. Strings of os.Args may have it no more then.
func hideSecrets() error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	start, end, err := startMemory(string(stat))
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	began := make([]byte, end-start)
	if _, err := io.ReadFull(io.NewSectionReader(mem, start, end-start), began); err != nil {
		return fmt.Errorf("read the arguments and the environment: %w", err)
	}
	for _, secret := range secretsIn(began) {
		if _, err := mem.WriteAt(bytes.Repeat([]byte{'x'}, secret.length), start+int64(secret.at)); err != nil {
			return fmt.Errorf("overwrite the secret: %w", err)
		}
	}
	return nil
}

// A span is some of a slice.
type span struct{ at, length int }

// secretsIn finds the secrets among arguments and variables, each of which ends with a NUL.
func secretsIn(began []byte) (found []span) {
	follows := false // the argument before was the flag
	for at := 0; at < len(began); {
		length := bytes.IndexByte(began[at:], 0)
		if length < 0 {
			length = len(began) - at
		}
		one, skip := string(began[at:at+length]), -1
		switch {
		case follows:
			skip = 0
		case strings.HasPrefix(one, "--secret="):
			skip = len("--secret=")
		default:
			if name, _, is := strings.Cut(one, "="); is && holdsSecret(name) {
				skip = len(name) + 1
			}
		}
		if skip >= 0 && length > skip {
			found = append(found, span{at + skip, length - skip})
		}
		follows = !follows && one == "--secret"
		at += length + 1
	}
	return found
}

// startMemory is where the arguments and, right behind them, the environment are: fields 48
// to 51 of /proc/PID/stat, see proc_pid_stat(5).
func startMemory(stat string) (start, end int64, err error) {
	const (
		firstField = 3 // after the name, which may have blanks and brackets in it
		argStart   = 48
		envEnd     = 51
	)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= envEnd-firstField {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields))
	}
	if start, err = strconv.ParseInt(fields[argStart-firstField], 10, 64); err == nil {
		end, err = strconv.ParseInt(fields[envEnd-firstField], 10, 64)
	}
	if err == nil && (start <= 0 || end < start || end-start > maxStartBytes) {
		err = fmt.Errorf("/proc/self/stat has arguments and environment at %d to %d", start, end)
	}
	return start, end, err
}
