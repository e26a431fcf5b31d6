package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseObject reads a JSON object that has the given members, each a string, each once,
// and no others. Names are compared byte by byte. It returns the values in the order of
// members.
func parseObject(data []byte, members ...string) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	values := make([]string, len(members))
	seen := make([]bool, len(members))
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("not a JSON object")
		}
		at := -1
		for i, m := range members {
			if name == m {
				at = i
			}
		}
		if at < 0 {
			return nil, errors.New("unknown member")
		}
		if seen[at] {
			return nil, fmt.Errorf("second %s", members[at])
		}
		value, err := d.Token()
		text, is := value.(string)
		if err != nil || !is {
			return nil, fmt.Errorf("%s is not a string", members[at])
		}
		values[at], seen[at] = text, true
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, errors.New("not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON object")
	}
	for i, m := range members {
		if !seen[i] {
			return nil, fmt.Errorf("no %s", m)
		}
	}
	return values, nil
}

// decodeBase64 decodes standard base64 with padding that has one form only, into dst
// exactly.
func decodeBase64(dst []byte, text string) error {
	if len(text) != base64.StdEncoding.EncodedLen(len(dst)) {
		return fmt.Errorf("%d characters of base64, want %d", len(text), base64.StdEncoding.EncodedLen(len(dst)))
	}
	// A line break, which the decoder passes over, makes the result too short.
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(dst) {
		return errors.New("bad base64")
	}
	copy(dst, b)
	return nil
}
