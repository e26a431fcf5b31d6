// Package arq carries messages over a stream of numbered records, whatever becomes of the
// sockets below. It is the state machine of a relay stream after its handshake, for
// either end: pure state, without goroutine, lock, timer, socket or cipher.
//
// There are two profiles. In the reliable one every segment is acknowledged, sent again
// as the same bytes until it is, and taken once; credit limits the sender; a stream
// outlives its socket and goes on over the next. In the codex profile the same code
// numbers, orders and cuts, and leaves the rest to the socket, as codex 0.171.0 does.
//
// A Stream is made of small states, each in a file of its own:
//
//	sender    cuts messages, keeps segments until they are acknowledged; resend.go
//	          says which go again, and when (rtt estimates how long an ack takes)
//	receiver  puts records in order, has them opened, stitches messages (assembler);
//	          acks.go says when to acknowledge, and the window
//	liveness  heartbeats, a silent peer, the life of a stream without contact
//
// # States
//
//	         New
//	          │
//	          ▼    the peer is silent for 45 s
//	   ┌──► open ────────────────────────► silent ◄──┐
//	   │      │ Detach                       │ │     │ silent for 45 s
//	   │      ▼            Detach            │ │     │
//	   │   detached ◄────────────────────────┤ │     │
//	   │      │ Attach: epoch+1              │ │     │
//	   │      ▼            Attach            │ │     │
//	   ├─── asking ◄─────────────────────────┘ │     │
//	   │      └────────────────────────────────┼─────┘
//	   └───────────────────────────────────────┘
//	 the peer is heard                               any ──► ended
//
//	open      Segments, acks and heartbeats flow.
//	asking    There is a new socket. A resume goes over it, again and again with doubling
//	          pauses, until any frame of the peer comes.
//	silent    Nothing is sent. The harness replaces its socket; the executor waits for it.
//	detached  There is no socket.
//	ended     Err says why, for ever. What was received whole can still be taken.
//
// Outside of open, no segment is sent and no resend timer runs; a message that is being
// written is cut and queued up to the bounds, then its writer waits. Whenever a stream
// becomes open again, and whenever a frame has a newer epoch (the peer replaced its
// socket), all that is not acknowledged is sent again at once. A resume that is the first
// of its epoch is answered by a resume; one more of the same epoch by an ack, so that it
// is also the question "where are you?" of a sender that lacks credit.
//
// A stream ends by Reset, by a reset of the peer, for a protocol error, when a record
// number fails to open 8 times in a row, at segment number 2^32-1, 10 minutes after
// contact was lost, or when a peer that is there acknowledges nothing new for two minutes.
//
// # Segments
//
// A segment in the sender's queue is one of
//
//	due      goes out with the next frame
//	flying   was sent
//	suspect  was sent before one for which the timer went off
//	held     is kept by the peer ahead of a gap, says ack_bits
//
// due becomes flying when sent. flying and suspect become held by an ack bit, due when
// three later ones are held (once a round trip), or by a new socket; the oldest becomes
// due when the timer goes off, which makes what was flying as long suspect. Suspects
// become due two for each segment acknowledged, or flying again when one of them turns
// out to have arrived. A cumulative ack takes segments out of the queue. Bits do not: a
// peer opens records in order, and one that it keeps may turn out to be forged. The
// segment right after a cumulative ack is the one the peer lacks, so if it was held it is
// due.
//
// # What somebody in between can do
//
// Acks, windows, epochs, resets, index and count are not protected by the cipher. Acks of
// what was not sent, acks that move back and windows wider than any peer's are ignored
// and counted. A forged ack makes the sender forget a segment; then the peer's true acks
// lag behind, and two minutes of nothing else are a protocol error. A forged epoch cuts the
// stream off, until its life is over. Index and count decide only how pieces make
// messages; Seal and Open are given them, so that a cipher can bind them to the record.
//
// # Bounds
//
// A sender holds at most 256 segments and 8 MiB, and one message that it was lent. A
// receiver keeps at most 256 records and 8 MiB ahead of a gap; one message in the making,
// at most 64 MiB, which takes memory as it arrives; and the messages that wait to be
// taken: as many segments as the window let in, 256 beside the last message that fits.
//
// Each payload is copied at most once each way: by Seal into the record, and from the
// records of a long message into the message. A message of one record is handed on in
// place.
package arq
