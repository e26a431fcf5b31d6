package protocol

import (
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/wsd-dev/wsd/protocol/wire"
)

// ExecParams starts a durable run.
type ExecParams struct {
	// Command is given to /bin/sh -c. Source is another name for it; Command counts more.
	Command *string `json:"command,omitempty" wire:"nullable"`
	Source  *string `json:"source,omitempty" wire:"nullable"`
	// Cwd is a path as the workspace has them, no URI; absent is the server's default.
	Cwd *string           `json:"cwd,omitempty" wire:"nullable"`
	ID  *string           `json:"id,omitempty" wire:"nullable"` // absent: the server chooses
	Env map[string]string `json:"env,omitempty" wire:"nullable"`
	// Stdin is all of the command's input.
	Stdin *Bytes `json:"stdin,omitempty" wire:"nullable"`
	// TimeoutMs ends the run; absent is the server's default, 0 is never.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty" wire:"nullable"`
	Window    *int64  `json:"window,omitempty" wire:"nullable"` // of the stream
}

// GetExecParams follows a run.
type GetExecParams struct {
	ID     string     `json:"id"`
	After  *ExecAfter `json:"after,omitempty" wire:"nullable"`  // absent: the beginning
	Window *int64     `json:"window,omitempty" wire:"nullable"` // of the stream
}

// ExecAfter is where to follow a run from: behind an event, which is a number on the
// wire, or from the present, which is "tail".
type ExecAfter struct {
	Seq  uint64
	Tail bool
}

var errExecAfter = errors.New(`invalid type: expected a number or "tail"`)

// UnmarshalWire reads both forms.
func (a *ExecAfter) UnmarshalWire(raw []byte) error {
	if string(raw) == `"tail"` {
		*a = ExecAfter{Tail: true}
		return nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return errExecAfter
	}
	*a = ExecAfter{Seq: n}
	return nil
}

// AppendWire writes both forms.
func (a ExecAfter) AppendWire(dst []byte) ([]byte, error) {
	if a.Tail {
		return append(dst, `"tail"`...), nil
	}
	return strconv.AppendUint(dst, a.Seq, 10), nil
}

// ExecResult answers shell/exec and shell/getExec; the stream is of ExecEvent.
type ExecResult struct {
	ID     string    `json:"id"`
	Events StreamRef `json:"events"`
	// LastSeq is the number of the last event that there is by now, Ended whether that is
	// the run's last. Absent when the server does not know.
	LastSeq *uint64 `json:"lastSeq,omitempty" wire:"nullable"`
	Ended   *bool   `json:"ended,omitempty" wire:"nullable"`
}

// KillExecParams sends a signal to a run.
type KillExecParams struct {
	ID     string  `json:"id"`
	Signal *string `json:"signal,omitempty" wire:"nullable"` // absent: SIGTERM
}

// DisposeExecParams forgets a run.
type DisposeExecParams struct {
	ID string `json:"id"`
}

// Names of ExecEvent.
const (
	ExecStdout = "stdout"
	ExecStderr = "stderr"
	ExecExit   = "exit"
)

// ExecEvent is an event of a run. On the wire stdout and stderr have the Data as value,
// in base64; exit has the Code twice, as value and as code.
type ExecEvent struct {
	ID   string
	Seq  uint64
	Name string
	Data []byte
	Code int
}

type execOutput struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type execExit struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`
	Name  string `json:"name"`
	Value int    `json:"value"`
	Code  int    `json:"code"`
}

// WireSize is about the length of what AppendWire writes.
func (e ExecEvent) WireSize() int { return base64.StdEncoding.EncodedLen(len(e.Data)) }

// AppendWire writes the form that goes with the name.
func (e ExecEvent) AppendWire(dst []byte) ([]byte, error) {
	if e.Name == ExecExit {
		return wire.Append(dst, execExit{e.ID, e.Seq, e.Name, e.Code, e.Code})
	}
	return wire.Append(dst, execOutput{e.ID, e.Seq, e.Name, e.Data})
}

// UnmarshalWire reads the form that goes with the name. Data goes into the memory that
// e.Data has, if there is room.
func (e *ExecEvent) UnmarshalWire(raw []byte) error {
	in := execEvent{Value: execValue{data: e.Data}}
	if err := wire.Unmarshal(raw, &in); err != nil {
		return err
	}
	if in.Value.isData == (in.Name == ExecExit) {
		return errExecValue
	}
	*e = ExecEvent{ID: in.ID, Seq: in.Seq, Name: in.Name, Data: in.Value.data, Code: in.Value.code}
	return nil
}

// execEvent is either form, read in one pass.
type execEvent struct {
	ID    string    `json:"id"`
	Seq   uint64    `json:"seq"`
	Name  string    `json:"name"`
	Value execValue `json:"value"`
}

type execValue struct {
	data   []byte
	code   int
	isData bool
}

var errExecValue = errors.New("an event's value does not go with its name")

// UnmarshalWire reads data, or a code.
func (v *execValue) UnmarshalWire(raw []byte) (err error) {
	if v.isData = raw[0] == '"'; v.isData {
		v.data, err = wire.UnmarshalBytes(v.data, raw)
		return err
	}
	v.data = nil
	return wire.Unmarshal(raw, &v.code)
}
