package eventlog

// Kind says what an Event is.
type Kind uint8

const (
	// KindOutput is a chunk of output: Stream and Data are set.
	KindOutput Kind = iota + 1
	// KindExited is the end of the command itself: Exit is set.
	KindExited
	// KindClosed says that no event will follow.
	KindClosed
)

// Event is something that happened to a command.
type Event struct {
	Seq    uint64 // from 1, without holes
	Kind   Kind
	Stream string // one of protocol.Stream*
	Data   []byte
	Exit   *Exit

	loan *loan // of Data's memory; nil when that is left to the garbage collector
}

// Exit is how a command ended.
type Exit struct {
	// Code is the status; 128 plus the signal's number for a child with pipes and 1
	// for one with a terminal when a signal ended it; -1 when the status is lost.
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, such as "SIGKILL", or empty.
	Signal        string `json:"signal,omitempty"`
	SandboxDenied bool   `json:"sandboxDenied,omitempty"`
	// TimedOut is true when its deadline ended it.
	TimedOut bool `json:"timedOut,omitempty"`
	// Limit is the limit that ended it, one of protocol.Limit*, or empty.
	Limit string `json:"limit,omitempty"`
}

// Size counts the output of events.
func Size(events []Event) (bytes int) {
	for i := range events {
		bytes += len(events[i].Data)
	}
	return bytes
}
