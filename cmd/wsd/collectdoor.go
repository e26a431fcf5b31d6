package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// doorPatience is how long a 'wsd gc' may take to say what it wants.
	doorPatience = 5 * time.Second
	// maxDoorBytes bounds what it says, and what it is answered.
	maxDoorBytes = 4 << 10
)

// A collectDoor lets 'wsd gc' collect the garbage of a store that this process has open: a socket that
// belongs to this user alone. Requests are served one after the other.
type collectDoor struct {
	listener net.Listener
	collect  func(ctx context.Context, now bool) (protocol.CollectResult, error)
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// A doorAnswer is what a collection did.
type doorAnswer struct {
	protocol.CollectResult
	Error string `json:"error,omitempty"`
}

// collectDoorPath is the socket of the process that has a store open.
func collectDoorPath(store string) (string, error) {
	dir, err := userRuntimeDir()
	if err != nil {
		return "", err
	}
	if store, err = filepath.EvalSymlinks(store); err == nil {
		store, err = filepath.Abs(store)
	}
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(string(dir), "gc-"+hex.EncodeToString(sum[:8])), err
}

// openCollectDoor opens the door of a store whose lock this process has.
func openCollectDoor(store string, collect func(ctx context.Context, now bool) (protocol.CollectResult, error)) (*collectDoor, error) {
	path, err := collectDoorPath(store)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // a killed process left it
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		stop()
		return nil, err
	}
	d := &collectDoor{listener: listener, collect: collect, stop: stop}
	d.done.Go(func() { // ends with Close
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.serve(ctx, conn)
		}
	})
	return d, nil
}

// serve answers one request.
func (d *collectDoor) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(doorPatience))
	var params protocol.CollectParams
	if json.NewDecoder(io.LimitReader(conn, maxDoorBytes)).Decode(&params) != nil {
		return
	}
	var answer doorAnswer
	var err error
	if answer.CollectResult, err = d.collect(ctx, params.Now); err != nil {
		answer.Error = err.Error()
	}
	_ = conn.SetDeadline(time.Now().Add(doorPatience))
	_ = json.NewEncoder(conn).Encode(&answer) // who asked may be gone
}

// Close removes the socket, and waits for a collection under way, which it ends.
func (d *collectDoor) Close() error {
	d.stop()
	err := d.listener.Close()
	d.done.Wait()
	return err
}

// askDoor has the process that has a store open collect it. open: there is one that does so.
func askDoor(ctx context.Context, store string, now bool) (done protocol.CollectResult, open bool, err error) {
	path, err := collectDoorPath(store)
	if err != nil {
		return done, false, nil //nolint:nilerr // Nobody has a door there.
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return done, false, nil //nolint:nilerr // It is none that has one.
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var answer doorAnswer
	err = json.NewEncoder(conn).Encode(&protocol.CollectParams{Now: now})
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, maxDoorBytes)).Decode(&answer)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("ask the process that has %s open: %w", store, err)
	case answer.Error != "":
		err = fmt.Errorf("the process that has %s open: %s", store, answer.Error)
	}
	return answer.CollectResult, true, err
}
