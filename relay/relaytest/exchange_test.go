package relaytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A message of these tests says of itself which one it is and what is in it: a number,
// the hash of what follows, and bytes by chance.
func message(number uint64, r *rand.Rand, most int) []byte {
	msg := make([]byte, 8+sha256.Size+r.IntN(most+1))
	binary.BigEndian.PutUint64(msg, number)
	random(msg[8+sha256.Size:], r)
	sum := sha256.Sum256(msg[8+sha256.Size:])
	copy(msg[8:], sum[:])
	return msg
}

// random fills b by chance.
func random(b []byte, r *rand.Rand) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], r.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
}

// errAltered is what must never happen: a message that is not the one that was sent.
var errAltered = errors.New("not what was sent")

func isAltered(err error) bool { return errors.Is(err, errAltered) }

// check says what is wrong with msg, which must be the one with this number, whole.
func check(msg []byte, number uint64) error {
	if len(msg) < 8+sha256.Size {
		return fmt.Errorf("%w: message %d has only %d bytes", errAltered, number, len(msg))
	}
	if got := binary.BigEndian.Uint64(msg); got != number {
		return fmt.Errorf("%w: message %d came as %d", errAltered, number, got)
	}
	if sum := sha256.Sum256(msg[8+sha256.Size:]); !bytes.Equal(sum[:], msg[8:8+sha256.Size]) {
		return fmt.Errorf("%w: message %d was altered", errAltered, number)
	}
	return nil
}

// echo serves a stream: it checks what comes and sends it back, in order. It returns
// nil when the stream has ended, and an error if a message was not as it must be. count
// is told of each message.
func echo(ctx context.Context, conn rpc.Connection, count func()) error {
	for n := uint64(0); ; n++ {
		msg, err := conn.Read(ctx)
		if err != nil {
			return nil
		}
		count()
		if err := check(msg, n); err != nil {
			return err
		}
		if conn.Write(ctx, msg) != nil {
			return nil
		}
	}
}

// A conversation sends messages to an echo and wants each of them back: once, in
// order, whole.
type conversation struct {
	conn rpc.Connection
	rand *rand.Rand
	// most is the size of the longest message.
	most int
	next uint64
}

// exchange sends n more messages and takes their echoes, which may lag behind.
func (c *conversation) exchange(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := c.next
	c.next += uint64(n)
	wrote := make(chan error, 1)
	go func() { // ends with ctx; exchange waits for it
		var err error
		for i := first; i < first+uint64(n) && err == nil; i++ {
			if err = c.conn.Write(ctx, message(i, c.rand, c.most)); err != nil {
				err = fmt.Errorf("write message %d: %w", i, err)
				cancel(err)
			}
		}
		wrote <- err
	}()
	for i := first; i < first+uint64(n); i++ {
		msg, err := c.conn.Read(ctx)
		if err == nil {
			err = check(msg, i)
		} else {
			err = fmt.Errorf("read message %d: %w", i, err)
		}
		if err != nil {
			cancel(err)
			<-wrote
			return err
		}
	}
	return <-wrote
}
