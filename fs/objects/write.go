package objects

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

// packSize is how many bytes a pack may have.
const packSize = 64 << 20

// An output is an object file that is appended to.
type output struct {
	mu   sync.Mutex
	mode uint32 // of its files, as far as the umask lets
	fd   int
	file int64 // its number; 0 while none is open
	size int64 // in bytes
}

// A Writer writes content that arrives in order. It is safe for concurrent use, but the
// order of the windows is the caller's to keep.
type Writer struct {
	d   *Dir
	out output
}

// Writer returns a Writer. It has no file open until it is written to.
func (d *Dir) Writer() *Writer { return d.WriterFor(0o600) }

// WriterFor is Writer for objects that are to become files of a mode, which they have from their
// beginning on as far as the umask lets. Until they are taken the mode of the directory keeps others out.
func (d *Dir) WriterFor(mode uint32) *Writer { return &Writer{d: d, out: output{mode: mode}} }

// Write writes one window, 1 to [tree.ChunkSize] bytes, and returns where it is. A window
// of exactly [tree.ChunkSize] bytes is followed by the next one in the same file; a
// shorter one ends the file. After an error nothing of the window is left, the windows
// before it are kept, and the next window begins a new file.
func (w *Writer) Write(data []byte) (Place, error) {
	if len(data) < 1 || len(data) > tree.ChunkSize {
		return Place{}, fmt.Errorf("write a window of %d bytes, not of 1 to %d: %w", len(data), tree.ChunkSize, iofs.ErrInvalid)
	}
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	place, err := w.d.append(&w.out, data)
	if err == nil && len(data) < tree.ChunkSize {
		err = w.d.end(&w.out)
	}
	if err != nil {
		return Place{}, err
	}
	return place, nil
}

// Close ends the file that is open. A later Write begins a new one.
func (w *Writer) Close() error {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	return w.d.end(&w.out)
}

// Make makes an object file of what fill puts into an empty one, which is open for reading and
// writing. After an error there is none.
func (d *Dir) Make(fill func(fd int) error) (int64, error) {
	o := output{mode: 0o600}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := d.create(&o); err != nil {
		return 0, err
	}
	file := o.file
	err := fill(o.fd)
	if err == nil {
		var st unix.Stat_t
		st, err = dirfd.Stat(o.fd)
		o.size = st.Size
	}
	if err == nil && o.size == 0 {
		err = fmt.Errorf("it has no bytes: %w", iofs.ErrInvalid)
	}
	if err != nil {
		o.size = 0 // it is removed
		return 0, errors.Join(d.errorOf("fill", file, err), d.end(&o))
	}
	d.written(file)
	return file, d.end(&o)
}

// Pack appends data, at least one byte, to the present pack, and returns where it is. Each
// Open begins a new pack, and so does data that would make the present one larger than
// 64 MiB. After an error nothing of data is left, and the next Pack begins a new pack.
func (d *Dir) Pack(data []byte) (Place, error) {
	if len(data) == 0 {
		return Place{}, fmt.Errorf("pack no bytes: %w", iofs.ErrInvalid)
	}
	d.pack.mu.Lock()
	defer d.pack.mu.Unlock()
	if d.pack.size > 0 && d.pack.size+int64(len(data)) > d.packSize {
		if err := d.end(&d.pack); err != nil {
			return Place{}, err
		}
	}
	return d.append(&d.pack, data)
}

// Packing reports whether file is the pack that Pack appends to now. A file that is not
// will not be.
func (d *Dir) Packing(file int64) bool {
	d.pack.mu.Lock()
	defer d.pack.mu.Unlock()
	return file != 0 && d.pack.file == file
}

// append appends data to an output, in a new file if none is open. After an error the
// output is ended and has nothing of data. The caller holds o.mu.
func (d *Dir) append(o *output, data []byte) (Place, error) {
	if o.file == 0 {
		if err := d.create(o); err != nil {
			return Place{}, err
		}
	}
	place := Place{File: o.file, Offset: o.size}
	for rest := data; len(rest) > 0; {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = d.pwrite(o.fd, rest, place.Offset+int64(len(data)-len(rest)))
			return err
		})
		if err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			err = d.errorOf("write", o.file, err)
			if o.size > 0 { // else the file is removed
				err = errors.Join(err, d.errorOf("truncate", o.file, dirfd.Retry(func() error { return unix.Ftruncate(o.fd, o.size) })))
			}
			return Place{}, errors.Join(err, d.end(o))
		}
		rest = rest[n:]
	}
	o.size += int64(len(data))
	d.written(o.file)
	return place, nil
}

// create opens a new file for an output.
func (d *Dir) create(o *output) error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	for {
		file, err := d.number()
		if err != nil {
			return err
		}
		fd, err := openAt(d.fd, nameOf(file), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, o.mode)
		if errors.Is(err, unix.EEXIST) { // a stranger's, or of another process
			continue
		}
		if err != nil {
			return d.errorOf("make", file, err)
		}
		o.fd, o.file, o.size = fd, file, 0
		d.mu.Lock()
		d.open[file] = o
		d.mu.Unlock()
		return nil
	}
}

// end closes the file of an output, and removes it if nothing was written to it. The
// caller holds o.mu.
func (d *Dir) end(o *output) error {
	if o.file == 0 {
		return nil
	}
	file, size := o.file, o.size
	d.mu.Lock()
	delete(d.open, file)
	d.mu.Unlock()
	err := d.errorOf("close", file, closeFile(o.fd))
	o.fd, o.file, o.size = -1, 0, 0
	if size == 0 {
		err = errors.Join(err, d.unlink(file))
	}
	return err
}

// release ends the output that appends to file, if one does and allow, which is called
// with the size of the file, returns no error. Nothing appends to the file from then on.
func (d *Dir) release(file int64, allow func(size int64) error) error {
	d.mu.Lock()
	o := d.open[file]
	d.mu.Unlock()
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != file { // it was ended meanwhile
		return nil
	}
	if err := allow(o.size); err != nil {
		return err
	}
	return d.end(o)
}
