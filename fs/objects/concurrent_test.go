package objects_test

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
)

func TestConcurrent(t *testing.T) {
	d := openNew(t)
	d.SetPackSize(4 << 10)
	to, _ := directory(t)
	type kept struct {
		place objects.Place
		data  string
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []kept
	)
	keep := func(p objects.Place, data string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, kept{p, data})
	}
	worker := func(fn func(n, i int) error) {
		for n := range 4 {
			wg.Go(func() {
				for i := range 50 {
					if err := fn(n, i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	worker(func(n, i int) error { // packs and reads at once
		data := strings.Repeat(fmt.Sprintf("pack %d %d ", n, i), 1+i)
		p, err := d.Pack([]byte(data))
		if err != nil {
			return err
		}
		keep(p, data)
		d.Packing(p.File)
		got, err := d.Read(p, int64(len(data)), nil)
		if string(got) != data {
			return fmt.Errorf("%v: %.30q, want %.30q, %w", p, got, data, err)
		}
		return nil
	})
	w := d.Writer()
	worker(func(n, i int) error { // all write with one Writer
		data := fmt.Sprintf("file %d %d", n, i)
		p, err := w.Write([]byte(data))
		keep(p, data)
		return err
	})
	worker(func(n, i int) error { // each takes or removes its own
		w := d.Writer()
		p, err := w.Write(window(n))
		if err != nil {
			return err
		}
		if i%2 == 0 {
			err = d.Take(p.File, tree.ChunkSize, to, fmt.Sprintf("%d-%d", n, i))
		} else {
			err = d.Remove(p.File)
		}
		return errors.Join(err, w.Close())
	})
	worker(func(_, i int) error {
		if i%10 == 0 {
			return d.SyncFiles()
		}
		return d.Each(func(int64, int64) error { return nil })
	})
	wg.Wait()
	if len(all) != 400 {
		t.Errorf("%d are kept", len(all))
	}
	for _, k := range all {
		wantContent(t, d, k.place, []byte(k.data))
	}
}

// Close waits for nothing that waits for it.
func TestCloseBeside(t *testing.T) {
	d := openNew(t)
	to, _ := directory(t)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 4)
	for n := range 4 {
		wg.Go(func() {
			begun <- struct{}{}
			w := d.Writer()
			defer w.Close()
			for i := 0; ; i++ {
				p, err := w.Write(window(n))
				if err == nil {
					err = d.Take(p.File, tree.ChunkSize, to, fmt.Sprintf("%d-%d", n, i))
				}
				if err == nil {
					_, err = d.Pack([]byte("x"))
				}
				if err != nil {
					wantErr(t, err, iofs.ErrClosed)
					return
				}
			}
		})
	}
	for range 4 {
		<-begun
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
