package wsconn

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A rooms notes how much room each Read is given.
type rooms struct {
	r    io.Reader
	room []int
}

func (r *rooms) Read(p []byte) (int, error) {
	r.room = append(r.room, len(p))
	n, err := io.ReadFull(r.r, p)
	if n > 0 {
		err = nil
	}
	return n, err
}

// sizes are those of the buffers that a message of n bytes goes through.
func sizes(t *testing.T, in *intake, n int) (sizes []int) {
	t.Helper()
	msg := bytes.Repeat([]byte("0123456789abcdef"), n/16)
	r := &rooms{r: bytes.NewReader(msg)}
	got, err := in.readAll(t.Context(), r, protocol.MaxMessageBytes)
	if err != nil || !bytes.Equal(got, msg) {
		t.Fatalf("%d bytes of %d, %v", len(got), n, err)
	}
	in.release(got)
	size := 0
	for _, room := range r.room {
		if room == cap(got)-len(got) {
			break // the end is looked for
		}
		size += room
		sizes = append(sizes, size)
	}
	return sizes
}

// Messages that are as long as the latest are not copied from buffer to buffer.
func TestExpectedLength(t *testing.T) {
	const (
		file      = 22 << 20 // 16 MiB in base64, and what is around it
		fileSize  = 24 << 20
		short     = 87 << 10
		shortSize = 96 << 10
	)
	budget := rpc.NewBudget(1 << 30)
	in := &intake{account: budget.NewAccount(nil)}
	for _, step := range []struct {
		length int
		want   []int
	}{
		{file, []int{smallBuffer, mediumBuffer, largeBuffer, 4 * largeBuffer, fileSize}},
		{file, []int{smallBuffer, fileSize}},
		{1024, []int{smallBuffer}},
		{file, []int{smallBuffer, fileSize}},
		{short, []int{smallBuffer, fileSize}},
		{short, []int{smallBuffer, shortSize}},
		{2 * short, []int{smallBuffer, shortSize, largeBuffer}},
		{protocol.MaxMessageBytes, []int{smallBuffer, 192 << 10, largeBuffer, 4 * largeBuffer, fileSize, 2 * fileSize, protocol.MaxMessageBytes + 1}},
		{protocol.MaxMessageBytes, []int{smallBuffer, protocol.MaxMessageBytes + 1}},
	} {
		if got := sizes(t, in, step.length); !slices.Equal(got, step.want) {
			t.Errorf("%d bytes: got %d, want %d", step.length, got, step.want)
		}
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are in use", used)
		}
	}
}

// S-M4: while much is in use, memory is taken as bytes arrive, however long the latest message
// was.
func TestSM4ExpectsNothingWhenCrowded(t *testing.T) {
	budget := rpc.NewBudget(256 << 20)
	in := &intake{account: budget.NewAccount(nil)}
	_ = sizes(t, in, 20<<20)
	other := budget.NewAccount(nil)
	other.Force(budget.Size()/4 + protocol.FreeConnectionBytes + 1)
	want := []int{smallBuffer, mediumBuffer, largeBuffer}
	if got := sizes(t, in, 1<<20); !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}
