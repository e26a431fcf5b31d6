package process

import (
	"testing"
	"testing/synctest"
)

func TestWindow(t *testing.T) {
	for name, fill := range map[string]struct{ size, count int }{
		"bytes":  {maxUnpublishedBytes / 4, 4},
		"chunks": {1, maxUnpublishedChunks},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w window
				stop := make(chan struct{})
				for i := range fill.count {
					if w.full() {
						t.Fatalf("full after %d", i)
					}
					w.add(fill.size)
				}
				passed := 0
				go func() {
					for w.wait(stop) {
						passed++
						w.add(maxUnpublishedBytes)
					}
				}()
				synctest.Wait()
				if passed != 0 {
					t.Fatal("a full window lets a pump pass")
				}
				for range fill.count {
					w.remove(fill.size)
				}
				synctest.Wait()
				if passed != 1 {
					t.Errorf("passed %d times after there was room", passed)
				}
				close(stop)
				synctest.Wait()
				if w.wait(stop) {
					t.Error("a stopped pump passes")
				}
			})
		})
	}
}
