package capnweb

import "time"

// Limits on what a peer can make a session hold or do. Each says what happens beyond it.
// "Aborts" means that the session ends with an abort message to the peer; other sessions
// notice nothing.
const (
	// MaxMessageBytes bounds one message. A larger one aborts.
	MaxMessageBytes = 32 << 20
	// MaxMessageValues bounds the JSON values in one message, MaxDepth the nesting of the
	// values that it stands for, MaxBigIntDigits the digits of one integer. More aborts.
	MaxMessageValues = 1 << 20
	MaxDepth         = 256
	MaxBigIntDigits  = 16_384

	// MaxExports bounds the calls, pipes and objects of this end that the peer has not
	// released, MaxImports the objects of the peer that this end holds. More aborts.
	MaxExports = 65_536
	MaxImports = 65_536
	// MaxCallsRunning bounds the calls that run at once. Those beyond wait their turn.
	MaxCallsRunning = 1024
	// MaxCallBytes bounds the messages of all calls that have not ended, counted with what
	// their arguments take over from other results. The call beyond it is rejected.
	MaxCallBytes = 128 << 20
	// MaxHeldBytes bounds the encoded results that the peer has not released. More aborts.
	MaxHeldBytes = 256 << 20
	// MaxValueBytes bounds one encoded value that this end sends. What is larger is
	// rejected in its place.
	MaxValueBytes = MaxMessageBytes - 1024
	// MaxMapSteps bounds the instructions that one remap runs, those of the remaps in it
	// included. The remap beyond it is rejected.
	MaxMapSteps = 65_536

	// MaxStreamBytes bounds the chunks of all streams of a session that nobody has taken
	// yet, counted as their messages and a fixed sum for each. The stream beyond it fails,
	// for its reader and its writer. Peers that keep to their window do not come near.
	MaxStreamBytes = 64 << 20

	// MaxChunksAhead bounds the chunks that streams of this end have taken from where they
	// come, to send them, and for which the queue has no room; streams beyond wait before
	// they take one. Those with a fixed window are not counted.
	MaxChunksAhead = 8

	// MaxQueuedBytes bounds what waits to be written to the peer. At the limit results,
	// chunks and calls of this end wait for room.
	MaxQueuedBytes = 1 << 20
	// MaxQueuedReplies bounds, in bytes above MaxQueuedBytes, the short answers that cannot
	// wait, as they come of reading. A peer that sends and never reads meets it: it aborts.
	MaxQueuedReplies = 4 << 20

	// MaxBatchBytes bounds the body of an HTTP batch; a larger one is answered 413.
	// MaxBatchAnswerBytes bounds the answer; a larger one fails the batch with 500.
	MaxBatchBytes       = MaxMessageBytes
	MaxBatchAnswerBytes = 64 << 20
	// BatchTimeout bounds the time that the calls of a batch may take; a longer one is
	// answered 504, and its calls are cancelled.
	BatchTimeout = time.Minute

	// FlushTimeout bounds how long a session that ends still writes what is queued.
	FlushTimeout = 2 * time.Second
	// lastWordsTime bounds how long the reason of a peer that ends a session is looked for
	// once nothing can be written to it.
	lastWordsTime = time.Second
)

const (
	// slowSource is how long a source may take for a chunk before others need not wait.
	slowSource = 500 * time.Millisecond
	// maxNesting bounds the brackets around a value, of which an array has two.
	maxNesting = 2*MaxDepth + 64
	// maxQuoted bounds what of a peer's message is quoted in an error.
	maxQuoted = 256
	// chunkOverhead is what a chunk counts besides its message, callOverhead a call.
	chunkOverhead = 256
	callOverhead  = 512
)

// bounds are the limits of a session that take much to reach, so that tests can lower
// them.
type bounds struct {
	exports, imports, running int
	callBytes, heldBytes      int
	streamBytes               int
	queuedBytes, replies      int
	batchAnswer               int
}

var defaultBounds = bounds{
	exports: MaxExports, imports: MaxImports, running: MaxCallsRunning,
	callBytes: MaxCallBytes, heldBytes: MaxHeldBytes,
	streamBytes: MaxStreamBytes,
	queuedBytes: MaxQueuedBytes, replies: MaxValueBytes + MaxQueuedReplies,
	batchAnswer: MaxBatchAnswerBytes,
}
