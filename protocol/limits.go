package protocol

import "time"

// Limits of the wire. Each names the reaction to exceeding it.
const (
	// MaxMessageBytes bounds one incoming message, fragments together. Above it a
	// WebSocket is closed with 1009 and a stdio server ends.
	MaxMessageBytes = 64 << 20
	// MaxJSONValues bounds the values in one message, MaxJSONDepth its nesting.
	// Above either, the message is answered as unparsable.
	MaxJSONValues = 262_144
	MaxJSONDepth  = 126
	// MaxRequestsInFlight bounds the requests of one connection that have no answer
	// yet. At the limit the server stops reading that connection.
	MaxRequestsInFlight = 4096
	// MaxRequestBytesInFlight bounds the bytes of those requests likewise.
	MaxRequestBytesInFlight = 2 * MaxMessageBytes
	// MaxQueuedNotificationBytes bounds what waits to be written to a connection.
	// At the limit notifications wait, which holds back the child that prints.
	MaxQueuedNotificationBytes = 512 << 10

	// FreeConnectionBytes of each connection's messages, answers and bodies do not count
	// towards the server's memory budget; the rest does. For more than the budget has, a
	// request waits up to MemoryWait and is then refused with CodeBusy. For more than it
	// holds already it waits up to MemoryMoreWait, and so does a message that is being
	// received, whose connection is closed with 1013 then. MemoryPatience is how long a connection may
	// keep counted memory, while another one waits, without giving back as much or writing
	// an eighth of it; the one that holds most is closed then.
	FreeConnectionBytes = 256 << 10
	MemoryWait          = 15 * time.Second
	MemoryMoreWait      = 3 * time.Second
	MemoryPatience      = 30 * time.Second
	// MaxFirstMessageBytes bounds each message before initialize has succeeded, and
	// InitializeTimeout the time until initialized has arrived. The connection is closed
	// with 1009 and 1008. A stdio server has neither: its other end is its parent.
	MaxFirstMessageBytes = 64 << 10
	InitializeTimeout    = 10 * time.Second

	// PingInterval is the time between the server's WebSocket pings.
	PingInterval = 30 * time.Second
	// SessionGrace is how long a detached session keeps its processes.
	SessionGrace = 80 * time.Second
	// MaxDetachedSessions bounds the detached sessions of a server; the one detached
	// longest is dropped for a new one.
	MaxDetachedSessions = 1024
	// MaxConnections bounds the connections of a server; the next is refused, over HTTP
	// with status 503.
	MaxConnections = 4096
	// MaxHTTPConnections bounds the TCP connections that are no WebSocket, or not yet; for
	// the next the one is closed of which nothing was heard for longest. From one IP
	// address there are MaxHTTPConnectionsOfOne at most.
	MaxHTTPConnections      = 1024
	MaxHTTPConnectionsOfOne = MaxHTTPConnections / 2
	// MaxHTTPHeaderBytes bounds the head of an HTTP request, answered 431 above, and
	// HTTPHeaderTimeout the time it may take, TLS handshake included; the connection is
	// closed then. HTTPIdleTimeout is how long one is kept between requests.
	MaxHTTPHeaderBytes = 64 << 10
	HTTPHeaderTimeout  = 10 * time.Second
	HTTPIdleTimeout    = 60 * time.Second
	// ProbeTimeout is how long a connection may stay mute that was sent a ping because
	// another one asks for its session; it is dropped then.
	ProbeTimeout = 3 * time.Second
	// DrainTimeout bounds how long a stdio server answers what it has read after its
	// input ended; requests that run longer are cancelled.
	DrainTimeout = 30 * time.Second
	// ShutdownTimeout bounds a shutdown; what has not ended by then is left to the end of
	// the program.
	ShutdownTimeout = 5 * time.Second

	// ProcessRetention is how long a closed process stays readable.
	ProcessRetention = 80 * time.Second
	// MaxRetainedBytes and MaxRetainedChunks bound the output kept per process; the
	// oldest whole chunk goes first.
	MaxRetainedBytes  = 1 << 20
	MaxRetainedChunks = 50_000
	// MaxProcesses bounds the processes of one session, kept ones included; at the
	// limit process/start is refused.
	MaxProcesses = 8192
	// MaxProcessIDBytes bounds a process id, which every event carries; a longer one is
	// refused. MaxListedArgvBytes bounds the argv that process/list shows; the rest is cut.
	MaxProcessIDBytes  = 16 << 10
	MaxListedArgvBytes = 4 << 10
	// MaxTerminalSize bounds the rows and the columns of a terminal; more are refused.
	MaxTerminalSize = 10_000
	// MaxQueuedWrites and MaxQueuedWriteBytes bound the stdin queue of a process; at
	// either the answer to the next write waits.
	MaxQueuedWrites     = 128
	MaxQueuedWriteBytes = 8 << 20
	// MaxWriteIDs is how many accepted write ids a process remembers.
	MaxWriteIDs = 4096

	// MaxReadFileBytes bounds fs/readFile; larger files are read in blocks. It is
	// that of the wire (512 MiB).
	MaxReadFileBytes = 512 << 20
	// MaxBlockBytes bounds one block of a file stream.
	MaxBlockBytes = 1 << 20
	// MaxHandleIDBytes bounds a file handle's id, MaxFileHandles the open handles of
	// a connection.
	MaxHandleIDBytes = 32
	MaxFileHandles   = 128
	// MaxWalk* bound the options of fs/walk, MaxWalkBytes its answer, counted as the
	// length of each URI plus 64.
	MaxWalkDepth       = 64
	MaxWalkDirectories = 10_000
	MaxWalkEntries     = 50_000
	MaxWalkBytes       = 4 << 20
	// MaxWatches bounds the fs/watch subscriptions of a connection, MaxWatchIDBytes
	// the id of one; beyond either the request is refused.
	MaxWatches      = 64
	MaxWatchIDBytes = 128
	// MaxWatchedDirectories bounds the directories those watch together; beyond it
	// fs/watch is refused, and a tree that grows past it is reported as an overflow.
	MaxWatchedDirectories = 65_536
	// MaxQueuedFileEvents bounds the changes of one watch that are not reported yet;
	// beyond it they are lost and reported as an overflow. MaxChangesPerMessage
	// bounds one fs/changed.
	MaxQueuedFileEvents  = 16_384
	MaxChangesPerMessage = 1024
	// MaxMissingPaths bounds the list of fs/watchMissing; a longer one is not watched.
	MaxMissingPaths = 1024
	// MaxSearchBytes bounds the answers of fs/glob and fs/grep, counted as the length
	// of each URI and text plus 64; what is beyond is cut off as truncated.
	MaxSearchBytes = 16 << 20
	// MaxPatterns bounds each list of patterns, MaxPatternBytes a regular expression;
	// beyond either the request is refused.
	// MaxPatternSteps bounds the instructions that a regular expression compiles to, so
	// that repetitions in repetitions take neither memory nor time without end.
	MaxPatterns     = 1024
	MaxPatternBytes = 32 << 10
	MaxPatternSteps = 50_000
	// MaxGrepMatches and MaxGrepFileBytes are the defaults of fs/grep.
	MaxGrepMatches   = 1000
	MaxGrepFileBytes = 64 << 20
	// MaxSandboxHelpers bounds the sandbox helpers of a connection: the one used
	// longest ago ends for a new one, unless all have files or watches open, when the
	// request is refused.
	MaxSandboxHelpers = 8

	// MaxHTTPRequests bounds the http/request calls of a connection that are under
	// way; at the limit the next is refused. MaxHTTPBodyBytes bounds a body that is
	// not streamed.
	MaxHTTPRequests  = 64
	MaxHTTPBodyBytes = 64 << 20

	// MaxStreamsOut bounds the streams of a connection that the server writes,
	// MaxStreamsIn those that it reads; the request that would open another is refused.
	MaxStreamsOut = 256
	MaxStreamsIn  = 16
	// StreamWindow is the credit that a stream of the server's begins with when the client
	// states no window, and that the server gives those which it reads. ShellWindow is that
	// of a run's events. MaxStreamCredit bounds what a writer may have; more is cut.
	StreamWindow    = 1 << 20
	ShellWindow     = 256 << 10
	MaxStreamCredit = 1 << 30
	// StreamBatchBytes is how long one stream/items grows unless one item is longer.
	StreamBatchBytes = 256 << 10
	// MaxStreamItemsBytes bounds the items of one stream/items that the server reads. A
	// longer one, and one that there is no credit for, ends its stream. So the unread data
	// of a connection are at most MaxStreamsIn times this and StreamWindow.
	MaxStreamItemsBytes = 2 << 20
	// MaxStreamIDBytes bounds the id of a stream; a longer one is refused.
	MaxStreamIDBytes = 128
)
