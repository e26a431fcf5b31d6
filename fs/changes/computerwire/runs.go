package computerwire

import "github.com/wsd-dev/wsd/protocol/capnweb"

// ExecInput is the argument of shell.exec as it is sent: with both names that the command
// had in the course of time.
type ExecInput struct {
	Command   string            `json:"command"`
	Source    string            `json:"source"`
	Cwd       string            `json:"cwd,omitempty"`
	ID        string            `json:"id,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     []byte            `json:"stdin,omitempty"`
	TimeoutMs *float64          `json:"timeoutMs,omitempty"`
}

// GetExecInput is the argument of shell.getExec. After is a number, or "tail".
type GetExecInput struct {
	ID    string `json:"id"`
	After any    `json:"after,omitempty"`
}

// KillExecInput is the argument of shell.killExec.
type KillExecInput struct {
	ID     string `json:"id"`
	Signal string `json:"signal,omitempty"`
}

// DisposeExecInput is the argument of shell.disposeExec.
type DisposeExecInput struct {
	ID string `json:"id"`
}

// Run is the result of shell.exec and shell.getExec, S the form of the events.
type Run[S any] struct {
	ID     string            `json:"id"`
	Events capnweb.Stream[S] `json:"events"`
}

// OutputEvent is an event of stdout or stderr.
type OutputEvent struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// ExitEvent is the event of the end, with both names that the code had in the course of
// time.
type ExitEvent struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`
	Name  string `json:"name"`
	Value int    `json:"value"`
	Code  int    `json:"code"`
}

// Event is an event as it is received. Value is bytes or a number.
type Event struct {
	ID    string   `json:"id"`
	Seq   uint64   `json:"seq"`
	Name  string   `json:"name"`
	Value any      `json:"value"`
	Code  *float64 `json:"code"`
}
