package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/raw"
)

const (
	smallOps    = 100
	entries     = 10_000
	listings    = 5
	streamBytes = 64 << 20
	blockBytes  = 1 << 20
)

func errShort(got, want int) error { return fmt.Errorf("got %d bytes of %d", got, want) }

type pathParams struct {
	Path string `json:"path"`
}

type writeParams struct {
	Path       string `json:"path"`
	DataBase64 []byte `json:"dataBase64"`
}

// transfer writes a file of size bytes n times and reads it as often. It returns the
// medians.
func transfer(ctx context.Context, s *subject, size, n int) (write, read time.Duration, err error) {
	c, err := s.dial(ctx, false)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	path := s.uri("file")
	data := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	id, msg, err := c.Encode("fs/writeFile", writeParams{path, data})
	if err != nil {
		return 0, 0, err
	}
	writes, err := stats.Repeat(n, func() error { return exchange(c, id, msg, nil) })
	if err != nil {
		return 0, 0, err
	}
	id, msg, err = c.Encode("fs/readFile", pathParams{path})
	if err != nil {
		return 0, 0, err
	}
	reads, err := stats.Repeat(n, func() error {
		return exchange(c, id, msg, func(m raw.Message) error {
			if got := m.DataBytes("dataBase64"); got != size {
				return errShort(got, size)
			}
			return nil
		})
	})
	return stats.Median(writes), stats.Median(reads), err
}

// exchange sends a request that has been made before and checks its answer.
func exchange(c *raw.Client, id int64, msg []byte, check func(raw.Message) error) error {
	if err := c.Send(msg); err != nil {
		return err
	}
	m, err := c.Await(id)
	if err != nil {
		return err
	}
	if m.Failed {
		return m.Decode(nil)
	}
	if check != nil {
		return check(m)
	}
	return nil
}

// files is MB a second, written and read.
func files(size, n int) func(context.Context, *subject) ([]float64, error) {
	return func(ctx context.Context, s *subject) ([]float64, error) {
		write, read, err := transfer(ctx, s, size, n)
		return []float64{stats.Rate(size, write), stats.Rate(size, read)}, err
	}
}

// smallFiles is the p50 of writing and of reading 4 KiB, in ms.
func smallFiles(ctx context.Context, s *subject) ([]float64, error) {
	write, read, err := transfer(ctx, s, 4<<10, smallOps)
	return []float64{stats.Milliseconds(write), stats.Milliseconds(read)}, err
}

// latency is the p50 in ms of n requests.
func latency(ctx context.Context, s *subject, n int, method string, params any, check func(raw.Message) error) ([]float64, error) {
	c, err := s.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	id, msg, err := c.Encode(method, params)
	if err != nil {
		return nil, err
	}
	times, err := stats.Repeat(n, func() error { return exchange(c, id, msg, check) })
	return []float64{stats.Milliseconds(stats.Median(times))}, err
}

func metadata(ctx context.Context, s *subject) ([]float64, error) {
	return latency(ctx, s, smallOps, "fs/getMetadata", pathParams{s.uri("")}, nil)
}

func directory(ctx context.Context, s *subject) ([]float64, error) {
	dir := filepath.Join(s.dir, "many")
	if _, err := os.Stat(dir); err != nil {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		for i := range entries {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("entry-%05d", i)), nil, 0o600); err != nil {
				return nil, err
			}
		}
	}
	return latency(ctx, s, listings, "fs/readDirectory", pathParams{s.uri("many")}, func(m raw.Message) error {
		if got := bytes.Count(m.Raw, []byte(`"fileName"`)); got != entries {
			return fmt.Errorf("%d entries of %d", got, entries)
		}
		return nil
	})
}

// blocks reads a file block by block: MB a second.
func blocks(ctx context.Context, s *subject) ([]float64, error) {
	path := filepath.Join(s.dir, "stream")
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789abcde\n"), streamBytes/16), 0o600); err != nil {
			return nil, err
		}
	}
	c, err := s.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Call("fs/open", map[string]string{"handleId": "h", "path": s.uri("stream")}, nil); err != nil {
		return nil, err
	}
	type readBlock struct {
		HandleID string `json:"handleId"`
		Offset   int    `json:"offset"`
		Len      int    `json:"len"`
	}
	begin := time.Now()
	for offset := 0; offset < streamBytes; offset += blockBytes {
		id, msg, err := c.Encode("fs/readBlock", readBlock{"h", offset, blockBytes})
		if err != nil {
			return nil, err
		}
		err = exchange(c, id, msg, func(m raw.Message) error {
			if got := m.DataBytes("chunk"); got != blockBytes {
				return errShort(got, blockBytes)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	took := time.Since(begin)
	return []float64{stats.Rate(streamBytes, took)}, c.Call("fs/close", map[string]string{"handleId": "h"}, nil)
}
