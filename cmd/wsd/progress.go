package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progressInterval is the time between two drawings.
const progressInterval = 100 * time.Millisecond

// progressWidth is the width of the bar.
const progressWidth = 24

// progress draws one line on a terminal: how much of a copy is done. Its Write counts
// bytes.
type progress struct {
	out  io.Writer
	stop chan struct{}
	wg   sync.WaitGroup

	mu           sync.Mutex
	began        time.Time
	files, total int
	bytes, size  int64
	drawn        bool
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, stop: make(chan struct{})}
}

// start begins to draw until close is called.
func (p *progress) start(total int, size int64) {
	p.mu.Lock()
	p.began, p.total, p.size = time.Now(), total, size
	p.mu.Unlock()
	p.wg.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.draw()
			case <-p.stop:
				return
			}
		}
	})
}

// close leaves the line as it is at the end.
func (p *progress) close() {
	close(p.stop)
	p.wg.Wait()
	p.mu.Lock()
	drawn := p.drawn
	p.mu.Unlock()
	if drawn {
		p.draw()
		fmt.Fprintln(p.out)
	}
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(len(b))
	return len(b), nil
}

func (p *progress) fileDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
}

// clear makes room for a message.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\r%s\x1b[K", progressLine(p.files, p.total, p.bytes, p.size, time.Since(p.began)))
	p.drawn = true
}

// progressLine is the line without the terminal's codes.
func progressLine(files, total int, bytes, size int64, took time.Duration) string {
	done := 1.0
	if size > 0 {
		done = min(float64(bytes)/float64(size), 1)
	} else if total > 0 {
		done = float64(files) / float64(total)
	}
	full := int(done * progressWidth)
	bar := strings.Repeat("#", full) + strings.Repeat(".", progressWidth-full)
	rate := ""
	if took >= time.Second/2 {
		rate = "  " + byteCount(int64(float64(bytes)/took.Seconds())) + "/s"
	}
	return fmt.Sprintf("[%s] %3d%%  %d/%d files  %s%s", bar, int(done*100), files, total, byteCount(bytes), rate)
}

// byteCount writes a number of bytes with three digits or so.
func byteCount(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n)
	for _, name := range []string{"kB", "MB", "GB", "TB"} {
		value /= unit
		if value < unit {
			return fmt.Sprintf("%.1f %s", value, name)
		}
	}
	return fmt.Sprintf("%.1f PB", value/unit)
}

// temporaryName is a name for something that is to be renamed.
func temporaryName() string { return ".wsd-cp-" + strings.ToLower(rand.Text()[:10]) }
