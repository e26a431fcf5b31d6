//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A model is a stand-in for the model provider. Each request gets the next step of
// its script.
type model struct {
	URL string

	mu      sync.Mutex
	script  []step
	outputs []toolOutput // what the client's tools have returned, oldest first
	tools   []string     // that the client offered, by name
	faults  []string
}

// A step answers one request of the client, given what its tools have returned.
type step func(outputs []toolOutput) item

// A toolOutput is what a tool call returned.
type toolOutput struct {
	CallID string
	Text   string
}

// An item is what the model answers with.
type item map[string]any

// call has the client call a function tool.
func call(name string, arguments any) step {
	return func([]toolOutput) item {
		text, err := json.Marshal(arguments)
		if err != nil {
			panic(err) // the arguments are written in the tests
		}
		return item{"type": "function_call", "name": name, "arguments": string(text)}
	}
}

// custom has the client call a tool that takes free text.
func custom(name, input string) step {
	return func([]toolOutput) item {
		return item{"type": "custom_tool_call", "name": name, "input": input}
	}
}

// say ends a turn with the text of the last tool output.
func say() step {
	return func(outputs []toolOutput) item {
		text := "FINAL:"
		if n := len(outputs); n > 0 {
			text += " " + outputs[n-1].Text
		}
		return item{
			"type": "message", "role": "assistant", "id": "m1",
			"content": []any{map[string]any{"type": "output_text", "text": text}},
		}
	}
}

// newModel serves a script until the test ends.
func newModel(t *testing.T, script ...step) *model {
	t.Helper()
	m := &model{script: script}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.URL = server.URL + "/v1"
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	var body struct {
		Input []struct {
			Type   string
			CallID string `json:"call_id"`
			Output json.RawMessage
		}
		Tools []struct{ Type, Name string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		m.fault("request: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var outputs []toolOutput
	for _, in := range body.Input {
		if strings.HasSuffix(in.Type, "_call_output") {
			outputs = append(outputs, toolOutput{in.CallID, text(in.Output)})
		}
	}
	m.mu.Lock()
	m.outputs, m.tools = outputs, nil
	for _, tool := range body.Tools {
		m.tools = append(m.tools, tool.Name)
	}
	next := say()
	if len(m.script) > 0 {
		next, m.script = m.script[0], m.script[1:]
	}
	m.mu.Unlock()

	out := next(outputs)
	if out["type"] != "message" {
		out["call_id"] = fmt.Sprintf("call-%d", len(outputs)+1)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	id := map[string]any{"id": fmt.Sprintf("r%d", len(outputs)+1)}
	event(w, "response.created", map[string]any{"response": id})
	event(w, "response.output_item.done", map[string]any{"item": out})
	id["usage"] = map[string]any{
		"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1,
		"output_tokens_details": nil, "total_tokens": 2,
	}
	event(w, "response.completed", map[string]any{"response": id})
}

func event(w http.ResponseWriter, name string, data map[string]any) {
	data["type"] = name
	text, _ := json.Marshal(data)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
}

// text is a tool's output, which is text, or a list of contents with text.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var contents []struct{ Text string }
	if json.Unmarshal(raw, &contents) == nil {
		for _, c := range contents {
			s += c.Text
		}
		return s
	}
	return string(raw)
}

func (m *model) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// results are the tool outputs so far. It fails the test if the client sent the model
// what it did not understand.
func (m *model) results(t *testing.T) []toolOutput {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		t.Errorf("model: %s", f)
	}
	return m.outputs
}
