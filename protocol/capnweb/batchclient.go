package capnweb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A Batch is a session that is one HTTP request: start all calls on Main, Send, and then
// await the results.
type Batch struct {
	*Session
	t *batchClient
}

// NewBatch prepares a request to url; client nil is http.DefaultClient.
func NewBatch(url string, client *http.Client, header http.Header) *Batch {
	if client == nil {
		client = http.DefaultClient
	}
	t := &batchClient{url: url, client: client, header: header, ready: make(chan struct{}), closed: make(chan struct{})}
	b := defaultBounds
	b.queuedBytes = MaxBatchBytes
	return &Batch{New(t, Config{autoPull: true, held: true, bounds: b}), t}
}

// Send sends the calls and reads the answers. Close the Batch when they are collected.
func (b *Batch) Send(ctx context.Context) error {
	b.lock()
	messages := b.takeHeld()
	b.out.ended = true
	b.unlock()
	return b.t.post(ctx, joinLines(messages))
}

type batchClient struct {
	url    string
	client *http.Client
	header http.Header
	lines  [][]byte
	ready  chan struct{} // closed when lines are there
	closed chan struct{}
	once   sync.Once
}

func (t *batchClient) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	for k, v := range t.header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	res, err := t.client.Do(req)
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, MaxBatchAnswerBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("batch: %w", err)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("batch: the server answered %s: %s", res.Status, quoteFor(bytes.TrimSpace(text)))
	case len(text) > MaxBatchAnswerBytes:
		return fmt.Errorf("batch: an answer of more than %d bytes", MaxBatchAnswerBytes)
	}
	t.lines = bytes.Split(text, []byte{'\n'})
	close(t.ready)
	return nil
}

func (t *batchClient) Read(context.Context) ([]byte, error) {
	select {
	case <-t.ready:
	case <-t.closed:
		return nil, io.EOF
	}
	for len(t.lines) > 0 {
		line := t.lines[0]
		t.lines = t.lines[1:]
		if len(line) > 0 {
			return line, nil
		}
	}
	return nil, io.EOF
}

func (t *batchClient) Write(context.Context, []byte) error { return nil }

func (t *batchClient) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}
