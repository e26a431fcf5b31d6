package protocol

// Methods of the history of commands.
const (
	MethodHistoryList = "history/list"
	MethodHistoryRead = "history/read"
)

// CapHistory announces them.
const CapHistory = "history"

// CapProcessJoin (a refinement of process/read, process/write and process/resize) lets
// clients name a process of another session.
const CapProcessJoin = "processJoin"

// MaxHistoryLimit is the most commands that one history/list returns.
const MaxHistoryLimit = 1000

// HistoryParams say which commands are listed: those that fit all that is set.
type HistoryParams struct {
	Number *int64 `json:"number,omitempty" wire:"nullable"` // that one
	Before *int64 `json:"before,omitempty" wire:"nullable"` // with lower numbers
	// AfterEnd is a LastEnd: the commands that have ended after it, those first that ended
	// first.
	AfterEnd *int64  `json:"afterEnd,omitempty" wire:"nullable"`
	ID       *string `json:"id,omitempty" wire:"nullable"`
	Client   *string `json:"client,omitempty" wire:"nullable"`
	// Text is in the words of the command line, with a space between each.
	Text    *string `json:"text,omitempty" wire:"nullable"`
	SinceMs *int64  `json:"sinceMs,omitempty" wire:"nullable"` // began then or later; Unix time
	Live    *bool   `json:"live,omitempty" wire:"nullable"`
	Failed  *bool   `json:"failed,omitempty" wire:"nullable"`
	// Limit is MaxHistoryLimit at most, which it is when it is absent.
	Limit *uint64 `json:"limit,omitempty" wire:"nullable"`
	// WaitMs has an answer with AfterEnd wait, for WaitMs at most, until a command has ended.
	WaitMs *uint64 `json:"waitMs,omitempty" wire:"nullable"`
}

// HistoryResult has the commands, those first that began last unless AfterEnd is set.
type HistoryResult struct {
	Commands []HistoryCommand `json:"commands"`
	// More says that there are others: with lower numbers, or that ended later.
	More bool `json:"more"`
	// LastEnd is where the next answer with AfterEnd begins: no command that fits and ended
	// up to it is missed. It stays the same when the server is started again. One below
	// AfterEnd is of another store, and comes without commands.
	LastEnd int64 `json:"lastEnd"`
}

// HistoryCommand is a command: a process of a session or a durable run.
type HistoryCommand struct {
	// Number is no other command's of the server's store, ever.
	Number    int64    `json:"number"`
	ID        string   `json:"id"` // its processId, or that of the run
	Durable   bool     `json:"durable"`
	SessionID string   `json:"sessionId"` // empty of a durable run
	Client    string   `json:"client"`    // the name that the client gave itself
	Peer      string   `json:"peer"`      // where its connection came from
	PID       int      `json:"pid"`       // 0 of a durable run
	Argv      []string `json:"argv"`      // cut where it is long
	// Cwd is a file URI of a process, and of a durable run as it was asked for.
	Cwd         string `json:"cwd"`
	TTY         bool   `json:"tty"`
	SandboxType string `json:"sandboxType"`
	StartedAtMs int64  `json:"startedAtMs"` // Unix time
	// EndedAtMs is null while it is live. For a command whose server was killed it is the time
	// at which a server noticed.
	EndedAtMs *int64 `json:"endedAtMs" wire:"nullable"`
	// ExitCode is null while it is live, and of a process whose server ended before it.
	ExitCode *int   `json:"exitCode" wire:"nullable"`
	Signal   string `json:"signal,omitempty" wire:"optional"`
	TimedOut bool   `json:"timedOut,omitempty" wire:"optional"`
	Limit    string `json:"limit,omitempty" wire:"optional"`
	// Bytes is how much it has printed, and KeptBytes how much of that is kept, the newest.
	// Both are 0 while it is live.
	Bytes     int64 `json:"bytes"`
	KeptBytes int64 `json:"keptBytes"`
}

// HistoryReadParams read what a command of the history has printed.
type HistoryReadParams struct {
	Number   int64   `json:"number"`
	AfterSeq *uint64 `json:"afterSeq,omitempty" wire:"nullable"`
	MaxBytes *uint64 `json:"maxBytes,omitempty" wire:"nullable"`
	WaitMs   *uint64 `json:"waitMs,omitempty" wire:"nullable"` // for output, or its end
}

// HistoryReadResult has output in order.
type HistoryReadResult struct {
	// Missing is between AfterSeq and the first chunk, null if nothing is.
	Missing *MissingEvents `json:"missing" wire:"nullable"`
	Chunks  []OutputChunk  `json:"chunks"`
	// Ended says that there is no output behind the chunks, nor will be.
	Ended   bool           `json:"ended"`
	Command HistoryCommand `json:"command"`
}

// MissingEvents are events of output that are not kept any more.
type MissingEvents struct {
	From uint64 `json:"from"`
	// To is the last of them. It is null when that is not known: nothing behind From is kept
	// of a durable run whose client has disposed of it.
	To *uint64 `json:"to" wire:"nullable"`
}
