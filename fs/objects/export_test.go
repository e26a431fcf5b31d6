package objects

// SetWrite has fn write to files; pwrite is what does so without it.
func (d *Dir) SetWrite(fn func(pwrite func(int, []byte, int64) (int, error), fd int, p []byte, offset int64) (int, error)) {
	pwrite := d.pwrite
	d.pwrite = func(fd int, p []byte, offset int64) (int, error) { return fn(pwrite, fd, p, offset) }
}

// SetPackSize is how many bytes a pack may have from now on.
func (d *Dir) SetPackSize(size int64) { d.packSize = size }

// SyncFiles is Sync where the system cannot sync a whole file system.
func (d *Dir) SyncFiles() error { return d.syncFiles() }

// Unsynced is the lowest number that SyncFiles begins with.
func (d *Dir) Unsynced() int64 { return d.unsynced }
