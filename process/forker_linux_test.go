package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestTextBusy: a program that somebody still holds open for writing is tried again,
// as one that was just written may be, but not for long.
func TestTextBusy(t *testing.T) {
	for open, want := range map[time.Duration]error{10 * time.Millisecond: nil, time.Second: syscall.ETXTBSY} {
		t.Run(open.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // whose time does not pass while a busy machine does something else
				script := filepath.Join(t.TempDir(), "script")
				file, err := os.OpenFile(script, os.O_WRONLY|os.O_CREATE, 0o755)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := file.WriteString("#!/bin/sh\nexit 7\n"); err != nil {
					t.Fatal(err)
				}
				closing := time.AfterFunc(open, func() { file.Close() })
				defer closing.Stop()
				f := newForker()
				defer f.wg.Wait()
				defer close(f.stop)
				p, err := f.fork(Command{Path: script, Argv: []string{script}, Dir: "/"}, []int{0, 1, 2}, false)
				if !errors.Is(err, want) {
					t.Fatalf("started: %v, want %v", err, want)
				}
				if want != nil {
					return
				}
				if status := p.Wait(); status.Code != 7 {
					t.Errorf("it ended with %+v", status)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
