package arq

// Stats count what a stream did and what it was told. They only grow.
type Stats struct {
	// SentData and SentAcks are frames with a segment, resends included, and frames
	// for the sake of the ack alone.
	SentData, SentAcks uint64
	// Resent are the segments sent again: after the timer went off Timeouts times,
	// because later ones had arrived Fast times, for a new socket.
	Resent, Timeouts, Fast uint64

	// Messages are those received whole.
	Messages uint64
	// Duplicates are segments that had come before, Beyond those ahead of what may be
	// kept, Unopened the records that failed to open, Malformed the frames that are none.
	Duplicates, Beyond, Unopened, Malformed uint64
	// AckBack are acks that move back, AckBeyond those, and the bits, of what was
	// never sent, WindowBeyond windows that no peer has. All were ignored.
	AckBack, AckBeyond, WindowBeyond uint64
	// OldEpoch are the frames of a socket that the peer has replaced.
	OldEpoch uint64
}
