package main

import (
	"context"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// answerTimeout bounds each message of a measurement.
const answerTimeout = time.Minute

// wire is the raw.Wire of a relay stream.
type wire struct{ conn rpc.Connection }

func (w wire) Send(msg []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return w.conn.Write(ctx, msg)
}

func (w wire) ReadBytes() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return w.conn.Read(ctx)
}

func (w wire) Close() error { return w.conn.Close() }
