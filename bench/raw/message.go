package raw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Message is one that was read. It points into the client's buffer and is valid
// until the next one is read.
type Message struct {
	Raw    []byte
	Method string // of a notification or request
	ID     int64  // of a response; -1 where the server could not tell
	// Failed is true for an error response.
	Failed bool
}

var (
	prefixID     = []byte(`{"id":`)
	prefixMethod = []byte(`{"method":"`)
)

// parse looks at the beginning of a message. Only what begins unlike the usual
// messages is decoded as a whole.
func parse(raw []byte) (Message, error) {
	m := Message{Raw: raw}
	if rest, ok := bytes.CutPrefix(raw, prefixMethod); ok {
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			m.Method = string(rest[:end])
			return m, nil
		}
	}
	if rest, ok := bytes.CutPrefix(raw, prefixID); ok {
		if end := bytes.IndexByte(rest, ','); end >= 0 && bytes.HasPrefix(rest[end:], []byte(`,"result":`)) {
			id, err := strconv.ParseInt(string(rest[:end]), 10, 64)
			if err == nil {
				m.ID = id
				return m, nil
			}
		}
	}
	var all struct {
		ID     *int64
		Method string
		Error  json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return m, fmt.Errorf("message %.80q: %w", raw, err)
	}
	m.Method, m.Failed = all.Method, all.Error != nil
	if all.ID != nil {
		m.ID = *all.ID
	}
	return m, nil
}

// Text is the value of the first member called name that holds text without
// escapes: an id, a stream's name, base64. It is nil if there is none.
func (m Message) Text(name string) []byte {
	_, rest, ok := bytes.Cut(m.Raw, []byte(`"`+name+`":"`))
	if !ok {
		return nil
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil
	}
	return rest[:end]
}

// DataBytes is how many bytes the base64 of the member called name stands for.
func (m Message) DataBytes(name string) int {
	text := m.Text(name)
	n := len(text) / 4 * 3
	for i := len(text) - 1; i >= 0 && text[i] == '='; i-- {
		n--
	}
	return n
}

// Closes reports whether m says that the process id has closed.
func (m Message) Closes(id string) bool {
	return m.Method == "process/closed" && string(m.Text("processId")) == id
}

// Decode decodes the result of a response or the params of a notification into v.
// An error response is an error.
func (m Message) Decode(v any) error {
	var all struct {
		Result json.RawMessage
		Params json.RawMessage
		Error  *WireError
	}
	if err := json.Unmarshal(m.Raw, &all); err != nil {
		return err
	}
	if all.Error != nil {
		return all.Error
	}
	if v == nil {
		return nil
	}
	if all.Result == nil {
		all.Result = all.Params
	}
	return json.Unmarshal(all.Result, v)
}

// A WireError is an error response.
type WireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *WireError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }
