package arq

import (
	"math"
	"math/rand/v2"
	"time"
)

// Profile chooses how a stream behaves. Both run through the same code.
type Profile uint8

const (
	// Reliable numbers, acknowledges and resends, and outlives its sockets.
	Reliable Profile = iota
	// Codex is what codex 0.171.0 does: it trusts its socket and ends with it.
	Codex
)

// Sizes, the same at both ends of every stream.
const (
	// MaxPiece is the most plaintext that a record carries.
	MaxPiece = 61440
	// MaxRecord is the longest record: a full piece and its tag.
	MaxRecord = MaxPiece + tagSize
	// MaxMessage is the longest message; the shortest has one byte.
	MaxMessage = 64 << 20
	// MaxPieces is how many segments a message of the reliable profile has at most.
	MaxPieces = (MaxMessage + MaxPiece - 1) / MaxPiece
	tagSize   = 16
)

// Bounds of the reliable profile.
const (
	// MaxSegments and MaxBytes bound what a sender holds for resending, and what a
	// receiver keeps ahead of a gap. MaxSegments is also the widest window.
	MaxSegments = 256
	MaxBytes    = 8 << 20
	// MaxFailures is how many records in a row may fail to open at one number.
	MaxFailures = 8
)

// Bounds of the codex profile. A peer that passes one of them makes a protocol error.
const (
	// CodexLead is how far ahead of the next record one may be.
	CodexLead = 64
	// CodexBytes is how much is kept ahead of a gap.
	CodexBytes = 1 << 20
	// CodexMessages is how many messages may wait to be taken.
	CodexMessages = 128
)

// Timers of the reliable profile.
const (
	// ResendFloor and ResendCeiling bound the resend timer, doubled or not.
	// ResendInitial is what it is before anything was measured.
	ResendFloor   = 200 * time.Millisecond
	ResendCeiling = 10 * time.Second
	ResendInitial = time.Second
	// AckDelay and AckSegments: an ack waits no longer than this, and for no more.
	AckDelay    = 25 * time.Millisecond
	AckSegments = 16
	// Heartbeat is how long a stream sends nothing; Silence how long it believes in a
	// peer that says nothing. Each is 10 percent longer or shorter, by chance.
	Heartbeat = 15 * time.Second
	Silence   = 45 * time.Second
	// DefaultLife and DefaultGiveUp are for the fields of Config. Whoever owns the socket
	// must find out before the latter that it is dead in one direction only: until then
	// there is a peer that is heard and acknowledges nothing. Pings take up to 90 s.
	DefaultLife   = 10 * time.Minute
	DefaultGiveUp = 2 * time.Minute
)

// maxSeq is the number that no segment has: a stream ends before it.
const maxSeq = math.MaxUint32

// A Config says what a stream needs of its owner. Seal and Open must be set, the zero
// value of everything else works.
type Config struct {
	Profile Profile

	// Seal returns the record that carries prefix and piece, one after the other, at
	// most MaxPiece together, as segment d (whose Payload is nil). It is called once
	// for each segment, in the order of their numbers. Only the first record of a
	// message of the codex profile has a prefix. Seal must not keep piece. The stream
	// keeps the record, and hands it out again unchanged, until it is acknowledged; an
	// error ends the stream.
	Seal func(d Data, prefix, piece []byte) (record []byte, err error)

	// Open returns what the record of segment d carries, or an error if it does not
	// authenticate. It is called in the order of the numbers, again with the same
	// number after an error. It may decrypt in place: the payload is not used again.
	// The stream keeps the piece until its message was taken.
	Open func(d Data) (piece []byte, err error)

	// Rand spreads heartbeats, so that streams that began together do not beat
	// together. Nil means no jitter.
	Rand *rand.Rand

	// Life is how long the stream outlives contact with its peer.
	Life time.Duration
	// GiveUp is how long it resends to a peer that is there, without progress.
	GiveUp time.Duration

	limits limits
}

// limits are the sizes and numbers that tests make smaller.
type limits struct {
	piece    int
	message  int
	pieces   int
	segments int
	bytes    int
	first    uint64 // the number of the first segment, both ways
}

func (c *Config) setDefaults() {
	set(&c.Life, DefaultLife)
	set(&c.GiveUp, DefaultGiveUp)
	set(&c.limits.piece, MaxPiece)
	set(&c.limits.message, MaxMessage)
	set(&c.limits.pieces, (c.limits.message+c.limits.piece-1)/c.limits.piece)
	set(&c.limits.segments, MaxSegments)
	set(&c.limits.bytes, MaxBytes)
}

func set[T ~int | ~int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// jittered is d, up to a tenth longer or shorter.
func (c *Config) jittered(d time.Duration) time.Duration {
	if c.Rand == nil {
		return d
	}
	return d - d/10 + time.Duration(c.Rand.Int64N(int64(d/5)+1))
}
