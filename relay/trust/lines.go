package trust

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/relay/seal"
)

// A LineError is a line that makes no sense.
type LineError struct {
	Path string
	// Line is counted from 1.
	Line    int
	Problem string
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s line %d: %s", e.Path, e.Line, e.Problem)
}

// lines calls each with the number and the fields of every line that is no comment.
// What it returns becomes a *LineError.
func lines(path string, data []byte, each func(n int, fields []string) error) error {
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		fields := strings.FieldsFunc(line, unicode.IsSpace)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := each(n, fields); err != nil {
			return &LineError{Path: path, Line: n, Problem: err.Error()}
		}
	}
	return nil
}

// A KnownKey is one line of a file of known executors.
type KnownKey struct {
	Name        string
	Fingerprint seal.Fingerprint
	// Profile is "reliable-1" if the executor was met with that profile.
	Profile string
	Line    int
}

// profileReliable stands behind the fingerprint of an executor that was met with it.
const profileReliable = "reliable-1"

// parseKnown reads a file of known executors.
func parseKnown(path string, data []byte) ([]KnownKey, error) {
	var keys []KnownKey
	err := lines(path, data, func(n int, fields []string) error {
		name, err := cleanName(fields[0])
		if err != nil {
			return err
		}
		if len(fields) < 2 {
			return errors.New("no fingerprint after the name")
		}
		print, err := seal.ParseFingerprint(fields[1])
		if err != nil {
			return err
		}
		key := KnownKey{Name: name, Fingerprint: print, Line: n}
		if len(fields) > 2 && fields[2] == profileReliable {
			key.Profile = profileReliable
		}
		keys = append(keys, key)
		return nil
	})
	return keys, err
}

// parseAuthorized reads a file of authorized keys.
func parseAuthorized(path string, data []byte) (map[seal.Fingerprint]bool, error) {
	keys := map[seal.Fingerprint]bool{}
	err := lines(path, data, func(_ int, fields []string) error {
		print, err := seal.ParseFingerprint(fields[0])
		if err != nil {
			return err
		}
		keys[print] = true
		return nil
	})
	return keys, err
}

// cleanName is the name of an executor as it is compared: the host in lower case.
func cleanName(name string) (string, error) {
	host, rest, found := strings.Cut(name, "/")
	clean := strings.ToLower(host) + "/" + rest
	switch {
	case max(len(name), len(clean)) > MaxNameBytes:
		return "", fmt.Errorf("the name is longer than %d bytes", MaxNameBytes)
	case !found || host == "" || rest == "" || strings.HasSuffix(rest, "/"):
		return "", errors.New("the name is not HOST[:PORT][/PREFIX]/ENVIRONMENT")
	case strings.HasPrefix(name, "#") || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }):
		return "", errors.New("the name has characters that no name has")
	}
	return clean, nil
}
