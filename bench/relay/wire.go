package main

import (
	"context"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// wire is the raw.Wire of a connection of the client library's. Like the library it
// bounds nothing here; the run as a whole is bounded.
type wire struct{ conn rpc.Connection }

func (w wire) Send(msg []byte) error      { return w.conn.Write(context.Background(), msg) }
func (w wire) ReadBytes() ([]byte, error) { return w.conn.Read(context.Background()) }
func (w wire) Close() error               { return w.conn.Close() }
